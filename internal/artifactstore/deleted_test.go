package artifactstore_test

import (
	"errors"
	"strings"
	"testing"

	"spool/internal/artifactstore"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestArtifactPutOverADeletion: a number of a life of a session that is over makes no artifact in the next one, which gives it out
// again (SPEC A1). The bytes go. A number that is taken while the deletion comes to its end is good.
func TestArtifactPutOverADeletion(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	write := func(key string, value []byte) {
		must.Get(c.Records().Write(t.Context(), record.Put{Key: key, Value: value, Expect: record.Any}))(t)
	}
	put(t, a, newArtifact("s"), "one")
	body := &during{strings.NewReader("two"), func() {
		write(events.DeletedKey("s"), record.Deleted{Seq: 7, State: record.Removed}.Encode())
		write(events.CounterKey("s"), nil)
	}}
	if r, err := a.Put(t.Context(), newArtifact("s"), body); !errors.Is(err, record.ErrBusy) {
		t.Errorf("put over a deletion = %+v, %v, want %v", r, err, record.ErrBusy)
	}
	s := must.Get(c.JetStream().Stream(t.Context(), events.ObjectStream(events.ArtifactsBucket)))(t)
	if n := s.CachedInfo().State.Msgs; n != 2 {
		t.Errorf("the bucket holds %d messages, want those of the first artifact", n)
	}
	body = &during{strings.NewReader("three"), func() {
		write(events.DeletedKey("s"), record.Deleted{Seq: 7, State: record.Done}.Encode())
	}}
	r, err := a.Put(t.Context(), newArtifact("s"), body)
	if err != nil || r.Seq != "0" {
		t.Errorf("put at the end of a deletion = %+v, %v, want the number 0", r, err)
	}
	must.Same(t, must.Get(readArtifact(t, a, r))(t), "three", "read %q, want %q")
	if r := put(t, a, newArtifact("s"), "four"); r.Seq != "1" {
		t.Errorf("the next number = %s, want 1", r.Seq)
	}
}
