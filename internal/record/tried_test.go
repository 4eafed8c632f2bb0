package record_test

import (
	"reflect"
	"testing"

	"spool/internal/record"
)

// A life is dead for those that find its record, once, until it comes back. One that ended in order is not.
func TestTried(t *testing.T) {
	a, b, c := record.Life{1}, record.Life{2}, record.Life{3}
	rec := record.Tried{Life: a, Lo: 7, Hi: 7, Alone: true, Index: 2, Stored: 9}
	rec.FoundBy(b)
	rec.FoundBy(b)
	if want := []record.Life{a}; !reflect.DeepEqual(rec.Died, want) {
		t.Errorf("found by another life, %v died, want %v", rec.Died, want)
	}
	for range 5 { // two that are alive, and take turns
		rec.Life = b
		rec.FoundBy(a)
		rec.Life = a
		rec.FoundBy(b)
	}
	if want := []record.Life{a}; !reflect.DeepEqual(rec.Died, want) {
		t.Errorf("found by the one and the other, %v died, want %v", rec.Died, want)
	}
	rec.Life = record.Life{}
	rec.FoundBy(c)
	if want := []record.Life{a}; !reflect.DeepEqual(rec.Died, want) {
		t.Errorf("behind an end in order %v died, want %v", rec.Died, want)
	}
	if !rec.Is(7, 2, 9) || rec.Is(7, 1, 9) || rec.Is(7, 2, 8) || rec.Is(6, 2, 9) {
		t.Error("it is about another event")
	}
	got, err := record.DecodeTried(rec.Encode())
	if err != nil || !reflect.DeepEqual(got, rec) {
		t.Errorf("DecodeTried() = %+v, %v, want %+v", got, err, rec)
	}
}
