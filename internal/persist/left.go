package persist

import (
	"context"
	"errors"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// leave writes, when a commit is finished, what becomes of the record of a thread that is renamed or removed.
func (t *touched) leave() {
	t.removes = t.thread.record
	if t.leaves.To != "" {
		t.thread.record = events.HeadKey(t.key)
		return
	}
	t.thread.record = events.LeftKey(t.key)
	t.value = t.LeaveTo("").Encode()
}

// noteWithout notes an event under a name that no thread has, beside what is known of those that had it. All before
// must be committed.
func (l *lane) noteWithout(ctx context.Context, t *thread, s *staged) error {
	for {
		fence, err := l.p.Records.Fence(ctx, l.p.cfg.Lane)
		if err != nil {
			return err
		}
		rs, err := l.p.Records.Records(ctx, events.LeftKey(t.Key))
		if err != nil {
			return err
		}
		known := &apply.Left{}
		if rs[0].Exists() {
			if known, err = apply.DecodeLeft(rs[0].Value); err != nil {
				return err
			}
		}
		if !known.Head.Duplicate(s.event.Producer, s.event.Epoch, s.event.Seq) {
			known.Head.Saw(s.event.Producer, s.event.Epoch, s.event.Seq, s.msg.Seq)
			if known.To == "" { // else it says when the thread was renamed
				known.Head.Applied = max(known.Head.Applied, s.msg.Seq)
			}
			known.Head.Entries, known.Head.N, known.Head.BytesIn = 0, 0, 0 // a newer record must not explain the same garbage again
			put := record.Put{Key: rs[0].Key, Value: known.Encode(), Expect: rs[0].Seq}
			_, err = l.p.Records.Commit(ctx, fence, []record.Put{put})
		}
		switch {
		case errors.Is(err, record.ErrConflict): // a collector began, or another persister is at it
			continue
		case err == nil:
			t.Left = known
		}
		return err
	}
}
