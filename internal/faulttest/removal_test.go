package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestEraseMatrix: an erasure meets each fault and is run again. The session is gone then, no message holds a word of it, and what
// others have is untouched.
func TestEraseMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name})
		secret := "secret-of-" + name + "-0xDEADBEEF"
		gone := events.Thread{Session: name + "-gone", Name: events.MainThread}
		ctx := within(w.t)
		pub := w.Publisher(client.PublisherConfig{Producer: "p"})
		for i := range 3 {
			body := fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s%s"}]}`, strings.Repeat("Nothing to see here. ", 20), secret)
			must.Do(w.t, errors.Join(must.Err(pub.Publish(ctx, client.Entry{Thread: gone, Dialect: "item", Body: body, Seq: uint64(i + 1)})),
				l.Publish(ctx, w.Client, 3)))
			w.await(gone, "p", 0, uint64(i+1))
		}
		_, err := w.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: gone.Session}},
			strings.NewReader("output with "+secret))
		if err = errors.Join(err, faulttest.Settle(ctx, w.conn)); err != nil {
			w.t.Fatal(err)
		}
		if !spoken(w, secret) {
			w.t.Fatal("no message holds the secret: this shows nothing")
		}
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				e := service.Erasure{Conn: conn, Allow: []gc.Brake{gc.BrakeShare, gc.BrakeRoots}, Log: slog.New(slog.DiscardHandler)}
				_, err := e.Run(ctx, gone.Session)
				if errors.Is(err, client.ErrSessionNotFound) { // it was erased to the end before
					err = nil
				}
				return err
			},
			check: func() {
				w.t.Helper()
				if spoken(w, secret) {
					w.t.Error("a message still holds the secret")
				}
				list, err := w.Sessions(within(w.t), gone.Session)
				if err != nil || len(list) != 0 {
					w.t.Errorf("sessions %v, %v, want none", list, err)
				}
				if err := errors.Join(l.Publish(within(w.t), w.Client, 5), l.Check(within(w.t), w.conn)); err != nil {
					w.t.Error(err)
				}
			},
		}
	}, "event", "delete ", "purge artifacts", "record deleted")
}

// spoken reports whether a message of any stream holds a text.
func spoken(w *world, text string) bool {
	w.t.Helper()
	ctx := within(w.t)
	names := w.conn.JetStream().StreamNames(ctx)
	var all []string
	for name := range names.Name() {
		all = append(all, name)
	}
	if names.Err() != nil || len(all) == 0 {
		w.t.Fatalf("%d streams, %v", len(all), names.Err())
	}
	for _, name := range all {
		s := must.Get(w.conn.JetStream().Stream(ctx, name))(w.t)
		cons := must.Get(s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{}))(w.t)
		for pending := cons.CachedInfo().NumPending; pending > 0; {
			m, err := cons.Next()
			if err != nil {
				w.t.Fatalf("stream %s: %v", name, err)
			}
			if bytes.Contains(m.Data(), []byte(text)) {
				return true
			}
			meta := must.Get(m.Metadata())(w.t)
			pending = meta.NumPending
		}
	}
	return false
}

// TestRetentionMatrix: what policies remove is removed by a process that fails, or by the next one, and nothing else.
func TestRetentionMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name})
		ctx := within(w.t)
		pub := w.Publisher(client.PublisherConfig{Producer: name})
		for i := range 3 {
			old := events.Thread{Session: fmt.Sprintf("%s-old-%d", name, i), Name: events.MainThread}
			body := []byte(`{"role":"coder","content":"x"}`)
			must.Get(pub.Publish(ctx, client.Entry{Thread: old, Dialect: "step", Body: body, Seq: uint64(i + 1)}))(w.t)
			w.await(old, name, 0, uint64(i+1))
		}
		must.Do(w.t, errors.Join(l.Publish(ctx, w.Client, 5), faulttest.Settle(ctx, w.conn)))
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				policy := retention.Policy{Name: name, Session: name + "-old-*", MaxAge: time.Nanosecond}
				r := service.Retention{Conn: conn, Policies: []retention.Policy{policy}, By: "gc", Log: slog.New(slog.DiscardHandler)}
				for range 2 { // the first one reports
					if err := r.Run(ctx, false); err != nil {
						return err
					}
				}
				return nil
			},
			check: func() {
				w.t.Helper()
				list, err := w.Sessions(within(w.t), "")
				if err != nil {
					w.t.Error(err)
				}
				for _, s := range list {
					if strings.HasPrefix(s.ID, name+"-old-") {
						w.t.Errorf("session %s is there", s.ID)
					}
				}
				if err := errors.Join(l.Publish(within(w.t), w.Client, 5), l.Check(within(w.t), w.conn)); err != nil {
					w.t.Error(err)
				}
			},
		}
	}, "event", "record ")
}

// TestRepairMatrix: a thread loses its newest packs, another one a pack in its middle, and the process that repairs them fails. The next
// one finishes: SPOOL_EVENTS has it all.
func TestRepairMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name, ThreadsEach: 2, Batch: 1})
		ctx := within(w.t)
		for range 4 { // a pack for each, at least
			must.Do(w.t, errors.Join(l.Publish(ctx, w.Client, 2), faulttest.Settle(ctx, w.conn)))
		}
		lose := func(at int, of events.Thread) {
			head := must.Get(w.Thread(of).Head(ctx))(w.t)
			key := events.PackKey(head.Recent[at].Pack.String())
			rs := must.Get(w.conn.Records().Records(ctx, key))(w.t)
			p := must.Get(record.DecodePack(rs[0].Value))(w.t)
			must.Get(w.conn.Records().Write(ctx, record.Put{Key: key, Expect: record.Any}))(w.t)
			must.Do(w.t, w.conn.Objects().Reclaim(ctx, p.Object))
		}
		session := l.Sessions()[0]
		lose(0, events.Thread{Session: session, Name: events.MainThread})
		lose(2, events.Thread{Session: session, Name: "t1"})
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				rep, err := fsck.Fix(ctx, natsadmin.Of(conn), natsadmin.Of(conn), conn.Store(0), fsck.Config{})
				if err != nil {
					return err
				}
				for _, r := range rep.Repairs {
					if r.To == "" {
						err = errors.Join(err, fmt.Errorf("%s is not repaired: %s", r.Record, r.Detail))
					}
				}
				return err
			},
			check: func() {
				w.t.Helper()
				if err := errors.Join(l.Publish(within(w.t), w.Client, 4), l.Check(within(w.t), w.conn)); err != nil {
					w.t.Error(err)
				}
			},
		}
	}, "event", "record ")
}
