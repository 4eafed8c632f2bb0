//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestEventsFull fills SPOOL_EVENTS while no persister takes anything out: publishers are told, and nobody who was acked
// loses anything. With a persister the stream gets room and whoever waited goes on.
func TestEventsFull(t *testing.T) {
	w := serving(t)
	conn := w.dial()
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 64 << 20}))
	w.start("ingest", "-http", w.http).Await("ingest listens")
	some := small()
	some.Entry = func(r *rand.Rand) int { return 1000 + r.IntN(5000) }
	load := w.publish(faulttest.NewLedger(some))
	var err error
	for seq := uint64(1); err == nil; seq++ {
		err = conn.Events().PublishEvents(t.Context(), []*events.Event{event("filler", seq, bytes.Repeat([]byte{'x'}, 20_000))})
	}
	must.Is(t, err, record.ErrFull, "publish to a full stream")
	post, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.http+
		"/v1/sessions/s/threads/main/entries?dialect=raw", strings.NewReader(strings.Repeat("y", 300_000)))
	must.Do(t, err)
	post.Header.Set("Content-Type", "application/json")
	answer := must.Get(http.DefaultClient.Do(post))(t)
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "stream full") {
		t.Errorf("POST to a full stream = %s %s, want 503 and the reason", answer.Status, body)
	}
	if out, code := w.run("spool", "check", "events"); code != 2 {
		t.Errorf("check events: exit code %d, want 2, critical\n%s", code, out)
	}
	w.persister()
	load.acks(100)
	load.check()
}

func event(producer string, seq uint64, body []byte) *events.Event {
	return &events.Event{Producer: producer, Seq: seq, Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: producer, Name: events.MainThread}, Body: body}
}

// TestStoreFull leaves no room in one after the other of the streams that a persister writes: entries wait in SPOOL_EVENTS, and
// nothing that is written in part is ever seen.
func TestStoreFull(t *testing.T) {
	w := serving(t)
	w.fleet()
	conn := w.dial()
	load := w.publish(faulttest.NewLedger(small()))
	load.acks(50)
	for _, stream := range []string{events.RecordsStream, events.ObjectStream(events.NodesBucket)} {
		w.limit(conn, stream, 0)
		load.acks(200)
		w.limit(conn, stream, -1)
		load.acks(50)
	}
	load.check()
}

// limit bounds a stream to what it holds and so many bytes more; -1: not any more.
func (w *world) limit(conn *natsio.Conn, stream string, more int64) {
	w.t.Helper()
	ctx := w.t.Context()
	s := must.Get(conn.JetStream().Stream(ctx, stream))(w.t)
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes = -1; more >= 0 {
		cfg.MaxBytes = int64(s.CachedInfo().State.Bytes) + more
	}
	must.Get(conn.JetStream().UpdateStream(ctx, cfg))(w.t)
}

// TestInboxFull: a body that does not fit into the inbox any more is refused, and no broken object is left of it: a reader of
// the bucket by the object store's own client finds only what is whole.
func TestInboxFull(t *testing.T) {
	w := serving(t)
	w.fleet()
	conn := w.dial()
	w.limit(conn, events.ObjectStream(events.InboxBucket), 3<<20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	for seq := uint64(1); seq < 3 && err == nil; seq++ {
		err = conn.Events().PublishEvents(ctx, []*events.Event{event("giant", seq, []byte(strings.Repeat(fmt.Sprintf("%09d\n", seq), 400_000)))})
	}
	must.Is(t, err, record.ErrFull, "a body for a full inbox")
	bucket := must.Get(conn.JetStream().ObjectStore(ctx, events.InboxBucket))(t)
	list, err := bucket.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Fatal(err)
	}
	for _, o := range list {
		if _, err := bucket.GetBytes(ctx, o.Name); err != nil {
			t.Errorf("object %s is listed, and reading it gives %v", o.Name, err)
		}
	}
	w.limit(conn, events.ObjectStream(events.InboxBucket), -1)
	for seq := uint64(1); seq < 3; seq++ {
		must.Do(t, conn.Events().PublishEvents(ctx, []*events.Event{event("giant", seq,
			[]byte(strings.Repeat(fmt.Sprintf("%09d\n", seq), 400_000)))}))
	}
	must.Do(t, client.New(conn).Thread(events.Thread{Session: "giant", Name: events.MainThread}).Await(ctx, "giant", 0, 2))
	w.must("spool", "fsck")
}
