package persist

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// An event is a dead letter or it is applied, never both (SPEC P1), also where the reason to refuse it passes: it is refused by the
// commit that notes it in the record of its partition, and its letter goes out behind that.
//
//	whoever refuses       writes the record, expecting the revision that it knows; and demands that the head is as it was that it
//	                      judged by, where the commit does not write that head, and its session's deletion
//	whoever applies       demands that the record is as it was when it was read
//	an event comes again  the record says that it is refused, or, once the record has forgotten it, its letter does
//
// So of two persisters that have an event, one applies it or one refuses it. The record forgets an event when its letter is out.
//
// Its producer may send an event again, and that has another place in EVENTS. A thread's head knows what it refused. What was refused under
// a name without a thread is in the record, by its identity, until so many others were that it is forgotten: it is judged anew then.

// refusals is what a partition's record says, as the last prepared commit will leave it.
type refusals struct {
	partition int
	term      uint64 // of the partition, in which the record was read

	// Stage 1.
	top     uint64 // highest sequence of an event that was ever refused
	latest  int64  // latest time at which one was stored
	pending map[place]record.RefusedEvent
	nowhere []record.Identity // of what was refused under names without a thread, oldest first
	known   map[record.Identity]bool

	rev  uint64        // revision of the record; stage 2, once read
	done atomic.Uint64 // events up to that sequence of EVENTS are through stage 3, their letters are out

	mu   sync.Mutex
	told map[place]bool // of others, those whose letters are out
}

// place is where EVENTS has an event.
type place struct {
	seq   uint64
	index int // in its message, or record.WholeMessage
}

func (s *staged) place() place { return place{s.msg.Seq, s.index} }

// maxNowhere is how many events of a partition that no head notes are known as refused at most; where messages are small it is as many as
// a quarter of a record holds.
const maxNowhere = 1024

// ErrRefusedAgain: the same event was refused under a name without a thread. Its producer goes on with a sequence of its own.
var ErrRefusedAgain = errors.New("it was refused when it came first, before there was such a thread: its dead letter says why; " +
	"publish it as a new event, with the next sequence of its producer")

// refusal is what a commit writes of a partition.
type refusal struct {
	*refusals
	value []byte
}

// ErrRefusedBefore: the event was refused when it came first, and has a dead letter.
var ErrRefusedBefore = errors.New("it was refused before: its dead letter says why")

// learnRefusals finds out which events of a batch were refused before.
func (l *lane) learnRefusals(ctx context.Context, c *commit, batch []*staged) error {
	if err := l.readRefusals(ctx, c, batch); err != nil {
		return err
	}
	var letters []events.Dead
	var of []*staged
	for _, s := range batch {
		r := l.refusals[s.msg.Partition]
		s.refused, s.whole = nil, false
		if e, ok := r.find(s); ok {
			s.refused, s.whole, s.unseen = errors.New(e.Reason), e.Index == record.WholeMessage, e.Unread
			continue
		}
		if s.msg.Seq > r.top || s.msg.Stored > r.latest { // EVENTS had not stored it when the newest one was refused
			continue
		}
		letters, of = append(letters, l.p.letter(s, "")), append(of, s)
		if s.event.Shared { // or a letter is of all of the message, with its bytes or, where nobody looked for secrets in them, without
			with := l.p.letter(s, "")
			with.Data = l.p.blanked(s.msg.Data)
			without := with
			without.Data = nil
			letters, of = append(letters, with, without), append(of, s, s)
		}
	}
	if len(letters) == 0 {
		return nil
	}
	var there []bool
	err := l.p.retry(ctx, "look for dead letters", func() (err error) {
		there, err = l.p.Outbox.HaveDead(ctx, letters)
		return err
	})
	for i := range there {
		if there[i] {
			of[i].refused, of[i].whole = ErrRefusedBefore, i > 0 && of[i] == of[i-1] // its own is the first that was asked for
		}
	}
	return err
}

// readRefusals reads the records of partitions that are not in memory, or are from an earlier term: another process may have refused
// something since.
func (l *lane) readRefusals(ctx context.Context, c *commit, batch []*staged) error {
	var missing []*refusals
	var keys []string
	again := false
	for _, s := range batch {
		known := l.refusals[s.msg.Partition]
		if known != nil && known.term == s.msg.Term {
			continue
		}
		again = again || known != nil
		r := &refusals{partition: s.msg.Partition, term: s.msg.Term, pending: map[place]record.RefusedEvent{}, known: map[record.Identity]bool{}}
		l.refusals[r.partition] = r
		missing, keys = append(missing, r), append(keys, events.RefusedKey(r.partition))
	}
	if len(missing) == 0 {
		return nil
	}
	err := error(nil)
	if again { // what was prepared in that term is to be in the record
		err = l.settle(ctx, c.epoch)
	}
	var rs []record.Record
	if err == nil {
		rs, err = l.p.Records.Records(ctx, keys...)
	}
	for i, r := range missing {
		if err != nil {
			delete(l.refusals, r.partition)
			continue
		}
		if e := r.read(rs[i]); e != nil {
			r.doubt(time.Now())
			l.p.Log.Error("what was refused in a partition is known by its letters alone: its record cannot be read",
				"partition", r.partition, "error", e)
		}
	}
	return err
}

