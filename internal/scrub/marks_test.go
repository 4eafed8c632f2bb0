package scrub_test

import (
	"context"
	"log/slog"
	"testing"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// looks counts how often it is asked what the streams hold.
type looks struct {
	scrub.Store
	n int
}

func (l *looks) StreamStates(ctx context.Context) ([]record.StreamState, error) {
	l.n++
	return l.Store.StreamStates(ctx)
}

// The marks take the place of those before them in a stream that holds little else: nothing waits until that is sure.
func TestMarksAreNoRewind(t *testing.T) {
	sys := natsadmin.Of(natstest.Conn(t))
	for range 3 {
		l := &looks{Store: sys}
		m := must.Get(scrub.Look(t.Context(), l, sys, slog.New(slog.DiscardHandler)))(t)
		if l.n != 1 || len(m.Rewinds) > 0 {
			t.Errorf("the streams are looked at %d times, want once; rewinds: %v", l.n, m.Rewinds)
		}
	}
}

// TestLookWithoutTheOtherCopy: whoever keeps marks goes on looking where the stream of their other copy is gone, and says that it is.
func TestLookWithoutTheOtherCopy(t *testing.T) {
	conn := natstest.Conn(t)
	sys := natsadmin.Of(conn)
	look := func() scrub.Marks {
		t.Helper()
		return must.Get(scrub.Look(t.Context(), sys, sys, slog.New(slog.DiscardHandler)))(t)
	}
	look()
	must.Do(t, conn.JetStream().DeleteStream(t.Context(), events.GCStream))
	for range 2 {
		m := look()
		if len(m.Rewinds) != 1 || m.Rewinds[0].Stream != events.GCStream {
			t.Errorf("rewinds: %+v, want one of %s", m.Rewinds, events.GCStream)
		}
	}
	_, err := conn.Records().Ages(t.Context(), events.OutputKeys(""), 0)
	must.Is(t, err, nil, "Ages")
}
