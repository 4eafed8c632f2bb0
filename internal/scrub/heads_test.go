package scrub_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// manyHeads is a store of so many threads whose packs are gone, and of one that was written since it was looked at.
type manyHeads struct {
	scrub.Store
	n int
}

func (m manyHeads) record(i int) record.Record {
	var h threads.Head
	h.Recent = []casstore.Located{{Ref: casstore.SumNode(fmt.Append(nil, i)), Pack: casstore.PackID{byte(i), byte(i >> 8), 1}}}
	return record.Record{Key: events.HeadKey(events.Thread{Session: fmt.Sprint("s", i), Name: "main"}), Seq: uint64(i + 1), Value: h.Encode()}
}

func (m manyHeads) Records(_ context.Context, keys ...string) (out []record.Record, err error) {
	for _, key := range keys {
		var i int
		if t, ok := events.ParseHeadKey(key); ok {
			_, err = fmt.Sscanf(t.Session, "s%d", &i)
			out = append(out, m.record(i))
		} else {
			out = append(out, record.Record{Key: key})
		}
	}
	return out, err
}

func (m manyHeads) Write(context.Context, record.Put) (uint64, error) { return uint64(m.n), nil }

func (m manyHeads) Scan(_ context.Context, _ uint64, tell func(record.Stamped) error) (uint64, error) {
	for i := range m.n + 1 {
		if err := tell(record.Stamped{Record: m.record(i)}); err != nil {
			return 0, err
		}
	}
	return uint64(m.n + 1), nil
}

func (manyHeads) Pack(context.Context, casstore.PackID) (*casstore.Pack, error) {
	return nil, casstore.ErrNotFound
}

// Heads are looked at as they are read: a store may have a million. What was written since is not looked at.
func TestManyHeads(t *testing.T) {
	m := manyHeads{n: 2500}
	rep := must.Get(scrub.Heads(t.Context(), m, m, m, "server", time.Now(), slog.New(slog.DiscardHandler)))(t)
	if rep.Heads != m.n || rep.Found != m.n {
		t.Errorf("%d heads, of which %d do not resolve: want %d, all of them", rep.Heads, rep.Found, m.n)
	}
}
