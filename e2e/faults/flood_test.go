//go:build linux

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Bounds of a store with many sessions. Each is about twice what 20,000 and 200,000 sessions took (docs/faults.md).
const (
	floodBase       = 96 << 20  // bytes that a process has without any session
	floodPersister  = 6 << 10   // bytes of a persister, a thread that it has in memory
	floodAtMost     = 384 << 20 // and however many there are: its queue and its heads, and as much again that is garbage
	floodEachListed = 12 << 10  // bytes of whoever lists or marks all, a session
)

// TestFlood makes very many sessions of one entry. What looks at all of them takes memory by their number, within
// bounds; a page of a listing has no more than was asked for, and pages have each session once.
func TestFlood(t *testing.T) {
	row(t)
	sessions := 10_000
	if long {
		sessions = 1_000_000
	}
	if n, err := strconv.Atoi(os.Getenv("SPOOL_FLOOD")); err == nil {
		sessions = n
	}
	w := newWorld(t)
	w.serve()
	persister := w.persister()
	ingest := w.start("ingest", "-http", w.http)
	ingest.Await("ingest listens")
	began := time.Now()
	w.flood(sessions)
	settle, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	must.Do(t, faulttest.Settle(settle, w.dial()))
	t.Logf("%d sessions in %v", sessions, time.Since(began).Round(time.Millisecond))
	bound := func(who string, peak int64, most int) {
		t.Helper()
		t.Logf("%s: %d MiB", who, peak>>20)
		if most := int64(floodBase + most); peak > most {
			t.Errorf("%s had %d MiB, want at most %d", who, peak>>20, most>>20)
		}
	}
	bound("persister", persister.Peak(), min(sessions*floodPersister, floodAtMost))
	for _, c := range [][]string{
		{"spool", "doctor"}, {"gc", "-once", "-dry-run"},
		{"spool", "session", "ls", "--all", "--unanswered", "--json"}, {"spool", "fsck"},
	} {
		cmd, began := w.command(c[0], c[1:]...), time.Now()
		out, said, code := proc.Run(t, cmd, time.Duration(max(1, sessions/20_000))*patience)
		took := time.Since(began).Round(time.Millisecond)
		if code != 0 && c[1] != "doctor" {
			t.Errorf("%v: exit code %d\n%.2000s%s", c, code, out, said)
		}
		bound(fmt.Sprintf("%v, %v, %d bytes", c, took, len(out)), proc.PeakOf(cmd), sessions*floodEachListed)
	}
	w.page(sessions)
	bound("ingest", ingest.Peak(), sessions*floodEachListed)
	bound("persister", persister.Peak(), min(sessions*floodPersister, floodAtMost))
	w.eventually("ready", w.ready)
}

// flood publishes an entry to each of so many sessions.
func (w *world) flood(sessions int) {
	const publishers, batch = 8, 500
	next := make(chan int)
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			pub := client.New(w.dial()).Publisher(client.PublisherConfig{})
			for from := range next {
				var all []client.Entry
				for n := from; n < min(from+batch, sessions); n++ {
					thread := events.Thread{Session: fmt.Sprintf("flood-%07d", n), Name: events.MainThread}
					all = append(all, client.Entry{Thread: thread, Dialect: "item",
						Body: fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d"}]}`, n)})
				}
				if _, err := pub.Publish(w.t.Context(), all...); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for from := 0; from < sessions; from += batch {
		next <- from
	}
	close(next)
	group.Wait()
}

// page reads a listing of all sessions, or of the first 20,000, page by page.
func (w *world) page(sessions int) {
	w.t.Helper()
	const most = 1000
	seen, after := map[string]bool{}, ""
	for range min(sessions, 20_000)/most + 1 {
		began := time.Now()
		get, err := http.Get(fmt.Sprintf("http://%s/v1/sessions?unanswered=1&limit=%d&after=%s", w.http, most, after))
		must.Do(w.t, err)
		var page struct {
			Sessions []struct{ ID string }
			Next     string
		}
		err = json.NewDecoder(get.Body).Decode(&page)
		_ = get.Body.Close()
		if err != nil || get.StatusCode != http.StatusOK || len(page.Sessions) > most {
			w.t.Fatalf("a page: %s, %v, %d sessions, want %d at most", get.Status, err, len(page.Sessions), most)
		}
		if after == "" {
			w.t.Logf("the first page of %d: %v", most, time.Since(began).Round(time.Millisecond))
		}
		for _, s := range page.Sessions {
			if seen[s.ID] {
				w.t.Errorf("session %s is on two pages", s.ID)
			}
			seen[s.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) < min(sessions, 20_000) {
		w.t.Errorf("pages have %d sessions, want %d", len(seen), sessions)
	}
}
