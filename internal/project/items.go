package project

import (
	"context"
	"iter"
	"slices"

	"golang.org/x/sync/semaphore"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// Of entries of more than large bytes a reader has so many in memory at most to make items of: what is made of one is short, and it takes
// a multiple of itself meanwhile. Small ones wait for none.
const (
	large     = 1 << 20
	mostLarge = 64 << 20
)

// Room is a threads.Reader's Hold, for whoever makes items of what it reads.
func Room() func(ctx context.Context, bytes int64) (free func(), err error) {
	room := semaphore.NewWeighted(mostLarge)
	return func(ctx context.Context, bytes int64) (free func(), err error) {
		if bytes <= large {
			return func() {}, nil
		}
		bytes = min(bytes, mostLarge)
		return func() { room.Release(bytes) }, room.Acquire(ctx, bytes)
	}
}

// Items makes the items of an entry again from its node: the same, byte for byte, as were sent (DESIGN 8), without the
// Life that their thread's head knows.
func Items(ctx context.Context, t events.Thread, step threads.Step) ([]events.Posted, error) {
	if step.Entry.Count == 0 {
		return nil, nil
	}
	free, err := step.Hold(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
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
