package client_test

import (
	"context"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestAwaitOutlastsASilentServer: who waits goes on waiting when the server leaves a question without an answer, until the wait's own
// end; on a connection that is closed there is nothing to wait for.
func TestAwaitOutlastsASilentServer(t *testing.T) {
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	stop := must.Get(persister(conn))(t)
	defer stop()
	th := events.Thread{Session: "s", Name: "main"}
	e := &events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "omp", Thread: th, Body: []byte(`{"type":"custom"}`)}
	must.Do(t, conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
	await(t, client.New(conn), th, "p", 1)

	dial := func(every bool) *natsio.Conn {
		w := faulttest.NewWire(server, faulttest.Fault{Mode: faulttest.Lose, Class: faulttest.Reads, K: 1, Every: every})
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: w, Timeout: 200 * time.Millisecond}))(t)
		t.Cleanup(c.Close)
		return c
	}
	await(t, client.New(dial(false)), th, "p", 1)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := client.New(dial(true)).Thread(th).Await(ctx, "p", 0, 1)
	must.Is(t, err, context.DeadlineExceeded, "Await of a server that is silent")
	must.Is(t, err, record.ErrUnknown, "Await of a server that is silent")

	closed := dial(false)
	closed.Close()
	if err := client.New(closed).Thread(th).Await(t.Context(), "p", 0, 1); err == nil || t.Context().Err() != nil {
		t.Errorf("Await on a closed connection: %v", err)
	}
}
