package demo

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"spool/pkg/client"
	"spool/pkg/events"
)

// live is what a subscriber saw.
type live struct {
	shown func(client.Item)

	mu    sync.Mutex
	items map[events.Thread][]client.Item
	err   error
	more  chan struct{} // closed and replaced with every item
}

func newLive(shown func(client.Item)) *live {
	return &live{shown: shown, items: map[events.Thread][]client.Item{}, more: make(chan struct{})}
}

func (l *live) run(items iter.Seq2[client.Item, error]) {
	for it, err := range items {
		l.mu.Lock()
		if err != nil {
			l.err = err
		} else {
			t := events.Thread{Session: it.Session, Name: it.Thread}
			l.items[t] = append(l.items[t], it)
		}
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
		if err == nil && l.shown != nil {
			l.shown(it)
		}
	}
}

// wait returns the items of a thread once there are that many.
func (l *live) wait(ctx context.Context, t events.Thread, n int64) ([]client.Item, error) {
	for {
		l.mu.Lock()
		items, err, more := l.items[t], l.err, l.more
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if int64(len(items)) >= n {
			return items, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return items, fmt.Errorf("%s: %d of %d items arrived: %w", t, len(items), n, ctx.Err())
		}
	}
}

func (l *live) types() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int64{}
	for _, items := range l.items {
		for _, it := range items {
			n[it.Type()]++
		}
	}
	return n
}
