package backup_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"spool/internal/backup"
	"spool/internal/must"
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
		must.Get(pub.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: body, Seq: 1}))(t)
		src.await(t, th, fmt.Sprint("p", n), 1)
	}
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(ctx, src.conn, repo, nil))(t)
	conn := natstest.Dial(t, natstest.Server(t))
	limits := natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}
	must.Do(t, backup.Restore(ctx, conn, repo, m, limits, nil))
	cl := client.New(conn)
	want := must.Get(src.Thread(th).Head(ctx))(t)
	got, err := cl.Thread(th).Head(ctx)
	if err != nil || !bytes.Equal(got.Encode(), want.Encode()) || got.Seen.IsZero() || got.Older.IsZero() {
		t.Errorf("the head is %+v, %v, want %+v", got, err, want)
	}
	if len(got.Producers) != 90 || got.Branches() != 89 {
		t.Errorf("%d producers and %d branches, want 90 and 89", len(got.Producers), got.Branches())
	}
	state := must.Get(conn.JetStream().Stream(ctx, events.EventsStream))(t)
	must.Same(t, state.CachedInfo().State.Msgs, 0, "%d events are published again, want %d")
	checkSound(t, conn)
}
