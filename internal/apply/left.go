package apply

import (
	"context"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Left is what is known of a thread that had a name and has it no more.
type Left struct {
	To   string       // its new name; empty: it was removed, and the name is free
	Head threads.Head // what it had seen
}

// Leaving is what becomes of the name of a thread.
type Leaving struct {
	To    string // its new name; empty: it is removed
	Takes uint64 // revision of the record that the new name had
}

// ReadLeft reads what became of a thread whose record was removed and which is not in the history; nil if nobody knows.
func ReadLeft(ctx context.Context, s Records, t events.Thread) (*Left, error) {
	rs, err := s.Records(ctx, events.LeftKey(t))
	if err != nil || !rs[0].Exists() {
		return nil, err
	}
	return DecodeLeft(rs[0].Value)
}

// Records reads records by their keys.
type Records interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
}

// DecodeLeft reads the value of the record that stays under a thread's old name.
func DecodeLeft(value []byte) (*Left, error) {
	rec, err := record.DecodeLeft(value)
	if err != nil {
		return nil, err
	}
	head, err := threads.DecodeHead(rec.Head)
	if err != nil {
		return nil, err
	}
	return &Left{To: rec.To, Head: head}, nil
}

// Encode is the value of the record that stays under a thread's old name.
func (l *Left) Encode() []byte { return record.Left{To: l.To, Head: l.Head.Encode()}.Encode() }

// renamed is the refusal of what comes for a thread under a name that it had.
func (l *Left) renamed(t events.Thread) error {
	return fmt.Errorf("%w: %s is %s now: go on there", ErrRenamed, t, events.Thread{Session: t.Session, Name: l.To})
}

// Ended gives the record that took over when a thread ended; one that has not ended keeps its own.
func Ended(ctx context.Context, s Records, t events.Thread, active record.Record) (record.Record, error) {
	if !active.Removed() {
		return active, nil
	}
	rs, err := s.Records(ctx, events.HistoryOf(t))
	if err != nil || !rs[0].Exists() {
		return active, err
	}
	return rs[0], nil
}

// had reports whether a thread that left its name had an event, also where that is sent again: a name that was removed begins anew
// with what comes behind the removal, but one that was renamed goes on elsewhere.
//
// What takes a thread from its name is done once. A removal whose answer was lost would take the thread that has the name by then.
func (d *draft) had(ctx context.Context) (verdict Verdict, had bool, err error) {
	verdict.Is = Repeated
	leaves := d.op.Op == events.OpRemove || d.op.Op == events.OpRename
	if leaves {
		if err := d.learnLeft(ctx); err != nil {
			return verdict, false, err
		}
	}
	if d.Left == nil {
		return verdict, false, nil
	}
	switch known := d.Left.Head.Duplicate(d.e.Producer, d.e.Epoch, d.e.Seq); {
	case d.e.At <= d.Left.Head.Applied:
		if !known && !d.forgets(&d.Left.Head) {
			return verdict, false, nil
		}
	case known && (leaves || d.Left.sentBefore(d.e.Producer)): // its producer sends it again behind the rename, or the removal
		d.Doubt = d.e.At > d.st.Looked
		if verdict, err = d.repeated(ctx, &d.Left.Head); err != nil {
			return verdict, false, err
		}
	default:
		return verdict, false, nil
	}
	return verdict, true, nil
}

// sentBefore reports whether a producer sent events to a renamed thread while that had the name. Those who sent to an earlier thread
// of the name alone may publish the same anew.
func (l *Left) sentBefore(producer string) bool {
	return l.To != "" && slices.ContainsFunc(l.Head.Producers, func(p threads.Producer) bool {
		return p.ID == producer && p.At >= l.Head.Life
	})
}

// learnLeft reads what is known of the thread that had a name before, where the name is taken again.
func (d *draft) learnLeft(ctx context.Context) error {
	if d.AskedLeft || d.Left != nil || d.Head.Start.IsZero() && !d.st.Unread {
		return nil
	}
	known, err := ReadLeft(ctx, d.w, d.st.Key)
	if err != nil && Passing(err) {
		return err
	}
	if known != nil && known.To == "" { // a record that can not be read tells nothing
		d.Left = known
	}
	d.AskedLeft = true
	return nil
}

// LeaveTo is what stays known under a thread's name when it leaves it: what the thread had seen, and those that had the
// name before. A new name keeps them apart by a life, behind the last event of those.
func (t *Thread) LeaveTo(to string) *Left {
	h := t.Head.Clone()
	seen := threads.Head{
		Producers: h.Producers, Gaps: h.Gaps, Applied: h.Applied, Batch: h.Batch, Updated: h.Updated, Began: h.Began,
	}
	if t.Left != nil {
		seen.Inherit(&t.Left.Head)
		seen.Began = t.Left.Head.Began
		if to != "" {
			seen.Life = t.Left.Head.Applied + 1
		}
	}
	if to == "" { // what is garbage now (package gc)
		seen.Entries, seen.N, seen.BytesIn = h.Entries, h.N, h.BytesIn
	}
	return &Left{To: to, Head: seen}
}

// earlier is what stays known of those that had a name before, when a thread takes it: nil, if there was none but the
// thread itself. own is what is known of those that had the thread's present name before it. If one of them was seen
// behind the rename, the renamed thread is among them: it was removed since, and another takes the name. since is what
// came under the name while the thread itself had another one, and is noted here alone: its head takes that over.
func (l *Left) earlier(own *Left) (earlier *Left, since *threads.Head) {
	if l == nil || l.To == "" {
		return l, nil
	}
	seen, noted := l.Head.Clone(), threads.Head{Gaps: l.Head.Gaps}
	seen.Life = 0
	for _, p := range l.Head.Producers {
		if p.At > l.Head.Applied { // a deletion that was refused
			noted.Producers = append(noted.Producers, p)
			noted.Applied = max(noted.Applied, p.At)
		}
	}
	switch {
	case own != nil && own.Head.Applied > l.Head.Applied:
		seen.Applied = max(seen.Applied, noted.Applied)
		return &Left{Head: seen}, nil
	case l.Head.Life == 0: // the thread itself had the name last
		return nil, &noted
	}
	seen.Applied = l.Head.Life - 1
	return &Left{Head: seen}, &noted
}
