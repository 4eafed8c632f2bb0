//go:build linux

package faults_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// TestConsumersDeleted deletes the consumers of all partitions under the persister's hands: it makes them again, and skips what
// comes again and is applied.
func TestConsumersDeleted(t *testing.T) {
	w := serving(t)
	persister := w.fleet()
	conn := w.dial()
	load := w.publish(faulttest.NewLedger(small()))
	rounds := often(2, 50)
	for range rounds {
		load.acks(50)
		for p := range events.Partitions {
			must.Do(t, conn.JetStream().DeleteConsumer(t.Context(), events.EventsStream, events.PartitionConsumer(p)))
		}
		load.acks(50)
		persister.Await("the consumer of a partition was deleted")
		w.eventually("all consumers are there", func() error {
			b, err := conn.Events().Backlog(t.Context())
			if err == nil && b.Gone > 0 {
				err = errors.New("some are not")
			}
			return err
		})
	}
	load.check()
}

// TestDerivedDeleted deletes the streams that hold nothing which is not elsewhere, or that nobody refers to: a start makes them
// again, and what waited goes on.
func TestDerivedDeleted(t *testing.T) {
	w := serving(t)
	w.fleet()
	conn := w.dial()
	load := w.publish(faulttest.NewLedger(small()))
	for _, stream := range []string{events.ItemsStream, events.GCStream, events.DeadStream} {
		load.acks(50)
		must.Do(t, conn.JetStream().DeleteStream(t.Context(), stream))
		load.acks(50)
		w.persister()
	}
	load.check()
}

// TestStreamDeleted deletes one after the other of the streams that are the only ones to have what they hold, each on a system of its
// own. It is never replaced by an empty one: readiness is red and names it, and no start takes what is left for a new system.
func TestStreamDeleted(t *testing.T) {
	for _, stream := range []string{
		events.RecordsStream, events.EventsStream, events.ObjectStream(events.NodesBucket), events.ObjectStream(events.BlobsBucket),
		events.ObjectStream(events.ArtifactsBucket), events.ObjectStream(events.InboxBucket),
	} {
		t.Run(stream, func(t *testing.T) {
			w := serving(t)
			persister := w.fleet()
			conn := w.dial()
			l := faulttest.NewLedger(small())
			load := w.publish(l)
			load.acks(50)
			w.eventually("the persister asks for every partition", func() error { // one that still begins ends without a stream
				for p := range events.Partitions {
					cons, err := conn.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(p))
					if err != nil {
						return err
					}
					if cons.CachedInfo().NumWaiting == 0 {
						return fmt.Errorf("not for %d", p)
					}
				}
				return nil
			})
			must.Do(t, conn.JetStream().DeleteStream(t.Context(), stream))
			w.eventually("readiness is red", func() error {
				err := w.ready()
				if err == nil {
					return errors.New("ready")
				}
				if !strings.Contains(err.Error(), stream) {
					t.Errorf("readyz says %v, want the name of %s", err, stream)
				}
				return nil
			})
			must.Is(t, conn.Verify(t.Context()), record.ErrNotFound, "verify")
			if out, code := w.run("spool", "doctor"); code != 1 || !strings.Contains(out, stream) {
				t.Errorf("doctor: exit code %d\n%s", code, out)
			}
			for _, name := range []string{"persister", "up"} {
				out, code := "", 0
				if name == "up" {
					out, code = w.run("spool", "up", "--http", "127.0.0.1:0")
				} else {
					out, code = w.run(name)
				}
				if code != 1 || !strings.Contains(out, "stream is gone: "+stream) {
					t.Errorf("%s on what is left: exit code %d, want 1 and the reason\n%s", name, code, out)
				}
			}
			if _, err := conn.JetStream().Stream(t.Context(), stream); err == nil {
				t.Error("an empty stream is in its place")
			}
			if out, code := w.run("gc", "-once", "-allow", "share"); code != 1 {
				t.Errorf("gc: exit code %d, want 1: it must not judge what it does not see\n%s", code, out)
			}
			if persister.Ended() {
				t.Error("the persister ended")
			}
			bucket, ok := strings.CutPrefix(stream, "OBJ_")
			if !ok {
				return
			}
			if _, err := conn.JetStream().CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: bucket}); err != nil { // by hand
				t.Fatal(err)
			}
			w.persister()
			w.eventually("ready, once a repair has looked", func() error {
				w.run("spool", "fsck", "--repair", "--force")
				return w.ready()
			})
		})
	}
}

// TestStreamPurged empties the record bucket under load. It is told everywhere, gc deletes nothing, and a repair brings
// every acknowledged entry back.
func TestStreamPurged(t *testing.T) {
	w := serving(t)
	w.fleet()
	conn := w.dial()
	load := w.publish(faulttest.NewLedger(small()))
	load.acks(50)
	load.stop()
	w.eventually("marks are taken, and taken again", func() error {
		m, err := scrub.ReadMarks(t.Context(), natsadmin.Of(conn))
		if err == nil && m.Before == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	load = w.publish(load.Ledger)
	load.acks(50)
	records, err := conn.JetStream().Stream(t.Context(), events.RecordsStream)
	if err == nil {
		err = records.Purge(t.Context())
	}
	must.Do(t, err)
	const what = events.RecordsStream + " was emptied"
	w.eventually("readiness is red", func() error {
		if err := w.ready(); err == nil || !strings.Contains(err.Error(), what) {
			return fmt.Errorf("readyz: %v, want %q", err, what)
		}
		return nil
	})
	load.acks(50)
	for _, c := range [][]string{{"doctor"}, {"check", "damage"}, {"gc", "--apply"}} {
		if out, code := w.run("spool", c...); code == 0 || !strings.Contains(out, what) {
			t.Errorf("spool %v: exit code %d, want %q\n%s", c, code, what, out)
		}
	}
	load.stop()
	w.eventually("clean, and ready", func() error {
		w.run("spool", "fsck", "--repair", "--force")
		if out, code := w.run("spool", "fsck"); code != 0 {
			return fmt.Errorf("spool fsck: exit code %d\n%s", code, out)
		}
		return w.ready()
	})
	load.check()
	for _, c := range [][]string{{"gc", "--apply", "--allow", "share"}, {"gc", "--apply"}} { // what began anew and was put back is garbage
		if out, code := w.run("spool", c...); code != 0 {
			t.Errorf("spool %v: exit code %d\n%s", c, code, out)
		}
	}
	if out, code := w.run("spool", "thread", "ls"); code != 0 || strings.Contains(out, "lost-") {
		t.Errorf("threads that nobody lost:\n%s", out)
	}
}
