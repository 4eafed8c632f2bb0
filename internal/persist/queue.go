package persist

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"spool/pkg/events"
)

// queue holds staged events, those of each session in the order in which they came. What it may hold is bounded by the
// persister's bytes.
//
// Who pays for events takes turns (deficit round robin): users, and within a user's turns its sessions. A turn is worth so
// much work of stage 1, estimated by bytes, and corrected by the time that the events really took. So who has a backlog,
// or whose events cost much, waits for itself, however many sessions they are in. Between sessions there is no order,
// but for an event that asks for one (hold).
type queue struct {
	mu    sync.Mutex
	lines map[string]*line // by session; one in which nothing waits is kept only while it owes
	users map[origin]*user // by who pays; the same
	ring  []*user          // those of whom events wait, in the order of their turns
	n     int              // events that wait
	came  uint64           // how many ever came
	last  uint64           // highest sequence of what was ever in it
	terms map[int]uint64   // of each partition, the latest that came
	cut   *user            // the one whose turn the end of a batch cut short; it has its grant
	heavy bool             // a large event was taken last
	some  chan struct{}    // holds a token while there is something to take or to notice

	parked *parking // what is to come into it
}

// line is a session's events, from head on.
type line struct {
	session string
	events  []*staged
	head    int
	of      *user // who pays for the next event, in whose ring the line is; nil: it is empty
	turn    bool  // its turn has begun
	account

	thread   events.Thread // of the latest event, and its producer
	producer string
}

// share has an event name its thread and producer in the memory in which the one before it in its session does. Turns
// take events in another order than that in which they are in memory, and by then no cache has what each has of its own.
func (l *line) share(s *staged) {
	if l.thread == s.event.Thread {
		s.event.Thread = l.thread
	}
	if l.producer == s.event.Producer {
		s.event.Producer = l.producer
	}
	l.thread, l.producer = s.event.Thread, s.event.Producer
}

// turn is what a session may take in a turn, eventWork and byteWork what an event and a byte of it take by estimate.
const (
	turn      = 500 * time.Microsecond
	eventWork = 4 * time.Microsecond
	byteWork  = 3 * time.Nanosecond
)

// work estimates what an event takes in stage 1.
func (s *staged) work() time.Duration { return eventWork + time.Duration(s.bytes)*byteWork }

// largeWork is that of an event that is about a batch of its own.
const largeWork = 10 * time.Millisecond

func (s *staged) large() bool { return s.work() > largeWork }

// weight is 1 for a user whose next event is large.
func (q *queue) weight(u *user) int {
	if l := q.front(u); l != nil && l.next().large() {
		return 1
	}
	return 0
}

// hold is what an event of one session waits for beside those before it in its session.
type hold struct {
	first bool   // it is to be the first of its batch
	all   bool   // everything that came before it is to be taken before
	after string // everything of that session that came before it is to be taken before
}

func newQueue(k *parking) *queue {
	return &queue{
		parked: k, lines: map[string]*line{}, users: map[origin]*user{}, terms: map[int]uint64{}, some: make(chan struct{}, 1),
	}
}

func (q *queue) push(s *staged) {
	q.mu.Lock()
	if s.came == 0 {
		q.came++
		s.came = q.came
	}
	s.bytes = s.held()
	l := q.line(s.from.session)
	l.share(s)
	l.events = append(l.events, s)
	q.place(l)
	q.n++
	q.last = max(q.last, s.msg.Seq)
	q.terms[s.msg.Partition] = max(q.terms[s.msg.Partition], s.msg.Term)
	q.mu.Unlock()
	q.wake()
}

// number is the number of a message that comes now, and into the queue later.
func (q *queue) number(m *Message) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.came++
	q.terms[m.Partition] = max(q.terms[m.Partition], m.Term)
	return q.came
}

func (q *queue) line(session string) *line {
	l := q.lines[session]
	if l == nil {
		l = &line{session: session}
		q.lines[session] = l
	}
	return l
}

