package client_test

import (
	"errors"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOneOfTwo: of two callers who do what only one can, one is told that it was done and the other that it was not, though both looked
// before they published.
func TestOneOfTwo(t *testing.T) {
	fork, began, main := events.Thread{Session: "s", Name: "fork"}, events.Thread{Session: "s", Name: "began"}, thread("s")
	for name, op := range map[string]func(r *rig, i int) error{
		"fork": func(r *rig, i int) error {
			return r.Fork(limited(t), fork, events.Fork{Session: "s", Thread: "main", Index: int64(i + 1)})
		},
		"start": func(r *rig, i int) error {
			return r.StartThread(limited(t), began, events.Start{Name: "task", MaxRounds: 3, Prompt: fmt.Sprint("task ", i)})
		},
		"end": func(r *rig, i int) error { return r.End(limited(t), main, events.End{Summary: fmt.Sprint(i)}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.publish(t, posts(main, 1, 3)...)
			must.Do(t, r.Settled(limited(t), main))
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
