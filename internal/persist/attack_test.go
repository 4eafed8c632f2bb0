package persist_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/artifacts"
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

// A persister that is slow between its commit and its items sends them late: the thread was removed meanwhile, and another has its
// name. A reader gets each item of each life once.
func TestLateItemsOfAnEarlierLife(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	id := events.Thread{Session: "s", Name: "main"}
	var hits atomic.Int64
	at, goOn := make(chan struct{}), make(chan struct{})
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepItems && hits.Add(1) == 1 {
				close(at)
				<-goOn
			}
			return nil
		}
	})
	p, q, x := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"}), r.Publisher(client.PublisherConfig{Producer: "x"})
	publish := func(p *client.Publisher, es ...client.Entry) {
		t.Helper()
		if err := p.Publish(ctx, es...); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]chan string{}
	for name, from := range map[string]client.Position{"all": {All: true}, "from 1": {N: 1}} {
		ch := make(chan string, 100)
		got[name] = ch
		go func() {
			for it, err := range r.Subscribe(ctx, client.Filter{Session: "s", Thread: "main"}, from) {
				if err != nil {
					ch <- "error: " + err.Error()
					return
				}
				ch <- it.Text()
			}
		}()
	}
	publish(p, stepEntry(id, 1, "old1"), stepEntry(id, 2, "old2"))
	<-at
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }()
	second := r.start(nil)
	r.await(id, "p", 2)
	if err := q.Control(ctx, id, 1, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}); err != nil {
		t.Fatal(err)
	}
	publish(x, stepEntry(id, 1, "new1"), stepEntry(id, 2, "new2"))
	r.await(id, "x", 2)
	_, _ = r.items, second
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if n, life, err := r.conn.Items().LastItem(ctx, id); err == nil && n == 2 && life != 0 {
			break
		}
	}
	close(goOn)
	t.Logf("first persister: %v", <-stopped)
	publish(x, stepEntry(id, 3, "new3"))
	r.await(id, "x", 3)
	for name, ch := range got {
		var all []string
		for len(all) == 0 || all[len(all)-1] != "new3" {
			select {
			case text := <-ch:
				all = append(all, text)
			case <-ctx.Done():
				t.Fatalf("%s: got %v", name, all)
			}
		}
		if want := []string{"old1", "old2", "new1", "new2", "new3"}; !slices.Equal(all, want) {
			t.Errorf("%s: got %v, want %v", name, all, want)
		}
	}
}

// busySession says that an output of s/main is open.
type busySession struct{ persist.Sessions }

func (busySession) SessionLive(context.Context, string) (record.Live, error) {
	return record.Live{Outputs: []record.Silent{{Output: record.Output{ID: "o", Thread: "main"}}}}, nil
}

// A thread in which a question waits for its answer is not renamed.
func TestRenameWithAnOpenPromptIsRefused(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	run := r.start(nil)
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	if err := p.Publish(ctx, stepEntry(id, 1, "one")); err != nil {
		t.Fatal(err)
	}
	r.await(id, "p", 1)
	if _, err := r.conn.Write(ctx, record.Put{Key: events.PromptKey(id, "ask"), Value: []byte("{}"), Expect: record.Any}); err != nil {
		t.Fatal(err)
	}
	if err := q.Control(ctx, id, 1, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "other"}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && run.Stats().Applied < 2; time.Sleep(10 * time.Millisecond) {
	}
	if st := run.Stats(); st.Dead != 1 {
		t.Errorf("%d dead letters, want the rename refused while its prompt is open", st.Dead)
	}
}

// An operation is refused for something that passes, and the persister dies between the letter and the commit that notes it. It is a
// dead letter or applied, never both.
func TestRefusedOperationIsNotAppliedAfterDeath(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	var armed atomic.Bool
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepCommit && armed.Load() {
				return errKilled
			}
			return nil
		}
		d.Sessions = busySession{d.Sessions}
	})
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Publish(ctx, stepEntry(id, 1, "one")))
	r.await(id, "p", 1)
	armed.Store(true)
	must(q.Control(ctx, id, 1, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "other"}}))
	t.Logf("%v", <-first.died)
	_ = first.stop()
	second := r.start(nil)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && second.Stats().Applied == 0; time.Sleep(20 * time.Millisecond) {
	}
	must(second.stop())
	letters, err := r.DeadLetters(ctx, "")
	must(err)
	_, err = r.Thread(ctx, events.Thread{Session: "s", Name: "other"})
	t.Logf("renamed: %v, letters %v", err == nil, letters)
	if applied := err == nil; applied == (len(letters) > 0) {
		t.Errorf("renamed: %v, and %d dead letters", applied, len(letters))
	}
}

// What comes for the old name of a thread, right behind its rename, is a dead letter, and the persister goes on.
func TestEventRightBehindARename(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	a := events.Thread{Session: "s", Name: "a"}
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	if err := p.Publish(ctx, stepEntry(a, 1, "one")); err != nil {
		t.Fatal(err)
	}
	if err := p.Control(ctx, a, 2, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, stepEntry(a, 3, "three"), stepEntry(a, 4, "four")); err != nil {
		t.Fatal(err)
	}
	if err := p.Control(ctx, events.Thread{Session: "s", Name: "b"}, 5, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, stepEntry(a, 6, "six")); err != nil {
		t.Fatal(err)
	}
	run := r.start(nil)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && run.Stats().Applied < 6; time.Sleep(10 * time.Millisecond) {
	}
	if h := r.head(a); h.Entries != 2 {
		t.Errorf("%d entries, want 2", h.Entries)
	}
	if err := run.stop(); err != nil {
		t.Fatal(err)
	}
	if letters, err := r.DeadLetters(ctx, ""); err != nil || len(letters) != 2 {
		t.Errorf("%d letters, %v, want 2", len(letters), err)
	}
}

// takenUp puts an artifact into a session between the look whether it was written to and the listing of what goes.
type takenUp struct {
	persist.Sessions
	calls int
	put   func()
}

func (s *takenUp) SessionKeys(ctx context.Context, session string) ([]string, error) {
	if s.calls++; s.calls == 2 {
		s.put()
	}
	return s.Sessions.SessionKeys(ctx, session)
}

// A session that is to go only if nothing happened in it stays when an artifact comes at the last moment.
func TestConditionalDeletionSparesALateArtifact(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	r.start(func(d *persist.Deps, _ *persist.Config) {
		d.Sessions = &takenUp{Sessions: d.Sessions, put: func() {
			if _, err := r.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s", Filename: "late.txt"}}, strings.NewReader("late")); err != nil {
				t.Error(err)
			}
		}}
	})
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	if err := p.Publish(ctx, stepEntry(id, 1, "one")); err != nil {
		t.Fatal(err)
	}
	r.await(id, "p", 1)
	last, err := r.conn.LastSeqs(ctx, events.RecordsStream)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.DeleteSession(ctx, "s", client.Deletion{Plain: true, UnchangedSince: last[events.RecordsStream]})
	list, e := r.Artifacts(ctx, "s")
	if e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, client.ErrSessionWritten) || len(list) != 1 {
		t.Errorf("DeleteSession = %v, and %d artifacts are left, want ErrSessionWritten and the artifact", err, len(list))
	}
}

var _ natsio.Delivery
