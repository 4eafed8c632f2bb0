package natsio

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUnserved: it is told that no persister asks for a partition where none did for a while, and not of one that is busy: that acks, and
// may ask for nothing while it has much in hand.
func TestUnserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		c := &Conn{log: slog.New(slog.NewTextHandler(&told, nil))}
		look := func(acked uint64, asking int) {
			c.tellUnserved(t.Context(), 3, &jetstream.ConsumerInfo{NumWaiting: asking, AckFloor: jetstream.SequenceInfo{Stream: acked}}, false)
			time.Sleep(unservedFor / 2)
		}
		for acked := range uint64(8) {
			look(acked, 0)
		}
		for range 8 {
			look(7, 1)
		}
		if told.Len() > 0 {
			t.Errorf("of a persister that is busy, or idle: %s", &told)
		}
		for range 8 {
			look(7, 0)
		}
		if n := strings.Count(told.String(), "no persister asks"); n != 1 {
			t.Errorf("where none runs it is told %d times, want once: %s", n, &told)
		}
	})
}
