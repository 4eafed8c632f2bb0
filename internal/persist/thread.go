package persist

import (
	"maps"
	"sync/atomic"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// thread is a thread as the lane knows it: its head as the last prepared commit will leave it.
type thread struct {
	key     events.Thread
	session *session
	record  string // key of its record: among the active threads or, once it has ended, in the history

	// Stage 1.
	head   threads.Head
	memory dialect.Memory // projection memory at the head
	fresh  bool           // no event was seen since it was loaded
	looked uint64         // what EVENTS had when its record was looked at, or less
	left   *left          // what is known of the thread that had this name before, if there is none or a new one
	asked  bool           // whether that is all that there is to know
	gone   bool           // it was removed or renamed: what comes next reads its record again
	reused bool           // when it was loaded there was no thread of its name, and there had been one

	runs map[string]record.Run // those seen since it was loaded, by id; nil while there is none

	pending atomic.Int64 // prepared commits that touch it and are not through stage 2
	rev     uint64       // revision of its record, 0 = none; stage 2, once loaded
	sent    atomic.Int64 // number of the last item published; stage 3, read by stage 1
}

// session is what the lane knows about a session.
type session struct {
	id    string
	info  sessions.Info
	value []byte // the record that the last prepared commit will leave; nil if there is none

	term uint64 // of its partition, in which what is in memory of it was read

	deleted    *record.Deleted // how it was deleted, if it was; as of when a thread of it was loaded
	deletedRev uint64

	marks map[marked]mark // of events that no head notes
}

// headCache holds threads and sessions by name, for stage 1.
type headCache struct {
	limit    int
	threads  map[events.Thread]*thread
	sessions map[string]*session
}

func newHeadCache(limit int) *headCache {
	h := &headCache{limit: limit}
	h.clear()
	return h
}

func (h *headCache) clear() {
	h.threads, h.sessions = map[events.Thread]*thread{}, map[string]*session{}
}

// ofTerm reports whether what is in memory of an event's session, if there is anything, was read in the event's term.
func (h *headCache) ofTerm(s *staged) bool {
	known := h.sessions[s.event.Thread.Session]
	return known == nil || known.term == s.msg.Term
}

// forget drops sessions with their threads. No prepared commit may be on its way that touches one.
func (h *headCache) forget(gone map[string]bool) {
	maps.DeleteFunc(h.threads, func(t events.Thread, _ *thread) bool { return gone[t.Session] })
	maps.DeleteFunc(h.sessions, func(id string, _ *session) bool { return gone[id] })
}

// news makes the commit change the thread, by this event, and gives the commit its pack when it is the first. head is what
// the event builds on: the thread's own, or where it moves to.
func (c *commit) news(t *thread, s *staged, head threads.Head) {
	if c.pack.IsZero() {
		c.nodes = builders.Get().(*casstore.PackBuilder)
		c.pack = casstore.PackID(c.id)
		c.blobs = map[casstore.Ref][]byte{}
		c.uploads = map[casstore.Ref]*uploaded{}
		c.refers = map[casstore.Ref]bool{}
	}
	if t.reused && t.head.Start.IsZero() {
		head.Life = s.msg.Seq
	}
	_, known := c.byKey[t.key]
	if !known {
		n := &touched{thread: t, was: t.key, key: t.key, base: head.Head().Pack}
		c.byKey[t.key] = n
		c.threads = append(c.threads, n)
	}
	if !known || head.Head() != t.head.Head() { // what a later state refers to beside this is in the pack itself
		c.locate(&head)
	}
	delete(t.session.marks, s.marked())
	t.head = head
	t.head.Applied = s.msg.Seq
	t.head.Saw(s.event.Producer, s.event.Epoch, s.event.Seq, s.msg.Seq)
}

// locate tells the pack being built where the nodes are that a thread's next states refer to.
func (c *commit) locate(h *threads.Head) {
	for _, l := range h.Located() {
		if !l.IsZero() && l.Pack != c.pack {
			c.nodes.Locate(l)
		}
	}
}

// learn takes what an entry says about its session. It reports whether the session's record changes.
func (s *session) learn(t *thread, st *staged, e *dialect.Entry) bool {
	was := s.info
	main := t.key.Name == events.MainThread || s.value == nil
	project.Learn(&s.info, e, main)
	if main && st.event.Host != "" {
		s.info.Host = st.event.Host
	}
	if _, known := dialect.Lookup(st.event.Dialect); known && s.info.Harness == "" && dialect.IsJSON(st.event.Dialect) {
		s.info.Harness = st.event.Dialect
	}
	if s.info.Created == 0 {
		s.info.Created = t.head.Created
	}
	return s.value == nil || s.info != was
}
