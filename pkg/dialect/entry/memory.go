package entry

import "cmp"

import "spool/pkg/events"

// Memory is what projecting needs to remember from entry to entry: the usage of the turn, counted once per message id
// (SPEC I2), whether the turn has ended, and which calls and prompts are open. The zero value is the beginning of a
// thread. It is bounded (Encode gives at most MaxMemory bytes), and a copy is independent of the original.
//
// Only what an entry's result depends on matters for rebuilding it: after a Read, Used tells whether the memory before it
// could have made a difference. If not, reading the entry with an empty memory gives the same result.
type Memory struct {
	start int64 // when the turn began, Unix milliseconds
	busy  int64 // from then to the last sign of the agent's work, in milliseconds; 0: nobody noted one
	ended uint64
	sum   Usage
	count Usage // from running counters, for sources that may have no record per response
	total int64 // last running total seen
	seen  [maxSeen]seen
	calls []call // never written in place: copies share it
	tree  bool   // an entry of a tree was placed
	tells bool   // the source tells when turns begin

	// Of a session whose entries have no ids (SPEC S5): its own id, and the place of its next entry, the header's being 0.
	session string
	place   int64 // 0: their ids are their own

	used, carried bool
}

const (
	maxSeen  = 4   // message ids whose lines may still arrive interleaved
	maxCalls = 128 // open or recent calls
)

// Usage is the tokens of one response. Input counts everything the model read.
type Usage struct{ Input, Cached, Output int64 }

// maxTokens bounds a single figure, so that sums of hostile ones do not overflow.
const maxTokens = 1 << 40

type seen struct {
	id uint64 // 0: free
	u  Usage
}

type call struct {
	id    uint64
	flags Flags
}

// Flags is what is known of a call.
type Flags uint8

// What can be known of a call: whether it and its result were posted, whether it failed, whether it asks a person.
const (
	Called Flags = 1 << iota
	Resulted
	Failed
	Asked
	Approval // with Asked: approval rather than a question
)

// Key makes the key of an id: FNV-1a, never 0.
func Key(id []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, 1)
}

// Begin starts a Read.
func (m *Memory) Begin() {
	m.used = false
	m.carried = m.anything()
}

// anything tells whether there is anything to remember of turns.
func (m *Memory) anything() bool {
	return m.start != 0 || m.ended != 0 || m.total != 0 || m.sum != Usage{} || m.count != Usage{} || m.seen != [maxSeen]seen{}
}

// Used tells whether the last Read's result could have differed with an empty memory.
func (m *Memory) Used() bool { return m.used }

// Use notes that the memory made a difference.
func (m *Memory) Use() { m.used = true }

// Prompt begins a turn at time t, whatever became of the one before.
func (m *Memory) Prompt(t int64) {
	m.start, m.busy, m.ended = t, 0, 0
	m.sum, m.count = Usage{}, Usage{}
	m.seen = [maxSeen]seen{}
}

// Open tells whether the agent has worked since the turn began and not ended it.
func (m *Memory) Open() bool { return m.ended == 0 && m.sum != Usage{} }

// Activity notes a sign at time t that the agent works. After the end of a turn it begins the next one, unless it belongs
// to the message that ended it (by; 0 if it has none).
func (m *Memory) Activity(t int64, by uint64) {
	if m.ended != 0 && (by == 0 || by != m.ended) {
		m.ended, m.start, m.busy = 0, 0, 0
	}
	m.start = cmp.Or(m.start, t)
}

// Worked notes when the agent was seen working, for EndWorked.
func (m *Memory) Worked(t int64) {
	if m.start > 0 {
		m.busy = max(m.busy, min(t-m.start, maxTokens))
	}
}

// EndWorked ends a turn in which the agent has worked, and which nothing has ended, at the last sign of its work.
func (m *Memory) EndWorked() (events.Stats, bool) {
	if !m.Open() {
		return events.Stats{}, false
	}
	return m.End(m.start+m.busy, 0)
}

// Tell notes that the source tells when a turn begins.
func (m *Memory) Tell() { m.tells = true }

// Tells reports whether the source ever told when a turn begins: then a prompt does not begin one.
func (m *Memory) Tells() bool { return m.tells }

// EndLeft ends what was counted and no end of a turn has told yet, at the last sign of the agent's work. Running counters
// behind the end of a turn whose responses told their own usage say nothing new.
func (m *Memory) EndLeft() (events.Stats, bool) {
	if m.Untold() == (Usage{}) {
		return events.Stats{}, false
	}
	m.ended = 0
	return m.End(m.start+m.busy, 0)
}

