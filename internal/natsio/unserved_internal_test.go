package natsio

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUnserved: it is told that no persister serves a partition where none did for a while, also to who looks at two in turn; and not of one
// that is busy: it may ask for nothing while it has much in hand, and ack nothing while a long entry is in front, but it has its pin.
func TestUnserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		c := &Conn{log: slog.New(slog.NewTextHandler(&told, nil))}
		look := func(asking int, pin string) {
			groups := []jetstream.PriorityGroupState{{PinnedClientID: pin}}
			for partition := range 2 {
				c.tellUnserved(t.Context(), partition, &jetstream.ConsumerInfo{NumWaiting: asking, PriorityGroups: groups}, false)
			}
			time.Sleep(unservedFor / 2)
		}
		for range 8 {
			look(0, "busy")
		}
		for range 8 {
			look(1, "")
		}
		look(0, "") // it starts anew just now
		time.Sleep(2 * unservedFor)
		look(0, "")
		look(1, "")
		if told.Len() > 0 {
			t.Errorf("of a persister that is busy, or idle: %s", &told)
		}
		for range 8 {
			look(0, "")
		}
		if n := strings.Count(told.String(), "no persister asks"); n != 1 {
			t.Errorf("where none runs it is told %d times, want once: %s", n, &told)
		}
	})
}
