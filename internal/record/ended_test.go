package record_test

import (
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestEnded: what is said is taken only as far as the record that says it may know.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		what  string
		value []byte
		seq   uint64
		want  uint64
	}{
		{"said", record.EncodeEnded(7), 9, 7},
		{"of what came behind it", record.EncodeEnded(9), 9, 0},
		{"removed", nil, 9, 0},
		{"something else", []byte("{}"), 9, 0},
	} {
		got := record.Ended(record.Record{Key: events.EndedKey, Value: c.value, Seq: c.seq})
		must.Same(t, got, c.want, c.what+": %d, want %d")
	}
}