func (r *refusals) read(rec record.Record) error {
	r.rev = rec.Seq
	switch {
	case rec.Removed():
		return errNoRecord
	case !rec.Exists():
		return nil
	}
	v, err := record.DecodeRefused(rec.Value)
	if err != nil {
		return err
	}
	r.top, r.latest, r.nowhere = v.Top, v.Latest, v.Nowhere
	for _, id := range v.Nowhere {
		r.known[id] = true
	}
	for _, e := range v.Events {
		r.pending[place{e.Seq, e.Index}] = e
	}
	return nil
}

// doubt has letters looked for of every event that is stored before now, as far as clocks may differ: any may have been refused.
func (r *refusals) doubt(now time.Time) {
	r.top, r.latest = math.MaxInt64, now.Add(clockSkew).UnixNano()
}

// clockSkew is how far the clock of the server may be ahead of ours.
const clockSkew = 10 * time.Minute

// errNoRecord: somebody removed what no persister removes.
var errNoRecord = errors.New("it was removed")

// find gives the refusal of an event, by itself or with all of its message. A restore does not know when what it
// publishes is stored.
func (r *refusals) find(s *staged) (record.RefusedEvent, bool) {
	for _, at := range []place{s.place(), {s.msg.Seq, record.WholeMessage}} {
		if e, ok := r.pending[at]; ok && (e.Stored == s.msg.Stored || e.Stored == 0) {
			return e, true
		}
	}
	return record.RefusedEvent{}, false
}

// refusedBefore is why an event was refused when it came before, or earlier in the commit; nil: it was not.
func (c *commit) refusedBefore(s *staged) error {
	if s.refused != nil {
		return s.refused
	}
	return c.refused[s.place()]
}

// noteRefusal notes in a commit that an event was refused. When its partition's share is used up, the commit ends.
func (l *lane) noteRefusal(c *commit, s *staged) {
	if c.refused == nil {
		c.refused = map[place]error{}
	}
	c.refused[s.place()] = s.verdict.Why
	if len(c.refused) >= l.p.mostRefused() {
		c.ends = true
	}
}

// mostRefused is how many events a commit refuses at most. A record holds those of the commits under way, at most five, and of as
// many that were under way when another process died; with that share three quarters of it have room for twelve, however long their
// reasons are.
func (p *Persister) mostRefused() int { return max(1, p.MaxRecord()/record.RefusedBytes/16) }

// refusedElsewhere is why an event is refused whose identity was, under a name without a thread; nil: none was.
func (l *lane) refusedElsewhere(c *commit, t *thread, s *staged) error {
	if l.refusedNowhere(c, t, s, s.event.Event.Seq) {
		return ErrRefusedAgain
	}
	return nil
}

// refusedNowhere reports whether an event of the producer of this one was refused under the name while that had no
// thread. SPOOL_EVENTS may have it no more, as in a restored store.
func (l *lane) refusedNowhere(c *commit, t *thread, s *staged, seq uint64) bool {
	r := l.refusals[s.msg.Partition]
	if seq == 0 || len(r.known)+len(c.nowhere) == 0 {
		return false
	}
	id := t.identity(s, seq)
	return r.known[id] || slices.Contains(c.nowhere[r], id)
}

// noteNowhere notes in a commit that an event was refused of which no head says so.
func (l *lane) noteNowhere(c *commit, t *thread, s *staged) {
	if c.nowhere == nil {
		c.nowhere = map[*refusals][]record.Identity{}
	}
	r := l.refusals[s.msg.Partition]
	c.nowhere[r] = append(c.nowhere[r], t.identity(s, s.event.Event.Seq))
}

// identity is that of an event of the thread, by the producer of this one.
func (t *thread) identity(s *staged, seq uint64) record.Identity {
	deleted := uint64(0)
	if t.session.Deleted != nil {
		deleted = t.session.Deleted.Seq
	}
	e := s.event.Event
	e.Seq = seq
	return record.IdentityOf(&e, deleted)
}

// remember adds identities to those that are known, and forgets the oldest for them.
func (r *refusals) remember(ids []record.Identity, most int) {
	for _, id := range ids {
		if !r.known[id] {
			r.known[id] = true
			r.nowhere = append(r.nowhere, id)
		}
	}
	for len(r.nowhere) > most {
		delete(r.known, r.nowhere[0])
		r.nowhere = r.nowhere[1:]
	}
}

