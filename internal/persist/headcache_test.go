package persist

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// The threads that were used last stay, those that a commit is under way for, and the mark of one that is being renamed.
func TestEvict(t *testing.T) {
	h := newHeadCache(2*threadRoom, &headCounters{})
	put := func(name string) *thread {
		th := &thread{
			Thread:  apply.Thread{Key: events.Thread{Session: "s-" + name, Name: "main"}},
			session: h.session("s-"+name, record.Record{}),
		}
		h.put(th)
		return th
	}
	held, renamed := put("held"), put("renamed")
	held.pending.Add(1)
	mark := &thread{Thread: apply.Thread{Key: renamed.Key}, session: renamed.session, gone: true, became: renamed}
	h.put(mark)
	renamed.Key.Name = "other"
	h.put(renamed)
	renamed.pending.Add(1)
	for i := range 5 {
		h.batches++
		put(fmt.Sprint(i))
	}
	check := func(want ...string) {
		t.Helper()
		h.evict()
		var got []string
		for key, th := range h.threads {
			if h.sessions[key.Session] != th.session || !th.session.names[key.Name] {
				t.Errorf("%s is in memory without its session", key)
			}
			got = append(got, key.String())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("in memory are %q, want %q", got, want)
		}
		if n := len(slices.Collect(maps.Keys(h.sessions))); h.recent.Len() != len(want) || n > len(want) {
			t.Errorf("%d threads and %d sessions are counted, want those of %d threads", h.recent.Len(), n, len(want))
		}
	}
	name := func(session, thread string) string {
		return events.Thread{Session: "s-" + session, Name: thread}.String()
	}
	check(name("4", "main"), name("held", "main"), name("renamed", "main"), name("renamed", "other"))
	held.pending.Add(-1)
	renamed.pending.Add(-1)
	h.use(mark)
	check(name("4", "main"), name("renamed", "main"))
	h.forget(map[string]bool{"s-renamed": true, "s-4": true, "s-none": true})
	if check(); h.bytes != 0 {
		t.Errorf("nothing takes %d bytes", h.bytes)
	}
}

// What no head notes of a session's events takes memory, too: of refused operations, each of a producer of its own.
func TestMarksTakeMemory(t *testing.T) {
	const marks = 500
	id := events.Thread{Session: "s", Name: "main"}
	l := New(Deps{}, Config{HeadBytes: 2 * threadRoom}).lane
	th := &thread{Thread: apply.Thread{Key: id}, session: l.heads.session(id.Session, record.Record{})}
	l.heads.put(th)
	for i := range marks {
		s := &staged{known: true}
		s.event.Thread, s.event.Producer = id, fmt.Sprint("~", i)
		l.take(&commit{}, th, s, &apply.Change{Mark: &apply.Mark{Seq: 1}})
	}
	if n := l.heads.bytes; n < marks*markRoom {
		t.Errorf("a session with %d marks takes %d bytes, want at least %d", marks, n, marks*markRoom)
	}
	l.heads.batches++
	if l.heads.evict(); len(l.heads.threads)+len(l.heads.sessions) != 0 || l.heads.bytes != 0 {
		t.Errorf("it stays, and %d bytes are counted", l.heads.bytes)
	}
}
