package persist_test

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestClaimCheckAgain: an event whose body was taken from the inbox and that comes again is skipped, not dead.
func TestClaimCheckAgain(t *testing.T) {
	r := newRig(t)
	p := r.deaf()
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	large := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 3<<20)...), '"')
	must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: large}))(t)
	r.feed(p)
	r.await(thread(0), "p", 1)
	inbox := must.Get(r.conn.JetStream().Stream(t.Context(), events.ObjectStream(events.InboxBucket)))(t)
	ctx := brief(t)
	for { // until it is discarded; listing the bucket would hang when its last object goes meanwhile
		info := must.Get(inbox.Info(ctx, jetstream.WithSubjectFilter(">")))(t)
		if info.State.Msgs == 0 {
			break
		}
	}
	r.feed(p) // the ack was lost
	r.publish(r.Publisher(client.PublisherConfig{Producer: "q"}), thread(1), 0, 1)
	r.feed(p)
	r.await(thread(1), "q", 1)
	if s := p.Stats(); s.Dead != 0 {
		t.Errorf("Stats().Dead = %d, want 0: the event was applied", s.Dead)
	}
}
