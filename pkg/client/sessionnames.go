package client

import (
	"cmp"
	"context"
	"iter"
	"maps"
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
	return i.SessionsNamed(ctx, names)
}

// SessionsNamed reads sessions by their ids, in no order. One without threads is left out.
func (i Internal) SessionsNamed(ctx context.Context, ids []string) (found []Session, err error) {
	for some := range slices.Chunk(ids, mostAtOnce) {
		part, err := i.c.sessionsNamed(ctx, some)
		if err != nil {
			return nil, err
		}
		found = append(found, part...)
	}
	return found, nil
}

// SessionsChanged says which sessions changed, or may have, since an earlier call returned a mark, removed ones too, and returns a mark for
// the next call: what is read behind the call is as new as the mark. ok is false where more changed than it reads, or the mark is the zero
// one, or of another store.
func (i Internal) SessionsChanged(ctx context.Context, since Mark) (ids []string, now Mark, ok bool, err error) {
	if now.Store, err = i.c.Store(ctx); err != nil {
		return nil, now, false, err
	}
	changed := map[string]bool{}
	back, err := natsio.ReadBackward(ctx, i.c.records, mostChanges, natsio.Gap{}, since.Seq, func(key string) bool {
		t, head := headOf(key)
		session, record := events.ParseSessionKey(key)
		deleting, going := events.ParseDeletingKey(key)
		if id := cmp.Or(t.Session, session, deleting); head || record || going {
			changed[id] = true
		}
		return false
	})
	if err != nil {
		return nil, now, false, err
	}
	now.Seq = back.Last()
	if since.Seq == 0 || since.Store != now.Store || since.Seq > now.Seq || now.Seq-since.Seq > mostChanges {
		return nil, now, false, nil
	}
	for more := true; more && back.Unread() > since.Seq; {
		if _, more, err = back.Window(ctx, 0); err != nil {
			return nil, now, false, err
		}
	}
	return slices.Sorted(maps.Keys(changed)), now, true, nil
}

// mostChanges is how many sequences of records SessionsChanged reads.
const mostChanges = 16_384

// Mark is a moment in the records of a store.
type Mark struct {
	Store string
	Seq   uint64
}

// HeadsSince gives the heads that were stored since a mark, also of threads that have ended, and the mark of now. A name that a thread left
// comes without a head, perhaps behind one that has it since. What is stored while they are read is behind the mark. all says that they are those of all threads, since the mark is the zero one, or of another store. What it costs
// goes by how many records were stored since.
func (i Internal) HeadsSince(ctx context.Context, since Mark) (heads iter.Seq2[Thread, error], now Mark, all bool, err error) {
	if now.Store, err = i.c.Store(ctx); err != nil {
		return nil, now, false, err
	}
	if since.Store != now.Store {
		since.Seq = 0
	}
	back, err := natsio.ReadBackward(ctx, i.c.records, 0, natsio.Gap{}, since.Seq, func(key string) bool {
		_, head := headOf(key)
		_, left := events.ParseLeftKey(key)
		return head || left
	})
	if err != nil {
		return nil, now, false, err
	}
	if now.Seq = back.Last(); since.Seq > now.Seq {
		since.Seq = 0
	}
	return func(yield func(Thread, error) bool) {
		for more := true; more && back.Unread() > since.Seq; {
			var rs []record.Record
			var err error
			if rs, more, err = back.Window(ctx, 0); err != nil {
				yield(Thread{}, err)
				return
			}
			all := threadsOf(rs)
			for _, r := range rs {
				if t, left := events.ParseLeftKey(r.Key); left {
					all = append(all, Thread{Thread: t})
				}
			}
			for _, t := range all {
				if !yield(t, nil) {
					return
				}
			}
		}
	}, now, since.Seq == 0, nil
}

// sessionsNamed reads sessions by their ids. One without threads is left out.
func (c *Client) sessionsNamed(ctx context.Context, ids []string) ([]Session, error) {
	infos, err := c.infosOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	found, _, err := c.sessionsOf(ctx, infos, nil, false)
	return found, err
}

// sessionsOf reads the threads of sessions of which it has the records; it asks for nothing that was seen. With counted it looks for no
// others of a session of which it has as many as the record counts: that is for who hears of what changes meanwhile, and shows none of
// them, since a record that was made anew behind a loss counts from then on. seqs are those of the heads of each.
func (c *Client) sessionsOf(
	ctx context.Context, infos map[string]sessions.Info, seen []record.Record, counted bool,
) (all []Session, seqs map[string][]uint64, err error) {
	var found []record.Record
	err = natsio.BetweenDeletions(ctx, c.records, func() (err error) {
		found = seen // the active ones first: what ends meanwhile is in both
		for _, keys := range []func(session string) string{events.HeadKeys, events.HistoryKeys} {
			ids := slices.Collect(maps.Keys(infos))
			if counted {
				ids = incomplete(infos, found)
			}
			if found, err = natsio.MatchingRecords(ctx, c.records, mapped.List(ids, keys), found...); err != nil {
				return err
			}
		}
		return nil
	})
	seqs = make(map[string][]uint64, len(infos))
	for _, r := range found {
		id := events.SessionOf(r.Key)
		seqs[id] = append(seqs[id], r.Seq)
	}
	return sessionsWith(threadsOf(found), infos), seqs, err
}

// incomplete are the sessions that may have other threads than those whose heads were found.
func incomplete(infos map[string]sessions.Info, found []record.Record) (ids []string) {
	threads := make(map[events.Thread]bool, len(found))
	have := make(map[string]int64, len(infos))
	for _, r := range found {
		if t, ok := headOf(r.Key); ok && !threads[t] {
			threads[t] = true
			have[t.Session]++
		}
	}
	for id, info := range infos {
		if info.Threads == 0 || info.Threads != have[id] {
			ids = append(ids, id)
		}
	}
	return ids
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
