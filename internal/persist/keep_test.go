package persist_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestReceiptNamesForks: a receipt says that other sessions have entries of a deleted one where they do, and only there.
func TestReceiptNamesForks(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	main := func(session string) events.Thread { return events.Thread{Session: session, Name: events.MainThread} }
	fork := func(from, to string) {
		t.Helper()
		must.Do(t, r.Session(from).Fork(ctx, to, client.SessionFork{}))
		r.say(main(to), "omp", bare("of-"+to))
	}
	r.say(main("s0"), "omp", sessionHeader, bare("a"), bare("b"))
	fork("s0", "child")
	fork("child", "grandchild")
	r.say(main("other"), "item", `{"content":[{"type":"text","text":"hello"}]}`)
	must.Do(t, r.Thread(events.Thread{Session: "other", Name: "try"}).Fork(ctx, wholeOf("s0")))
	must.Do(t, r.Session("mere").New(ctx, "/n", "s0")) // says who its parent is, and has nothing of it
	r.say(main("mere"), "omp", bare("of-mere"))

	for _, tt := range []struct{ session, want string }{
		{"child", "[grandchild]"}, {"s0", "[grandchild other]"}, {"grandchild", "[]"}, {"mere", "[]"},
	} {
		got := must.Get(r.Session(tt.session).Delete(ctx, client.Deletion{}))(t)
		have := []string{}
		for _, k := range got.Kept {
			if k.What == "entries" {
				have = k.Sessions
			}
		}
		must.Same(t, fmt.Sprint(have), tt.want, "sessions with entries of "+tt.session+" = %s, want %s")
	}
	// The name of a session that was deleted is another session's: nobody has entries of that.
	r.say(main("s0"), "omp", strings.Replace(sessionHeader, "Mill", "Mole", 1), bare("new"))
	if got := must.Get(r.Session("s0").Delete(ctx, client.Deletion{}))(t); len(got.Kept) != 1 {
		t.Errorf("kept of the session begun anew = %+v, want the packs that nobody has alone", got.Kept)
	}
}

// TestReceiptAfterChanges: what became of the deleted session's threads, and of its forks, before the deletion does not
// hide who has entries of it; and a session that only names it as its parent is told apart.
func TestReceiptAfterChanges(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	thread := func(session, name string) events.Thread { return events.Thread{Session: session, Name: name} }
	fork := func(from, to events.Thread, at int64) {
		t.Helper()
		must.Do(t, r.Thread(to).Fork(ctx, events.Fork{Session: from.Session, Thread: from.Name, Index: at}))
	}
	for _, name := range []string{events.MainThread, "renamed", "removed", "ended"} {
		r.say(thread("s0", name), "omp", bare("a-"+name), bare("b-"+name))
	}
	fork(thread("s0", "renamed"), thread("ofRenamed", "main"), 1)
	must.Do(t, r.Thread(thread("s0", "renamed")).Rename(ctx, "other"))
	fork(thread("s0", "removed"), thread("ofRemoved", "main"), 1)
	must.Do(t, r.Thread(thread("s0", "removed")).Remove(ctx))
	fork(thread("s0", "ended"), thread("ofEnded", "main"), 2)
	must.Do(t, r.Thread(thread("s0", "ended")).End(ctx, events.End{}))
	fork(thread("s0", "main"), thread("compacted", "main"), 2)
	must.Do(t, r.Thread(thread("compacted", "main")).Compact(ctx, "all of it", ""))
	fork(thread("s0", "main"), thread("middle", "main"), 2)
	fork(thread("middle", "main"), thread("ofMiddle", "side"), 2)
	must.Do(t, r.Thread(thread("middle", "main")).Remove(ctx))
	fork(thread("s0", "main"), thread("gone", "main"), 2)
	must.Get(r.Session("gone").Delete(ctx, client.Deletion{}))(t)
	fork(thread("s0", "main"), thread("emptied", "main"), 2)
	r.say(thread("emptied", "own"), "omp", bare("own"))
	must.Do(t, r.Thread(thread("emptied", "main")).Remove(ctx))
	must.Do(t, r.Session("mere").New(ctx, "/n", "s0"))
	r.say(thread("file", "main"), "omp", strings.Replace(sessionHeader, `"id":"s0"`, `"id":"file","parentSession":"s0"`, 1), bare("f"))

	got := map[string]string{}
	for _, k := range must.Get(r.Session("s0").Delete(ctx, client.Deletion{}))(t).Kept {
		got[k.What] = fmt.Sprint(k.Sessions)
	}
	must.Same(t, got["entries"], "[compacted ofEnded ofMiddle ofRemoved ofRenamed]", "sessions with entries = %s, want %s")
	must.Same(t, got["name"], "[emptied file mere middle]", "sessions with the name = %s, want %s")
}

// TestReceiptOfADeletionThatGoesOn: who goes on with a deletion that was cut off is told who may have something of the
// session; and a fork from a thread that was removed may be of an earlier session of the name.
func TestReceiptOfADeletionThatGoesOn(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	thread := func(session, name string) events.Thread { return events.Thread{Session: session, Name: name} }
	said := func(how client.Deletion) (all []string) {
		t.Helper()
		for _, k := range must.Get(r.Session("s0").Delete(ctx, how))(t).Kept {
			if len(k.Sessions) > 0 {
				all = append(all, fmt.Sprint(k.What, " ", strings.Contains(k.Why, " may "), k.Sessions))
			}
		}
		return all
	}
	r.say(thread("s0", "x"), "omp", bare("a"), bare("b"))
	must.Do(t, r.Thread(thread("fork", "main")).Fork(ctx, events.Fork{Session: "s0", Thread: "x", Index: 1}))
	must.Do(t, r.Session("mere").New(ctx, "/n", "s0"))
	must.Same(t, fmt.Sprint(said(client.Deletion{Erase: true})), "[entries false [fork] name false [mere]]", "kept = %s, want %s")
	must.Same(t, fmt.Sprint(said(client.Deletion{Erase: true})), "[entries true [fork] name false [mere]]", "kept, once more = %s, want %s")

	r.say(thread("s0", "main"), "omp", bare("c"))
	r.say(thread("s0", "x"), "omp", bare("d"))
	must.Do(t, r.Thread(thread("s0", "x")).Remove(ctx))
	must.Same(t, fmt.Sprint(said(client.Deletion{})), "[entries true [fork] name false [mere]]", "kept of the next one = %s, want %s")
}

// TestReceiptBesideAnUnreadableThread: what a thread that cannot be read hides is said beside what is known.
func TestReceiptBesideAnUnreadableThread(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	bad := events.Thread{Session: "s0", Name: "a-bad"}
	r.say(events.Thread{Session: "s0", Name: events.MainThread}, "omp", bare("a"))
	r.say(bad, "omp", bare("b"))
	must.Do(t, r.Session("s0").Fork(ctx, "child", client.SessionFork{}))
	_ = must.Get(r.conn.JetStream().Publish(ctx, events.RecordSubject(events.HeadKey(bad)), []byte("no head")))(t)
	var why, have string
	for _, k := range must.Get(r.Session("s0").Delete(ctx, client.Deletion{}))(t).Kept {
		if k.What == "entries" && len(k.Sessions) == 0 {
			why = k.Why
		} else if k.What == "entries" {
			have = fmt.Sprint(k.Sessions)
		}
	}
	if have != "[child]" || !strings.Contains(why, "s0/a-bad") {
		t.Errorf("kept: entries by %s, and %q; want those of child, and that s0/a-bad cannot be read", have, why)
	}
}
