package persist_test

import (
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

// The fork of a session reads the artifacts of its source by their numbers, also when those are removed, and counts on from
// them (SPEC A7).
func TestForkHasArtifacts(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	r.start(nil)
	pub := r.Publisher(client.PublisherConfig{})
	r.publish(pub, thread(1), 0, 3)
	r.await(thread(1), pub.Producer(), 3)
	source, err := r.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s1"}}, strings.NewReader("kept"))
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, r.ForkSession(ctx, "s1", "forked", client.SessionFork{}))
	must.Do(t, r.DeleteArtifact(ctx, source.ID))
	res := must.Get(r.Resolve(ctx, "forked", "artifact://0", artifacts.Lines{}))(t)
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "kept" {
		t.Errorf("artifact://0 of the fork = %q, %v", b, err)
	}
	next, err := r.PutArtifact(ctx, client.NewArtifact{Record: artifacts.Record{Session: "forked"}}, strings.NewReader(""))
	if err != nil || next.Seq != "1" {
		t.Errorf("the fork's next number = %s, %v, want 1", next.Seq, err)
	}
}
