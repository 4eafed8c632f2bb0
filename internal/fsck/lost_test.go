package fsck_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/client"
	"spool/pkg/events"
)

// says are entries of a thread by a producer of the same name as they begin with.
func says(t events.Thread, who string, from, to uint64) func(*world) {
	return func(w *world) {
		for seq := from; seq <= to; seq++ {
			w.raw(entryOf(t, who, seq, 0, fmt.Sprint(who, seq)))
		}
	}
}

func forks(to, from events.Thread, index int64) func(*world) {
	return func(w *world) {
		must.Do(w, w.cl.Thread(to).Fork(w.Context(), events.Fork{Session: from.Session, Thread: from.Name, Index: index}))
	}
}

// texts are the exports of all threads.
func (w *world) texts() map[events.Thread]string {
	w.Helper()
	out := map[events.Thread]string{}
	for _, t := range must.Get(client.New(w.conn).EverySession().Threads(w.Context()))(w) {
		var b strings.Builder
		must.Get(client.New(w.conn).Thread(t.Thread).Export(w.Context(), &b))(w)
		out[t.Thread] = b.String()
	}
	return out
}

// A repair brings back what a lost record told of, or says that it cannot; it never brings back what was removed, nor shows one thread's
// entries in another.
func TestRepairOfLostRecords(t *testing.T) {
	type losses = []string
	for name, c := range map[string]struct {
		steps  []any
		losses losses
	}{
		"removed":                {[]any{says(thA, "p", 1, 2), removes(thA)}, losses{"notes", "notes, items"}},
		"removed and used again": {[]any{says(thA, "p", 1, 2), removes(thA), says(thA, "q", 1, 2)}, losses{"heads, items", "heads, notes"}},
		"renamed":                {[]any{says(thA, "p", 1, 2), renames(thA, "b")}, losses{"heads", "heads, notes, items"}},
		"renamed and goes on":    {[]any{says(thA, "p", 1, 2), renames(thA, "b"), says(thB, "p", 3, 3)}, losses{"heads, notes"}},
		"replaced": {
			[]any{says(thA, "p", 1, 2), removes(thA), says(thO, "q", 1, 2), renames(thO, "a")}, losses{"heads", "heads, notes"},
		},
		"replaced and goes on": {
			[]any{says(thA, "p", 1, 2), removes(thA), says(thO, "q", 1, 2), renames(thO, "a"), says(thA, "q", 3, 3)},
			losses{"heads, notes", "heads, notes, items"},
		},
		"source grew": {[]any{says(thA, "p", 1, 3), forks(thB, thA, 0), says(thA, "p", 4, 5)}, losses{"heads", "heads, items"}},
		"source grew and forked": {[]any{says(thA, "p", 1, 3), forks(thB, thA, 0), says(thA, "p", 4, 5), says(thB, "q", 1, 1)},
			losses{"heads, items"}},
		"source renamed": {[]any{says(thA, "p", 1, 3), forks(thB, thA, 0), renames(thA, "o"), says(thO, "p", 4, 5)},
			losses{"heads, items"}},
		"renamed and removed": {[]any{says(thA, "p", 1, 2), renames(thA, "b"), says(thB, "p", 3, 3), removes(thB)}, losses{"notes"}},
		"there and back": {[]any{says(thA, "p", 1, 2), renames(thA, "b"), says(thB, "p", 3, 3), renames(thB, "a")},
			losses{"heads, notes"}},
		"deleted and used again": {[]any{says(thA, "p", 1, 2), deletesSession, says(thA, "q", 1, 2)}, losses{"heads"}},
		"fork of a removed one":  {[]any{says(thA, "p", 1, 3), forks(thB, thA, 3), removes(thA)}, losses{"heads", "heads, notes"}},
		"renamed twice":          {[]any{says(thA, "p", 1, 2), renames(thA, "b"), renames(thB, "o")}, losses{"heads, notes"}},
		"two lives in another": {
			[]any{says(thA, "p", 1, 2), renames(thA, "b"), removes(thB), says(thB, "q", 1, 2)}, losses{"heads, items", "heads, notes"},
		},
		"replaced, and removed": {
			[]any{says(thA, "p", 1, 2), removes(thA), says(thO, "q", 1, 2), renames(thO, "a"), removes(thA)}, losses{"notes"},
		},
	} {
		for _, loss := range c.losses {
			t.Run(name+": "+loss, func(t *testing.T) {
				t.Parallel()
				repairOf(t, c.steps, loss)
			})
		}
	}
}

