package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
)

// dial connects the test itself.
func (w *world) dial() *natsio.Conn {
	w.t.Helper()
	conn := must.Get(natsio.Dial(w.t.Context(), natsio.Config{URL: w.url()}))(w.t)
	w.t.Cleanup(conn.Close)
	return conn
}

// checkNoDead: nothing went to the dead letters.
func (w *world) checkNoDead(conn *natsio.Conn) {
	w.t.Helper()
	usage := must.Get(natsadmin.New(conn).Usage(w.t.Context()))(w.t)
	for _, u := range usage {
		if u.Stream == events.DeadStream && u.Messages != 0 {
			w.t.Errorf("%d dead letters, want none: %s", u.Messages, w.dead(conn))
		}
	}
}

// dead tells why the first of them is there.
func (w *world) dead(conn *natsio.Conn) string {
	s, err := conn.JetStream().Stream(w.t.Context(), events.DeadStream)
	if err != nil {
		return err.Error()
	}
	m, err := s.GetMsg(w.t.Context(), 1)
	if err != nil {
		return err.Error()
	}
	return m.Header.Get(natsio.HeaderReason)
}

// TestKilledWhileImporting kills spool up again and again while transcripts that grow are imported. In the end every line is
// there once.
func TestKilledWhileImporting(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	dir := filepath.Join(w.home, "transcripts")
	agents := harnesses(t, dir)
	const kills, lines = 6, 1200
	end := time.Now().Add(60 * time.Second)
	up := w.up()
	for kill := range kills {
		for _, a := range agents {
			a.grow(t, lines, false)
		}
		importing := w.start(w.command("spool", "import", dir))
		moment := time.Duration(random.Int64N(int64(450 * time.Millisecond)))
		select { // the moment of the kill is the test's input
		case <-time.After(moment):
		case <-importing.Done():
		}
		done := "was going on"
		select {
		case <-importing.Done():
			done = "had ended"
		default:
		}
		up.Kill()
		up = w.up()
		code := importing.Wait()
		t.Logf("kill %d after %v: the import %s; exit code %d", kill+1, moment, done, code)
		if kill >= 4 && time.Now().After(end) {
			break
		}
	}
	for i, a := range agents {
		a.grow(t, 3, i == 2)
	}
	files := w.imports(dir)
	w.checkItems()
	threads := w.threads()
	if len(files) != len(agents) || len(threads) != len(agents) {
		t.Fatalf("%d files in %d threads, want %d", len(files), len(threads), len(agents))
	}
	for _, f := range files {
		w.checkExport(f)
		want := int64(f.Lines)
		if open(t, f.File) {
			want++ // and the state that says so
		}
		must.Same(t, threads[f.id()].Entries, want, "%s has %d entries, want %d", f.id())
	}
	for _, f := range w.imports(dir) {
		must.Same(t, f.Published, 0, "a last import of %s publishes %d lines, want %d", f.File)
	}
	w.checkNoDead(w.dial())
	must.Same(t, up.Stop(), 0, "spool up after SIGTERM: exit code %d, want %d")
}

func open(t *testing.T, file string) bool {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	return !strings.HasSuffix(string(b), "\n")
}

// TestTakeover kills one of two persisters that share a server. The other one takes over what it had, in order.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := w.start(w.command("natsd", "-data", filepath.Join(w.home, "data"), "-listen", w.nats))
	server.Await("ready")
	persister := func() *proc.Process {
		p := w.start(w.command("persister"))
		p.Await("persister runs")
		return p
	}
	first := persister()
	w.asked() // it has every partition
	second := persister()
	ingest := w.start(w.command("ingest", "-http", w.http))
	ingest.Await("ingest listens")

	const sessions, rounds, each = 12, 6, 100
	post := func(round int) {
		for s := range sessions {
			var b strings.Builder
			for i := range each {
				fmt.Fprintf(&b, `{"content":[{"type":"text","text":"%d"}]}`+"\n", round*each+i)
			}
			status, answer := w.post(fmt.Sprintf("/v1/sessions/s%d/threads/main/entries?dialect=item", s), "application/x-ndjson", b.String())
			if status != http.StatusOK || strings.Count(answer, `"ok":true`) != each {
				t.Fatalf("POST = %d %.300s, want %d times ok", status, answer, each)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl := client.New(w.dial())
	for round := range rounds {
		post(round)
		if round == rounds/2 {
			first.Kill()
		}
	}
	killed := time.Now()
	for s := range sessions {
		id := events.Thread{Session: fmt.Sprintf("s%d", s), Name: events.MainThread}
		n := int64(0)
		for it := range must.All(t, cl.Subscribe(ctx, client.Filter{Session: id.Session}, client.Position{All: true})) {
			if want := fmt.Sprint(n); it.N != n+1 || it.Text() != want {
				t.Fatalf("%s: item %d %q, want %d %q", id, it.N, it.Text(), n+1, want)
			}
			if n++; n == rounds*each {
				break
			}
		}
		if n < rounds*each {
			t.Errorf("%s: %d items, want %d", id, n, rounds*each)
		}
		if head, err := cl.Thread(id).Head(t.Context()); err != nil || head.Entries != n || head.N != n {
			t.Errorf("%s: head has %d entries, %d items, %v, want %d", id, head.Entries, head.N, err, n)
		}
	}
	if took := time.Since(killed); took > 40*time.Second {
		t.Errorf("everything was taken over after %v, want 40s at most", took)
	} else {
		t.Logf("everything was taken over after %v", took)
	}
	w.checkNoDead(w.dial())
	for name, p := range map[string]*proc.Process{"ingest": ingest, "persister": second, "natsd": server} {
		must.Same(t, p.Stop(), 0, "%s after SIGTERM: exit code %d, want %d", name)
	}
}

// asked waits until a persister has every partition.
func (w *world) asked() {
	w.t.Helper()
	conn := w.dial()
	late := time.After(30 * time.Second)
	for {
		b := must.Get(conn.Events().Backlog(w.t.Context()))(w.t)
		if len(b.Unserved) == 0 {
			return
		}
		select {
		case <-late:
			w.t.Fatalf("nobody serves %v", b.Unserved)
		default:
		}
	}
}
