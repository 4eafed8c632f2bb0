package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// TestOfflineOfAKilledProcess kills agents that accepted entries while no server was there. Their entries are found without a
// server, and one command stores each of them once.
func TestOfflineOfAKilledProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := filepath.Join(w.home, "one"), filepath.Join(w.home, "two")
	config := filepath.Join(w.home, "config.toml")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, "[doctor]\noffline = [%q, %q]\n", one, two), 0o600))
	keep := func(dir, session string, n int) *proc.Process {
		t.Helper()
		p := w.start(w.command("keeper", "-n", fmt.Sprint(n), dir, session))
		p.Await("kept")
		return p
	}
	keep(one, "s1", 30).Kill()
	next := keep(one, "s2", 5)
	if log := next.Log(); !strings.Contains(log, "offline directory holds entries of other processes") {
		t.Errorf("the next agent says nothing of what is there:\n%s", log)
	}
	next.Kill()
	alive := keep(two, "s3", 7)

	w.doctorSays(config, "35 entries left by processes that are gone, 7 entries of living processes", false)
	states := map[string]int{}
	for _, q := range w.offline(one, two) {
		states[fmt.Sprint(q.State, " ", q.Threads, " ", q.Producers)] += q.Entries
	}
	want := map[string]int{"ended [s1/t0] [keeper-s1-0]": 30, "ended [s2/t0] [keeper-s2-0]": 5, "live [s3/t0] [keeper-s3-0]": 7}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("offline ls: %v, want %v", states, want)
	}
	if _, errs, code := w.try("", "spool", "offline", "send", one); code != 1 || !strings.Contains(errs, "no server") {
		t.Errorf("offline send without a server = %d: %s", code, errs)
	}

	alive.Signal(syscall.SIGSTOP) // it has its queue, and sends nothing
	w.up()
	if out, errs, code := w.try("", "spool", "offline", "send", two); code != 1 || !strings.Contains(errs, "7 entries of living processes") {
		t.Errorf("offline send of what a living process has = %d: %s%s", code, out, errs)
	}
	alive.Signal(syscall.SIGCONT)
	mistyped := filepath.Join(w.home, "onw")
	if _, errs, code := w.try("", "spool", "offline", "send", mistyped); code != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("offline send of what is not there = %d: %s", code, errs)
	}
	if _, err := os.Stat(mistyped); err == nil {
		t.Error("offline send made a directory that was mistyped")
	}
	sent, errs, code := w.try("", "spool", "offline", "send", "--json", one)
	if code != 0 || !strings.Contains(sent, `"sent":35,"left":0,"refused":0`) {
		t.Fatalf("offline send = %d: %s%s", code, sent, errs)
	}
	if again := w.run("spool", "offline", "send", "--json", one); !strings.Contains(again, `"sent":0`) {
		t.Errorf("offline send again: %s", again)
	}
	for session, n := range map[string]int64{"s1": 30, "s2": 5, "s3": 7} {
		must.Eventually(t, "its entries are there", func() error {
			if th := w.threads()[session+"/t0"]; th.Entries != n {
				return fmt.Errorf("%s has %d entries, want %d", session, th.Entries, n)
			}
			return nil
		})
	}
	must.Eventually(t, "nothing waits", func() error {
		if all := w.offline(one, two); len(all) > 0 {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	w.doctorSays(config, "nothing waits", true)
	alive.Kill()
	w.checkNoDead(w.dial())
}

// TestOfflineWhileSpoolIsKilled kills spool up again and again while goroutines publish over one client with an offline directory.
// What was acked is in its thread, once and in the order of its writer, and the directory is empty.
func TestOfflineWhileSpoolIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.home, "offline")
	const writers, kills = 7, 5
	cmd := w.command("keeper", "-writers", fmt.Sprint(writers), "-pause", "500us", dir, "s")
	input := must.Get(cmd.StdinPipe())(t)
	up := w.up()
	keeper := w.start(cmd)
	keeper.Await("acked")
	acked := func() (last [writers]int, all int) {
		for line := range strings.Lines(keeper.Log()) {
			var of, n int
			if got, _ := fmt.Sscanf(line, "acked %d %d\n", &of, &n); got == 2 {
				last[of], all = n, all+1
			}
		}
		return last, all
	}
	more := func(n int) {
		t.Helper()
		_, before := acked()
		must.Eventually(t, fmt.Sprintf("%d more entries are acked", n), func() error {
			if _, all := acked(); all < before+n {
				return fmt.Errorf("%d after %d", all, before)
			}
			if keeper.Ended() {
				t.Fatal("the agent has ended")
			}
			return nil
		})
	}
	for kill := range kills {
		up.Kill()
		more(200)
		up = w.up()
		must.Eventually(t, "the agent connects again", func() error {
			if n := strings.Count(keeper.Log(), "nats reconnected"); n <= kill {
				return fmt.Errorf("it did %d times", n)
			}
			return nil
		})
		if kill%2 == 0 { // else the next one comes in the middle of what waits
			must.Eventually(t, "the agent speaks to the server again, while it publishes", func() error {
				left, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
				if len(left) > 0 {
					err = fmt.Errorf("%v", left)
				}
				return err
			})
			more(100)
		}
	}
	more(100)
	must.Do(t, input.Close())
	must.Same(t, keeper.Wait(), 0, "the agent ends with %d, want %d")
	if left := must.Get(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("the directory holds %v, %+v", left, w.offline(dir))
	}
	want, all := acked()
	t.Logf("%d entries", all)
	w.applied(all)
	var got [writers]int
	for th := range w.threads() {
		for line := range strings.Lines(w.run("spool", "export", th)) {
			var e struct{ ID string }
			var of, n int
			must.Do(t, json.Unmarshal([]byte(line), &e))
			if _, err := fmt.Sscanf(e.ID, "%d-%d", &of, &n); err != nil || n != got[of]+1 || th != fmt.Sprintf("s/t%d", of%3) {
				t.Fatalf("%s has %s behind entry %d of that writer", th, line, got[of])
			}
			got[of] = n
		}
	}
	must.Same(t, got, want, "the threads end with %v, the writers with %v")
	w.checkNoDead(w.dial())
}

