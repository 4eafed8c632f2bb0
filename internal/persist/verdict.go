package persist

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// verdict is what becomes of an event. Each event of EVENTS ends as one of them (SPEC P1).
type verdict struct {
	is  fate
	why error // of a dead one
}

type fate uint8

const (
	applied    fate = iota
	repeated        // it was applied before, or goes with its session
	superseded      // an event that it is linked to was never stored: its producer was told, and publishes both again
	dead            // it goes to the dead letters
)

// refuse is the verdict against an event that can not be applied; without a reason it can.
func refuse(why error) verdict {
	if why == nil {
		return verdict{}
	}
	return verdict{dead, why}
}

// count counts what became of an event.
func (p *Persister) count(s *staged) {
	switch s.verdict.is {
	case repeated:
		p.stats.repeated.Add(1)
	case superseded:
		p.stats.superseded.Add(1)
		p.Log.Debug("an event is superseded: what it is linked to was never stored", "thread", s.event.Thread,
			"producer", s.event.Producer, "event", s.event.Seq, "prev", s.event.Prev, "seq", s.msg.Seq)
	case dead:
		p.stats.dead.Add(1)
	}
}

// passing reports whether an error says nothing about the event over which it came: the store does not answer, the persister may
// not ask, or it is told to stop. Every other error of applying an event is a refusal of that event.
func passing(err error) bool {
	return record.Temporary(err) || errors.Is(err, record.ErrDenied) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// patient reads records until the store answers: whoever decides by them gets no error that passes.
type patient struct {
	bucket
	p *Persister
}

// bucket is Records, under a name that a struct can embed beside a method of that name.
type bucket = Records

func (r patient) Records(ctx context.Context, keys ...string) (rs []record.Record, err error) {
	err = r.p.retry(ctx, "read records", func() error {
		rs, err = r.bucket.Records(ctx, keys...)
		return err
	})
	return rs, err
}

func (r patient) FindPack(ctx context.Context, id casstore.PackID) (found record.FoundPack, err error) {
	err = r.p.retry(ctx, "find a pack", func() error {
		found, err = r.bucket.FindPack(ctx, id)
		return err
	})
	return found, err
}

func (r patient) Fence(ctx context.Context, lane int) (f record.Fence, err error) {
	err = r.p.retry(ctx, "read the fence", func() error {
		f, err = r.bucket.Fence(ctx, lane)
		return err
	})
	return f, err
}

// never reports whether the store refuses something for good: it says no, or holds what cannot be read.
func never(err error) bool {
	return (errors.Is(err, record.ErrRefused) || errors.Is(err, record.ErrValue)) && !passing(err)
}

// forLane reports whether an error is for the lane: the event is not judged, and is tried again.
func forLane(err error) bool {
	return errors.Is(err, errBarrier) || errors.Is(err, errEpoch) || errors.Is(err, errHalfDone) || passing(err)
}

// A verdict against an event holds only over a head that is verified: another process may have moved the one in memory. Where the
// commit writes the thread's head, it expects the revision that the verdict was reached on. For the other verdicts the
// lane looks at the stored head before the commit goes on (verify).
type doubts map[*thread]struct{}

// doubt notes a verdict that only the stored head can confirm, unless this commit writes the head.
func (c *commit) doubt(t *thread) {
	if c.doubts == nil {
		c.doubts = doubts{}
	}
	c.doubts[t] = struct{}{}
}

// errStale: a verdict was reached on a head that is not the stored one. The batch is prepared again.
var errStale = errors.New("a head in memory is not the stored one")

// verify holds the heads on which events were skipped or refused against the stored ones, with one read.
func (l *lane) verify(ctx context.Context, c *commit) error {
	for _, n := range c.threads {
		delete(c.doubts, n.thread)
	}
	if len(c.doubts) == 0 {
		return nil
	}
	if err := l.settle(ctx, c.epoch); err != nil {
		return err
	}
	now := l.p.queue.newest()
	doubtful, keys := make([]*thread, 0, len(c.doubts)), make([]string, 0, 2*len(c.doubts))
	for t := range c.doubts {
		doubtful, keys = append(doubtful, t), append(keys, t.record, events.DeletedKey(t.key.Session))
	}
	rs, err := l.p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for i, t := range doubtful {
		if rs[2*i].Seq != t.rev || t.session.deletedSince(rs[2*i+1]) {
			return fmt.Errorf("%w: %s", errStale, t.key)
		}
		t.looked = now
	}
	return nil
}

// undoubt drops the doubts over the threads of a session that this commit deletes.
func (c *commit) undoubt(session string) {
	maps.DeleteFunc(c.doubts, func(t *thread, _ struct{}) bool { return t.key.Session == session })
}

// deletedSince reports whether a session was deleted after its deletion's record was read. That leaves the record of a
// thread's head as it was, where the thread had been renamed or removed before.
func (s *session) deletedSince(r record.Record) bool {
	if r.Seq == s.deletedRev || !r.Exists() {
		return false
	}
	d, err := record.DecodeDeleted(r.Value)
	return err != nil || s.deleted == nil || d.Seq != s.deleted.Seq
}

// undo forgets the sessions of a batch that could not be prepared: some of its events may have changed what is in memory of them.
func (l *lane) undo(ctx context.Context, batch []*staged, epoch uint64) error {
	if err := l.settle(ctx, epoch); err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, s := range batch {
		changed[s.event.Thread.Session] = true
	}
	l.heads.forget(changed)
	l.outputs.forget(changed)
	return nil
}

// Past reads what EVENTS holds of one producer's events in a thread, in one epoch, from a sequence up to and without another one. It
// asks the stream's leader: what was acknowledged must not be missing.
type Past interface {
	Past(ctx context.Context, t events.Thread, producer string, epoch, from, before uint64) (events.Past, error)
}

// ErrUnlinked: nobody can tell whether the event was stored to which this one is linked.
var ErrUnlinked = errors.New("the event that it is linked to is neither in the thread nor in EVENTS any more")

// mark is how the last event of a producer stood that its thread's head does not note.
type mark struct {
	seq      uint64
	standing events.Standing
}

// marked names a producer in a thread.
type marked struct {
	thread   string
	producer string
	epoch    uint64
}

func (s *staged) marked() marked {
	return marked{s.event.Thread.Name, s.event.Producer, s.event.Epoch}
}

// maxMarks bounds the marks of a session; without one EVENTS is asked again.
const maxMarks = 1024

// mark remembers how an event stood: the next one is linked to it.
func (s *session) mark(st *staged, standing events.Standing) {
	if s.marks == nil || len(s.marks) >= maxMarks {
		s.marks = map[marked]mark{}
	}
	s.marks[st.marked()] = mark{st.event.Seq, standing}
}

// saw reports whether a thread, or the one that had its name before, has seen an event of the producer of s.
func (t *thread) saw(s *staged, seq uint64) bool {
	return t.head.Duplicate(s.event.Producer, s.event.Epoch, seq) ||
		t.left != nil && t.left.head.Duplicate(s.event.Producer, s.event.Epoch, seq)
}

// standing says how an event stands by what it is linked to (SPEC P2).
func (l *lane) standing(ctx context.Context, t *thread, s *staged) (events.Standing, error) {
	prev := s.event.Prev
	if prev == 0 || t.saw(s, prev) {
		return events.Stands, nil
	}
	if m, ok := t.session.marks[s.marked()]; ok && m.seq == prev {
		return m.standing, nil
	}
	if err := l.learnLeft(ctx, t); err != nil {
		return 0, err
	}
	if t.saw(s, prev) {
		return events.Stands, nil
	}
	return l.lookBack(ctx, t, s)
}

// How far back EVENTS is searched for what an event is linked to: further with each look, most at last, in sequences of EVENTS.
const (
	firstLook = 1 << 10
	mostLook  = 1 << 20
)

// lookBack judges an event by what EVENTS holds before it.
func (l *lane) lookBack(ctx context.Context, t *thread, s *staged) (events.Standing, error) {
	if l.p.Past == nil {
		return events.Unlinked, nil
	}
	since, floor := t.since(s), t.session.begins(s)
	known := func(seq uint64) bool { return t.saw(s, seq) }
	for look := uint64(firstLook); ; look *= 8 {
		from := max(since, floor, s.msg.Seq-min(look, s.msg.Seq))
		var past events.Past
		err := l.p.retry(ctx, "look back", func() (err error) {
			past, err = l.p.Past.Past(ctx, t.key, s.event.Producer, s.event.Epoch, from, s.msg.Seq+1)
			return err
		})
		if err != nil {
			return 0, err
		}
		for n := len(past.Links); n > 0 && past.Links[n-1].At == s.msg.Seq && past.Links[n-1].Seq >= s.event.Seq; n-- {
			past.Links = past.Links[:n-1] // itself, and what is behind it in its message
		}
		standing := events.Stand(s.event.Prev, known, past, since)
		if standing != events.Unlinked || past.From > from || from <= max(since, floor) || look >= mostLook {
			return standing, nil
		}
	}
}

// since is the first sequence of EVENTS at which an event can have been stored that a thread does not know, of the producer of s.
func (t *thread) since(s *staged) uint64 {
	since := uint64(1)
	heads := []*threads.Head{&t.head}
	if t.left != nil {
		heads = append(heads, &t.left.head)
	}
	for _, h := range heads {
		for _, p := range h.Producers {
			if p.ID == s.event.Producer && p.At < s.msg.Seq { // else EVENTS was made anew, and counts from 1 again
				since = max(since, p.At+1)
			}
		}
	}
	return since
}

// begins is the first sequence of EVENTS that still holds what was published to the session of an event: what came before its
// deletion was dropped with it.
func (s *session) begins(st *staged) uint64 {
	if s.deleted == nil || s.deleted.Seq > st.msg.Seq {
		return 1
	}
	return s.deleted.Seq + 1
}
