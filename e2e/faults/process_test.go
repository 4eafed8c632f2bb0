//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// moment is when something is killed: a row's input, nothing is concluded from how long it is.
func moment(most time.Duration) { lasts(rand.N(most)) }

// TestKilledUnderLoad kills one of two persisters, or the collector, again and again while entries come. (spool up: e2e,
// TestKilledWhileImporting; each of gc's steps: internal/gc, TestKilledAtEveryStep.)
func TestKilledUnderLoad(t *testing.T) {
	w := serving(t)
	w.fleet()
	kinds := [][]string{{"persister"}, {"persister"}, {"gc", "-every", "1s", "-allow", "share"}}
	fleet := make([]*proc.Process, len(kinds))
	begin := func(i int) {
		if fleet[i] = w.start(kinds[i][0], kinds[i][1:]...); kinds[i][0] == "persister" {
			fleet[i].Await("persister runs")
		}
	}
	for i := range kinds {
		begin(i)
	}
	fast := small()
	fast.Pause = 5 * time.Millisecond
	load := w.publish(faulttest.NewLedger(fast))
	kills := often(6, 300)
	for range kills {
		load.acks(20)
		moment(400 * time.Millisecond)
		i := rand.IntN(len(fleet))
		fleet[i].Kill()
		begin(i)
	}
	load.check()
}

// TestZombies stops a persister and a collector (SIGSTOP) for longer than a partition stays pinned and an ack is waited for.
// Another persister takes over, and what the stopped one had begun is refused when it goes on. (With gc between the two, at
// random moments of a commit: e2e, TestPausedPersister.)
func TestZombies(t *testing.T) {
	w := serving(t)
	first := w.fleet()
	conn := w.dial()
	slow := small()
	slow.Pause = 50 * time.Millisecond
	load := w.publish(faulttest.NewLedger(slow))
	load.acks(50)
	gc := w.start("gc", "-every", "1s", "-allow", "share", "-log-level", "info")
	gc.Await("gc cycle")
	w.persister() // the first has every partition
	first.Signal(syscall.SIGSTOP)
	gc.Signal(syscall.SIGSTOP)
	pause := 22 * time.Second // ack wait is 20 s, a pin's life 8 s
	if long {
		pause = 5 * time.Minute
	}
	lasts(pause)
	load.stop()
	settle, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.Do(t, faulttest.Settle(settle, conn))
	load = w.publish(load.Ledger)
	first.Signal(syscall.SIGCONT)
	gc.Signal(syscall.SIGCONT)
	load.acks(100)
	load.check()
	if first.Ended() || gc.Ended() {
		t.Error("they ended")
	}
}

// TestFailbackInALinkedBatch: a persister is stopped (SIGSTOP), another one takes over and applies a part of what one call published,
// the stopped one goes on, and the other ends. The first has a head in memory from before, and gets the rest: events that are linked
// to ones that it never saw.
func TestFailbackInALinkedBatch(t *testing.T) {
	w := serving(t)
	first := w.persister()
	c := client.New(w.dial())
	id := events.Thread{Session: "linked", Name: events.MainThread}
	pub := c.Publisher(client.PublisherConfig{Producer: "p"})
	const before, entries = 10, 600
	entry := func(n int) client.Entry { // two of them do not share a message
		body := fmt.Appendf(nil, `{"type":"message","id":"e%05d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"%s"}}`, n, strings.Repeat("x", 40_000))
		return client.Entry{Thread: id, Dialect: "omp", Body: body}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for n := range before {
		must.Get(pub.Publish(ctx, entry(n)))(t)
	}
	must.Do(t, c.Thread(id).Await(ctx, "p", 0, before))
	second := w.start("persister", "-batch-events", "2") // so that it can be stopped in the middle
	second.Await("persister runs")
	first.Signal(syscall.SIGSTOP)
	var batch []client.Entry
	for n := before; n < entries; n++ {
		batch = append(batch, entry(n))
	}
	must.Get(pub.Publish(ctx, batch...))(t)
	applied := func() int64 {
		t.Helper()
		h := must.Get(c.Thread(id).Head(ctx))(t)
		return h.Entries
	}
	w.eventually("the second takes over", func() error {
		if n := applied(); n < before+20 {
			return fmt.Errorf("%d entries", n)
		}
		return nil
	})
	if n := applied(); n >= entries {
		t.Fatalf("all %d entries were applied before the first goes on: this tries nothing", n)
	}
	first.Signal(syscall.SIGCONT)
	second.Stop()
	if err := c.Thread(id).Await(ctx, "p", 0, entries); err != nil {
		t.Errorf("%v\n%s", err, first.Log())
	}
	var out bytes.Buffer
	if n, err := c.Thread(id).Export(ctx, &out); err != nil || n != entries {
		t.Errorf("%d entries, %v, want %d", n, err, entries)
	}
	for n, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if want := fmt.Sprintf(`"id":"e%05d"`, n); !strings.Contains(line, want) {
			t.Fatalf("line %d = %.60s, want %s", n, line, want)
		}
	}
	if letters, err := c.Session(id.Session).DeadLetters(ctx); err != nil || len(letters) > 0 {
		t.Errorf("dead letters %+v, %v, want none", letters, err)
	}
	w.must("spool", "fsck", "--items")
}

