package client

import (
	"context"
	"slices"

	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/shortid"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// mostBeginning is of how many sessions whose ids begin alike more is read than the ids.
const mostBeginning = 10_000

// SessionsBeginning finds the session of an id; where there is none, those whose ids begin so, letter case aside, with their threads: of
// all others it reads the names alone. Of more than ten thousand, it gives the ids.
func (i Internal) SessionsBeginning(ctx context.Context, prefix string) (found []Session, err error) {
	if err := events.CheckToken("session", prefix); err != nil {
		return nil, nil //nolint:nilerr // no id begins so
	}
	if found, err = i.c.sessionsNamed(ctx, []string{prefix}); err != nil || len(found) > 0 {
		return found, err
	}
	names, err := i.names(ctx, prefix)
	if err != nil {
		return nil, err
	}
	if len(names) > mostBeginning {
		for _, id := range names {
			found = append(found, Session{Info: sessions.Info{ID: id}})
		}
		return found, nil
	}
	for some := range slices.Chunk(names, 500) {
		part, err := i.c.sessionsNamed(ctx, some)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	return found, nil
}

// sessionsNamed reads sessions by their ids. One without threads is left out.
func (c *Client) sessionsNamed(ctx context.Context, ids []string) ([]Session, error) {
	infos, err := c.infosOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	found, _, err := c.sessionsOf(ctx, infos, nil)
	return found, err
}

// sessionsOf reads the threads of sessions of which it has the records, but for those of which seen has all heads. seqs are those of the
// heads of each.
func (c *Client) sessionsOf(
	ctx context.Context, infos map[string]sessions.Info, seen []record.Record,
) (all []Session, seqs map[string][]uint64, err error) {
	whole := make(map[string]bool, len(seen))
	for _, r := range seen {
		whole[events.SessionOf(r.Key)] = true
	}
	var heads, history []string
	for id := range infos {
		if !whole[id] {
			heads, history = append(heads, events.HeadKeys(id)), append(history, events.HistoryKeys(id))
		}
	}
	var found []record.Record
	err = natsio.BetweenDeletions(ctx, c.records, func() error {
		active, err := natsio.MatchingRecords(ctx, c.records, heads) // first: what ends meanwhile is in both
		if err != nil {
			return err
		}
		ended, err := natsio.MatchingRecords(ctx, c.records, history, seen...)
		found = slices.Concat(ended, active)
		return err
	})
	seqs = make(map[string][]uint64, len(infos))
	for _, r := range found {
		id := events.SessionOf(r.Key)
		seqs[id] = append(seqs[id], r.Seq)
	}
	return sessionsWith(threadsOf(found), infos), seqs, err
}

// infosOf reads the records of sessions. One without a record, or whose record cannot be read, has its id alone.
func (c *Client) infosOf(ctx context.Context, ids []string) (map[string]sessions.Info, error) {
	rs, err := c.records.Records(ctx, mapped.List(ids, events.SessionKey)...)
	infos := make(map[string]sessions.Info, len(rs))
	for i, r := range rs {
		infos[ids[i]] = infoOf(ids[i], r)
	}
	return infos, err
}

func infoOf(id string, r record.Record) sessions.Info {
	info, err := sessions.DecodeInfo(r.Value)
	if !r.Exists() || err != nil {
		info = sessions.Info{}
	}
	info.ID = id
	return info
}

// SessionNames are the ids of all sessions, in order; those of removed ones may be among them for a while. ok is false, and there are
// none, where the store has more records than most.
func (i Internal) SessionNames(ctx context.Context, most uint64) (names []string, ok bool, err error) {
	if n, err := natsio.CountRecords(ctx, i.c.records); err != nil || n > most {
		return nil, false, err
	}
	names, err = i.names(ctx, "")
	return names, err == nil, err
}

// names are the ids of sessions that begin so, in order.
func (i Internal) names(ctx context.Context, prefix string) (names []string, err error) {
	for _, filter := range []string{events.HeadKeys(""), events.HistoryKeys("")} {
		err := natsio.EachKey(ctx, i.c.records, filter, func(key string) {
			if id := events.SessionOf(key); shortid.Begins(id, prefix) {
				names = append(names, id)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
