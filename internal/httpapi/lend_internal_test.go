package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One is ended for one: two tokens hold all, a third asks for what one request of theirs holds, and who is ended needs half a second to give
// that back.
func TestOneGivesWayForOne(t *testing.T) {
	l := newPlaces(100, two(t))
	var lent atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer wg.Wait()
	defer cancel()
	for _, of := range []string{"a", "c"} {
		for range 5 {
			l.claim(&claim{of: of, n: 10})
			p := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
			p.in.since, p.in.late = time.Now(), -lendTime // it is ahead, and goes on sending: never a second late within this test
			l.held.Store(p, of)
			wg.Go(func() {
				for ; !p.cutOff(); time.Sleep(5 * time.Millisecond) {
					p.mu.Lock()
					p.in.since = time.Now()
					p.mu.Unlock()
					if ctx.Err() != nil {
						return
					}
				}
				lent.Add(1)
				time.Sleep(500 * time.Millisecond)
				l.held.Delete(p)
				l.give(of, 10)
			})
		}
	}
	ok, err := l.take(ctx, &claim{of: "b", n: 10}, 3*time.Second)
	if n := lent.Load(); !ok || err != nil || n != 1 {
		t.Errorf("take = %v, %v; %d requests were ended for one that asks for as much as each of them has, want 1", ok, err, n)
	}
}
