package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// imageEntry is an entry with an image, which becomes a blob: of every thread whose image has that number.
func imageEntry(id string, number int) []byte {
	return fmt.Appendf(nil, `{"type":"message","id":%q,"message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`,
		id, strings.Repeat(fmt.Sprintf("%04d", number), 512))
}

// TestPausedPersister stops a persister somewhere in a commit (SIGSTOP), runs two cycles of gc, each of which reclaims at once what
// is garbage as it sees it, and lets the persister go on: it must not commit anything that refers to what they took. What it was
// committing builds on blobs that were garbage a moment ago, and forks a thread that is being removed.
func TestPausedPersister(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	server := w.start(w.command("natsd", "-data", filepath.Join(w.home, "data"), "-listen", w.nats))
	server.Await("ready")
	persister := w.start(w.command("persister"))
	persister.Await("persister runs")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cl := client.New(w.dial())
	pub := cl.Publisher(client.PublisherConfig{Producer: "agent"})
	seq := uint64(0)
	entry := func(to events.Thread, body []byte) client.Entry {
		seq++
		return client.Entry{Thread: to, Dialect: "omp", Body: body, Seq: seq}
	}
	publish := func(es ...client.Entry) {
		t.Helper()
		must.Get(pub.Publish(ctx, es...))(t)
	}
	await := func(th events.Thread) {
		t.Helper()
		must.Do(t, cl.Thread(th).Await(ctx, "agent", 0, seq))
	}
	keep := events.Thread{Session: "keep", Name: events.MainThread}
	publish(entry(keep, imageEntry("first", 9999)))
	await(keep)
	condemned, spared := 0, 0
	const rounds, images = 5, 30
	for round := range rounds {
		drop := events.Thread{Session: "drop", Name: fmt.Sprint("t", round)}
		var es []client.Entry
		for i := range images {
			es = append(es, entry(drop, imageEntry(fmt.Sprintf("d%d-%d", round, i), round*images+i)))
		}
		publish(es...)
		await(drop)
		forked := make(chan error, 3)
		go func() { // either the fork or the removal is first; the fork then has all of it, or is refused
			forked <- cl.Thread(events.Thread{Session: "keep", Name: fmt.Sprint("fork", round)}).Fork(ctx,
				events.Fork{Session: drop.Session, Thread: drop.Name})
		}()
		go func() { forked <- cl.Thread(drop).Remove(ctx) }()
		es = es[:0]
		for i := range images / 2 { // the others are garbage
			es = append(es, entry(keep, imageEntry(fmt.Sprintf("k%d-%d", round, i), round*images+i)))
		}
		go func() { // one by one: many commits
			var err error
			for _, e := range es {
				err = errors.Join(err, must.Err(pub.Publish(ctx, e)))
			}
			forked <- err
		}()
		select { // the moment is the test's input
		case <-time.After(time.Duration(random.Int64N(int64(200 * time.Millisecond)))):
		case <-ctx.Done():
		}
		persister.Signal(syscall.SIGSTOP)
		for range 2 {
			var r struct {
				Done struct{ Condemned, Spared int }
			}
			must.Do(t, json.Unmarshal([]byte(w.run("gc", "-once", "-json", "-allow", "share")), &r))
			condemned, spared = condemned+r.Done.Condemned, spared+r.Done.Spared
		}
		persister.Signal(syscall.SIGCONT)
		await(keep)
		for range 3 {
			if err := <-forked; err != nil && !errors.Is(err, client.ErrNoThread) && !errors.Is(err, client.ErrRefused) {
				t.Errorf("fork, removal or publish: %v", err)
			}
		}
	}
	for range 2 {
		var r struct {
			Done struct{ Condemned, Spared int }
		}
		must.Do(t, json.Unmarshal([]byte(w.run("gc", "-once", "-json", "-allow", "share")), &r))
		condemned, spared = condemned+r.Done.Condemned, spared+r.Done.Spared
	}
	if t.Logf("%d condemned, %d spared", condemned, spared); condemned == 0 {
		t.Error("nothing was condemned: it was not tried")
	}
	if out, errw, code := w.try("", "spool", "fsck"); code != 0 {
		t.Errorf("fsck = exit code %d\n%s%s", code, out, errw)
	}
	if h, err := cl.Thread(keep).Head(ctx); err != nil || h.Entries != rounds*images/2+1 {
		t.Errorf("%d entries, %v, want %d", h.Entries, err, rounds*images/2+1)
	}
	for name, p := range map[string]*proc.Process{"persister": persister, "natsd": server} {
		must.Same(t, p.Stop(), 0, "%s after SIGTERM: exit code %d, want %d", name)
	}
}

// TestCollectors: of two daemons one runs each cycle, and another goes on when that one is killed.
func TestCollectors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up("--gc-every", "0") // of several schedules, that of the last one to begin holds
	collector := func() *proc.Process { return w.start(w.command("gc", "-every", "1s", "-log-level", "info")) }
	first, second := collector(), collector()
	reports := func() uint64 {
		s := must.Get(w.dial().JetStream().Stream(t.Context(), events.GCStream))(t)
		m := must.Get(s.GetLastMsgForSubject(t.Context(), events.GCReportSubject))(t)
		return m.Sequence
	}
	first.Await("gc cycle")
	first.Kill()
	was := reports()
	second.Await("gc cycle")
	if now := reports(); now < was {
		t.Errorf("the last report has sequence %d after %d", now, was)
	}
	if out := second.Log(); strings.Contains(out, "another cycle has begun") {
		t.Errorf("two cycles at a time:\n%s", out)
	}
	must.Same(t, second.Stop(), 0, "gc after SIGTERM: exit code %d, want %d")
	for line := range strings.Lines(second.Log()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("gc that runs for long wrote %q, want lines of its log alone", line)
		}
	}
}
