package threads

import (
	"context"
	"iter"

	"spool/pkg/casstore"
)

// EntriesBack iterates over all states of a thread, those of tips included, each once, the newest by Record.Index first. The first
// error ends it. It reads as it goes, and holds of each branch a state.
func (r Reader) EntriesBack(ctx context.Context, head Head) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		var open []walking
		defer func() {
			for _, w := range open {
				w.stop()
			}
		}()
		for _, root := range head.Newest() {
			next, stop := iter.Pull2(r.Walk(ctx, root))
			w := walking{next: next, stop: stop}
			open = append(open, w) // also stopped when its first step fails
			if err := open[len(open)-1].advance(); err != nil {
				yield(Step{}, err)
				return
			}
		}
		var last casstore.Ref
		for {
			newest := -1
			for i, w := range open {
				if !w.done && (newest < 0 || w.step.Entry.Index > open[newest].step.Entry.Index) {
					newest = i
				}
			}
			if newest < 0 {
				return
			}
			w := &open[newest]
			if w.step.At.Ref == last { // where branches meet they are at the same state one after the other
				w.done = true // the rest is that of the other one
				continue
			}
			last = w.step.At.Ref
			if !yield(w.step, nil) {
				return
			}
			if err := w.advance(); err != nil {
				yield(Step{}, err)
				return
			}
		}
	}
}

// walking is one branch on its way back.
type walking struct {
	next func() (Step, error, bool)
	stop func()
	step Step
	done bool
}

func (w *walking) advance() error {
	step, err, ok := w.next()
	w.step, w.done = step, !ok
	return err
}
