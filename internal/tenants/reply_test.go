package tenants_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/tenants"
	"spool/pkg/events"
)

// TestRepliesWriteNothing: a record is not overwritten by an ack.
func TestRepliesWriteNothing(t *testing.T) {
	s := newSite(t)
	s.publish("acme", tenants.Ingest, "other", "first", 1)
	victim := events.Thread{Session: "other", Name: events.MainThread}
	agent, _ := s.raw("acme", tenants.Agent, "_INBOX.agent")
	subject := events.RecordSubject(events.HeadKey(victim))
	kv, err := s.conns["acme/admin"].JetStream().Stream(t.Context(), events.RecordsStream)
	if err != nil {
		t.Fatal(err)
	}
	before, err := kv.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.PublishRequest(events.EventSubject(events.Thread{Session: "mine", Name: events.MainThread}, events.KindEntry),
		subject, event("mine", "x", 1).Encode()); err != nil {
		t.Fatal(err)
	}
	if err := agent.Flush(); err != nil {
		t.Fatal(err)
	}
	s.publish("acme", tenants.Agent, "mine", "second", 2)
	var after *jetstream.RawStreamMsg
	if after, err = kv.GetLastMsgForSubject(t.Context(), subject); err != nil {
		t.Fatal(err)
	}
	if after.Sequence != before.Sequence {
		t.Errorf("the record is now %s", after.Data)
	}
}
