package natsio_test

import (
	"errors"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
)

// TestCommitOf: in a cluster a commit can demand that a key, or all keys of a filter, are as they were, beside its own demand of
// the fence, under the same key.
func TestCommitOf(t *testing.T) {
	conn := natstest.Dial(t, cluster(t)[0])
	ctx := t.Context()
	must.Do(t, conn.Ensure(ctx, natsio.Limits{EventsBytes: 1 << 20, ItemsBytes: 1 << 20, Replicas: 3}))
	f := must.Get(conn.Records().Fence(ctx, 0))(t)
	was := must.Get(conn.Records().Write(ctx, record.Put{Key: "artifact.s.a", Value: []byte{1}}))(t)
	commit := func(of string, seq uint64) error {
		_, err := conn.Records().Commit(ctx, f, []record.Put{
			{Key: "lane.0", Value: []byte{1}, Of: of, Expect: seq}, {Key: "artifact.s.b", Value: []byte{2}, Expect: record.Any},
		})
		return err
	}
	for _, c := range []struct {
		of  string
		off uint64
		bad bool
	}{{"artifact.s.a", 1, true}, {"artifact.s.*", 1, true}, {"artifact.s.*", 0, false}, {"artifact.s.a", 0, false},
		{"artifact.s.*", 0, true}} {
		if err := commit(c.of, was-c.off); c.bad != errors.Is(err, record.ErrConflict) || !c.bad && err != nil {
			t.Errorf("commit of %s, %d before = %v, want a conflict: %v", c.of, c.off, err, c.bad)
		}
	}
}
