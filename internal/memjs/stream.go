package memjs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// stream is a store with the rules for what goes in, and its consumers.
type stream struct {
	store
	s         *Server
	cfg       server.StreamConfig
	told      []byte // cfg as streamInfo tells it; nil: not made yet
	created   time.Time
	subjects  []pattern
	transform server.SubjectTransformer // nil: subjects are stored as they come
	consumers []*consumer               // in the order in which they were made
	ackBegin  string                    // how the ack of a publish begins

	ids       map[string]stored // message ids, for the duplicates window
	idOrder   []string
	lastMsgID string
	atomic    map[string]*atomicBatch
	fast      map[string]*fastBatch
	schedules map[string]*schedule // by the subject of their message
	age       timer                // the first message is too old
	ttls      map[uint64]int64     // when messages with a time to live expire, Unix nanoseconds, by sequence
	ttl       timer                // the first of them does
}

// stored says where and when the message of an id was stored.
type stored struct {
	seq uint64
	ts  int64
}

func newStream(s *Server, cfg server.StreamConfig) (*stream, error) {
	st := &stream{
		s: s, created: s.now.UTC(),
		store: store{
			clock:     s,
			bySubject: map[string]*sequences{}, inFile: cfg.Storage == server.FileStorage,
			remember: s.cfg.Stale != nil,
		},
		ids: map[string]stored{}, atomic: map[string]*atomicBatch{}, fast: map[string]*fastBatch{},
		schedules: map[string]*schedule{},
		ttls:      map[uint64]int64{},
	}
	st.ttl = timer{fire: st.expireTTLs, what: "time to live", stream: cfg.Name}
	st.age = timer{fire: st.expire, what: "age", stream: cfg.Name}
	st.ackBegin = fmt.Sprintf("{%q:%q,%q:", "stream", cfg.Name, "seq")
	if err := st.configure(cfg); err != nil {
		return nil, err
	}
	if cfg.FirstSeq > 0 {
		st.first, st.last = cfg.FirstSeq, cfg.FirstSeq-1
	}
	return st, nil
}

// configure takes a configuration that was checked.
func (st *stream) configure(cfg server.StreamConfig) error {
	st.transform = nil
	if t := cfg.SubjectTransform; t != nil {
		tr, err := server.NewSubjectTransform(t.Source, t.Destination)
		if err != nil {
			return err
		}
		st.transform = tr
	}
	st.cfg, st.told = cfg, nil
	st.subjects = newPatterns(cfg.Subjects)
	return nil
}

func (st *stream) takes(subject string) bool {
	return slices.ContainsFunc(st.subjects, func(p pattern) bool { return p.matches(subject) })
}

// transformed is a subject as it is stored. What the transform does not match stays as it is.
func (st *stream) transformed(subject string) string {
	if st.transform != nil {
		if to, err := st.transform.Match(subject); err == nil {
			return to
		}
	}
	return subject
}

// put stores a message that was checked and whose bytes stay, and enforces the limits.
func (st *stream) put(subject string, hdr, data []byte) uint64 {
	m := &message{seq: st.last + 1, subject: subject, ts: st.s.stamp().UnixNano(), hdr: hdr, data: data}
	st.add(m)
	if told := st.s.cfg.Stored; told != nil {
		told(st.cfg.Name, m.shown())
	}
	st.limitSubject(subject)
	for st.cfg.MaxMsgs > 0 && int64(st.count) > st.cfg.MaxMsgs {
		st.take(st.load(st.first))
	}
	for st.cfg.MaxBytes > 0 && st.bytes > uint64(st.cfg.MaxBytes) && st.count > 0 {
		st.take(st.load(st.first))
	}
	st.armAge()
	st.noteTTL(m)
	st.schedule(m)
	for _, o := range st.consumers {
		o.stored(m)
	}
	st.trimChanges()
	return m.seq
}

func (st *stream) limitSubject(subject string) {
	if st.cfg.MaxMsgsPer <= 0 {
		return
	}
	for of := st.bySubject[subject]; of != nil && int64(len(of.seqs)) > st.cfg.MaxMsgsPer; {
		st.take(st.load(of.seqs[0]))
	}
}

func (st *stream) take(m *message) {
	st.remove(m)
	if sc := st.schedules[m.subject]; sc != nil && sc.seq == m.seq {
		st.unschedule(m.subject)
	}
	for _, o := range st.consumers {
		o.removed(m)
	}
}

// full says why the limits of a stream that discards what is new refuse a message; "" when they do not.
func (st *stream) full(m *message) string {
	if st.cfg.Discard != server.DiscardNew {
		return ""
	}
	var oldest *message // that would go for this one
	if of := st.bySubject[m.subject]; of != nil && st.cfg.MaxMsgsPer > 0 && int64(len(of.seqs)) >= st.cfg.MaxMsgsPer {
		if rollup, _ := headerValue(m.hdr, server.JSMsgRollup); st.cfg.DiscardNewPer && len(rollup) == 0 {
			return server.ErrMaxMsgsPerSubject.Error()
		}
		oldest = st.load(of.seqs[0])
	}
	if st.cfg.MaxMsgs > 0 && int64(st.count) >= st.cfg.MaxMsgs && oldest == nil {
		return server.ErrMaxMsgs.Error()
	}
	size := st.size(m)
	if st.cfg.MaxBytes > 0 && st.bytes+size > uint64(st.cfg.MaxBytes) && (oldest == nil || st.size(oldest) < size) {
		return server.ErrMaxBytes.Error()
	}
	return ""
}

