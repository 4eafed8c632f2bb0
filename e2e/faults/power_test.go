//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// TestPowerLoss cuts the power of the server's disk under load and starts again on what is left. With data forced to disk with
// every ack no acked entry is lost: in one process, where everything dies at once, and beside processes that live on.
func TestPowerLoss(t *testing.T) {
	for name, start := range map[string]func(*world){
		"spool up":    func(w *world) { w.up() },
		"nats-server": func(w *world) { w.serve() },
	} {
		t.Run(name, func(t *testing.T) {
			row(t)
			w := newWorld(t)
			w.isolate("mkfs.ext4")
			disk := w.inside.format(2 << 30)
			start(w)
			if name == "nats-server" {
				w.fleet()
			}
			load := w.publish(faulttest.NewLedger(small()))
			cuts := 1
			if long {
				cuts = 60
			}
			for range cuts {
				load.acks(150)
				w.lose(disk)
				start(w)
				if long {
					load.stop()
					w.check(load.Ledger)
					if t.Failed() {
						diag(w, load.Ledger)
						t.FailNow()
					}
					load = w.publish(load.Ledger)
				}
			}
			load.acks(50)
			load.check()
		})
	}
}

// lose is a power cut: the disk first, then whoever uses it.
func (w *world) lose(d *disk) {
	w.t.Helper()
	if err := d.cut(); err != nil {
		w.t.Fatal(err)
	}
	w.server.kill()
	if err := d.again(); err != nil {
		w.t.Fatal(err)
	}
}

// TestPowerLossRelaxed is what sync_interval 1s costs: what was acked since the last sync may be lost. It is the end of a thread and
// nothing before it, also where one stream lost more than another; after fsck --repair all fits together, and who publishes
// what is missing again, as the same producer, has all of it once.
func TestPowerLossRelaxed(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.isolate("mkfs.ext4")
	disk := w.inside.format(1 << 30)
	w.sync = "1s"
	w.serve()
	w.fleet()
	if err := w.inside.do("sync", "-f", w.inside.at); err != nil { // a system that has been there for a while
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	agent := &agent{c: client.New(w.dial()), thread: events.Thread{Session: "s", Name: events.MainThread}}
	seconds := 3 * time.Second
	if long {
		seconds = 30 * time.Second
	}
	var acked []time.Time
	for begin := time.Now(); time.Since(begin) < seconds; acked = append(acked, time.Now()) {
		if err := agent.publish(ctx, len(acked)+1); err != nil {
			t.Fatal(err)
		}
		lasts(time.Millisecond)
	}
	cut := time.Now()
	w.lose(disk)
	w.serve()
	out, code := w.run("spool", "fsck", "--repair", "--force")
	t.Logf("fsck --repair: exit code %d\n%s", code, out)
	out, code = w.run("spool", "fsck")
	if code != 0 {
		t.Fatalf("fsck after the repair: exit code %d\n%s", code, out)
	}
	if err := faulttest.Settle(ctx, w.dial()); err != nil {
		t.Fatal(err)
	}
	left, err := agent.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	back := time.Duration(0)
	if left < len(acked) {
		back = cut.Sub(acked[left])
	}
	t.Logf("%d entries acked in %v, %d lost, acked up to %v before the cut", len(acked), seconds, len(acked)-left, back.Round(time.Millisecond))
	for n := left + 1; n <= len(acked)+10; n++ {
		if err := agent.publish(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := agent.c.Await(ctx, agent.thread, "agent", 0, uint64(len(acked)+10)); err != nil {
		t.Fatal(err)
	}
	if got, err := agent.read(ctx); err != nil || got != len(acked)+10 {
		t.Errorf("published again: %d entries, %v, want %d", got, err, len(acked)+10)
	}
	w.must("spool", "fsck")
	w.eventually("ready", w.ready)
}

// agent publishes numbers to a thread.
type agent struct {
	c      *client.Client
	thread events.Thread
}

// publish publishes a number, as the producer's entry of that number.
func (a *agent) publish(ctx context.Context, n int) error {
	pub := a.c.Publisher(client.PublisherConfig{Producer: "agent"})
	return pub.Publish(ctx, client.Entry{Thread: a.thread, Dialect: "item", Seq: uint64(n), Body: fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d"}]}`, n)})
}

// read is how many of the numbers 1, 2, 3, … are in the thread; an error if anything else is.
func (a *agent) read(ctx context.Context) (n int, err error) {
	head, err := a.c.Thread(ctx, a.thread)
	if errors.Is(err, threads.ErrNoThread) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for item, err := range a.c.ItemsFrom(ctx, a.thread, head, 1) {
		if err != nil {
			return n, err
		}
		if n++; !bytes.Contains(item.Data, fmt.Appendf(nil, `"text":"%d"`, n)) {
			return n, fmt.Errorf("item %d is %s", n, item.Data)
		}
	}
	return n, nil
}

func diag(w *world, l *faulttest.Ledger) {
	conn := w.dial()
	c := client.New(conn)
	for _, session := range l.Sessions() {
		for _, name := range []string{"main", "t1"} {
			id := events.Thread{Session: session, Name: name}
			h, err := c.Thread(w.t.Context(), id)
			w.t.Logf("%s: applied %d entries %d producers %+v %v", id, h.Applied, h.Entries, h.Producers, err)
			evs, err := conn.ThreadEvents(w.t.Context(), id)
			w.t.Log(len(evs), err)
			for _, e := range evs[max(0, len(evs)-25):] {
				w.t.Logf("  %d: %s %d..+%d prev %d %.60q", e.Seq, e.Producer, e.Event.Seq, len(e.More), e.Prev, e.Body)
			}
		}
	}
	for p := range events.Partitions {
		cons, err := conn.JetStream().Consumer(w.t.Context(), events.EventsStream, events.PartitionConsumer(p))
		if err == nil {
			w.t.Logf("p%d %+v %+v", p, cons.CachedInfo().Delivered, cons.CachedInfo().AckFloor)
		}
	}
	for _, s := range []string{events.EventsStream, events.RecordsStream, events.ItemsStream} {
		st, err := conn.JetStream().Stream(w.t.Context(), s)
		if err == nil {
			w.t.Logf("%s %+v", s, st.CachedInfo().State)
		}
	}
}
