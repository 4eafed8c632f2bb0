package threads

import (
	"bytes"
	"container/heap"
	"context"
	"iter"

	"spool/pkg/casstore"
)

// EntriesBack iterates over all states of a thread, those of tips included, each once, the newest by Record.Index first. The first
// error ends it. It reads as it goes, and holds of each branch a state; branches whose tips the head does not name
// are looked at when their turn may have come.
func (r Reader) EntriesBack(ctx context.Context, head Head) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		b := backward{r: r, ways: earliest[*walking]{before: (*walking).before}}
		defer b.stop()
		next, stop := iter.Pull2(r.older(ctx, head))
		defer stop()
		more, err, older := next()
		if err == nil {
			err = b.open(ctx, head.Newest())
		}
		var last casstore.Ref
		for err == nil {
			for older && (b.ways.Len() == 0 || b.ways.list[0].step.Entry.Index <= more.Entries) && err == nil {
				if err = b.open(ctx, more.at); err == nil {
					more, err, older = next()
				}
			}
			if err != nil || b.ways.Len() == 0 {
				break
			}
			w := b.ways.list[0]
			if w.step.At.Ref == last { // where branches meet they are at the same state one after the other
				w.stop() // the rest is that of the other one
				heap.Pop(&b.ways)
				continue
			}
			last = w.step.At.Ref
			if !yield(w.step, nil) {
				return
			}
			if err = w.advance(); err == nil && w.done {
				w.stop()
				heap.Pop(&b.ways)
			} else if err == nil {
				heap.Fix(&b.ways, 0)
			}
		}
		if err != nil {
			yield(Step{}, err)
		}
	}
}

// backward is branches on their way back.
type backward struct {
	r     Reader
	ways  earliest[*walking]
	order int
}

// open adds branches.
func (b *backward) open(ctx context.Context, roots []casstore.Located) error {
	for _, root := range roots {
		next, stop := iter.Pull2(b.r.Walk(ctx, root))
		w := &walking{order: b.order, next: next, stop: stop}
		b.order++
		if err := w.advance(); err != nil || w.done {
			stop()
			if err != nil {
				return err
			}
			continue
		}
		heap.Push(&b.ways, w)
	}
	return nil
}

func (b *backward) stop() {
	for _, w := range b.ways.list {
		w.stop()
	}
}

// walking is one branch on its way back.
type walking struct {
	order int
	next  func() (Step, error, bool)
	stop  func()
	step  Step
	done  bool
}

func (w *walking) advance() error {
	step, err, ok := w.next()
	w.step, w.done = step, !ok
	return err
}

// before orders branches by the index of the state that they are at, the newest first.
func (w *walking) before(other *walking) bool {
	a, b := &w.step, &other.step
	if a.Entry.Index != b.Entry.Index {
		return a.Entry.Index > b.Entry.Index
	}
	if same := bytes.Compare(a.At.Ref[:], b.At.Ref[:]); same != 0 {
		return same < 0
	}
	return w.order < other.order
}