// applied waits until that many entries are in threads.
func (w *world) applied(n int) {
	w.t.Helper()
	must.Eventually(w.t, "the entries are applied", func() (err error) {
		have := 0
		for _, th := range w.threads() {
			have += int(th.Entries)
		}
		if have < n {
			err = fmt.Errorf("%d of %d", have, n)
		}
		return err
	})
}

// offlineQueue is what spool offline ls tells of a queue.
type offlineQueue struct {
	Queue, State       string
	Entries            int
	Threads, Producers []string
}

func (w *world) offline(dirs ...string) (all []offlineQueue) {
	w.t.Helper()
	for line := range strings.Lines(w.run("spool", append([]string{"offline", "ls", "--json"}, dirs...)...)) {
		var q offlineQueue
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, q)
	}
	return all
}

// doctorSays checks what doctor says of the offline directories that a configuration file names.
func (w *world) doctorSays(config, want string, ok bool) {
	w.t.Helper()
	out, errs, _ := w.try("", "spool", "--config", config, "doctor", "--json")
	for line := range strings.Lines(out) {
		var f struct {
			Name, Detail, Do string
			OK               bool
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			w.t.Fatalf("doctor --json: %v: %s", err, line)
		}
		if f.Name == "offline" {
			if f.OK != ok || !strings.Contains(f.Detail, want) || ok != (f.Do == "") {
				w.t.Errorf("doctor says %s; want ok %v, and %q", line, ok, want)
			}
			return
		}
	}
	w.t.Errorf("doctor says nothing of what waits offline: %s%s", out, errs)
}
