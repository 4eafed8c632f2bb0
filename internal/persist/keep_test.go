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
		must.Do(t, r.ForkSession(ctx, from, to, client.SessionFork{}))
		r.say(main(to), "omp", bare("of-"+to))
	}
	r.say(main("s0"), "omp", sessionHeader, bare("a"), bare("b"))
	fork("s0", "child")
	fork("child", "grandchild")
	r.say(main("other"), "item", `{"content":[{"type":"text","text":"hello"}]}`)
	must.Do(t, r.Fork(ctx, events.Thread{Session: "other", Name: "try"}, wholeOf("s0")))
	must.Do(t, r.NewSession(ctx, "mere", "/n", "s0")) // says who its parent is, and has nothing of it
	r.say(main("mere"), "omp", bare("of-mere"))

	for _, tt := range []struct{ session, want string }{
		{"child", "[grandchild]"}, {"s0", "[grandchild other]"}, {"grandchild", "[]"}, {"mere", "[]"},
	} {
		got := must.Get(r.DeleteSession(ctx, tt.session, client.Deletion{}))(t)
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
	if got := must.Get(r.DeleteSession(ctx, "s0", client.Deletion{}))(t); len(got.Kept) != 1 {
		t.Errorf("kept of the session begun anew = %+v, want the packs that nobody has alone", got.Kept)
	}
}
