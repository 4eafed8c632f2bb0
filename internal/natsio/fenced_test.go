package natsio_test

import (
	"errors"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

func after(t *testing.T, conn *natsio.Conn, last uint64, evs ...*events.Event) (uint64, error) {
	t.Helper()
	ch := &natsio.Chain{Last: last, Events: evs}
	conn.Events().PublishChains(t.Context(), []*natsio.Chain{ch})
	return ch.Seq, ch.Err
}

// A writer that did not see the newest event of its thread stores nothing; others' threads do not disturb it.
func TestChain(t *testing.T) {
	conn, ctx := natstest.Conn(t), t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	entry := func(th events.Thread, seq uint64) *events.Event {
		return &events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: th, Producer: "p", Seq: seq, Body: []byte("x")}
	}
	if newest, err := conn.Events().NewestEvent(ctx, a); newest.Seq != 0 || err != nil {
		t.Fatalf("newest of nothing = %d, %v", newest.Seq, err)
	}
	first := must.Get(after(t, conn, 0, entry(a, 1)))(t)
	must.Get(after(t, conn, 0, entry(b, 1)))(t)
	if _, err := after(t, conn, 0, entry(a, 2)); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("publish after nothing = %v, want a conflict", err)
	}
	if _, err := after(t, conn, 0, entry(a, 2), entry(a, 3)); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("two after nothing = %v, want a conflict", err)
	}
	end := &events.Event{Kind: events.KindControl, Thread: a, Producer: "p", Seq: 3,
		Body: events.Control{Op: events.OpEnd, End: &events.End{}}.Encode()}
	last := must.Get(after(t, conn, first, entry(a, 2), end))(t)
	newest, err := conn.Events().NewestEvent(ctx, a)
	seq := newest.Seq
	if newest.Last.Kind != events.KindControl || newest.Last.Producer != "p" || newest.Last.Seq != 3 {
		t.Errorf("the newest event is %+v, want the end of the thread", newest.Last)
	}
	if err != nil || seq != last || last != first+3 {
		t.Fatalf("newest = %d, %v, want %d after %d", seq, err, last, first)
	}
	if done, err := conn.Events().Done(ctx, newest); done || err != nil {
		t.Fatalf("Done = %v, %v without a persister", done, err)
	}
}

// Of many chains those that are right are stored, whatever the others are, and each learns its sequence.
func TestChains(t *testing.T) {
	conn := natstest.Conn(t)
	chain := func(i int, last uint64, n int) *natsio.Chain {
		ch := &natsio.Chain{Last: last}
		for j := range n {
			ch.Events = append(ch.Events, &events.Event{
				Kind: events.KindEntry, Dialect: "raw", Thread: events.Thread{Session: fmt.Sprintf("s%d", i), Name: "main"},
				Producer: "p", Seq: last + uint64(j) + 1, Body: []byte("x"),
			})
		}
		return ch
	}
	for round, wrong := range []int{-1, 5} {
		var chains []*natsio.Chain
		for i := range 12 {
			last := must.Get(conn.Events().NewestEvent(t.Context(), events.Thread{Session: fmt.Sprintf("s%d", i), Name: "main"}))(t).Seq
			if i == wrong {
				last = 1 << 40
			}
			chains = append(chains, chain(i, last, 1+i%3))
		}
		conn.Events().PublishChains(t.Context(), chains)
		for i, ch := range chains {
			newest := must.Get(conn.Events().NewestEvent(t.Context(), ch.Events[0].Thread))(t).Seq
			if i == wrong {
				if !errors.Is(ch.Err, record.ErrConflict) || newest >= 1<<40 {
					t.Errorf("round %d, chain %d, which is wrong: %v", round, i, ch.Err)
				}
			} else if ch.Err != nil || ch.Seq != newest {
				t.Errorf("round %d, chain %d: sequence %d, %v, want %d", round, i, ch.Seq, ch.Err, newest)
			}
		}
	}
}
