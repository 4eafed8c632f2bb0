package persist_test

import (
	"sync/atomic"
	"testing"

	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A session is deleted and begun anew. A persister that is slow between its look at the deletion and the purge must not take what
// the new session has: another persister has finished the deletion meanwhile.
func TestLatePurgeSparesTheNewSession(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	var purges atomic.Int64
	at, goOn := make(chan struct{}), make(chan struct{})
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepPurge && purges.Add(1) == 1 {
				close(at)
				<-goOn
			}
			return nil
		}
	})
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	if err := p.Publish(ctx, stepEntry(id, 1, "old")); err != nil {
		t.Fatal(err)
	}
	r.await(id, "p", 1)
	if err := q.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}); err != nil {
		t.Fatal(err)
	}
	<-at
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }() // gives its partitions away, and is not done yet
	second := r.start(nil)
	if err := p.Publish(ctx, stepEntry(id, 2, "new"), client.Entry{Thread: id, Dialect: "nobody", Body: []byte("{}"), Seq: 3}, stepEntry(id, 4, "newer")); err != nil {
		t.Fatal(err)
	}
	r.await(id, "p", 4)
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	count := func() (letters int, item int64) {
		t.Helper()
		ls, err := r.DeadLetters(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		item, _, err = r.conn.Items().LastItem(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return len(ls), item
	}
	if letters, item := count(); letters != 1 || item != 2 {
		t.Fatalf("before the purge: %d letters, last item %d", letters, item)
	}
	close(goOn)
	t.Logf("first persister: %v", <-stopped)
	if letters, item := count(); letters != 1 || item != 2 {
		t.Errorf("after the late purge: %d letters, last item %d; want 1 and 2", letters, item)
	}
}
