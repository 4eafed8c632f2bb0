package persist

import (
	"maps"
	"sync/atomic"

	"spool/internal/apply"
	"spool/pkg/events"
)

// thread is a thread as the lane knows it: its head as the last prepared commit will leave it.
type thread struct {
	apply.Thread // stage 1

	session *session
	record  string // key of its record: among the active threads or, once it has ended, in the history
	gone    bool   // it was removed or renamed: what comes next reads its record again

	bytes int    // of its head's record, as far as it was read or written
	used  uint64 // the batch that used it last

	pending atomic.Int64 // prepared commits that touch it and are not through stage 2
	rev     uint64       // revision of its record, 0 = none; stage 2, once loaded
	sent    atomic.Int64 // number of the last item published; stage 3, read by stage 1
}

// session is what the lane knows about a session; what is known of its deletion is as of when a thread of it was
// loaded.
type session struct {
	apply.Session

	names      map[string]bool // of its threads that are in memory, or were
	value      []byte          // the record that the last prepared commit will leave; nil if there is none
	term       uint64          // of its partition, in which what is in memory of it was read
	deletedRev uint64
}

// headCache holds threads and sessions by name, for stage 1.
type headCache struct {
	limit    int    // bytes that they take, about
	most     int    // threads at which to count these again
	batches  uint64 // how many came
	places   int    // in the Places of threads, or fewer
	threads  map[events.Thread]*thread
	sessions map[string]*session
}

// threadRoom is what a thread takes in memory beside its record, with its session. What its record has takes twice as much.
const threadRoom = 1 << 10

func (t *thread) size() int { return threadRoom + 2*(t.bytes+len(t.session.value)) }

func newHeadCache(limit int) *headCache {
	h := &headCache{limit: limit}
	h.clear()
	return h
}

func (h *headCache) clear() {
	h.most = 0
	h.threads, h.sessions = map[events.Thread]*thread{}, map[string]*session{}
}

// ofTerm reports whether what is in memory of an event's session, if there is anything, was read in the event's term.
func (h *headCache) ofTerm(s *staged) bool {
	known := h.sessions[s.event.Thread.Session]
	return known == nil || known.term == s.msg.Term
}

// boundPlaces bounds what is known of all threads' entries, when there is more of one: what is known of others is
// dropped.
func (h *headCache) boundPlaces(of *thread, more int) {
	if h.places += more; h.places <= apply.MostPlaces {
		return
	}
	h.forgetPlaces(of)
	h.places = of.Places.Len()
}

// forgetPlaces forgets where entries are, but of one thread.
func (h *headCache) forgetPlaces(but *thread) {
	for _, t := range h.threads {
		if t != but {
			t.Places = nil
		}
	}
}

// put has a thread in memory under its name.
func (h *headCache) put(t *thread) {
	h.threads[t.Key], t.session.names[t.Key.Name], t.used = t, true, h.batches
}

// forget drops sessions with their threads. No prepared commit may be on its way that touches one.
func (h *headCache) forget(gone map[string]bool) {
	maps.DeleteFunc(h.threads, func(t events.Thread, _ *thread) bool { return gone[t.Session] })
	maps.DeleteFunc(h.sessions, func(id string, _ *session) bool { return gone[id] })
}
