package natsio_test

import (
	"context"
	"strings"
	"testing"

	"spool/internal/natstest"
	"spool/pkg/events"
)

// TestErrorsCount: who published, or asked for, one thing is told of one.
func TestErrorsCount(t *testing.T) {
	c := natstest.Conn(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	event := &events.Event{Producer: "p", Seq: 1, Thread: events.Thread{Session: "s", Name: "main"}, Kind: events.KindEntry,
		Dialect: "raw", Body: []byte("x")}
	_, read := c.Records().Records(ctx, "session.s")
	for want, err := range map[string]error{
		"publish 1 event: ":  c.Events().PublishEvents(ctx, []*events.Event{event}),
		"publish 2 events: ": c.Events().PublishEvents(ctx, []*events.Event{event, event}),
		"read 1 record: ":    read,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
