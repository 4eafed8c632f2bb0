package record_test

import (
	"testing"
	"time"

	"spool/internal/record"
)

// TestSinceOfNewStream: a stream that was made anew gives the sequences out again that another one had while the clock
// was behind. What it stored since is no older for that.
func TestSinceOfNewStream(t *testing.T) {
	right := time.Unix(1_000_000, 0)
	s := record.Skew{From: map[string]uint64{"S": 10}, To: map[string]uint64{"S": 20}, Right: right.UnixNano()}
	later := right.Add(24 * time.Hour)
	for _, c := range []struct {
		seq          uint64
		stored, want time.Time
	}{
		{10, right.Add(-time.Hour), right.Add(-time.Hour)},
		{11, right.Add(-time.Hour), right},
		{20, later, later},
		{21, right.Add(-time.Hour), right.Add(-time.Hour)},
	} {
		if got := s.Since("S", c.seq, c.stored, later.Add(time.Hour)); !got.Equal(c.want) {
			t.Errorf("message %d, stored at %v, counts from %v, want %v", c.seq, c.stored, got, c.want)
		}
	}
}
