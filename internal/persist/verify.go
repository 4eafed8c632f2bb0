package persist

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"spool/internal/record"
	"spool/pkg/events"
)

// A verdict against an event holds only over a head that is verified: another process may have moved the one in memory.
// Where the commit writes the thread's head, it expects the revision that the verdict was reached on. For the other
// verdicts the lane looks at the stored head before the commit goes on (verify).
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
		doubtful, keys = append(doubtful, t), append(keys, t.record, events.DeletedKey(t.Key.Session))
	}
	rs, err := l.p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for i, t := range doubtful {
		if rs[2*i].Seq != t.rev || t.deletedSince(rs[2*i+1]) {
			return fmt.Errorf("%w: %s", errStale, t.Key)
		}
		t.Looked = now
	}
	return nil
}

// undoubt drops the doubts over the threads of a session that this commit deletes.
func (c *commit) undoubt(session string) {
	maps.DeleteFunc(c.doubts, func(t *thread, _ struct{}) bool { return t.Key.Session == session })
}

// deletedSince reports whether the session was deleted after the thread was read. That leaves the record of the
// thread's head as it was, where the thread had been renamed or removed before. The session may know it: another of its
// threads was read since.
func (t *thread) deletedSince(r record.Record) bool {
	if !r.Exists() || r.Seq == t.session.deletedRev && t.session.deletion() == t.deletion {
		return false
	}
	d, err := record.DecodeDeleted(r.Value)
	return err != nil || d.Seq != t.deletion
}

// deletion is the sequence of the event that deleted the session; 0: none is known.
func (s *session) deletion() uint64 {
	if s.Deleted == nil {
		return 0
	}
	return s.Deleted.Seq
}
