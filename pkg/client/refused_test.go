package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOneOfTwo: of two callers who do what only one can, one is told that it was done and the other that it was not, though both looked
// before they published.
func TestOneOfTwo(t *testing.T) {
	fork, began, main := events.Thread{Session: "s", Name: "fork"}, events.Thread{Session: "s", Name: "began"}, thread("s")
	for name, op := range map[string]func(r *rig, i int) error{
		"fork": func(r *rig, i int) error {
			return r.Thread(fork).Fork(limited(t), events.Fork{Session: "s", Thread: "main", Index: int64(i + 1)})
		},
		"start": func(r *rig, i int) error {
			return r.Thread(began).Start(limited(t), events.Start{Name: "task", MaxRounds: 3, Prompt: fmt.Sprint("task ", i)})
		},
		"end": func(r *rig, i int) error { return r.Thread(main).End(limited(t), events.End{Summary: fmt.Sprint(i)}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.publish(t, posts(main, 1, 3)...)
			must.Do(t, r.Thread(main).Settled(limited(t)))
			r.stop()
			before := must.Get(r.conn.Streams().LastSeqs(t.Context(), events.EventsStream))(t)[events.EventsStream]
			said := make(chan error, 2)
			for i := range 2 {
				go func() { said <- op(r, i) }()
			}
			must.Until(t, "both are stored", func() bool {
				return must.Get(r.conn.Streams().LastSeqs(t.Context(), events.EventsStream))(t)[events.EventsStream] >= before+2
			})
			t.Cleanup(must.Get(persister(r.conn))(t))
			done, refused := 0, 0
			for range 2 {
				switch err := <-said; {
				case err == nil:
					done++
				case errors.Is(err, client.ErrRefused):
					refused++
				default:
					t.Error(err)
				}
			}
			if done != 1 || refused != 1 {
				t.Errorf("%d were done and %d refused, want one of each", done, refused)
			}
		})
	}
}

// TestARefusalIsToldAtOnce: who waits for an event is told at once that it became a dead letter, also behind another one, and where others
// wait and are told of moves.
func TestARefusalIsToldAtOnce(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	never := func(context.Context) bool { return false }
	for _, name := range []string{"a", "b"} {
		waits := events.Thread{Session: "waits", Name: name}
		go func() {
			_ = natsio.Settle(ctx, r.conn.Events(), waits, never, func(bool) (bool, error) { return false, nil })
		}()
	}
	main, least := thread("s"), time.Hour
	for i := 0; i < 8 && (i < 4 || least > 150*time.Millisecond); i++ { // a slow machine is late now and then
		e := &events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: main, Producer: "p", Seq: 1, Body: fmt.Append(nil, i)}
		last := must.Get(r.conn.Events().NewestEvent(t.Context(), main))(t).Seq
		begun := time.Now()
		chain := natsio.Chain{Last: last, Events: []*events.Event{e}}
		r.conn.Events().PublishChains(t.Context(), []*natsio.Chain{&chain})
		must.Do(t, chain.Err)
		passed := natsio.UpTo(r.conn.Events(), main, last+1)
		must.Do(t, natsio.Settle(limited(t), r.conn.Events(), main, passed, func(done bool) (bool, error) { return done, nil }))
		if i >= 2 { // the first one is applied, and nothing was acked right before the second
			least = min(least, time.Since(begun))
		}
	}
	if least > 150*time.Millisecond {
		t.Errorf("a refusal is told after %v, want at once", least)
	}
}
