package record

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestDeleted(t *testing.T) {
	want := Deleted{
		State: Removed, Seq: 9, Stored: 1795176000000000000, Producer: "p", Epoch: 2, Event: 3, At: 4,
		Delete: events.Delete{Force: true, Erase: true, By: "mira"}, Gone: Gone{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		Free: [][]byte{{1, 2}, {3}}, Items: 11, Dead: 12, Erased: true,
		Earlier: []DeletedBy{{"p", 2, 1, false, true}, {"q", 0, 7, true, false}},
		Removed: []Removal{{13, 14, 15, 16}},
	}
	got := must.Get(DecodeDeleted(want.Encode()))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DecodeDeleted (-want +got):\n%s", diff)
	}
	for i := range want.Encode() {
		if _, err := DecodeDeleted(want.Encode()[:i]); err == nil {
			t.Errorf("the first %d bytes are taken for a record", i)
		}
	}
}

// What was stored before the deletion is known by its place, unless the stream was made anew.
func TestDeletedBefore(t *testing.T) {
	d := &Deleted{Seq: 10, Stored: 1000}
	for _, c := range []struct {
		seq    uint64
		stored int64
		want   bool
	}{{9, 900, true}, {9, 0, true}, {10, 1000, false}, {11, 1100, false}, {3, 2000, false}} {
		must.Same(t, d.Before(c.seq, c.stored), c.want, "Before(%d, %d) = %v, want %v", c.seq, c.stored)
	}
	if (*Deleted)(nil).Before(1, 1) || (*Deleted)(nil).Is(&events.Event{}) {
		t.Error("a session that was never deleted has something before its deletion")
	}
}
