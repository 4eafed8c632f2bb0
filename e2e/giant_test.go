package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// giant is an entry that nobody has to hold in memory: block, again and again, between head and tail.
type giant struct {
	head, tail string
	block      []byte
	size       int64 // of what is between
}

const giantHead = `{"type":"message","id":"g1","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[`

// giantText is a user message of that many bytes of text.
func giantText(size int64) giant {
	block := []byte(strings.Repeat("All work and no play makes a long entry. é 🍊 \\n", 1000))
	return giant{giantHead + `{"type":"text","text":"`, `"}]}}`, block, size / int64(len(block)) * int64(len(block))}
}

// giantImage is a user message with an image of that many bytes, three quarters of the base64.
func giantImage(size int64) giant {
	block := []byte(strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", 1000))
	return giant{giantHead + `{"type":"image","mimeType":"image/png","data":"`, `"}]}}`, block, size / 3 * 4}
}

func (g giant) open() io.Reader {
	return io.MultiReader(strings.NewReader(g.head), io.LimitReader(&cycle{block: g.block}, g.size), strings.NewReader(g.tail))
}

// cycle reads a block again and again.
type cycle struct {
	block []byte
	at    int
}

func (c *cycle) Read(p []byte) (int, error) {
	n := copy(p, c.block[c.at:])
	c.at = (c.at + n) % len(c.block)
	return n, nil
}

// sum hashes an entry and the newline behind it.
func (g giant) sum() [sha256.Size]byte {
	h := sha256.New()
	_, _ = io.Copy(h, io.MultiReader(g.open(), strings.NewReader("\n")))
	return [sha256.Size]byte(h.Sum(nil))
}

// TestGiantEntries: an entry of any size goes through every process in bounded memory (DESIGN 13.9), and comes out byte for
// byte. With SPOOL_TEST_GIANT=1 it has a gigabyte, else 40 MB.
func TestGiantEntries(t *testing.T) {
	text, image, limit, soft := int64(40_000_000), int64(16_000_000), int64(96<<20), "64MiB"
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		text, image, limit, soft = 1_000_000_000, 300_000_000, 256<<20, "200MiB"
	}
	w := newWorld(t)
	lean := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Env = append(cmd.Env, "GOMEMLIMIT="+soft)
		return cmd
	}
	natsd := w.start(w.command("natsd", "-data", filepath.Join(w.home, "data"), "-listen", w.nats))
	natsd.Await("ready")
	persister := w.start(lean(w.command("persister", "-nats", w.url())))
	persister.Await("persister runs")
	ingest := w.start(lean(w.command("ingest", "-nats", w.url(), "-http", w.http)))
	ingest.Await("ingest listens")
	conn := w.dial()

	for i, c := range []struct {
		name  string
		entry giant
		send  func(t *testing.T, session string, g giant)
	}{
		{"text over HTTP", giantText(text), w.sendHTTP},
		{"image over HTTP", giantImage(image), w.sendHTTP},
		{"text from a pipe", giantText(text), func(t *testing.T, session string, g giant) {
			cmd := lean(w.command("spool", "publish", "--session", session, "--dialect", "omp", "-"))
			cmd.Stdin = io.MultiReader(g.open(), strings.NewReader("\n"))
			runWithin(t, cmd, limit)
		}},
	} {
		session := fmt.Sprintf("giant%d", i)
		start := time.Now()
		c.send(t, session, c.entry)
		sent := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		head := awaitEntries(ctx, t, client.New(conn), events.Thread{Session: session, Name: "main"}, 1)
		cancel()
		stored := time.Now()
		must.Same(t, head.N, 1, "%s: %d items, want %d", c.name)
		h := sha256.New()
		export := lean(w.command("spool", "export", session))
		export.Stdout = h
		runWithin(t, export, limit)
		if got := [sha256.Size]byte(h.Sum(nil)); got != c.entry.sum() {
			t.Errorf("%s: what is exported is not what was published", c.name)
		}
		t.Logf("%s: %d bytes; sent in %v, applied after %v more, exported in %v", c.name, c.entry.size, sent.Sub(start).Round(time.Millisecond),
			stored.Sub(sent).Round(time.Millisecond), time.Since(stored).Round(time.Millisecond))
	}
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		persister = w.killGiant(t, lean, persister, giantText(text))
	}
	w.readGiant(t, lean, "giant0", giantText(text), limit)
	w.importGiant(t, lean, giantText(text), limit)
	w.catGiant(t, lean, "giant1", limit)
	w.checkNoDead(conn)
	for name, p := range map[string]*proc.Process{"persister": persister, "ingest": ingest} {
		peak := p.Peak()
		t.Logf("peak of %s: %d MiB", name, peak>>20)
		if peak > limit {
			t.Errorf("%s had %d bytes in memory, want at most %d", name, peak, limit)
		}
	}
	t.Logf("peak of the NATS server: %d MiB", natsd.Peak()>>20)
}

