package e2e_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// TestProgramsOfSpool: persister, ingest and gc are commands of spool, which take, say and give what the programs do.
func TestProgramsOfSpool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := filepath.Join(w.home, "wrong.toml")
	must.Do(t, os.WriteFile(config, []byte("[persister]\nlame = 1\n[ingest]\nlame = 1\n[gc]\nlame = 1\n"), 0o600))
	for _, name := range []string{"persister", "ingest", "gc"} {
		for _, line := range []string{
			"--help", "-h", "--version", "-nosuch", "--log-level loud", "--log-format=xml", "--timeout soon", "behind", "--config nosuch.toml",
			"--config " + config, "--nats http://127.0.0.1:1", "--nats nats://127.0.0.1:1", "--context nosuch", "--creds nosuch", "-timeout 100ms",
		} {
			args := strings.Fields(line)
			if name == "gc" { // what says that it acts
				args = slices.Insert(args, 0, "--once")
			}
			out, said, code := w.try("", name, args...)
			of := func(text string) string { return strings.ReplaceAll(text, "spool "+name, name) }
			if o, s, c := w.try("", "spool", append([]string{name}, args...)...); of(o) != of(out) || of(s) != of(said) || c != code {
				t.Errorf("spool %s %s = %d %q %q, want %d %q %q", name, line, c, o, s, code, out, said)
			}
			if answers := line == "--help" || line == "-h" || line == "--version"; answers != (code == 0) || answers == (out == "") {
				t.Errorf("%s %s = %d %q", name, line, code, out)
			}
		}
	}
	if out := w.run("spool", "help", "persister"); out != w.run("spool", "persister", "--help") {
		t.Errorf("spool help persister = %q", out)
	}
}

// TestSides: a system of the one program spool, and every HTTP side of it: what each answers, and that each says that it is there.
func TestSides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.command("natsd", "-data", filepath.Join(w.home, "data"), "-listen", w.nats)).Await("ready")
	persister := w.start(w.command("spool", "persister"))
	persister.Await("persister runs")
	collector := w.start(w.command("spool", "gc", "--every", "1h", "--json"))
	sides := map[string]string{}
	start := func(ready string, name ...string) {
		addr := proc.Address(t)
		const origin = "https://page.example"
		p := w.start(w.command(name[0], append(name[1:], "--http", addr, "--cors-origin", origin, "--session-threads", "3")...))
		p.Await(ready)
		sides[name[len(name)-1]] = "http://" + addr
	}
	start("Spool is up.", "spool", "up")
	start("The page is at", "spool", "serve")
	start("ingest listens", "spool", "ingest")
	w.http = strings.TrimPrefix(sides["ingest"], "http://")
	if status, said := w.post("/v1/sessions/s/threads/main/entries?dialect=raw", "application/json", `{"said":"plum"}`); status >= 300 {
		t.Fatalf("POST an entry to spool ingest: %d %s", status, said)
	}
	w.shows("entries   1,")
	collector.Await(`"applied":true`)

	const none = 404
	for _, c := range []struct {
		method, path      string
		up, serve, ingest int
	}{
		{"GET", "/", 200, 200, none},

		{"GET", "/healthz", 200, 200, 200},
		{"GET", "/readyz", 200, 200, 200},
		{"GET", "/metrics", 200, 200, 200},
		{"GET", "/v1/openapi.json", 200, 200, 200},
		{"GET", "/v1/sessions", 200, 200, 200},
		{"GET", "/v1/sessions/nosuch", none, none, none},
		{"GET", "/v1/sessions/s/threads/main/items", 200, 200, 200},
		{"OPTIONS", "/v1/sessions", 204, 204, 204},
		{"GET", "/v1/history", 200, 200, none},
		{"GET", "/v1/search?q=plum", 200, 200, none},
		{"GET", "/v1/stats", 200, 200, none},
		{"PUT", "/v1/stream/a", 201, 200, none},
		{"GET", "/v1/stream/a", 200, 200, none},
		{"GET", "/v1/stream/__ds/subscriptions/nosuch", none, none, none},
		{"GET", "/mcp", 405, 405, 405},
		{"GET", "/v1/nosuch", none, none, none},
		{"DELETE", "/v1/sessions", 405, 405, 405},
	} {
		for side, want := range map[string]int{"up": c.up, "serve": c.serve, "ingest": c.ingest} {
			if c.path == "/v1/stream/a" && side == "serve" {
				continue // below: it is the stream that up made
			}
			req := must.Get(http.NewRequestWithContext(t.Context(), c.method, sides[side]+c.path, nil))(t)
			req.Header.Set("Origin", "https://page.example")
			req.Header.Set("Access-Control-Request-Method", "GET")
			var status int
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // a history that is just begun is not there at once
				res := must.Get(http.DefaultClient.Do(req))(t)
				body := must.Get(io.ReadAll(res.Body))(t)
				res.Body.Close()
				status = res.StatusCode
				if strings.HasPrefix(c.path, "/v1/s") && res.Header.Get("Access-Control-Allow-Origin") != "https://page.example" {
					t.Errorf("%s %s of %s lets no page of another origin in", c.method, c.path, side)
				}
				if c.path == "/metrics" && !strings.Contains(string(body), `spool_build_info{commit="`) {
					t.Errorf("/metrics of %s does not say which build it is", side)
				}
				if status == want || time.Now().After(end) {
					break
				}
			}
			if status != want {
				t.Errorf("%s %s of %s = %d, want %d", c.method, c.path, side, status, want)
			}
		}
	}
}
