package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// canary is a secret that is nobody's, in the form of one of the rules that come with Spool, and what stands around it. Each is put
// together here, so that no scanner takes this file for a leak.
type canary struct{ rule, before, secret, after string }

// letters of secrets: no canary is a part of another, and of each a piece of 12 bytes is in no other text.
func letters(n int, alphabet string, seed int) string {
	var b strings.Builder
	x := uint32(seed*7919 + 17)
	for range n {
		x = x*1664525 + 1013904223
		b.WriteByte(alphabet[int(x>>16)%len(alphabet)])
	}
	return b.String()
}

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	alnum   = lower + upper + digits
	base32  = upper + "234567"
	hexText = digits + "abcdef"
)

// canaries are forty, of every rule.
func canaries() []canary {
	var n int
	s := func(size int, alphabet string) string { n++; return letters(size, alphabet, n) }
	pem := func(kind string) canary {
		return canary{"private-key", "-----BEGIN " + kind + " PRIVATE KEY-----", "\n" + s(64, alnum) + "\n" + s(64, alnum) + "\n",
			"-----END " + kind + " PRIVATE KEY-----"}
	}
	return []canary{
		pem("RSA"), pem("EC"), pem("OPENSSH"),
		{"aws-access-key", "", "AKIA" + s(16, base32), ""}, {"aws-access-key", "", "ASIA" + s(16, base32), ""},
		{"aws-secret-key", "AWS_SECRET_ACCESS_KEY=", s(40, alnum), ""}, {"aws-secret-key", "aws_secret_access_key = \"", s(40, alnum), "\""},
		{"github-token", "", "ghp_" + s(36, alnum), ""}, {"github-token", "", "gho_" + s(36, alnum), ""},
		{"github-token", "", "ghu_" + s(36, alnum), ""},
		{"github-token", "", "ghs_" + s(36, alnum), ""}, {"github-token", "", "ghr_" + s(36, alnum), ""},
		{"github-token", "", "github_pat_" + s(82, alnum), ""},
		{"gitlab-token", "", "glpat-" + s(20, alnum), ""}, {"gitlab-token", "", "gldt-" + s(24, alnum), ""},
		{"anthropic-key", "", "sk-ant-" + "api03-" + s(80, alnum), ""},
		{"openai-key", "", "sk-proj-" + s(30, alnum) + "T3Blbk" + "FJ" + s(30, alnum), ""},
		{"openai-key", "", "sk-" + s(20, alnum) + "T3Blbk" + "FJ" + s(20, alnum), ""},
		{"google-api-key", "", "AIza" + s(35, alnum), ""},
		{"slack-token", "", "xoxb-" + "123456789012-1234567890123-" + s(24, alnum), ""},
		{"slack-token", "", "xapp-1-A" + s(10, upper) + "-1234567890123-" + s(64, hexText), ""},
		{"slack-webhook", "https://hooks.slack.com/services/", "T" + s(10, upper) + "/B" + s(10, upper) + "/" + s(24, alnum), ""},
		{"stripe-key", "", "sk_live_" + s(24, alnum), ""}, {"stripe-key", "", "rk_live_" + s(24, alnum), ""},
		{"npm-token", "", "npm_" + s(36, alnum), ""},
		{"pypi-token", "", "pypi-" + "AgEIcHlwaS5vcmc" + s(60, alnum), ""},
		{"huggingface-token", "", "hf_" + s(34, lower+upper), ""},
		{"sendgrid-key", "", "SG." + s(22, alnum) + "." + s(43, alnum), ""},
		{"digitalocean-token", "", "dop_v1_" + s(64, hexText), ""}, {"digitalocean-token", "", "doo_v1_" + s(64, hexText), ""},
		{"age-secret-key", "", "AGE-SECRET-KEY-1" + s(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"), ""},
		{"nkey-seed", "-----BEGIN USER NKEY SEED-----\n", "SU" + s(56, base32), "\n------END USER NKEY SEED------"},
		{"jwt", "", "eyJ" + s(33, alnum) + ".eyJ" + s(40, alnum) + "." + s(43, alnum), ""},
		{"password-in-url", "postgres://app:", s(16, alnum), "@db.local/x"},
		{"password-in-url", "https://bot:", s(20, alnum), "@git.local/x.git"},
		{"bearer-token", "Authorization: Bearer ", s(40, alnum), ""}, {"bearer-token", "authorization: token ", s(32, alnum), ""},
		{"named-secret", `api_key = "`, s(24, alnum), `"`}, {"named-secret", `password: "`, s(20, alnum), `"`},
		{"named-secret", `client_secret='`, s(32, alnum), `'`},
	}
}

// text is a line with the canary in it.
func (c canary) text() string { return "before\n" + c.before + c.secret + c.after + " behind" }

// core is a piece of the secret by which it is found, whatever is around it.
func (c canary) core() []byte {
	secret := strings.TrimSpace(c.secret)
	if i := strings.IndexByte(secret, '\n'); i > 0 {
		secret = secret[:i]
	}
	return []byte(secret[max(0, len(secret)-16):])
}

// TestCanariesNeverReachTheDisk: secrets of forty formats are sent through every way in, with masks on. What is not a copy of an
// event on its way (docs/secrets.md) has none of them: no file of the records, the items, the packs, the blobs and the artifacts,
// whether compressed or not.
func TestCanariesNeverReachTheDisk(t *testing.T) {
	all := canaries()
	if len(all) != 40 {
		t.Fatalf("%d canaries, want 40", len(all))
	}
	w, daemons := newWorld(t, "10m", "-secrets", "mask")
	var text, omp strings.Builder
	omp.WriteString(`{"type":"session","version":3,"id":"imported","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/home/e2e"}` + "\n")
	for i, c := range all {
		text.WriteString(c.text() + "\n")
		fmt.Fprintf(&omp, `{"type":"message","id":"e%07d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":%s}}`+"\n", i, encode(c.text()))
	}
	_, lines, _ := strings.Cut(omp.String(), "\n")

	// As the SDK publishes, as HTTP does, as a transcript is imported, whole and compressed.
	if _, errs, code := w.try(strings.NewReader(lines), "spool", "publish", "--session", "sdk", "--dialect", "omp", "-"); code != 0 {
		t.Fatalf("publish: %s", errs)
	}
	w.want(http.StatusOK, "/v1/sessions/http/threads/main/entries?dialect=omp", "application/x-ndjson", strings.NewReader(lines))
	for _, c := range all {
		w.want(http.StatusAccepted, "/v1/sessions/http/threads/raw/entries?dialect=raw", "application/json", strings.NewReader(encode(c.text())))
	}
	w.run("spool", "import", w.write("a.jsonl", strings.NewReader(omp.String())))
	w.run("spool", "import", w.write("b.jsonl.zst", strings.NewReader(strings.ReplaceAll(omp.String(), "imported", "packed"))))
	// Cut by a rule, so that the bytes before the cut are a blob; and too large for memory.
	for i, size := range []int64{1 << 20, 10 << 20} {
		filler := strings.Repeat("nothing to see here. ", 100)
		head, tail, _ := strings.Cut(encode(map[string]any{"type": "message", "id": fmt.Sprintf("l%d", i),
			"message": map[string]any{"role": "user", "content": "HERE" + text.String()}}), "HERE")
		w.want(http.StatusAccepted, "/v1/sessions/large/threads/main/entries?dialect=omp", "application/json", repeated(head, filler, tail, size))
	}
	// As a tool prints it: in one piece, and kept whole.
	path := w.write("secrets.txt", strings.NewReader(text.String()))
	if _, errs, code := w.try(nil, "spool", "exec", "--session", "out", "--keep", "--", "cat", path); code != 0 {
		t.Fatalf("exec: %s", errs)
	}
	for _, name := range []string{"a.jsonl", "b.jsonl.zst", "secrets.txt"} {
		must.Do(t, os.Remove(filepath.Join(w.home, name)))
	}
	w.settle()
	must.Same(t, len(w.letters()), 0, "%d dead letters, want %d")
	// What is stored says that there was something, and is read back through every way out.
	out := map[string][]byte{}
	for _, session := range []string{"sdk", "http", "imported", "packed", "large", "out"} {
		out["export "+session] = w.run("spool", "export", session)
		if session == "http" {
			out["export raw"] = w.run("spool", "export", session+"/raw")
		}
		out["stored "+session] = w.run("spool", "export", "--stored", session)
		out["log "+session] = w.run("spool", "read", session+"/threads/main/logs/thread.log")
		out["items "+session] = w.get("/v1/sessions/" + session + "/threads/main/items")
	}
	out["artifacts"] = w.artifacts("out")
	out["tail"] = w.run("spool", "tail", "--all", "-T", "--json")
	masks := 0
	for what, b := range out {
		masks += bytes.Count(b, []byte("[redacted:"))
		w.none(t, what, b, all)
	}
	if masks < 10*len(all) {
		t.Errorf("%d masks in what is stored, want every canary several times", masks)
	}
	// The files: SPOOL_EVENTS and the inbox hold what came, until it is trimmed.
	files := 0
	err := filepath.WalkDir(w.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, events.EventsStream) || strings.Contains(path, "OBJ_"+events.InboxBucket) {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server wrote it anew
		}
		files++
		w.none(t, path, b, all)
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files were looked into, %v", files, err)
	}
	for _, p := range daemons {
		checkAlive(t, p)
	}
}

// none: no canary is in some bytes.
func (w *world) none(t *testing.T, what string, b []byte, all []canary) {
	t.Helper()
	for _, c := range all {
		if at := bytes.Index(b, c.core()); at >= 0 {
			t.Errorf("%s has the secret of a %s (%s…): %.80q", what, c.rule, c.before, b[max(0, at-30):])
		}
	}
}

// want posts what must be answered so.
func (w *world) want(status int, path, kind string, body io.Reader) {
	w.t.Helper()
	if got, answer := w.post(path, kind, body); got != status || strings.Contains(answer, `"ok":false`) {
		w.t.Fatalf("POST %s = %d %.300s, want %d", path, got, answer, status)
	}
}

func (w *world) get(path string) []byte {
	w.t.Helper()
	resp := must.Get(http.Get("http://" + w.http + path))(w.t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s = %d, %v", path, resp.StatusCode, err)
	}
	return b
}

func (w *world) artifacts(session string) (all []byte) {
	w.t.Helper()
	for line := range bytes.Lines(w.get("/v1/sessions/" + session + "/artifacts")) {
		var r struct {
			ID string `json:"artifact_id"`
		}
		if err := json.Unmarshal(line, &r); err != nil || r.ID == "" {
			w.t.Fatalf("artifact of %s = %.300s, %v", session, line, err)
		}
		all = append(all, w.get("/v1/artifacts/"+r.ID)...)
	}
	if len(all) == 0 {
		w.t.Fatalf("%s has no artifact", session)
	}
	return all
}
