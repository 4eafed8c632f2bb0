package natsio_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// A commit that was announced is the commit that it would have been, whatever became of the announcement.
func TestAnnouncedCommit(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	fence := func() record.Fence {
		f := must.Get(c.Records().Fence(ctx, 5))(t)
		return f
	}
	put := func(value string, expect uint64) []record.Put {
		return []record.Put{{Key: "session.a", Value: []byte(value), Expect: expect},
			{Key: "session.b", Value: []byte(value), Expect: record.Any}}
	}
	holds := func(value string) uint64 {
		t.Helper()
		rs, err := c.Records().Records(ctx, "session.a", "session.b")
		if err != nil || string(rs[0].Value) != value || string(rs[1].Value) != value || rs[1].Seq != rs[0].Seq+1 {
			t.Fatalf("records are %q %d and %q %d, %v, want %q in a row", rs[0].Value, rs[0].Seq, rs[1].Value, rs[1].Seq, err, value)
		}
		return rs[0].Seq
	}

	f := fence()
	c.Records().WillCommit(f)
	c.Records().WillCommit(f) // said already
	first, err := c.Records().Commit(ctx, f, put("one", 0))
	if err != nil || first != holds("one") {
		t.Fatalf("Commit = %d, %v, want the sequence of its first record", first, err)
	}
	c.Records().WillCommit(f)
	must.Is(t, must.Err(c.Records().Commit(ctx, f, put("two", first+7))), record.ErrConflict, "Commit on a wrong expectation")
	c.Records().WillCommit(f)
	must.Get(c.Records().Write(ctx, record.Put{Key: events.FenceKey(5), Value: []byte("gc"), Expect: record.Any}))(t)
	if _, err := c.Records().Commit(ctx, f, put("three", record.Any)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("Commit behind a fence that moved after the announcement = %v, want ErrConflict", err)
	}
	holds("one")
	c.Records().WillCommit(f)
	f = fence()
	if _, err := c.Records().Commit(ctx, f, put("four", record.Any)); err != nil { // the announcement was for another fence
		t.Fatal(err)
	}
	holds("four")

	// The server gives the batch up: nothing is stored, and the next try begins one of its own.
	nc := c.JetStream().Conn()
	lane := must.Get(nc.SubscribeSync(events.RecordSubject(events.LaneKey(5))))(t)
	must.Do(t, nc.Flush())
	c.Records().WillCommit(f)
	announced := must.Get(lane.NextMsgWithContext(ctx))(t)
	gap := &nats.Msg{Subject: announced.Subject, Header: nats.Header{"Nats-Batch-Id": announced.Header["Nats-Batch-Id"],
		"Nats-Batch-Sequence": {"9"}}}
	must.Do(t, nc.PublishMsg(gap))
	must.Is(t, must.Err(c.Records().Commit(ctx, f, put("five", record.Any))), record.ErrBusy, "Commit of a batch that was given up")
	holds("four")
	must.Get(c.Records().Commit(ctx, f, put("five", record.Any)))(t)
	holds("five")
}
