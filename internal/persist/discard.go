package persist

import (
	"context"
	"sync"

	"spool/pkg/events"
)

// leftovers are bytes that nobody needs once a commit is told and acked: bodies in the inbox, uploads that no record
// names. What it takes the store to drop them goes by their size, so the next commits do not wait for it. What is not
// dropped when the process ends is gc's.
type leftovers struct {
	queue chan leftover

	mu sync.Mutex
	of map[string]int // how many there are, by session
}

// leftover is one body or upload of a session.
type leftover struct {
	session string
	body    *events.BodyRef
	upload  *uploaded
	passed  chan struct{} // closed when its turn comes; then it is nothing else
}

// mostLeftovers is how many wait at most: beyond that stage 3 waits, so that nobody stores faster than what is left of
// it can be dropped.
const mostLeftovers = 1000

// leave has what is left of a session's event dropped.
func (l *lane) leave(ctx context.Context, o leftover) error {
	l.left.mu.Lock()
	l.left.of[o.session]++
	l.left.mu.Unlock()
	select {
	case l.left.queue <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nothingLeft waits until what is left of a session is dropped: whoever is told that it is deleted finds nothing of it.
func (l *lane) nothingLeft(ctx context.Context, session string) error {
	l.left.mu.Lock()
	n := l.left.of[session]
	l.left.mu.Unlock()
	if n == 0 {
		return nil
	}
	passed := make(chan struct{})
	if err := l.leave(ctx, leftover{session: session, passed: passed}); err != nil {
		return err
	}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// discardLoop drops what is left, beside stage 3.
func (l *lane) discardLoop(ctx context.Context) error {
	for o := range l.left.queue {
		switch {
		case o.body != nil:
			l.p.discard(ctx, *o.body)
		case o.upload != nil:
			l.p.dropUpload(ctx, o.upload)
		default:
			close(o.passed)
		}
		l.left.mu.Lock()
		if l.left.of[o.session]--; l.left.of[o.session] == 0 {
			delete(l.left.of, o.session)
		}
		l.left.mu.Unlock()
	}
	return nil
}
