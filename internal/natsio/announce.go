package natsio

import (
	"sync"
	"time"

	"spool/internal/record"
)

// announcements are atomic batches whose first message is on its way and whose commit is not, one a lane.
//
// A server keeps a batch in a file store of its own until it commits, and forces three files to disk to make one: on an
// ordinary disk that is most of the 2.4 ms that a small commit takes. What a commit begins with, its fence, is known before
// the commit is prepared. So the server makes the file while the pack is being written.
type announcements struct {
	mu   sync.Mutex
	open map[int]announcement
}

type announcement struct {
	batch string
	fence record.Fence
	at    time.Time
}

// announceFor is how long an announced batch is taken for open. The server gives it up after 10 s.
const announceFor = 4 * time.Second

// WillCommit says that a commit behind a fence is being prepared. It is a hint and does not wait: a crash after it leaves a
// batch that the server drops by itself, and a commit without it only takes longer.
func (recs Records) WillCommit(f record.Fence) {
	a := &recs.c.announced
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.open[f.Lane]; ok && old.fence == f && time.Since(old.at) < announceFor {
		return
	}
	id := newBatch()
	m := fenceMsg(f)
	m.Header[hdrBatchID], m.Header[hdrBatchSeq] = []string{id}, []string{"1"}
	if recs.c.nc.PublishMsg(m) != nil {
		return
	}
	if a.open == nil {
		a.open = map[int]announcement{}
	}
	a.open[f.Lane] = announcement{id, f, time.Now()}
}

// take gives the batch that was announced for a fence, and forgets it; "" when there is none.
func (a *announcements) take(f record.Fence) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.open[f.Lane]
	if !ok || one.fence != f {
		return ""
	}
	delete(a.open, f.Lane)
	if time.Since(one.at) >= announceFor {
		return ""
	}
	return one.batch
}
