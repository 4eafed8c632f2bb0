package gc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// rig is a server with Spool's streams.
type rig struct {
	t    testing.TB
	conn *natsio.Conn
	*client.Client
	producer *client.Publisher
	seq      uint64 // of its last event
}

func newRig(t testing.TB) *rig {
	conn := natstest.Conn(t)
	r := &rig{t: t, conn: conn, Client: client.New(conn)}
	r.producer = r.Publisher(client.PublisherConfig{Producer: "p"})
	return r
}

// persister runs a persister with small batches until stop.
func (r *rig) persister(batch int) (stop func()) {
	r.t.Helper()
	var cfg service.PersisterConfig
	cfg.Lane, cfg.BatchEvents = 3, batch
	return natstest.Run(r.t, service.NewPersister(r.conn, cfg, nil).Run)
}

// brave reclaims at once, whatever the share.
func brave() gc.Config { return gc.Config{Lane: events.Lanes - 1, Allow: []gc.Brake{gc.BrakeShare}} }

func (r *rig) collector(cfg gc.Config, at func(gc.Step) error) *gc.Collector {
	r.t.Helper()
	deps := gcnats.Deps(r.conn, cfg.Lane)
	deps.At = at
	c := must.Get(gc.New(deps, cfg))(r.t)
	return c
}

// collect plans and applies.
func (r *rig) collect(cfg gc.Config) (*gc.Plan, gc.Done) {
	r.t.Helper()
	c := r.collector(cfg, nil)
	p := must.Get(c.Plan(r.t.Context()))(r.t)
	d := must.Get(c.Apply(r.t.Context(), p))(r.t)
	return p, d
}

func entry(id, text string) []byte {
	content, _ := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	return fmt.Appendf(nil, `{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":%s}}`, id, content)
}

// image is an entry with an image that becomes a blob.
func image(id string, seed byte) []byte {
	data := strings.Repeat(string([]byte{'A' + seed%26, 'B', 'C', 'D'}), 512)
	return fmt.Appendf(nil, `{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`, id, data)
}

// said is entries of a thread.
type said struct {
	to     events.Thread
	bodies [][]byte
}

// publish sends entries in one go, so that threads share packs.
func (r *rig) publish(all ...said) {
	r.t.Helper()
	var es []client.Entry
	for _, s := range all {
		for _, b := range s.bodies {
			r.seq++
			es = append(es, client.Entry{Thread: s.to, Dialect: "omp", Body: b, Seq: r.seq})
		}
	}
	must.Get(r.producer.Publish(r.t.Context(), es...))(r.t)
}

// say publishes entries to a thread and waits until they are applied.
func (r *rig) say(t events.Thread, bodies ...[]byte) {
	r.t.Helper()
	r.publish(said{t, bodies})
	r.await(t)
}

// await waits until a thread has applied what was published last.
func (r *rig) await(t events.Thread) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	must.Do(r.t, r.Thread(t).Await(ctx, "p", 0, r.seq))
}

// talk is n entries of a thread.
func talk(n int, what string) (out [][]byte) {
	for i := range n {
		out = append(out, entry(fmt.Sprintf("%s%04d", what, i), what+strings.Repeat(" and so on", 20)))
	}
	return out
}

// remove takes a thread out of the active ones, as deleting it does.
func (r *rig) remove(t events.Thread) {
	r.t.Helper()
	rs, err := r.conn.Records().Records(r.t.Context(), events.HeadKey(t))
	if err != nil || !rs[0].Exists() {
		r.t.Fatalf("remove %s: %v, %v", t, rs, err)
	}
	must.Get(r.conn.Records().Write(r.t.Context(), record.Put{Key: rs[0].Key, Expect: rs[0].Seq}))(r.t)
}

// verify reads everything that a thread reaches, blobs too.
func (r *rig) verify(t events.Thread) {
	r.t.Helper()
	h, err := r.Thread(t).Head(r.t.Context())
	if err == nil {
		err = threads.Verify(r.t.Context(), threads.Reader{Packs: r.conn.Store(0)}, h)
	}
	if err == nil {
		err = r.verifyBlobs(h)
	}
	if err != nil {
		r.t.Errorf("verify %s: %v", t, err)
	}
}

func (r *rig) verifyBlobs(h threads.Head) error {
	if h.Head() == h.Start { // its first entry was refused
		return nil
	}
	store := r.conn.Store(0)
	for step, err := range (threads.Reader{Packs: store}).Walk(r.t.Context(), h.Head()) {
		if err != nil {
			return err
		}
		content, err := step.ReadContent(r.t.Context())
		if err != nil {
			return err
		}
		for _, ref := range content.Refs {
			if ref.Kind() != casstore.KindBlob {
				continue
			}
			if _, err := store.Blob(r.t.Context(), ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket is how many messages a bucket holds.
func (r *rig) bucket(name string) uint64 {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.ObjectStream(name)))(r.t)
	return s.CachedInfo().State.Msgs
}

var errKilled = errors.New("killed here")

func th(name string) events.Thread { return events.Thread{Session: name, Name: events.MainThread} }
