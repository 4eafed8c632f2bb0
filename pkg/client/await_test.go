package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestWaitForWhatIsRemoved: who waits for the end of an output is told that its session was removed behind it, also when the
// thread has begun anew since.
func TestWaitForWhatIsRemoved(t *testing.T) {
	for name, next := range map[string]string{"gone": "other", "begun anew": "main"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := natstest.Conn(t)
			c := client.New(conn)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			th := events.Thread{Session: "s", Name: "main"}
			o, err := c.Output(ctx, th, client.OutputConfig{ID: "o1", Tool: "make"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Write([]byte("gcc\n")); err != nil {
				t.Fatal(err)
			}
			if err := o.Close(events.OutputEnd{}); err != nil {
				t.Fatal(err)
			}
			remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
			behind := events.Thread{Session: "s", Name: next}
			for _, e := range []*events.Event{
				{Producer: "operator", Seq: 1, Kind: events.KindControl, Thread: th, Body: remove.Encode()},
				{Producer: "next", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: behind, Body: []byte(`{"type":"custom"}`)},
			} {
				if err := conn.Events().PublishEvents(ctx, []*events.Event{e}); err != nil {
					t.Fatal(err)
				}
			}
			stop, err := persister(conn)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			await(t, c, behind, "next", 1)
			if err := o.Wait(ctx); !errors.Is(err, client.ErrRemoved) {
				t.Errorf("Wait = %v, want ErrRemoved", err)
			}
		})
	}
}
