package httpapi

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"spool/internal/must"
	"spool/internal/sleep"
)

// A request that panics while it waits holds no place any more.
func TestPanicInAWaitHoldsNoPlace(t *testing.T) {
	own, among := newPlaces(1, nil), newPlaces(1, nil)
	p := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
	at := &stay{places: own, lends: true}
	must.Do(t, at.enter(t.Context(), p, false))
	func() {
		defer func() { must.Same(t, recover(), any(http.ErrAbortHandler), "the wait panics with %v, want %v") }()
		defer at.leave(t.Context(), p)
		_ = sleep.Aside(at.aside(t.Context(), p, among), func() error { panic(http.ErrAbortHandler) })
	}()
	must.Same(t, own.usage(), int64(0), "%d places of its lane are held, want %d")
	must.Same(t, among.usage(), int64(0), "%d places among those that wait are held, want %d")
}

// Who had a place before has one again behind a wait, also where more come back at once than there are places.
func TestAllComeBackFromAWait(t *testing.T) {
	own, among := newPlaces(1, nil), newPlaces(8, nil)
	var over sync.WaitGroup
	applied := make(chan struct{})
	for range 8 {
		p := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
		at := &stay{places: own, lends: true}
		must.Do(t, at.enter(t.Context(), p, false))
		waits := make(chan struct{})
		over.Go(func() {
			defer at.leave(t.Context(), p)
			if err := sleep.Aside(at.aside(t.Context(), p, among), func() error { close(waits); <-applied; return nil }); err != nil {
				t.Error(err)
			}
		})
		<-waits
	}
	must.Same(t, among.usage(), int64(8), "%d wait, want %d")
	other := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
	must.Do(t, own.enter(t.Context(), other, false, false))
	close(applied)
	must.Until(t, "all stand in line", func() bool {
		own.mu.Lock()
		defer own.mu.Unlock()
		return len(own.line) == 8
	})
	own.leave(other, "")
	over.Wait()
	must.Same(t, own.usage()+among.usage(), int64(0), "%d places are held, want %d")
}

// Where there is no place among those that wait, a request waits with its own.
func TestWaitsInItsPlace(t *testing.T) {
	own, among := newPlaces(1, nil), newPlaces(0, nil)
	p := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
	at := &stay{places: own, lends: true}
	must.Do(t, at.enter(t.Context(), p, false))
	must.Do(t, sleep.Aside(at.aside(t.Context(), p, among), func() error {
		must.Same(t, own.usage(), int64(1), "%d places are held in the wait, want %d")
		return nil
	}))
	at.leave(t.Context(), p)
	must.Same(t, own.usage(), int64(0), "%d places are held, want %d")
}