func (w *world) sendHTTP(t *testing.T, session string, g giant) {
	t.Helper()
	resp := must.Get(http.Post("http://"+w.http+"/v1/sessions/"+session+"/threads/main/entries?dialect=omp", "application/json", g.open()))(t)
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("POST = %s %s", resp.Status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// killGiant kills the persister while it reads a giant, and gives the one that takes over.
func (w *world) killGiant(t *testing.T, lean func(*exec.Cmd) *exec.Cmd, persister *proc.Process, g giant) *proc.Process {
	t.Helper()
	w.sendHTTP(t, "killed", g)
	for range 3 {
		time.Sleep(3 * time.Second) // the moment of the kill is the test's input
		persister.Kill()
		persister = w.start(lean(w.command("persister", "-nats", w.url())))
		persister.Await("persister runs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	awaitEntries(ctx, t, client.New(w.dial()), events.Thread{Session: "killed", Name: "main"}, 1)
	h := sha256.New()
	export := lean(w.command("spool", "export", "killed"))
	export.Stdout = h
	if err := export.Run(); err != nil || [sha256.Size]byte(h.Sum(nil)) != g.sum() {
		t.Errorf("after three kills: export = %v, and not what was published", err)
	}
	return persister
}

// readGiant reads the log of a thread with a giant entry, from the command line and over HTTP (SPEC I5).
func (w *world) readGiant(t *testing.T, lean func(*exec.Cmd) *exec.Cmd, session string, g giant, limit int64) {
	t.Helper()
	address := session + "/threads/main/logs/thread.log"
	log := &logOf{block: g.block}
	cmd := lean(w.command("spool", "read", address))
	cmd.Stdout = log
	runWithin(t, cmd, limit)
	resp := must.Get(http.Get("http://" + w.http + "/v1/sessions/" + address))(t)
	defer resp.Body.Close()
	other := &logOf{block: g.block}
	if _, err := io.Copy(other, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s = %s, %v", address, resp.Status, err)
	}
	http.DefaultClient.CloseIdleConnections()
	for from, l := range map[string]*logOf{"spool read": log, "HTTP": other} {
		if l.bad != "" || l.text != g.size || !strings.HasPrefix(l.head, `{"id":"`) || l.tail != `"}]}`+"\n" {
			t.Errorf("%s: %d bytes of text between %.300q and %.300q, want %d of the entry's in one item; %s", from, l.text, l.head,
				l.tail, g.size, l.bad)
		}
	}
}

// logOf is a thread's log of one item: head, then block again and again, then tail.
type logOf struct {
	block      []byte
	head, tail string
	text       int64 // bytes of the blocks
	held       []byte
	bad        string
}

func (l *logOf) Write(b []byte) (int, error) {
	l.held = append(l.held, b...)
	if l.text == 0 {
		at := bytes.Index(l.held, l.block)
		if at < 0 {
			return len(b), nil
		}
		l.head, l.held = string(l.held[:at]), l.held[at:]
	}
	for len(l.held) >= len(l.block) {
		if !bytes.HasPrefix(l.held, l.block) {
			l.bad = fmt.Sprintf("other bytes after %d of the text", l.text)
			break
		}
		l.text += int64(len(l.block))
		l.held = l.held[len(l.block):]
	}
	l.tail = string(l.held[:min(len(l.held), 1000)])
	return len(b), nil
}

// importGiant imports a file with a giant line, twice, and exports it.
func (w *world) importGiant(t *testing.T, lean func(*exec.Cmd) *exec.Cmd, g giant, limit int64) {
	t.Helper()
	header := `{"type":"session","version":3,"id":"imported","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/home/e2e"}` + "\n"
	want := sha256.New()
	path := filepath.Join(w.home, "giant.jsonl")
	f := must.Get(os.Create(path))(t)
	must.Get(io.Copy(io.MultiWriter(f, want), io.MultiReader(strings.NewReader(header), g.open(), strings.NewReader("\n"))))(t)
	must.Do(t, f.Close())
	for _, published := range []string{`"published":2`, `"published":0`} {
		var out bytes.Buffer
		cmd := lean(w.command("spool", "import", "--json", path))
		cmd.Stdout = &out
		runWithin(t, cmd, limit)
		if !strings.Contains(out.String(), published) {
			t.Errorf("import = %s, want %s", out.String(), published)
		}
	}
	got := sha256.New()
	cmd := lean(w.command("spool", "export", "imported"))
	cmd.Stdout = got
	runWithin(t, cmd, limit)
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("export of the import is not the file")
	}
}

// catGiant reads the image of a session by its ref.
func (w *world) catGiant(t *testing.T, lean func(*exec.Cmd) *exec.Cmd, session string, limit int64) {
	t.Helper()
	stored := w.run("spool", "export", "--stored", session)
	_, ref, ok := strings.Cut(stored, "blob:sha256:")
	if !ok || len(ref) < 2*sha256.Size {
		t.Fatalf("stored entry = %.300s, want a blob in it", stored)
	}
	ref = ref[:2*sha256.Size]
	h := sha256.New()
	cmd := lean(w.command("spool", "cat", "blob:sha256:"+ref))
	cmd.Stdout = h
	runWithin(t, cmd, limit)
	if got := hex.EncodeToString(h.Sum(nil)); got != ref {
		t.Errorf("cat %s gives bytes with the hash %s", ref, got)
	}
}

// runWithin runs a command to its end, in so many bytes of memory.
func runWithin(t *testing.T, cmd *exec.Cmd, limit int64) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v = %v\n%s", cmd.Args, err, stderr.String())
	}
	use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage")
	}
	t.Logf("peak of %s %s: %d MiB", filepath.Base(cmd.Path), cmd.Args[1], use.Maxrss>>10)
	if use.Maxrss<<10 > limit {
		t.Errorf("%v had %d bytes in memory, want at most %d", cmd.Args, use.Maxrss<<10, limit)
	}
}

// awaitEntries returns the head of a thread once it has that many entries.
func awaitEntries(ctx context.Context, t *testing.T, c *client.Client, th events.Thread, n int64) threads.Head {
	t.Helper()
	for {
		head, err := c.Thread(th).Head(ctx)
		if err == nil && head.Entries >= n {
			return head
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %d entries, %v, want %d", th, head.Entries, err, n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
