//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
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
			cuts := often(1, 25)
			for range cuts {
				load.acks(150)
				w.lose(disk)
				start(w)
				if long {
					load.stop()
					w.check(load.Ledger)
					load = w.publish(load.Ledger)
				}
			}
			load.acks(50)
			load.check()
		})
	}
}

// lose is a power cut: of the disk, and of whoever uses it. The server is stopped first, in whatever it does: a filesystem that is
// shut down tells some who wait for an fsync right then that it was done, and nobody is to be acked for that.
func (w *world) lose(d *disk) {
	w.t.Helper()
	w.server.Signal(syscall.SIGSTOP)
	w.eventually("the server stands still", func() error { return stopped(w.server) })
	must.Do(w.t, d.cut())
	w.server.Kill()
	must.Do(w.t, d.again())
}

// TestPowerLossRelaxed is what sync_interval 1s costs: what was acked since the last sync may be lost, each stream since a sync of its
// own, so that it need not be the end of a thread alone. What was on the disk is there, in order and once, whatever else is, and
// after fsck --repair the thread is read to its end and goes on; that last holds nearly always (docs/faults.md, what is not promised).
func TestPowerLossRelaxed(t *testing.T) {
	row(t)
	if !long {
		skip(t, "what it looks at is not promised in every case: SPOOL_FAULTS=long")
	}
	w := newWorld(t)
	w.isolate("mkfs.ext4")
	disk := w.inside.format(1 << 30)
	w.sync = "1s"
	w.serve()
	w.fleet()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	agent := &agent{c: client.New(w.dial()), thread: events.Thread{Session: "s", Name: events.MainThread}}
	const safe = 300
	for n := 1; n <= safe; n++ {
		must.Do(t, agent.publish(ctx, n))
	}
	must.Do(t, faulttest.Settle(ctx, w.dial()))
	must.Do(t, w.inside.do("sync", "-f", w.inside.at))
	seconds := 3 * time.Second
	if long {
		seconds = 30 * time.Second
	}
	acked := make([]time.Time, safe, 1<<16)
	for begin := time.Now(); time.Since(begin) < seconds; acked = append(acked, time.Now()) {
		must.Do(t, agent.publish(ctx, len(acked)+1))
	}
	cut := time.Now()
	w.lose(disk)
	w.serve()
	must.Do(t, faulttest.Settle(ctx, w.dial()))
	out, code := w.run("spool", "fsck", "--repair", "--yes")
	t.Logf("fsck --repair: exit code %d, %d lines", code, strings.Count(out, "\n"))
	must.Do(t, faulttest.Settle(ctx, w.dial()))
	left := must.Get(agent.numbers(ctx))(t)
	if len(left) < safe || left[safe-1] != safe {
		t.Fatalf("%d entries are left, want the first %d at least", len(left), safe)
	}
	first := 0
	for first < len(left) && left[first] == first+1 {
		first++
	}
	back := time.Duration(0)
	if first < len(acked) {
		back = cut.Sub(acked[first])
	}
	t.Logf("%d entries acked, %d lost; the first of them was acked %v before the cut", len(acked), len(acked)-len(left),
		back.Round(time.Millisecond))
	for n := len(acked) + 1; n <= len(acked)+10; n++ {
		must.Do(t, agent.publish(ctx, n))
	}
	must.Do(t, agent.c.Thread(agent.thread).Await(ctx, "agent", 0, uint64(len(acked)+10)))
	if got, err := agent.numbers(ctx); err != nil || len(got) < len(left)+10 || got[len(got)-1] != len(acked)+10 {
		t.Errorf("%d entries, %v, want the %d that were left and ten more", len(got), err, len(left))
	}
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
	_, err := pub.Publish(ctx, client.Entry{Thread: a.thread, Dialect: "item", Seq: uint64(n),
		Body: fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d"}]}`, n)})
	return err
}

// read is how many of the numbers 1, 2, 3, … are in the thread; an error if anything else is.
func (a *agent) read(ctx context.Context) (n int, err error) {
	all, err := a.numbers(ctx)
	if err == nil && len(all) > 0 && all[len(all)-1] != len(all) {
		err = fmt.Errorf("%d numbers up to %d", len(all), all[len(all)-1])
	}
	return len(all), err
}

// numbers are those in the thread, which must grow.
func (a *agent) numbers(ctx context.Context) (all []int, err error) {
	head, err := a.c.Thread(a.thread).Head(ctx)
	if errors.Is(err, threads.ErrNoThread) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for posted, err := range a.c.Thread(a.thread).ItemsFrom(ctx, head, 1) {
		if err != nil {
			return all, err
		}
		var item struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(posted.Data, &item); err != nil || len(item.Content) != 1 {
			return all, fmt.Errorf("item %s: %w", posted.Data, err)
		}
		n, err := strconv.Atoi(item.Content[0].Text)
		if err != nil {
			return all, err
		}
		if len(all) > 0 && n <= all[len(all)-1] {
			return all, fmt.Errorf("%d stands behind %d", n, all[len(all)-1])
		}
		all = append(all, n)
	}
	return all, nil
}

// stopped is whether every thread of a process that was stopped has, or is in the kernel and will.
func stopped(p *proc.Process) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil || len(tasks) == 0 {
		return fmt.Errorf("no threads: %w", err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			return err
		}
		_, state, _ := bytes.Cut(b, []byte(") "))
		if len(state) == 0 || state[0] != 'T' && state[0] != 'D' {
			return fmt.Errorf("a thread runs: %s", b)
		}
	}
	return nil
}
