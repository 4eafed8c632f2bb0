package apply

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// rowsAtATime is how many artifacts of a source are read at once.
const rowsAtATime = 1000

// inheritArtifacts gives a fork into another session the artifacts of the session that it comes from: rows of its own
// over the same bytes (SPEC A7), and both counters. A row keeps its number and its agent's id if this session has never
// given them out; else it has its id alone, which is what items name it by.
//
// If own is true, somebody else gives the numbers: it gets only what came of an entry or a run, without its number.
func (d *draft) inheritArtifacts(ctx context.Context, from string, own bool) error {
	if d.st.Counter == nil { // what an event left is made again, and its rows are there
		return d.st.CounterBad
	}
	keys, err := artifactKeys(ctx, d.w, from)
	if err != nil {
		return err
	}
	rs, err := d.w.Records(ctx, events.CounterKey(from))
	if err != nil {
		return err
	}
	theirs, err := record.DecodeCounter(rs[0].Value)
	if err != nil {
		return fmt.Errorf("fork: %s: %w", rs[0].Key, err)
	}
	heir := heir{to: d.st.Key.Session, at: d.e.stored(), had: d.st.Counter.Clone(), own: own}
	heir.at = cmp.Or(heir.at, d.e.Now.UnixMilli())
	if len(keys) > 0 {
		if err := heir.load(ctx, d.w); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(keys, rowsAtATime) {
		rows, err := heir.rows(ctx, d.w, some)
		if err != nil {
			return fmt.Errorf("fork: %w", err)
		}
		d.Rows = append(d.Rows, rows...)
	}
	d.Counts.Unread = heir.unread
	counter := d.counter()
	if !own && counter.Inherit(theirs) {
		d.Counter = &counter
	}
	return nil
}

// artifactKeys lists the keys of a session's artifacts.
func artifactKeys(ctx context.Context, w World, session string) ([]string, error) {
	keys, err := w.SessionKeys(ctx, session)
	return slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, events.ArtifactKey(session, ""))
	}), err
}

// heir is the session that gets rows of another one's artifacts.
type heir struct {
	to     string
	at     int64           // when, in Unix milliseconds
	had    record.Counter  // what it gave out itself
	agents map[string]bool // whose outputs it has
	own    bool            // it numbers its artifacts itself
	unread []string        // keys of rows that it does not get
}

// load reads what artifacts the heir has.
func (h *heir) load(ctx context.Context, w World) error {
	keys, err := artifactKeys(ctx, w, h.to)
	if err != nil {
		return err
	}
	h.agents = map[string]bool{}
	for some := range slices.Chunk(keys, rowsAtATime) {
		rs, err := w.Records(ctx, some...)
		if err != nil {
			return err
		}
		for _, r := range rs {
			a, err := artifacts.DecodeRecord(r.Value)
			if err == nil && a.Writer == artifacts.FromAgent {
				h.agents[a.Agent] = true
			}
		}
	}
	return nil
}

// rows copies the artifacts that are still there, but for those that the heir has. The row that a new one is made from
// is touched with it, so that it cannot be removed in between. One that cannot be read is left out, and named.
func (h *heir) rows(ctx context.Context, w World, keys []string) (rows [][]record.Put, err error) {
	source, err := w.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var made []artifacts.Record
	var from []record.Record
	var holders []string
	for _, r := range source {
		a, err := artifacts.DecodeRecord(r.Value)
		if r.Exists() && err != nil {
			h.unread = append(h.unread, r.Key)
		}
		if !r.Exists() || err != nil || h.own && a.Writer != artifacts.FromResult && a.ToolCall == "" {
			continue
		}
		a = h.row(a)
		made, from = append(made, a), append(from, r)
		holders = append(holders, events.ArtifactKeys("", string(a.ID)))
	}
	held, err := w.Records(ctx, holders...)
	if err != nil {
		return nil, err
	}
	for i, a := range made {
		put := record.Put{Key: events.ArtifactKey(h.to, string(a.ID)), Value: a.Encode()}
		switch holder := held[i]; {
		case holder.Seq == 0:
			put.Alone = events.ArtifactKeys("", string(a.ID))
		case holder.Key != put.Key:
			return nil, fmt.Errorf("%w: %s, which is to be a copy of %s", artifacts.ErrTaken, a.ID, a.ForkedFrom)
		case holder.Exists(): // an attempt before this one made it
			continue
		default: // of an earlier life of the session
			put.Expect = holder.Seq
		}
		row := []record.Put{{Key: from[i].Key, Value: from[i].Value, Expect: from[i].Seq}, put}
		if key := record.SharedKey(a); key != "" {
			row = append(row, record.Put{Key: key, Value: []byte{1}, Expect: record.Any})
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// row is what the heir gets of an artifact.
func (h *heir) row(a artifacts.Record) artifacts.Record {
	a = a.Fork(h.to, a.ForkID(h.to), h.at)
	switch {
	case a.Writer == artifacts.FromAgent && h.agents[a.Agent]:
		a.Writer = artifacts.FromPayload
	case a.Seq != "" && (h.own || a.Seq.Compare(h.had.Artifacts) <= 0):
		a.Seq = ""
	default:
		return a
	}
	return unnumbered(a)
}

// unnumbered has a name without what it is not found by any more: its number, or its agent's id.
func unnumbered(a artifacts.Record) artifacts.Record {
	a.Filename = string(a.ID) + path.Ext(a.Filename)
	return a
}

// header is the header that a fork makes the main thread of another session with, if it does not bring one (SPEC S9); nil
// for what has none.
func (d *draft) header(ctx context.Context, source events.Thread, info sessions.Info, at int64) ([]byte, error) {
	head, t := d.Head, d.st.Key
	if head.Dialect != ompDialect || t.Session == source.Session || t.Name != events.MainThread {
		return nil, nil
	}
	h, err := rehydrate.Source{Reader: d.w.Reader()}.Header(ctx, source, head, info)
	if err != nil {
		return nil, err
	}
	h.ID = source.Session // as Spool names it
	return h.Child(t.Session, time.UnixMilli(at)).JSON(), nil
}
