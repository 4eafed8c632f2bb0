package persist_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

func stepEntry(t events.Thread, seq uint64, text string) client.Entry {
	return client.Entry{Thread: t, Dialect: "step", Body: []byte(`{"id":"` + text + `","role":"coder","content":"` + text + `"}`), Seq: seq}
}

// A name is removed, and another thread renamed to it; the persister dies before it acknowledges any of that. What comes again must
// not change the renamed thread.
func TestRenameToARemovedNameSurvivesDeath(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Publish(ctx, stepEntry(a, 1, "kept1"), stepEntry(a, 2, "kept2")))
	must(q.Publish(ctx, stepEntry(b, 1, "old")))
	must(q.Control(ctx, b, 2, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	must(p.Control(ctx, a, 3, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "b"}}))
	var items atomic.Int64
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s != persist.StepItems || items.Add(1) > 1 {
				return nil
			}
			for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				rs, err := r.conn.Records(context.Background(), events.LeftKey(a))
				if err == nil && rs[0].Exists() {
					return errKilled // all is committed, nothing is acknowledged
				}
			}
			return errors.New("the rename was not committed")
		}
	})
	if err := <-first.died; !errors.Is(err, errKilled) {
		t.Fatalf("Run() = %v, want it killed", err)
	}
	_ = first.stop()
	if h := r.head(b); h.Entries != 2 {
		t.Fatalf("before: %d entries, want 2", h.Entries)
	}
	second := r.start(nil)
	must(p.Publish(ctx, stepEntry(b, 4, "kept3")))
	r.await(b, "p", 4)
	_ = second.stop()
	h, err := r.Thread(ctx, b)
	if err != nil || h.Entries != 3 {
		t.Errorf("Thread(b) = %d entries, %v, want the 3 of the renamed thread", h.Entries, err)
	}
}

// A fork whose source is not there goes to the dead letters; the persister dies before it acknowledges it, and the source comes
// to be. An event is a dead letter or applied, never both.
func TestRefusedForkIsNotAppliedAfterDeath(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	source, fork := events.Thread{Session: "src", Name: "main"}, events.Thread{Session: "frk", Name: "main"}
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	var acks atomic.Int64
	refused, goOn := make(chan struct{}), make(chan struct{})
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s != persist.StepAck || acks.Add(1) > 1 {
				return nil
			}
			close(refused)
			<-goOn
			return errKilled
		}
	})
	if err := q.Control(ctx, fork, 1, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "src", Thread: "main", Index: 1}}); err != nil {
		t.Fatal(err)
	}
	<-refused
	if err := p.Publish(ctx, stepEntry(source, 1, "one")); err != nil {
		t.Fatal(err)
	}
	r.await(source, "p", 1)
	close(goOn)
	<-first.died
	_ = first.stop()
	second := r.start(nil)
	if err := p.Publish(ctx, stepEntry(events.Thread{Session: "frk", Name: "after"}, 2, "after")); err != nil {
		t.Fatal(err)
	}
	r.await(events.Thread{Session: "frk", Name: "after"}, "p", 2)
	_ = second.stop()
	letters, err := r.DeadLetters(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Thread(ctx, fork); err == nil && len(letters) > 0 {
		t.Errorf("the fork is applied, and a dead letter too: %s", letters[0].Reason)
	} else if err != nil && len(letters) != 1 {
		t.Errorf("no fork (%v), and %d letters", err, len(letters))
	}
}

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
		item, _, err = r.conn.LastItem(ctx, id)
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

var _ natsio.Delivery
