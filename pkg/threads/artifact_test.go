package threads_test

import (
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func TestArtifactNode(t *testing.T) {
	want := threads.Artifact{ID: "art_1", Session: "s", Seq: "3", Filename: "3.bash.log", MIME: "text/plain", Summary: "ok \xff", Size: 70_000}
	n := want.Node()
	b := n.AppendTo(nil)
	again := must.Get(casstore.DecodeNode(b))(t)
	if got, err := threads.ParseArtifact(again); err != nil || got != want {
		t.Errorf("ParseArtifact = %+v, %v, want %+v", got, err, want)
	}
	if _, err := threads.ParseArtifact(threads.Content{}.Node()); err == nil {
		t.Error("a content node is no artifact")
	}
	again.Payload = []byte{0x81, 0xa4}
	if _, err := threads.ParseArtifact(again); err == nil {
		t.Error("a cut payload was taken")
	}
}
