package backup_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"spool/internal/backup"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

// What a head keeps in nodes comes back with it, and tells which events were dealt with: none is published again.
func TestRestoreOfAHeadWithNodes(t *testing.T) {
	src := work(t, natstest.Conn(t))
	ctx, th := t.Context(), thread(0)
	for n := range 90 {
		pub := src.Publisher(client.PublisherConfig{Producer: fmt.Sprint("p", n)})
		body := fmt.Appendf(nil, `{"type":"message","id":"e%d","parentId":null,"message":{"role":"user","content":"x"}}`, n)
		if err := pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: body, Seq: 1}); err != nil {
			t.Fatal(err)
		}
		src.await(t, th, fmt.Sprint("p", n), 1)
	}
	repo, err := backup.Open(filepath.Join(t.TempDir(), "b"), true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := backup.Create(ctx, src.conn, repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := natstest.Dial(t, natstest.Server(t))
	limits := natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}
	if err := backup.Restore(ctx, conn, repo, m, limits, nil); err != nil {
		t.Fatal(err)
	}
	cl := client.New(conn)
	want, err := src.Thread(ctx, th)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cl.Thread(ctx, th)
	if err != nil || !bytes.Equal(got.Encode(), want.Encode()) || got.Seen.IsZero() || got.Older.IsZero() {
		t.Errorf("the head is %+v, %v, want %+v", got, err, want)
	}
	if len(got.Producers) != 90 || got.Branches() != 89 {
		t.Errorf("%d producers and %d branches, want 90 and 89", len(got.Producers), got.Branches())
	}
	state, err := conn.JetStream().Stream(ctx, events.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := state.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d events are published again, want none", n)
	}
	checkSound(t, conn)
}
