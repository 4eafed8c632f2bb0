package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
)

// TestHomesOfOneName: two machines of one name have a home of one name, and the home of one was copied from the other's, with all that is
// remembered there. Both go on with a session: each has a thread, however often they take turns.
func TestHomesOfOneName(t *testing.T) {
	t.Parallel()
	const id, turns = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e22", 20
	w := newWorld(t)
	w.up()
	at, file := filepath.Join(w.home, "home"), filepath.Join(".claude", "projects", "-srv-mill", id+".jsonl")
	in := func(home string, args ...string) (said string, err error) {
		t.Helper()
		must.Do(t, os.Rename(home, at))
		cmd := w.command("spool", args...)
		cmd.Env = append(cmd.Env, "HOME="+at)
		out, err := cmd.CombinedOutput()
		must.Do(t, os.Rename(at, home))
		return string(out), err
	}
	grow := func(home, said string) {
		t.Helper()
		name := filepath.Join(home, file)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		f := must.Get(os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
		must.Get(fmt.Fprintf(f, `{"parentUuid":null,"cwd":"/srv/mill","sessionId":%q,"type":"user","uuid":%q,`+
			`"message":{"role":"user","content":"mill"},"timestamp":"2026-11-20T10:00:00.000Z"}`+"\n", id, said))(t)
		must.Do(t, f.Close())
		later := time.Now().Add(time.Second) // as another machine's clock may say
		must.Do(t, os.Chtimes(name, later, later))
		if out, err := in(home, "watch", "--once"); err != nil {
			t.Fatalf("spool watch --once in %s: %v\n%s", home, err, out)
		}
	}
	one, two := filepath.Join(w.home, "one"), filepath.Join(w.home, "two")
	grow(one, "u0")
	must.Do(t, os.CopyFS(two, os.DirFS(one)))
	for n := range turns {
		grow([]string{one, two}[n%2], fmt.Sprint("u", n+1))
	}
	threads := w.threads()
	must.Same(t, len(threads), 2, "%d threads of two homes, want %d")
	kept := map[string]bool{}
	for thread := range threads {
		kept[w.run("spool", "export", thread)] = true
	}
	for _, home := range []string{one, two} {
		if !kept[string(must.Get(os.ReadFile(filepath.Join(home, file)))(t))] {
			t.Errorf("no thread has what %s says", home)
		}
	}
	var session struct {
		Threads []struct {
			Of       string `json:"former_of"`
			Captured struct {
				Size   int64
				Sha256 string
			}
		} `json:"thread_list"`
	}
	must.Do(t, json.Unmarshal([]byte(w.run("spool", "session", "show", id, "--json")), &session))
	sums := map[string]string{}
	for _, t := range session.Threads {
		sums[t.Of] = fmt.Sprint(t.Captured)
	}
	for home, of := range map[string]string{one: "main", two: ""} {
		b := must.Get(os.ReadFile(filepath.Join(home, file)))(t)
		must.Same(t, sums[of], fmt.Sprintf("{%d %x}", len(b), sha256.Sum256(b)), "captured of %s = %s, want %s", home)
	}
	if out, err := in(one, "resume", id, "--cwd", w.home); err == nil || !strings.Contains(out, "main-was-") {
		t.Errorf("spool resume where the session's thread is another home's: %v\n%s\nwant a question", err, out)
	}
}
