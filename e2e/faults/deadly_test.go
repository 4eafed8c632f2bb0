//go:build linux

package faults_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// buildDeadly builds a persister whose stack overflows over every entry that has a word.
func buildDeadly(t *testing.T) (tools string) {
	t.Helper()
	source := must.Get(filepath.Abs("../../internal/apply/intake.go"))(t)
	b := must.Get(os.ReadFile(source))(t)
	const begins, imports = "func Stage(e *Staged) (err error) {\n", "import (\n"
	if strings.Count(string(b), begins) != 1 {
		t.Fatalf("%s has no %q", source, begins)
	}
	text := strings.Replace(string(b), begins, begins+"\tif bytes.Contains(e.Body, []byte(\"deadly\")) {\n"+
		"\t\tdebug.SetMaxStack(1 << 20)\n\t\tdeeper(0)\n\t}\n", 1)
	text = strings.Replace(text, imports, imports+"\t\"runtime/debug\"\n", 1) +
		"\nfunc deeper(n int) int { return deeper(n+1) + 1 }\n"
	dir := t.TempDir()
	changed := filepath.Join(dir, "intake.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(text), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	tools = filepath.Join(dir, "bin")
	if err == nil {
		err = proc.Build(tools, "-overlay", filepath.Join(dir, "overlay.json"), "spool/cmd/persister")
	}
	must.Do(t, err)
	return tools
}

// TestDeadlyEvent: an entry over which persisters end as a runtime's fatal error ends them is a dead letter after a few
// deaths, while others are published to. It can be replayed once persisters are mended.
func TestDeadlyEvent(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.serve()
	w.fleet().Kill() // the streams are there
	slow := small()
	slow.Pause = 200 * time.Millisecond
	load := w.publish(faulttest.NewLedger(slow))
	load.acks(50)
	c := client.New(w.dial())
	doomed := events.Thread{Session: "doomed", Name: "main"}
	entry := func(seq uint64, text string) client.Entry {
		body := []byte(`{"role":"coder","content":"` + text + `"}`)
		return client.Entry{Thread: doomed, Dialect: "step", Seq: seq, Body: body}
	}
	p := c.Publisher(client.PublisherConfig{Producer: "p"})
	for i, text := range []string{"before", "deadly", "behind"} { // one by one: several would share a message
		must.Get(p.Publish(t.Context(), entry(uint64(i+1), text)))(t)
	}
	mended := w.tools
	w.tools = buildDeadly(t)
	deaths := 0
	for persister := w.persister(); ; persister = w.persister() {
		done := false
		w.eventually("a persister dies, or what is behind the event is applied", func() error {
			h, err := c.Thread(doomed).Head(t.Context())
			done = err == nil && h.Duplicate("p", 0, 3)
			if done || persister.Ended() {
				return nil
			}
			return cmp.Or(err, errors.New("neither"))
		})
		if done {
			load.acks(20)
			load.stop()
			persister.Kill()
			break
		}
		if deaths++; deaths > 8 {
			t.Fatalf("%d persisters died", deaths)
		}
	}
	w.tools = mended
	w.persister()
	w.check(load.Ledger)
	w.must("spool", "fsck", "--items")
	if out := w.must("spool", "fsck", "--events"); !regexp.MustCompile(`refused +1 `).MatchString(out) {
		t.Errorf("spool fsck --events says %s, want one dead letter", out)
	}
	if out := w.must("spool", "dead", "ls"); strings.Count(out, "poison: ") != 1 {
		t.Errorf("spool dead ls says %s, want one of poison", out)
	}
	w.must("spool", "dead", "replay", "1")
	w.eventually("the replayed event is applied", func() error {
		h, err := c.Thread(doomed).Head(t.Context())
		if err == nil && h.Entries != 3 {
			err = fmt.Errorf("%d entries, want 3", h.Entries)
		}
		return err
	})
	t.Logf("%d persisters died", deaths)
}
