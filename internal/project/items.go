package project

import (
	"context"
	"iter"
	"slices"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// large is above how many bytes an entry has a few of its kind at most in memory to make items of, in the process: what is made of it
// is short, and it takes a multiple of itself meanwhile. Small ones wait for none.
const large = 1 << 20

var larges = make(chan struct{}, 4)

// Items makes the items of an entry again from its node: the same, byte for byte, as were sent (DESIGN 8), without the
// Life that their thread's head knows.
func Items(ctx context.Context, t events.Thread, step threads.Step) ([]events.Posted, error) {
	if step.Entry.Count == 0 {
		return nil, nil
	}
	if step.ContentSize() > large {
		select {
		case larges <- struct{}{}:
			defer func() { <-larges }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	content, err := step.ReadContent(ctx)
	if err != nil {
		return nil, err
	}
	return Rebuild(t, step.At.Ref, step.State, content.Text)
}

// ItemsFrom makes the items of a thread again, in order, from number n to the last one that the head has, those of branches that were left
// included. What it reads does not depend on how much of the thread is before n. The first error ends it.
func ItemsFrom(ctx context.Context, r threads.Reader, t events.Thread, head threads.Head, n int64) iter.Seq2[events.Posted, error] {
	return func(yield func(events.Posted, error) bool) {
		if n > head.N {
			return
		}
		for step, err := range r.EntriesFrom(ctx, head, n) {
			var items []events.Posted
			if err == nil && step.Entry.First+step.Entry.Count > n {
				items, err = Items(ctx, t, step)
			}
			if err != nil {
				yield(events.Posted{}, err)
				return
			}
			for _, it := range items {
				it.Life = head.Life
				if it.N >= n && !yield(it, nil) {
					return
				}
			}
		}
	}
}

// ItemsBack makes the items of a thread again, from the one before a number back to the first, over all its branches. Who stops early
// reads no more than that. The first error ends it.
func ItemsBack(ctx context.Context, r threads.Reader, t events.Thread, head threads.Head, before int64) iter.Seq2[events.Posted, error] {
	return func(yield func(events.Posted, error) bool) {
		for step, err := range r.EntriesBack(ctx, head) {
			var items []events.Posted
			if err == nil && step.Entry.First < before {
				items, err = Items(ctx, t, step)
			}
			if err != nil {
				yield(events.Posted{}, err)
				return
			}
			for _, it := range slices.Backward(items) {
				it.Life = head.Life
				if it.N < before && !yield(it, nil) {
					return
				}
			}
		}
	}
}
