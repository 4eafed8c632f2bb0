package claudestore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/claudestore"
	"spool/internal/must"
	"spool/internal/record"
)

// TestOddKeys: every key is a transcript of its own, whatever its names look like.
func TestOddKeys(t *testing.T) {
	r := start(t)
	r.persister()
	long := strings.Repeat("t", 100)
	keys := []claudestore.Key{
		{Project: "p", Session: "é"}, {Project: "p", Session: "e\u0301"}, {Project: "p", Session: "\u202e\u2028\ufeff"}, {Project: "p", Session: "😀"},
		{Project: "p", Session: "../../x"}, {Project: "..", Session: "."}, {Project: "p", Session: strings.Repeat("界", 682)},
		{Project: "p", Session: long}, {Project: "p", Session: long + "x"}, {Project: "p", Session: "claude_" + id},
		{Project: "p", Session: id}, {Project: "p", Session: strings.ToUpper(id)}, {Project: "q", Session: id},
		{Project: "p", Session: id, Subpath: "main"}, {Project: "p", Session: id, Subpath: "subagents/agent-a"},
		{Project: "p", Session: id, Subpath: "subagents/x/agent-a"}, {Project: "p", Session: id, Subpath: "subagents/agent-former-1"},
		{Project: "p", Session: id, Subpath: "é"}, {Project: "p", Session: id, Subpath: "../main"},
	}
	for i, k := range keys {
		r.append(k, line(i, ""))
	}
	for i, k := range keys {
		must.Same(t, r.load(k), line(i, ""), "load of "+fmt.Sprintf("%.60q", k)+" = %s, want %s")
	}
	for _, k := range []claudestore.Key{ // one text, where they are joined
		{Project: "p\x00" + long, Session: long}, {Project: "p", Session: long + "\x00" + long},
	} {
		_, err := r.store.Append(t.Context(), k, []byte(line(1, "")), func(int, int) error { return nil })
		must.Is(t, err, claudestore.ErrKey, "append with a NUL in its key")
	}
}

// TestBig: entries that are larger than a message, twice in one append, and again.
func TestBig(t *testing.T) {
	r := start(t)
	r.persister()
	big := fmt.Sprintf(`{"type":"user","uuid":"b","message":{"role":"user","content":"%s"}}`, strings.Repeat("x", 5<<20)) + "\n"
	text := line(1, "") + big + line(2, "") + big + line(1, "")
	must.Same(t, r.append(key(""), text), claudestore.Appended{Entries: 3, Repeated: 2, Total: 3}, "%+v, want %+v")
	must.Same(t, r.load(key("")) == line(1, "")+big+line(2, ""), true, "%v %v")
	must.Same(t, r.append(key(""), text), claudestore.Appended{Repeated: 5, Total: 3}, "%+v, want %+v")
}

// TestSummaryOfMarkup: a summary may be as long as is said, whatever is in it.
func TestSummaryOfMarkup(t *testing.T) {
	r := start(t)
	r.persister()
	r.append(key(""), line(1, ""))
	value := `"` + strings.Repeat("<&>", claudestore.MaxSummary/3-1) + `"`
	must.Get(r.store.SetSummary(t.Context(), key(""), []byte(value), ""))(t)
	got, _, err := r.store.Summary(t.Context(), key(""))
	must.Do(t, err)
	must.Same(t, string(got) == value, true, "the summary is what was set: %v, want %v")
}

// TestDeletionBesideAppends: what was answered for after the last deletion is there, once.
func TestDeletionBesideAppends(t *testing.T) {
	r := start(t)
	r.persister()
	stores := []*claudestore.Store{claudestore.On(r.conn, r.cl), claudestore.On(r.conn, r.cl)}
	for round := range 15 {
		var all sync.WaitGroup
		stop := make(chan struct{})
		for w, store := range stores {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					for {
						begun := time.Now()
						_, err := store.Append(t.Context(), key(""), []byte(line(round*10000+w*1000+n, "")), func(int, int) error { return nil })
						if took := time.Since(begun); took > 10*time.Second {
							t.Errorf("an append took %v: %v", took, err)
						}
						if err == nil {
							break
						}
						if !record.Temporary(err) {
							t.Errorf("append: %v", err)
						}
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
		for range 3 {
			time.Sleep(20 * time.Millisecond)
			if _, err := r.store.Remove(t.Context(), key(""), "me"); err != nil {
				t.Logf("remove: %v", err)
			}
		}
		close(stop)
		all.Wait()
		for w, store := range stores {
			must.Get(store.Append(t.Context(), key(""), []byte(line(round*10000+5000+w, "")), func(int, int) error { return nil }))(t)
		}
		got := r.load(key(""))
		for w := range stores {
			if n := strings.Count(got, fmt.Sprintf(`-%012d"`, round*10000+5000+w)); n != 1 {
				t.Fatalf("round %d: an entry that was answered for is there %d times", round, n)
			}
		}
		seen := map[string]bool{}
		for l := range strings.Lines(got) {
			if seen[l] {
				t.Errorf("twice: %s", l)
			}
			seen[l] = true
		}
	}
}