// purge removes messages as the API says: of a subject, up to a sequence, all but the newest keep.
func (st *stream) purge(subject string, below, keep uint64) (purged uint64) {
	if below == 1 {
		return 0
	}
	p := newPattern(subject)
	n, first, last := st.span(p)
	end := last
	if below > 0 {
		end = min(last, below-1)
	}
	most := n
	if keep > 0 {
		most = n - min(keep, n)
	}
	var one *message
	for seq := first; n > 0 && seq <= end && purged < most; seq++ {
		if m := st.load(seq); m != nil && p.matches(m.subject) {
			st.remove(m)
			if sc := st.schedules[m.subject]; sc != nil && sc.seq == m.seq {
				st.unschedule(m.subject)
			}
			one = m
			purged++
		}
	}
	switch {
	case p.all() && below > st.last+1:
		st.jump(below)
	case p.all() && below == 0 && keep == 0 && st.count == 0:
		st.first = st.last + 1
	}
	st.afterPurge(subject, purged, one)
	return purged
}

// afterPurge has the consumers look at what is left.
func (st *stream) afterPurge(subject string, purged uint64, one *message) {
	all := subject == ""
	if purged == 1 && !all && subject != ">" {
		for _, o := range st.consumers {
			o.removed(one)
		}
	} else if purged > 0 {
		for _, o := range st.consumers {
			o.recount()
			o.forgetRedeliveredBelow(st.first)
		}
	}
	first := st.first
	if !all {
		_, first, _ = st.span(newPattern(subject))
	}
	for _, o := range st.consumers {
		o.purged(subject, first)
	}
	st.armAge()
}

// delete removes one message; false: there is none.
func (st *stream) delete(seq uint64) bool {
	m := st.load(seq)
	if m != nil {
		st.take(m)
	}
	return m != nil
}

// armAge sets the timer for the oldest message.
func (st *stream) armAge() {
	if st.cfg.MaxAge <= 0 || st.count == 0 {
		st.s.stopTimer(&st.age)
		return
	}
	if at := time.Unix(0, st.load(st.first).ts).Add(st.cfg.MaxAge); st.age.place == 0 || !st.age.at.Equal(at) {
		st.s.setTimer(&st.age, at)
	}
}

func (st *stream) expire() {
	old := st.s.now.Add(-st.cfg.MaxAge).UnixNano()
	for seq := st.first; st.count > 0 && seq <= st.last; seq++ {
		m := st.load(seq)
		if m == nil {
			continue
		}
		if m.ts > old {
			break
		}
		st.take(m)
	}
	st.armAge()
}

// noteTTL sets when a message expires that says how long it lives.
func (st *stream) noteTTL(m *message) {
	if !st.cfg.AllowMsgTTL {
		return
	}
	if life, ok := parseTTL(header(m.hdr, server.JSMessageTTL)); ok && life > 0 {
		st.ttls[m.seq] = m.ts + int64(life)
		st.armTTLs()
	}
}

// parseTTL reads a time to live: seconds, or a duration of at least one; 0 = none.
func parseTTL(text string) (life time.Duration, ok bool) {
	if text == "" {
		return 0, true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d.Truncate(time.Second), d >= time.Second
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return time.Duration(n) * time.Second, err == nil
}

func (st *stream) armTTLs() {
	first := int64(math.MaxInt64)
	for seq, at := range st.ttls {
		if st.load(seq) == nil {
			delete(st.ttls, seq)
			continue
		}
		first = min(first, at)
	}
	if first == math.MaxInt64 {
		st.s.stopTimer(&st.ttl)
	} else {
		st.s.setTimer(&st.ttl, time.Unix(0, first))
	}
}

func (st *stream) expireTTLs() {
	now := st.s.now.UnixNano()
	for _, seq := range slices.Sorted(maps.Keys(st.ttls)) {
		if st.ttls[seq] > now {
			continue
		}
		delete(st.ttls, seq)
		st.delete(seq)
	}
	st.armTTLs()
}

// duplicate is the sequence of a message with the same id within the duplicates window.
func (st *stream) duplicate(id string) (seq uint64, is bool) {
	old := st.s.now.Add(-st.cfg.Duplicates).UnixNano()
	for len(st.idOrder) > 0 && st.ids[st.idOrder[0]].ts < old {
		delete(st.ids, st.idOrder[0])
		st.idOrder = st.idOrder[1:]
	}
	was, is := st.ids[id]
	return was.seq, is
}

func (st *stream) noteID(id string, seq uint64) {
	if st.lastMsgID = id; id != "" && st.cfg.Duplicates > 0 {
		st.ids[id] = stored{seq, st.s.now.UnixNano()}
		st.idOrder = append(st.idOrder, id)
	}
}

// close ends everything that a stream has under way.
func (st *stream) close() {
	st.s.stopTimer(&st.age)
	st.s.stopTimer(&st.ttl)
	for _, id := range sortedKeys(st.atomic) {
		st.atomic[id].end()
	}
	for _, id := range sortedKeys(st.fast) {
		st.fast[id].end()
	}
	for _, subject := range sortedKeys(st.schedules) {
		st.unschedule(subject)
	}
}

// trimChanges forgets changes that no read undoes any more.
func (st *stream) trimChanges() {
	if n := len(st.changes) - staleChanges; n >= staleChanges {
		st.changes = slices.Clone(st.changes[n:])
	}
}

// staleChanges is how far back a stale read can be, in changes of its stream; an operation makes one or more.
const staleChanges = 256
