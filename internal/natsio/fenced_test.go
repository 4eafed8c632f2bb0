package natsio_test

import (
	"errors"
	"testing"

	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// A writer that did not see the newest event of its thread stores nothing; others' threads do not disturb it.
func TestPublishAfter(t *testing.T) {
	conn, ctx := natstest.Conn(t), t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	entry := func(th events.Thread, seq uint64) *events.Event {
		return &events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: th, Producer: "p", Seq: seq, Body: []byte("x")}
	}
	if seq, _, err := conn.NewestEvent(ctx, a); seq != 0 || err != nil {
		t.Fatalf("newest of nothing = %d, %v", seq, err)
	}
	first, err := conn.PublishAfter(ctx, 0, entry(a, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PublishAfter(ctx, 0, entry(b, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PublishAfter(ctx, 0, entry(a, 2)); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("publish after nothing = %v, want a conflict", err)
	}
	if _, err := conn.PublishAfter(ctx, 0, entry(a, 2), entry(a, 3)); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("two after nothing = %v, want a conflict", err)
	}
	end := &events.Event{Kind: events.KindControl, Thread: a, Producer: "p", Seq: 3, Body: events.Control{Op: events.OpEnd, End: &events.End{}}.Encode()}
	last, err := conn.PublishAfter(ctx, first, entry(a, 2), end)
	if err != nil {
		t.Fatal(err)
	}
	seq, partition, err := conn.NewestEvent(ctx, a)
	if err != nil || seq != last || last != first+3 {
		t.Fatalf("newest = %d, %v, want %d after %d", seq, err, last, first)
	}
	if done, err := conn.Acked(ctx, partition, seq); done || err != nil {
		t.Fatalf("Acked = %v, %v without a persister", done, err)
	}
}
