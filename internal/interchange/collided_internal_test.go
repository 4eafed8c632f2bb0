package interchange

import (
	"context"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// An import does not wait for the stream of dead letters where that is gone: there is none.
func TestNewestLetterWithoutTheirStream(t *testing.T) {
	conn := natstest.Conn(t)
	must.Do(t, conn.JetStream().DeleteStream(t.Context(), events.DeadStream))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must.Same(t, newestLetter(ctx, conn, nil), 0, "the newest letter is %d, want %d")
}