// keepRefusals completes a commit that is prepared: what it will write of the partitions of its events, and what it demands.
func (l *lane) keepRefusals(c *commit) {
	change := map[*refusals]bool{}
	heads := map[events.Thread]bool{}
	for _, s := range c.events {
		r := l.refusals[s.msg.Partition]
		if _, ok := c.partitions[r.partition]; !ok {
			if c.partitions == nil {
				c.partitions = map[int]*refusals{}
			}
			c.partitions[r.partition] = r
		}
		if c.deletion != nil && r.forget(c.deletion) {
			change[r] = true
		}
	}
	for _, s := range c.events {
		why, ok := c.refused[s.place()]
		if !ok || c.deletion != nil && c.deletion.session == s.event.Thread.Session {
			continue
		}
		r := c.partitions[s.msg.Partition]
		change[r], heads[s.event.Thread] = true, s.known
		r.top, r.latest = max(r.top, s.msg.Seq), max(r.latest, s.msg.Stored)
		r.pending[s.place()] = record.RefusedEvent{
			Seq: s.msg.Seq, Index: s.index, Stored: s.msg.Stored, Session: record.SessionMark(s.event.Thread.Session),
			Reason: l.p.maskedText(why.Error()), Unread: s.unseen,
		}
	}
	for r := range change {
		r.remember(c.nowhere[r], min(maxNowhere, l.p.MaxRecord()/4/len(record.Identity{})))
		c.refusals = append(c.refusals, refusal{r, r.encode(c.id, l.p.MaxRecord())})
	}
	for t := range c.doubts {
		if heads[t.Key] {
			c.unnoted = append(c.unnoted, unnoted{t, t.record, t.session.deletedRev})
		}
	}
}

// unnoted is a thread by whose head an event was refused that the commit does not write.
type unnoted struct {
	*thread
	record     string // as it was then
	deletedRev uint64 // of the session's deletion, as it was then
}

// forget drops what was refused of a session before it was deleted, and reports whether there was anything. Whoever goes on with a
// deletion may find what another persister refused of the session's next life.
func (r *refusals) forget(d *deletion) (found bool) {
	mark := record.SessionMark(d.session)
	for at, e := range r.pending {
		if e.Session == mark && d.rec.Before(e.Seq, e.Stored) {
			delete(r.pending, at)
			found = true
		}
	}
	return found
}

// encode is the record's value, without what is through.
func (r *refusals) encode(batch [16]byte, limit int) []byte {
	v, done := record.Refused{Batch: batch, Top: r.top, Latest: r.latest, Nowhere: r.nowhere}, r.done.Load()
	r.mu.Lock()
	told := r.told
	r.told = nil
	r.mu.Unlock()
	for at, e := range r.pending {
		if e.Seq <= done || told[at] {
			delete(r.pending, at)
			continue
		}
		v.Events = append(v.Events, e)
	}
	return v.Encode(limit)
}

// refusalPuts lists what a commit writes first: the records of what it refuses, and then what it demands beside.
func (p *Persister) refusalPuts(c *commit) []record.Put {
	puts := make([]record.Put, 0, len(c.partitions)+len(c.unnoted))
	writes := map[int]bool{}
	for _, r := range c.refusals {
		puts = append(puts, record.Put{Key: events.RefusedKey(r.partition), Value: r.value, Expect: r.rev})
		writes[r.partition] = true
	}
	for part, r := range c.partitions {
		if !writes[part] {
			puts = append(puts, p.demand(events.RefusedKey(part), r.rev))
		}
	}
	alive := map[string]bool{}
	for _, t := range c.unnoted {
		puts = append(puts, p.demand(t.record, t.rev))
		if !alive[t.Key.Session] { // a name without a thread has the same record behind a deletion
			puts = append(puts, p.demand(events.DeletedKey(t.Key.Session), t.deletedRev))
		}
		alive[t.Key.Session] = true
	}
	return puts
}

// demand makes a commit one that is refused if a record is not at that revision.
func (p *Persister) demand(key string, rev uint64) record.Put {
	return record.Put{Key: events.LaneKey(p.cfg.Lane), Value: []byte{1}, Of: key, Expect: rev}
}

// through notes that all of a commit is out.
func (c *commit) through() {
	for _, s := range c.events {
		r := c.partitions[s.msg.Partition]
		if r == nil {
			continue
		}
		if s.last {
			r.done.Store(max(r.done.Load(), s.of.done()))
		}
		if s.verdict.Is == apply.Dead {
			r.tell(s.place())
		}
	}
}

// tell notes that a letter is out.
func (r *refusals) tell(at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = map[place]bool{}
	}
	r.told[at] = true
}
