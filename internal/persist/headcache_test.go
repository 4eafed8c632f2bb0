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