// TestIngestKilled kills the HTTP side while a program posts, which posts again what it got no answer for.
func TestIngestKilled(t *testing.T) {
	w := serving(t)
	w.persister()
	ingest := w.start("ingest", "-http", w.http)
	ingest.Await("ingest listens")
	posted := make(chan error, 1)
	const each = 20
	rounds, kills := 60, 5
	if long {
		rounds, kills = 10_000, 1000
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kills)*patience)
	defer cancel()
	go func() {
		var err error
		for n := 0; n < rounds && ctx.Err() == nil; {
			if err = post(ctx, w.http, n*each, each); err == nil {
				n++
				continue
			}
			lasts(20 * time.Millisecond)
		}
		posted <- err
	}()
	for range kills {
		moment(300 * time.Millisecond)
		ingest.Kill()
		ingest = w.start("ingest", "-http", w.http)
		ingest.Await("ingest listens")
	}
	must.Do(t, <-posted)
	a := &agent{c: client.New(w.dial()), thread: events.Thread{Session: "posted", Name: events.MainThread}}
	must.Do(t, a.c.Thread(a.thread).Await(ctx, "poster", 0, uint64(rounds*each)))
	if n, err := a.read(ctx); err != nil || n != rounds*each {
		t.Errorf("%d entries, %v, want %d", n, err, rounds*each)
	}
	w.must("spool", "fsck")
	w.eventually("ready", w.ready)
}

// post posts numbers, behind so many.
func post(ctx context.Context, to string, from, count int) error {
	var b bytes.Buffer
	for i := range count {
		fmt.Fprintf(&b, `{"content":[{"type":"text","text":"%d"}]}`+"\n", from+i+1)
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+to+"/v1/sessions/posted/threads/main/entries?dialect=item", &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Spool-Producer", "poster")
	req.Header.Set("Spool-Seq", fmt.Sprint(from+1))
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || strings.Count(string(body), `"ok":true`) != count) {
		err = fmt.Errorf("POST = %s %.300s", answer.Status, body)
	}
	return err
}

// TestImportKilled kills an import again and again, each time further on. Every line is there once in the end.
func TestImportKilled(t *testing.T) {
	w := serving(t)
	w.fleet()
	const id = "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15"
	file := filepath.Join(w.dir, "rollout-2026-11-20T09-15-00-"+id+".jsonl")
	lines := 4000
	var b strings.Builder
	for n := range lines {
		line := map[string]any{"timestamp": time.UnixMilli(1_790_000_000_000 + int64(n)).UTC().Format("2006-01-02T15:04:05.000Z"),
			"type": "response_item", "payload": map[string]any{
				"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": fmt.Sprint("line ", n)}}}}
		if n == 0 {
			line["type"], line["payload"] = "session_meta",
				map[string]any{"id": id, "cwd": "/", "originator": "codex_cli_rs", "cli_version": "0.169.0", "timestamp": line["timestamp"]}
		}
		text := must.Get(json.Marshal(line))(t)
		b.Write(append(text, '\n'))
	}
	must.Do(t, os.WriteFile(file, []byte(b.String()), 0o600))
	kills := often(8, 500)
	for range kills {
		p := w.start("spool", "import", "--nats", "nats://"+w.nats, file)
		moment(250 * time.Millisecond)
		p.Kill()
	}
	w.must("spool", "import", file)
	if got := w.must("spool", "import", "--json", file); !strings.Contains(got, `"published":0`) {
		t.Errorf("a last import publishes something: %s", got)
	}
	out := filepath.Join(w.dir, "exported.jsonl")
	w.must("spool", "export", id, "-o", out)
	if got, err := os.ReadFile(out); err != nil || string(got) != b.String() {
		t.Errorf("exported %d bytes, %v, want the %d of the file", len(got), err, b.Len())
	}
	w.must("spool", "fsck")
	w.eventually("ready", w.ready)
}

// TestBackupKilled kills backups under load. What they leave does not harm the one that ends, and what that one is restored to
// has every entry that was acked before it.
func TestBackupKilled(t *testing.T) {
	w := serving(t)
	w.fleet()
	load := w.publish(faulttest.NewLedger(small()))
	load.acks(200)
	dir := filepath.Join(w.dir, "backup")
	kills := often(5, 300)
	for range kills {
		p := w.start("spool", "backup", "--nats", "nats://"+w.nats, dir)
		moment(200 * time.Millisecond)
		p.Kill()
		load.acks(20)
	}
	load.stop()
	w.must("spool", "backup", dir)
	w.must("spool", "backup", "verify", dir)
	w.check(load.Ledger)
	other := newWorld(t)
	other.serve()
	other.must("spool", "restore", dir)
	other.fleet()
	other.check(load.Ledger)
	other.eventually("ready", other.ready)
}