// A whole fork that is lost begins again with what its source had then.
func TestRepairOfAWholeFork(t *testing.T) {
	w := newWorld(t)
	w.play(says(thA, "p", 1, 3), func(w *world) {
		must.Do(w, w.cl.Thread(thB).Fork(w.Context(), events.Fork{Session: thA.Session, Thread: thA.Name, Whole: true}))
	}, says(thB, "q", 1, 1), says(thA, "p", 4, 5))
	want := w.texts()
	w.stop()
	w.put(events.HeadKey(thB), nil)
	w.dropItems(thB, func(int64) bool { return true })
	rep := must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	w.start()
	w.settle()
	for id, text := range want {
		if got := w.texts()[id]; got != text {
			t.Errorf("%s = %q, want %q; repairs %+v", id, got, text, rep.Repairs)
		}
	}
	w.wantClean()
}

// Where a source has lost its newest states as well, and goes back before them, a whole fork that is lost begins with what its source had;
// where the source has that again only once a persister has applied it, another repair makes the fork.
func TestRepairOfAForkWhoseSourceGoesBack(t *testing.T) {
	for lost, repairs := range map[int]int{1: 1, 2: 1, 4: 2} { // of the source's six entries; the fork has the first three
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			w := masking(t)
			w.secrets(thA, 3)
			w.play(func(w *world) {
				must.Do(w, w.cl.Thread(thB).Fork(w.Context(), events.Fork{Session: thA.Session, Thread: thA.Name, Whole: true}))
			}, says(thB, "q", 1, 1))
			w.secrets(thA, 6)
			w.settle()
			want := w.texts()
			w.stop()
			w.put(events.HeadKey(thB), nil)
			w.dropItems(thB, func(int64) bool { return true })
			for _, l := range w.path(thA)[:lost] {
				w.lose(events.PackKey(l.Pack.String()))
			}
			for range repairs {
				w.fix(thB, fsck.Config{})
				w.startWith(masked)
				w.settle()
				w.stop()
			}
			if got := w.texts(); !maps.Equal(got, want) {
				t.Errorf("threads are %q, want %q", got, want)
			}
			w.wantClean()
		})
	}
}

func repairOf(t *testing.T, steps []any, loss string) {
	w := newWorld(t)
	w.play(steps...)
	want := w.texts()
	w.wantClean()
	w.stop()
	all := []events.Thread{thA, thB, thO}
	lost := 0
	for _, id := range all {
		keys := []string{}
		if strings.Contains(loss, "heads") {
			keys = append(keys, events.HeadKey(id))
		}
		if strings.Contains(loss, "notes") {
			keys = append(keys, events.LeftKey(id))
		}
		for _, r := range must.Get(w.conn.Records().Records(w.Context(), keys...))(w) {
			if r.Exists() {
				lost++
				w.put(r.Key, nil)
			}
		}
		if strings.Contains(loss, "items") {
			w.dropItems(id, func(int64) bool { return true })
		}
	}
	if lost == 0 {
		t.Fatal("there is no such record: the case loses nothing")
	}
	rep := must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	w.start()
	w.settle()
	got := w.texts()
	for id, text := range got {
		must.Same(t, text, want[id], "%s = %q, want %q", id)
	}
	for _, id := range slices.SortedFunc(maps.Keys(want), func(a, b events.Thread) int { return strings.Compare(a.String(), b.String()) }) {
		if _, ok := got[id]; ok {
			continue
		}
		if !slices.ContainsFunc(rep.Repairs, func(r fsck.Repair) bool { return r.Record == events.HeadKey(id) && r.To == "" }) {
			t.Errorf("%s is gone, and no repair says why", id)
		}
	}
	for _, r := range must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w).Repairs {
		done := slices.ContainsFunc(rep.Repairs, func(first fsck.Repair) bool { return first.Record == r.Record && first.To != "" })
		if r.To != "" && done {
			t.Errorf("a second repair: %+v", r)
		}
	}
	w.settle()
	for id, text := range w.texts() {
		must.Same(t, text, want[id], "%s = %q behind a second repair, want %q", id)
	}
	if t.Failed() {
		for _, f := range rep.Findings {
			t.Logf("finding %s", f)
		}
		for _, r := range rep.Repairs {
			t.Logf("repair %+v", r)
		}
		for _, f := range w.check().Findings {
			t.Logf("left %s", f)
		}
	}
}

