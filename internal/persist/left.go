package persist

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// ErrRenamed: the thread has another name now.
var ErrRenamed = errors.New("thread was renamed")

// left is what is known of a thread that had a name and has it no more.
type left struct {
	to   string       // its new name; empty: it was removed, and the name is free
	head threads.Head // what it had seen
}

// leaving is what a commit does to the name of a thread.
type leaving struct {
	to    string
	takes uint64 // revision of the record that the new name had
}

// readLeft reads what became of a thread whose record was removed and which is not in the history; nil if nobody knows.
func (p *Persister) readLeft(ctx context.Context, t events.Thread) (*left, error) {
	rs, err := p.Records.Records(ctx, events.LeftKey(t))
	if err != nil || !rs[0].Exists() {
		return nil, err
	}
	return decodeLeft(rs[0].Value)
}

func decodeLeft(value []byte) (*left, error) {
	rec, err := record.DecodeLeft(value)
	if err != nil {
		return nil, err
	}
	head, err := threads.DecodeHead(rec.Head)
	if err != nil {
		return nil, err
	}
	return &left{to: rec.To, head: head}, nil
}

// renamed is the refusal of what comes for a thread under a name that it had.
func (l *left) renamed(t events.Thread) error {
	return fmt.Errorf("%w: %s is %s now: go on there", ErrRenamed, t, events.Thread{Session: t.Session, Name: l.to})
}

// had reports whether a thread that left its name had an event. An earlier owner of the partition may have renamed the thread
// and died before the items of what came before were out.
func (l *lane) had(ctx context.Context, c *commit, t *thread, s *staged) (bool, error) {
	if t.left == nil || s.msg.Seq > t.left.head.Applied {
		return false, nil
	}
	forgotten := len(t.left.head.Producers) >= threads.MaxProducers && !l.p.Reused(s.msg.Seq, s.msg.Stored)
	if !forgotten && !t.left.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq) {
		return false, nil
	}
	s.verdict = verdict{is: repeated}
	if t.left.to == "" || !t.fresh {
		return true, nil
	}
	t.fresh = false
	now := events.Thread{Session: t.key.Session, Name: t.left.to}
	rs, err := l.p.Records.Records(ctx, events.HeadKey(now))
	if err == nil {
		rs[0], err = l.p.ended(ctx, now, rs[0])
	}
	if err != nil || !rs[0].Exists() {
		return true, err
	}
	head, err := threads.DecodeHead(rs[0].Value)
	if err == nil {
		c.reconcile = append(c.reconcile, reconcile{now, head})
	}
	return true, err
}

// learnLeft reads what is known of the thread that had a name before, where the name is taken again.
func (l *lane) learnLeft(ctx context.Context, t *thread) error {
	if t.asked || t.left != nil || t.head.Start.IsZero() {
		return nil
	}
	known, err := l.p.readLeft(ctx, t.key)
	if err != nil && passing(err) {
		return err
	}
	if known != nil && known.to == "" { // a record that can not be read tells nothing
		t.left = known
	}
	t.asked = true
	return nil
}

// settledThread gives the thread of an event once its name is certain: whoever was renamed or removed before must be committed.
func (l *lane) settledThread(ctx context.Context, c *commit, key events.Thread) (*thread, error) {
	t := l.heads.threads[key]
	if n := c.byKey[key]; n != nil && n.leaves != nil {
		return nil, errBarrier
	}
	if !t.gone {
		return t, nil
	}
	if err := l.barrier(ctx, c); err != nil {
		return nil, err
	}
	return l.reload(ctx, key)
}

// reload reads a thread again; all before must be committed.
func (l *lane) reload(ctx context.Context, key events.Thread) (*thread, error) {
	delete(l.heads.threads, key)
	if err := l.loadThreads(ctx, []events.Thread{key}); err != nil {
		return nil, err
	}
	return l.heads.threads[key], nil
}

// leave writes, when a commit is finished, what becomes of the record of a thread that is renamed or removed.
func (t *touched) leave() {
	t.removes = t.thread.record
	if t.leaves.to != "" {
		t.thread.record = events.HeadKey(t.key)
		return
	}
	t.thread.record = events.LeftKey(t.key)
	t.value = t.leaveTo("").encode()
}

// leaveTo is what stays known under a thread's name when it leaves it: what the thread had seen, and those that had the name before.
// A new name keeps them apart by a life, behind the last event of those.
func (t *thread) leaveTo(to string) *left {
	h := t.head.Clone()
	seen := threads.Head{Producers: h.Producers, Applied: h.Applied, Batch: h.Batch, Updated: h.Updated}
	if t.left != nil {
		seen.Inherit(&t.left.head)
		if to != "" {
			seen.Life = t.left.head.Applied + 1
		}
	}
	return &left{to: to, head: seen}
}

// earlier is what stays known of those that had a name before, when a thread takes it: nil, if there was none but the thread itself.
func (l *left) earlier() *left {
	if l == nil || l.to == "" {
		return l
	}
	if l.head.Life == 0 {
		return nil
	}
	seen := l.head.Clone()
	seen.Applied, seen.Life = seen.Life-1, 0
	return &left{head: seen}
}

// noteWithout notes an event under a name that no thread has, beside what is known of those that had it. All before must be committed.
func (l *lane) noteWithout(ctx context.Context, t *thread, s *staged) error {
	for {
		fence, err := l.p.Records.Fence(ctx, l.p.cfg.Lane)
		if err != nil {
			return err
		}
		rs, err := l.p.Records.Records(ctx, events.LeftKey(t.key))
		if err != nil {
			return err
		}
		known := &left{}
		if rs[0].Exists() {
			if known, err = decodeLeft(rs[0].Value); err != nil {
				return err
			}
		}
		if !known.head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq) {
			known.head.Saw(s.event.Producer, s.event.Epoch, s.event.Seq, s.msg.Seq)
			known.head.Applied = max(known.head.Applied, s.msg.Seq)
			put := record.Put{Key: rs[0].Key, Value: known.encode(), Expect: rs[0].Seq}
			_, err = l.p.Records.Commit(ctx, fence, []record.Put{put})
		}
		switch {
		case errors.Is(err, record.ErrConflict): // a collector began, or another persister is at it
			continue
		case err == nil:
			t.left = known
		}
		return err
	}
}

// encode is the value of the record that stays under a thread's old name.
func (l *left) encode() []byte { return record.Left{To: l.to, Head: l.head.Encode()}.Encode() }
