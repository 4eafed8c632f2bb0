package client_test

import (
	"context"
	"testing"
	"time"

	"spool/internal/must"
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
			o := must.Get(c.Output(ctx, th, client.OutputConfig{ID: "o1", Tool: "make"}))(t)
			must.Get(o.Write([]byte("gcc\n")))(t)
			must.Do(t, o.Close(events.OutputEnd{}))
			remove := events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}
			behind := events.Thread{Session: "s", Name: next}
			for _, e := range []*events.Event{
				{Producer: "operator", Seq: 1, Kind: events.KindControl, Thread: th, Body: remove.Encode()},
				{Producer: "next", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: behind, Body: []byte(`{"type":"custom"}`)},
			} {
				must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{e}))
			}
			stop := must.Get(persister(conn))(t)
			defer stop()
			await(t, c, behind, "next", 1)
			must.Is(t, o.Wait(ctx), client.ErrRemoved, "Wait")
		})
	}
}
