package client_test

import (
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestDeletedBeforeAndNotErased: a session's earlier deletion is not finished (--erase, and whoever was to write over it died). Its name was taken
// again, and what was published was acked; no persister has come to that. Who deletes it now must not be told that it is deleted.
func TestDeletedBeforeAndNotErased(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	ctx := limited(t)
	was := record.Deleted{State: record.Done, Seq: 1, Producer: "old", Event: 1, Delete: events.Delete{Erase: true}}
	must.Get(conn.Records().Write(ctx, record.Put{Key: events.DeletedKey("s"), Value: was.Encode(), Expect: record.Any}))(t)
	for _, session := range []string{"before", "s"} {
		must.Get(c.Publisher(client.PublisherConfig{}).Publish(ctx, post(thread(session), "acked")))(t)
	}
	r, err := c.Session("s").Delete(ctx, client.Deletion{Erase: true})
	if err == nil {
		t.Errorf("the receipt says deleted %v by event %d; what was acked before the request is untouched, and is applied next", r.Deleted, r.Event)
	}
}

// TestAskedAndNotAcked: a question that is committed, and whose ack waits for another session of its partition, is there.
func TestAskedAndNotAcked(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	ctx := limited(t)
	th := thread("s")
	must.Get(c.Publisher(client.PublisherConfig{}).Publish(ctx, post(th, "asks")))(t)
	time.AfterFunc(500*time.Millisecond, func() { // the commit; nothing is acked
		p := record.Prompt{Prompt: events.Prompt{ID: "q", Kind: events.PromptText, Text: "?"}, Dialect: "item", Item: 1}
		_, _ = conn.Records().Write(ctx, record.Put{Key: events.PromptKey(th, "q"), Value: p.Encode(), Expect: record.Any})
	})
	if _, err := c.Thread(th).Prompt(ctx, "q"); err != nil {
		t.Errorf("Prompt: %v", err)
	}
}
