package persist_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/artifacts"
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
	must.Get(p.Publish(ctx, stepEntry(id, 1, "old")))(t)
	r.await(id, "p", 1)
	must.Do(t, q.Control(ctx, id, 1, events.Control{Op: events.OpDelete, Delete: &events.Delete{}}))
	<-at
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }() // gives its partitions away, and is not done yet
	second := r.start(nil)
	must.Get(p.Publish(ctx, stepEntry(id, 2, "new"), client.Entry{Thread: id, Dialect: "nobody", Body: []byte("{}"), Seq: 3},
		stepEntry(id, 4, "newer")))(t)
	r.await(id, "p", 4)
	must.Do(t, second.stop())
	count := func() (letters int, item int64) {
		t.Helper()
		ls := must.Get(r.EverySession().DeadLetters(ctx))(t)
		item, _ = must.Two(r.conn.Items().LastItem(ctx, id))(t)
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
			if _, err := r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s", Filename: "late.txt"}},
				strings.NewReader("late")); err != nil {
				t.Error(err)
			}
		}}
	})
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(p.Publish(ctx, stepEntry(id, 1, "one")))(t)
	r.await(id, "p", 1)
	last, err := r.conn.Streams().LastSeqs(ctx, events.RecordsStream)
	must.Do(t, err)
	_, err = r.Session("s").Delete(ctx, client.Deletion{Plain: true, UnchangedSince: last[events.RecordsStream]})
	list := must.Get(r.Session("s").Artifacts(ctx))(t)
	if !errors.Is(err, client.ErrSessionWritten) || len(list) != 1 {
		t.Errorf("DeleteSession = %v, and %d artifacts are left, want ErrSessionWritten and the artifact", err, len(list))
	}
}

// A deletion that a session without threads refuses is answered.
func TestConditionalDeletionOfASessionOfArtifacts(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.putAlone(t, "s", "x")
	for range 2 {
		_, err := r.Session("s").Delete(brief(t), client.Deletion{Plain: true, UnchangedSince: 1})
		must.Is(t, err, client.ErrSessionWritten, "DeleteSession")
	}
	if list, err := r.Session("s").Artifacts(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d artifacts, %v, want the one", len(list), err)
	}
	if _, err := r.Session("s").Delete(brief(t), client.Deletion{Plain: true}); err != nil {
		t.Error(err)
	}
}
