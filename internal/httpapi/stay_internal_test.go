package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"spool/internal/must"
	"spool/internal/sleep"
)

// A request that panics while it waits holds no place any more.
func TestPanicInAWaitHoldsNoPlace(t *testing.T) {
	own, among := newPlaces(1, nil), newPlaces(1, nil)
	p := &patient{ctl: http.NewResponseController(httptest.NewRecorder())}
	at := &stay{places: own, lends: true}
	must.Do(t, at.enter(t.Context(), p))
	func() {
		defer func() { must.Same(t, recover(), any(http.ErrAbortHandler), "the wait panics with %v, want %v") }()
		defer at.leave(t.Context(), p)
		_ = sleep.Aside(at.aside(t.Context(), p, among), func() error { panic(http.ErrAbortHandler) })
	}()
	must.Same(t, own.usage(), int64(0), "%d places of its lane are held, want %d")
	must.Same(t, among.usage(), int64(0), "%d places among those that wait are held, want %d")
}
