package hostile_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"spool/internal/must"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// repeated reads head, so many bytes of block after block, and tail.
func repeated(head, block, tail string, size int64) io.Reader {
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&cycle{text: block},
		size/int64(len(block))*int64(len(block))), strings.NewReader(tail))
}

// cycle reads a text again and again.
type cycle struct {
	text string
	at   int
}

func (c *cycle) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], c.text[c.at:])
		n, c.at = n+m, (c.at+m)%len(c.text)
	}
	return n, nil
}

// write makes a file, compressed when its name says so.
func (w *world) write(name string, r io.Reader) string {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	f := must.Get(os.Create(path))(w.t)
	defer f.Close()
	var out io.Writer = f
	if strings.HasSuffix(name, ".zst") {
		z := must.Get(zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)))(w.t)
		defer z.Close()
		out = z
	}
	must.Get(io.Copy(out, r))(w.t)
	return path
}

// TestHostileMemory: with GOMEMLIMIT=256MiB no process ever has more than 320 MiB, whatever it is sent: entries, outputs, lines of
// transcripts and what is behind compressed files. With SPOOL_TEST_GIANT=1 they have 300 MB, else 12, which is
// more than is held in memory (persist.Config.StreamBytes).
func TestHostileMemory(t *testing.T) {
	size, some := int64(12_000_000), int64(12_000_000)
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		size, some = 300_000_000, 60_000_000 // less than an entry may have whose strings are all short
	}
	block := strings.Repeat("a long story. é 🍊 ", 1000)
	w, daemons := newWorld(t, "10m", "-secrets", "mask") // a cycle has an upload that is under way begin again
	for name, c := range map[string]struct {
		dialect string
		body    io.Reader
		status  int
	}{
		"one long string":      {"omp", repeated(`{"type":"message","id":"a","message":{"role":"user","content":"`, block, `"}}`, size), 202},
		"many small values":    {"claude", repeated(`{"type":"user","a":[1`, strings.Repeat(",1", 1000), `]}`, some), 202},
		"many members":         {"claude", repeated(`{"type":"user"`, strings.Repeat(`,"k":{}`, 1000), `}`, some), 202},
		"many strings":         {"claude", repeated(`{"type":"user","a":["x"`, strings.Repeat(`,"`+block+`"`, 4), `]}`, size), 202},
		"one long name":        {"claude", repeated(`{"type":"user","`, block, `":1}`, size), 202},
		"one long number":      {"claude", repeated(`{"type":"user","n":1`, strings.Repeat("0", 1000), `}`, size), 202},
		"escapes":              {"claude", repeated(`{"type":"user","a":"`, strings.Repeat(`\u0041\ud83d\ude00`, 1000), `"}`, size), 202},
		"brackets":             {"claude", repeated(``, strings.Repeat("[", 1000), ``, size), 400},
		"no end":               {"claude", repeated(`{"a":"`, block, ``, size), 400},
		"no JSON":              {"raw", repeated(``, block, ``, size), 202},
		"secrets all the way":  {"claude", repeated(`{"type":"user","a":"`, "AKIA"+"Q3EGRZ7MXL2TVB5D ", `"}`, size), 202},
		"an image without end": {"omp", repeated(`{"type":"message","id":"b","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":"`, strings.Repeat("iVBORw0K", 1000), `"}]}}`, size), 202},
	} {
		status, answer := w.post("/v1/sessions/m/threads/"+strings.ReplaceAll(name, " ", "-")+"/entries?dialect="+c.dialect,
			"application/json", c.body)
		t.Logf("%s: %d %.100s", name, status, strings.TrimSpace(answer))
		if status != c.status {
			t.Errorf("%s: %d %.300s, want %d", name, status, answer, c.status)
		}
	}
	for name, c := range map[string]string{
		"long-line": "head -c " + strconv.FormatInt(size, 10) + ` /dev/zero | tr '\0' x`,
		"lines":     "yes some output of a tool | head -c " + strconv.FormatInt(size, 10),
		"zeros":     "head -c " + strconv.FormatInt(size/4, 10) + " /dev/zero",
	} {
		if _, errs, code := w.try(nil, "spool", "exec", "--session", "out", "--thread", name, "--", "sh", "-c", c); code != 0 {
			t.Errorf("spool exec %s: exit code %d\n%.500s", name, code, errs)
		}
	}
	header := `{"type":"session","version":3,"id":"imported","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/home/e2e"}` + "\n"
	for name, c := range map[string]struct {
		content io.Reader
		fails   string // what the import says then
	}{
		"bomb.jsonl.zst":   {repeated(header, "\x00", "\n", 1<<30), "holds more than it should"},
		"lines.jsonl.zst":  {repeated(header, `{"type":"custom","a":"`+block[:1000]+`"}`+"\n", "", 1<<30), "holds more than it should"},
		"line.jsonl":       {repeated(header+`{"type":"message","id":"c","message":{"role":"user","content":"`, block, `"}}`+"\n", size), ""},
		"no-json.jsonl":    {repeated(header, block, "\n", size), ""},
		"brackets.jsonl":   {repeated(header, strings.Repeat("[", 1000), "\n", size), ""},
		"no-newline.jsonl": {repeated(header, block, "", size), ""},
		"no-header.jsonl":  {repeated("", block, "\n", size), ""},
		"compressed.jsonl.zst": {repeated(strings.ReplaceAll(header, "imported", "packed"), `{"type":"custom","a":"`+block+`"}`+
			"\n", "", 12_000_000), ""},
	} {
		out, errs, code := w.try(nil, "spool", "import", "--json", w.write(name, c.content))
		t.Logf("import %s: exit code %d, %.200s %.200s", name, code, out, errs)
		if (code != 0) != (c.fails != "") || !strings.Contains(string(out)+errs, c.fails) {
			t.Errorf("import of %s: exit code %d\n%.300s\n%.500s", name, code, out, errs)
		}
		_ = os.Remove(filepath.Join(w.home, name))
	}
	for i, path := range []string{"/v1/sessions/m/threads", "/v1/sessions/m/threads/one-long-string/items",
		"/v1/sessions/m/threads/one-long-string/logs/thread.log", "/v1/sessions/out/threads/lines/items"} {
		resp := must.Get(http.Get("http://" + w.http + path))(t)
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d, %d bytes, %v", path, resp.StatusCode, n, err)
		}
		if i == 0 {
			http.DefaultClient.CloseIdleConnections()
		}
	}
	w.settle()
	for _, l := range w.letters() {
		t.Errorf("dead letter of %s, event %d: %s; want that what is no JSON is refused where it comes in", l.Session, l.Seq, l.Reason)
	}
	w.run("gc", "-once")
	for _, p := range daemons {
		checkAlive(t, p)
	}
}
