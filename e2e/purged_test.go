package e2e_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// TestRestoredAndPurged empties the records of a store that was restored from a backup, so that no event and no item tells
// of its threads. Until a repair has given each of them a name again, and everything that can be is back, gc takes nothing
// of them, whatever else is removed meanwhile.
func TestRestoredAndPurged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	said := map[string]bool{} // what is to be had back
	say := func(session string, from, to int) {
		t.Helper()
		var b strings.Builder
		for n := from; n < to; n++ {
			text := fmt.Sprintf("entry %d of %s, as it was said", n, session)
			said[text] = true
			fmt.Fprintf(&b, `{"id":"%s-%d","role":"coder","content":%q}`+"\n", session, n, text)
		}
		if _, errs, code := w.try(b.String(), "spool", "publish", "--session", session, "--dialect", "step"); code != 0 {
			t.Fatalf("publish: %s", errs)
		}
		must.Eventually(t, "the entries are applied", func() error {
			if th := w.threads()[session+"/main"]; th.Entries != int64(to-1) {
				return fmt.Errorf("%d entries, want %d", th.Entries, to-1)
			}
			return nil
		})
	}
	const sessions = 8
	for i := range sessions {
		say(fmt.Sprint("session", i), 1, 12)
	}
	w.run("spool", "thread", "fork", "session1", "side", "--index", "5")
	w.run("spool", "session", "rm", fmt.Sprint("session", sessions-1), "--yes")
	for text := range said {
		if strings.Contains(text, fmt.Sprint("session", sessions-1)) {
			delete(said, text)
		}
	}
	file := filepath.Join(w.home, "report.txt")
	must.Do(t, os.WriteFile(file, []byte("what was found out"), 0o600))
	w.run("spool", "artifact", "put", "session2", file)
	w.run("spool", "backup", filepath.Join(w.home, "backup"))
	up.Stop()

	must.Do(t, os.RemoveAll(filepath.Join(w.home, "data")))
	restore := proc.Command(w.home, "spool", "restore", filepath.Join(w.home, "backup"), "--data", filepath.Join(w.home, "data"))
	if _, errs, code := proc.Run(t, restore, must.Patience); code != 0 {
		t.Fatalf("restore: %s", errs)
	}
	up = w.up()
	conn := w.dial()
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	w.run("spool", "fsck")
	must.Eventually(t, "marks are taken", func() error {
		m, err := scrub.ReadMarks(ctx, natsadmin.Of(conn))
		if err == nil && m.Before == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	records := must.Get(conn.JetStream().Stream(ctx, events.RecordsStream))(t)
	must.Do(t, records.Purge(ctx))
	say("session0", 1, 2) // it begins anew

	packs := func() uint64 {
		t.Helper()
		s := must.Get(conn.JetStream().Stream(ctx, events.ObjectStream(events.NodesBucket)))(t)
		return must.Get(s.Info(ctx))(t).State.Msgs
	}
	collect := func(args ...string) (code int) {
		t.Helper()
		out, errs, code := w.try("", "spool", append([]string{"gc", "--apply", "--reclaim-age", "0s"}, args...)...)
		t.Logf("gc %v: %d\n%s%s", args, code, out, errs)
		return code
	}
	there := func() map[string]bool {
		t.Helper()
		dir := must.Get(os.MkdirTemp(w.home, "export"))(t)
		w.run("spool", "export", "--all", dir)
		found := map[string]bool{}
		must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			for text := range said {
				found[text] = found[text] || strings.Contains(string(b), text)
			}
			return err
		}))
		return found
	}
	before := packs()
	if _, _, code := w.try("", "spool", "fsck"); code == 0 {
		t.Error("fsck of a store without its records finds nothing")
	}
	if collect() == 0 || packs() < before {
		t.Errorf("gc goes on without the records: %d of %d messages of packs are there", packs(), before)
	}
	clean := false
	for range 5 {
		out, errs, code := w.try("", "spool", "fsck", "--repair", "--yes")
		t.Logf("fsck --repair: %d\n%s%s", code, out, errs)
		if clean = code == 0; clean {
			break
		}
		if collect() == 0 {
			t.Error("gc goes on while findings stand")
		}
	}
	if !clean {
		t.Error("fsck is not clean in the end")
	}
	found := there()
	for text := range said {
		if !found[text] {
			t.Errorf("lost: %s", text)
		}
	}
	w.run("spool", "session", "rm", "session0", "--yes", "--force")
	collect()
	found = there()
	for text := range said {
		if !found[text] && !strings.Contains(text, "session0") {
			t.Errorf("lost after gc: %s", text)
		}
	}
	w.run("spool", "fsck")
	up.Stop()
}

// TestOfAnotherStore: where a stream is put back from a copy of another account while spool up runs, everything that
// looks at the system says so, and nothing is deleted.
func TestOfAnotherStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	w.try("a\n", "spool", "publish", "--session", "s1", "--dialect", "raw")
	conn := w.dial()
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	must.Eventually(t, "marks are taken", func() error {
		m, err := scrub.ReadMarks(ctx, natsadmin.Of(conn))
		if err == nil && (m.Before == 0 || w.threads()["s1/main"].Entries == 0) {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	nodes := events.ObjectStream(events.NodesBucket)
	cfg := must.Get(conn.JetStream().Stream(ctx, nodes))(t).CachedInfo().Config
	cfg.Metadata = maps.Clone(cfg.Metadata)
	cfg.Metadata["spool-store"] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	before := must.Get(conn.JetStream().UpdateStream(ctx, cfg))(t).CachedInfo().State.Msgs

	const foreign = "OBJ_spool_nodes is of another store"
	get := func(path string) string {
		res, err := http.Get("http://" + w.http + path)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		return res.Status + string(must.Get(io.ReadAll(res.Body))(t))
	}
	must.Eventually(t, "it is not ready", func() error {
		if said := get("/readyz"); !strings.HasPrefix(said, "503") || !strings.Contains(said, foreign) {
			return fmt.Errorf("readyz: %s", said)
		}
		return nil
	})
	for _, args := range [][]string{
		{"doctor"}, {"check"}, {"gc", "--apply"}, {"session", "rm", "s1", "--now", "--yes"},
	} {
		out, errs, code := w.try("", "spool", args...)
		if code == 0 || !strings.Contains(out+errs, foreign) {
			t.Errorf("spool %v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	must.Eventually(t, "metrics count it", func() error {
		if said := get("/metrics"); !strings.Contains(said, `spool_alarms{kind="world"} 1`) {
			return fmt.Errorf("no alarm")
		}
		return nil
	})
	if after := must.Get(conn.JetStream().Stream(ctx, nodes))(t).CachedInfo().State.Msgs; after < before {
		t.Errorf("%d of %d messages of packs are left", after, before)
	}
	up.Stop()
	if !strings.Contains(up.Log(), foreign) {
		t.Errorf("the log does not say it:\n%s", up.Log())
	}
}
