package fsck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/pkg/events"
)

// Wherever SPOOL_EVENTS begins by now, before, in or behind the beginning of a name's life, fsck finds nothing in a
// healthy system, and what is lost of the life that goes on.
func TestAccountOfTrimmedLives(t *testing.T) {
	for name, c := range map[string]struct {
		steps []any
		lives events.Thread
	}{
		"removed": {[]any{says(thA, "p", 1, 3), removes(thA), says(thA, "p", 1, 2), says(thA, "q", 1, 2)}, thA},
		"removed, linked": {[]any{entryOf(thA, "p", 1, 0, "a"), entryOf(thA, "p", 2, 1, "b"), removes(thA),
			entryOf(thA, "p", 3, 2, "behind"), entryOf(thA, "p", 4, 3, "it"), entryOf(thA, "q", 1, 0, "q")}, thA},
		"deleted": {[]any{says(thA, "p", 1, 3), deletesSession, says(thA, "p", 1, 2), says(thA, "q", 1, 2)}, thA},
		"renamed": {[]any{says(thA, "p", 1, 3), renames(thA, "b"), says(thA, "p", 1, 2), says(thA, "q", 1, 2),
			says(thB, "p", 4, 5)}, thA},
		"renamed, and goes": {[]any{says(thA, "p", 1, 3), renames(thA, "b"), says(thB, "p", 4, 5), says(thB, "q", 1, 2)}, thB},
		"replaced":          {[]any{says(thA, "p", 1, 2), removes(thA), says(thO, "q", 1, 2), renames(thO, "a"), says(thA, "q", 3, 4)}, thA},
		"there and back": {[]any{says(thA, "p", 1, 2), renames(thA, "b"), says(thB, "p", 3, 3), renames(thB, "a"),
			says(thA, "p", 4, 4)}, thA},
		"forked":          {[]any{says(thA, "p", 1, 3), forks(thB, thA, 0), says(thA, "p", 4, 4), removes(thA), says(thB, "q", 1, 2)}, thB},
		"of a forked one": {[]any{says(thO, "p", 1, 3), forks(thA, thO, 2), removes(thA), forks(thA, thO, 3), says(thA, "q", 1, 2)}, thA},
		"refused, and begun": {[]any{opOf(thA, "x", 1, 0, endOp()), says(thA, "p", 1, 2), removes(thA),
			opOf(thA, "x", 2, 0, endOp()), says(thA, "p", 1, 2)}, thA},
		"sent again": {[]any{says(thA, "p", 1, 3), removes(thA), says(thA, "q", 1, 1), entryOf(thA, "p", 2, 0, "p2"),
			entryOf(thA, "q", 1, 0, "q1")}, thA},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.play(c.steps...)
			w.wantClean()
			s := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
			for upTo := uint64(1); upTo <= s.CachedInfo().State.LastSeq; upTo++ {
				must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(upTo)))
				when := fmt.Sprint("from ", upTo, " on")
				a := w.account()
				if addsUp(t, a); len(a.Findings) > 0 || a.Unaccounted > 0 {
					t.Errorf("%s: %+v, want no findings", when, a)
				}
				w.wantClean()
				lost := entryOf(c.lives, "lost", 1, 0, "lost")
				a = w.accountLost(lostLedger{lost: &lost})
				if len(a.Findings) != 1 || !strings.Contains(a.Findings[0].Detail, "producer lost") {
					t.Errorf("%s: %+v, want what is lost found", when, a)
				}
			}
		})
	}
}