// A rename that was refused, and is sent again, gave no thread its name: no record of one is missed.
func TestNothingIsLostOfARenameThatWasRefused(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	must.Is(t, must.Err(w.cl.Thread(thA).Ask(ctx, events.Prompt{ID: "q", Kind: events.PromptText, Text: "Well?"})),
		context.DeadlineExceeded, "Ask")
	e := entryOf(thA, "op", 1, 0, "")
	e.Kind, e.Dialect, e.Body = events.KindControl, "", []byte(`{"op":"rename","rename":{"to":"b"}}`)
	w.raw(e) // while somebody is asked: refused
	w.raw(e)
	w.settle()
	w.stop()
	if n := len(must.Get(w.cl.Session(thA.Session).DeadLetters(t.Context()))(t)); n != 1 {
		t.Fatalf("%d dead letters, want one", n)
	}
	w.wantClean()
}

// A fork of another session's thread that is lost as well begins again once its source is there: a persister may come to it first.
func TestRepairOfAForkInAnotherSession(t *testing.T) {
	w := newWorld(t)
	fork, again := events.Thread{Session: "x", Name: "main"}, events.Thread{Session: "y", Name: "main"}
	whole := func(to, from events.Thread) func(*world) {
		return func(w *world) {
			must.Do(w, w.cl.Thread(to).Fork(w.Context(), events.Fork{Session: from.Session, Thread: from.Name, Whole: true}))
		}
	}
	beside := events.Thread{Session: "x", Name: "beside"}
	w.play(says(thA, "p", 1, 3), whole(fork, thA), says(fork, "q", 1, 1), whole(again, fork), forks(beside, fork, 2), says(beside, "q", 1, 1))
	w.settle()
	want := w.texts()
	w.stop()
	for id := range want {
		w.loseHead(id)
		w.dropItems(id, func(int64) bool { return true })
	}
	for i, session := range []string{"s", "x", "y"} {
		rep := must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
		for _, r := range rep.Repairs {
			if made := r.Replayed > 0; made != strings.HasPrefix(r.Record, "thread."+session+".") {
				t.Errorf("repair %d: %+v, want what is of %s alone", i, r, session)
			}
		}
		w.start()
		w.settle()
		w.stop()
	}
	w.start()
	if got := w.texts(); !maps.Equal(got, want) {
		t.Errorf("threads = %q, want %q", got, want)
	}
	if w.letters() != 0 {
		t.Error("there are dead letters")
	}
	w.wantClean()
}

// TestStreamsThatAreMadeAgain: where a stream is gone that the next start makes again, all else is checked; so it is where SPOOL_EVENTS is.
func TestStreamsThatAreMadeAgain(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 5)
	for _, stream := range []string{events.GCStream, events.DeadStream, events.EventsStream, events.ItemsStream} {
		must.Do(t, w.conn.JetStream().DeleteStream(t.Context(), stream))
		if r := w.check(); r.Threads != 1 {
			t.Errorf("without %s, too: %d threads, want 1", stream, r.Threads)
		}
	}
}