// unshift puts events back, those of each session in front of the others.
func (q *queue) unshift(back []*staged) {
	q.mu.Lock()
	for _, s := range slices.Backward(back) {
		l := q.line(s.from.session)
		l.credit += s.work()
		if l.head == 0 {
			l.head = 16 + len(l.events)
			l.events = append(make([]*staged, l.head, 2*l.head), l.events...)
		}
		l.head--
		l.events[l.head] = s
		q.place(l)
		l.of.credit += s.work()
	}
	q.n += len(back)
	q.mu.Unlock()
	q.wake()
}

// wake makes whoever waits look around.
func (q *queue) wake() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// newest is the highest EVENTS sequence that has come: every event up to it was stored before now.
func (q *queue) newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// ended reports whether a later term of an event's partition has begun.
func (q *queue) ended(s *staged) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.msg.Term < q.terms[s.msg.Partition]
}

// end ends the term of a partition: what is queued of it is not applied any more.
func (q *queue) end(partition int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.terms[partition]++
}

// anew forgets what came over other connections than that one: the store may give its sequences out again.
func (q *queue) anew(link uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = 0
	for l := range q.waiting {
		for _, s := range l.events[l.head:] {
			if s.msg.Link == link {
				q.last = max(q.last, s.msg.Seq)
			}
		}
	}
}

// len is how many events wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// take removes events, turn by turn, until more says no to one.
func (q *queue) take(more func(*staged) bool) (taken []*staged) {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := false
	pick := func(l *line) bool {
		if full = !more(l.next()); !full {
			taken = append(taken, l.pop())
			q.place(l)
		}
		return !full
	}
	if l := q.wantsFirst(); l != nil {
		pick(l)
	}
	q.writeOff(time.Now())
	if q.heavy { // nobody waits for two in a row
		slices.SortStableFunc(q.ring, func(a, b *user) int { return cmp.Compare(q.weight(a), q.weight(b)) })
	}
	goesOn := q.cut
	q.cut = nil
	for !full {
		grant := q.grant()
		if grant == 0 {
			break
		}
		for i, u := range q.ring { // who comes into the ring now has its turn in the next round
			if q.front(u) == nil {
				continue
			}
			if u == goesOn {
				goesOn = nil
			} else {
				u.credit += grant
			}
			if q.serve(u, pick); full { // the next batch begins with it
				q.cut = u
				q.ring = append(slices.Clone(q.ring[i:]), q.ring[:i]...)
				break
			}
		}
	}
	q.n -= len(taken)
	if len(taken) > 0 {
		q.heavy = slices.ContainsFunc(taken, (*staged).large)
	}
	q.tidy()
	if q.n > 0 && len(taken) > 0 {
		q.wake()
	}
	return taken
}

// wantsFirst is the line of the oldest event that is to be the first of its batch.
func (q *queue) wantsFirst() (first *line) {
	for l := range q.waiting {
		if l.next().hold.first && !q.held(l) && (first == nil || l.next().came < first.next().came) {
			first = l
		}
	}
	return first
}

// held reports whether the next event of a line must wait for others. The oldest one of all never does; it may be parked.
func (q *queue) held(l *line) bool {
	s := l.next()
	if s.hold.after != "" {
		return q.before(s, s.hold.after)
	}
	return s.hold.all && q.before(s, "")
}

// before reports whether something waits, here or parked, that came before an event: of a session, or of any.
func (q *queue) before(s *staged, session string) bool {
	if q.parked.before(session, s.came) {
		return true
	}
	if session != "" {
		l := q.lines[session]
		return l != nil && !l.empty() && l.next().came < s.came
	}
	for l := range q.waiting {
		if l.next().came < s.came {
			return true
		}
	}
	return false
}

// waits is before, for others than the queue.
func (q *queue) waits(s *staged, session string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.before(s, session)
}

func (l *line) empty() bool { return l.head == len(l.events) }

func (l *line) next() *staged { return l.events[l.head] }

func (l *line) pop() *staged {
	s := l.next()
	l.events[l.head] = nil
	l.head++
	l.credit -= s.work()
	l.of.credit -= s.work()
	return s
}
