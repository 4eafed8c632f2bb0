package client_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOfASessionThatIsNotThere: what belongs to a session is refused where there is none of that name, and begins none; what a
// session begins with, and what was published to one a moment ago, is enough.
func TestOfASessionThatIsNotThere(t *testing.T) {
	r, ctx := newRig(t), t.Context()
	file := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.WriteFile(file, []byte("built"), 0o600))
	must.Get(r.conn.Objects().UploadFrom(ctx, events.ArtifactsBucket, "a/b", strings.NewReader("built")))(t)
	of := client.NewArtifact{Tool: "make", Record: artifacts.Record{Session: "build"}}
	unread := strings.NewReader("built")
	calls := map[string]func(context.Context) error{
		"PutArtifact":    func(ctx context.Context) error { _, err := r.Artifacts().Put(ctx, of, unread); return err },
		"RegisterObject": func(ctx context.Context) error { _, err := r.Artifacts().RegisterObject(ctx, of, "a/b"); return err },
		"RegisterFile":   func(ctx context.Context) error { _, err := r.Artifacts().RegisterFile(ctx, of, file); return err },
		"ArtifactNumber": func(ctx context.Context) error { _, _, err := r.Session("build").TakeNumber(ctx, ""); return err },
		"AgentID":        func(ctx context.Context) error { _, err := r.Session("build").TakeAgentID(ctx, "", "Plan"); return err },
		"CleanupArtifacts": func(ctx context.Context) error {
			_, err := r.Artifacts().Cleanup(ctx, artifacts.Cleanup{Session: "build", Apply: true})
			return err
		},
	}
	refused := func() {
		t.Helper()
		for name, call := range calls {
			must.Is(t, call(ctx), client.ErrSessionNotFound, name+" of a session that is not there")
		}
		must.Is(t, r.Session("build").Await(ctx), client.ErrSessionNotFound, "AwaitSession behind what was refused")
		if left := must.Get(io.ReadAll(unread))(t); string(left) != "built" {
			t.Errorf("of the body of a refused artifact %q is left, want all", left)
		}
		unread.Reset("built")
	}
	refused()
	must.Do(t, r.Session("build").New(ctx, "/w", ""))
	for name, call := range calls {
		must.Is(t, call(ctx), nil, "%s of a session that has begun", name)
	}
	must.Get(r.Session("build").Delete(ctx, client.Deletion{}))(t)
	unread.Reset("built")
	refused()
	p := r.Publisher(client.PublisherConfig{})
	entry := client.Entry{Thread: events.Thread{Session: "build", Name: "side"}, Dialect: "raw", Body: []byte("a line")}
	must.Get(p.Publish(ctx, entry))(t) // and no waiting
	if got := must.Get(r.Artifacts().Put(ctx, of, unread))(t); got.Seq != "0" {
		t.Errorf("the first artifact of the next life has the number %s, want 0", got.Seq)
	}
}

// Where no persister has come to what was published to a session, it is begun all the same: what belongs to it is stored.
func TestOfASessionThatIsOnItsWay(t *testing.T) {
	r, ctx := client.New(natstest.Conn(t)), t.Context()
	of := client.NewArtifact{Record: artifacts.Record{Session: "soon"}}
	must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx,
		client.Entry{Thread: thread("soon"), Dialect: "raw", Body: []byte("a line")}))(t)
	must.Get(r.Artifacts().Put(ctx, of, strings.NewReader("built")))(t)
	of.Session = "sooner"
	_, err := r.Artifacts().Put(ctx, of, strings.NewReader("built"))
	must.Is(t, err, client.ErrSessionNotFound, "PutArtifact of a session to which nothing was published")
}

// An artifact is of a run of its own session, or of none: also of one that was begun this moment, and of no other's.
func TestOfARunThatIsNotThere(t *testing.T) {
	r, ctx := newRig(t), t.Context()
	must.Do(t, r.Session("build").New(ctx, "/w", ""))
	must.Do(t, r.Session("other").New(ctx, "/w", ""))
	theirs := must.Get(r.Thread(thread("other")).StartRun(ctx, client.RunConfig{ID: "theirs"}))(t)
	must.Do(t, theirs.Wait(ctx))
	file := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.WriteFile(file, []byte("built"), 0o600))
	must.Get(r.conn.Objects().UploadFrom(ctx, events.ArtifactsBucket, "a/b", strings.NewReader("built")))(t)
	put := func(run string) error {
		of := client.NewArtifact{Tool: "make", Record: artifacts.Record{Session: "build", Run: run}}
		_, err := r.Artifacts().Put(ctx, of, strings.NewReader("built"))
		_, e := r.Artifacts().RegisterObject(ctx, of, "a/b")
		_, e2 := r.Artifacts().RegisterFile(ctx, of, file)
		if (err == nil) != (e == nil) || (err == nil) != (e2 == nil) {
			t.Errorf("of the run %s, put, object and file: %v; %v; %v, want the same of each", run, err, e, e2)
		}
		return err
	}
	must.Is(t, put("theirs"), client.ErrNoRun, "an artifact of another session's run")
	must.Get(r.Thread(thread("build")).StartRun(ctx, client.RunConfig{ID: "ours"}))(t)
	must.Do(t, put("ours"))
	must.Do(t, put(""))
	must.Same(t, len(must.Get(r.Session("build").Artifacts(ctx))(t)), 6, "%d artifacts, want %d")
	must.Do(t, r.Thread(thread("fork")).Fork(ctx, events.Fork{Session: "build", Thread: events.MainThread, Whole: true}))
	forked := must.Get(r.Session("fork").Artifacts(ctx))(t)
	must.Same(t, len(forked), 6, "a fork into another session has %d artifacts, want %d")
	for _, a := range forked {
		must.Same(t, a.Run, "", "an artifact of a fork is of the run %q, which its session does not have, want %q")
	}
}

// TestRefusedRun: who would begin a run in a thread that has ended is told that, and no dead letter is.
func TestRefusedRun(t *testing.T) {
	r, th, ctx := newRig(t), thread("s"), limited(t)
	r.publish(t, posts(th, 1, 1)...)
	must.Do(t, r.Thread(th).End(ctx, events.End{}))
	must.Is(t, must.Err(r.Thread(th).StartRun(ctx, client.RunConfig{})), client.ErrEnded, "StartRun in a thread that has ended")
	must.Same(t, len(must.Get(r.Session("s").DeadLetters(ctx))(t)), 0, "%d dead letters, want %d")
}
