package service

import (
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
)

// What spool up asks last before it runs, which store it is, it asks again where a busy server leaves it unanswered.
func TestEnsureAsksAgain(t *testing.T) {
	ensure := func(f faulttest.Fault) (requests int, err error) {
		w := faulttest.NewWire(natstest.Server(t), f)
		conn := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: w, Timeout: 500 * time.Millisecond}))(t)
		defer conn.Close()
		cfg := UpConfig{Data: t.TempDir(), Limits: natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}}
		err = cfg.ensure(t.Context(), conn, true)
		_, _, answered := w.Sent()
		return answered[faulttest.Any], err
	}
	last, err := ensure(faulttest.Fault{Mode: faulttest.Drop, Class: faulttest.Any, K: 1 << 20})
	must.Do(t, err)
	must.Is(t, must.Err(ensure(faulttest.Fault{Mode: faulttest.Drop, Class: faulttest.Any, K: last})), nil, "request %d of %d is dropped", last, last)
}