// Untold is what was counted that no end of a turn has told yet.
func (m *Memory) Untold() Usage {
	if m.sum != (Usage{}) || m.repeats() {
		return m.sum
	}
	return m.count
}

// repeats tells whether running counters say again what the end of a turn told, by the usage of its responses.
func (m *Memory) repeats() bool { return m.ended != 0 && m.seen[0].id != 0 }

// Usage adds the usage of a message to the turn. Of several figures for one id the greatest counts (SPEC I2).
func (m *Memory) Usage(id uint64, u Usage) {
	u = u.clamp()
	at := 0
	for i := range m.seen {
		if m.seen[i].id == id {
			at = i
			break
		}
		at = maxSeen - 1 // not seen: the oldest makes room
	}
	old := m.seen[at]
	copy(m.seen[1:at+1], m.seen[:at])
	if old.id != id {
		old = seen{id: id}
	}
	more := Usage{max(u.Input-old.u.Input, 0), max(u.Cached-old.u.Cached, 0), max(u.Output-old.u.Output, 0)}
	m.sum = m.sum.add(more)
	m.seen[0] = seen{id: id, u: old.u.add(more)}
}

// Add adds the usage of a message that is told exactly once.
func (m *Memory) Add(u Usage) { m.sum = m.sum.add(u.clamp()) }

// Count adds a figure of a source that repeats itself: it counts only if the running total has changed. The turn's end
// uses these sums when no response's own usage was seen.
func (m *Memory) Count(total int64, u Usage) {
	if total != 0 && total == m.total {
		return
	}
	m.total = total
	m.count = m.count.add(u.clamp())
}

// End ends the turn at time t and gives its figures; by is the message that ended it, or 0. It returns false if the turn
// has ended before: a turn ends once.
func (m *Memory) End(t int64, by uint64) (events.Stats, bool) {
	m.used = m.used || m.carried
	if m.ended != 0 {
		return events.Stats{}, false
	}
	u := m.sum
	if u == (Usage{}) {
		u = m.count
	}
	s := events.Stats{InputTokens: u.Input, InputTokensCached: u.Cached, OutputTokens: u.Output}
	if m.start > 0 && t > m.start {
		s.DurationMS = t - m.start
	}
	m.start, m.busy, m.ended = 0, 0, max(by, 1)
	m.sum, m.count = Usage{}, Usage{}
	return s, true
}

// Call tells what is known of a call; 0 is nothing. It does not count as use: a caller whose result depends on the
// answer says so with Use.
func (m *Memory) Call(id uint64) Flags {
	for i := len(m.calls) - 1; i >= 0; i-- {
		if m.calls[i].id == id {
			return m.calls[i].flags
		}
	}
	return 0
}

// SetCall remembers f of a call, beside what is known; the oldest of more than 128 calls is forgotten.
func (m *Memory) SetCall(id uint64, f Flags) {
	f |= m.Call(id)
	m.DropCall(id)
	keep := m.calls
	if len(keep) == maxCalls {
		keep = keep[1:]
	}
	m.calls = append(keep[:len(keep):len(keep)], call{id, f})
}

// DropCall forgets a call.
func (m *Memory) DropCall(id uint64) {
	for i := range m.calls {
		if m.calls[i].id == id {
			rest := make([]call, 0, len(m.calls))
			m.calls = append(append(rest, m.calls[:i]...), m.calls[i+1:]...)
			return
		}
	}
}

// Tree notes that an entry of a tree is placed, and tells whether one was before.
func (m *Memory) Tree() bool {
	before := m.tree
	m.tree = true
	return before
}

// Number begins to number the entries of a session, from its header on.
func (m *Memory) Number(session string) {
	m.session, m.place = session[:min(len(session), maxSession)], 1
}

// Numbered takes the place of the next entry; ok is false where entries have ids of their own.
func (m *Memory) Numbered() (session string, place int64, ok bool) {
	if m.place == 0 {
		return "", 0, false
	}
	m.used = true
	m.place++
	return m.session, m.place - 1, true
}

// maxSession is the most bytes of a session's id.
const maxSession = 512

// HasTree tells whether an entry of a tree was placed.
func (m *Memory) HasTree() bool { return m.tree }

func (u Usage) clamp() Usage {
	return Usage{min(max(u.Input, 0), maxTokens), min(max(u.Cached, 0), maxTokens), min(max(u.Output, 0), maxTokens)}
}

// add saturates far below the end of int64.
func (u Usage) add(v Usage) Usage {
	const most = 1 << 52
	return Usage{min(u.Input+v.Input, most), min(u.Cached+v.Cached, most), min(u.Output+v.Output, most)}
}
