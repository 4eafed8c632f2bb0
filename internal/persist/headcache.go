package persist

import (
	"container/list"
	"sync/atomic"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// headCache holds threads and sessions by name, for stage 1. What it takes is bounded by bytes: the threads that were not used for
// longest leave it, and a session leaves with the last of its threads. A thread stays while the batch in hand or a commit that is
// under way touches it: its record is not what the thread will be, and verdicts over it are not settled.
type headCache struct {
	limit    int // bytes
	bytes    int // that the threads take, about
	batches  uint64
	places   int        // in the Places of threads, or fewer
	recent   *list.List // of *thread, the one that was used last in front
	threads  map[events.Thread]*thread
	sessions map[string]*session

	stats *headCounters
}

// headCounters is what a cache did, and what it takes now.
type headCounters struct{ hits, misses, evicted, bytes atomic.Int64 }

// What a thread takes in memory beside its record, with its session; what a producer does that the record need not name, a run, and
// a mark of its session. What a record has takes twice as much.
const (
	threadRoom   = 1 << 10
	producerRoom = 96
	runRoom      = 512
	markRoom     = 256
)

func (t *thread) size() int {
	marks := len(t.session.Marks) / max(1, len(t.session.names)) // each of the session's threads has its share
	return threadRoom + 2*(t.bytes+len(t.session.value)) + producerRoom*len(t.Head.Producers) + runRoom*len(t.Runs) + markRoom*marks
}

// held reports whether a commit on its way touches the thread, or renames the one that had its name.
func (t *thread) held() bool {
	return t.pending.Load() > 0 || t.became != nil && t.became.pending.Load() > 0
}

func newHeadCache(limit int, stats *headCounters) *headCache {
	h := &headCache{limit: limit, stats: stats}
	h.clear()
	return h
}

func (h *headCache) clear() {
	h.threads, h.sessions, h.bytes = map[events.Thread]*thread{}, map[string]*session{}, 0
	h.recent = list.New()
	h.stats.bytes.Store(0)
}

// ofTerm reports whether what is in memory of an event's session, if there is anything, was read in the event's term.
func (h *headCache) ofTerm(s *staged) bool {
	known := h.sessions[s.event.Thread.Session]
	return known == nil || known.term == s.msg.Term
}

// session takes a session from its record, unless it is in memory. A record that cannot be read is written anew.
func (h *headCache) session(id string, r record.Record) *session {
	if s := h.sessions[id]; s != nil {
		return s
	}
	s := &session{names: map[string]bool{}, rev: r.Seq, Session: apply.Session{ID: id, Info: sessions.Info{ID: id}}}
	if info, err := sessions.DecodeInfo(r.Value); r.Exists() && err == nil {
		s.Info, s.Stored, s.value = info, true, r.Value
	}
	h.sessions[id] = s
	return s
}

// put has a thread in memory under its name. Who had the name is in memory no more.
func (h *headCache) put(t *thread) {
	if before := h.threads[t.Key]; before != nil {
		h.take(before)
	}
	h.threads[t.Key], t.session.names[t.Key.Name] = t, true
	t.used, t.place = h.batches, h.recent.PushFront(t)
	h.count(t)
}

// count notes what a thread takes now.
func (h *headCache) count(t *thread) {
	if t.place == nil {
		return
	}
	size := t.size()
	h.bytes += size - t.counted
	t.counted = size
	h.stats.bytes.Store(int64(h.bytes))
}

// use notes that the batch in hand uses a thread.
func (h *headCache) use(t *thread) {
	t.used = h.batches
	h.recent.MoveToFront(t.place)
	h.count(t)
}

// take takes a thread out; its session stays.
func (h *headCache) take(t *thread) {
	delete(h.threads, t.Key)
	delete(t.session.names, t.Key.Name)
	h.recent.Remove(t.place)
	h.bytes -= t.counted
	t.place, t.counted = nil, 0
	h.stats.bytes.Store(int64(h.bytes))
}

// drop takes threads out, and their sessions with the last ones.
func (h *headCache) drop(threads ...*thread) {
	for _, t := range threads {
		h.take(t)
		if s := t.session; len(s.names) == 0 {
			delete(h.sessions, s.ID)
		}
	}
}

// evict drops the threads that were not used for longest while all of them take too much.
func (h *headCache) evict() {
	for at := h.recent.Back(); at != nil && h.bytes > h.limit; {
		t := at.Value.(*thread)
		at = at.Prev()
		if t.used == h.batches { // and so are those before it
			return
		}
		if !t.held() {
			h.drop(t)
			h.stats.evicted.Add(1)
		}
	}
}

// forget drops sessions with their threads. No prepared commit may be on its way that touches one.
func (h *headCache) forget(gone map[string]bool) {
	for id := range gone {
		s := h.sessions[id]
		if s == nil {
			continue
		}
		for name := range s.names {
			h.take(h.threads[events.Thread{Session: id, Name: name}])
		}
		delete(h.sessions, id)
	}
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
