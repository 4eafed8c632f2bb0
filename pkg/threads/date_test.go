package threads

import "spool/internal/must"

import "testing"

// TestDate: a head knows what its events said of their times, beside what is believed of it, also when it is read again.
func TestDate(t *testing.T) {
	var h Head
	for i, step := range []struct{ claim, believed, updated, said int64 }{
		{0, 0, 0, 0},         // nobody says anything
		{0, 100, 100, 0},     // the store's clock alone
		{90, 90, 90, 90},     // a time that is believed
		{0, 110, 110, 90},    // no time: that of the entry before goes into the state
		{999, 120, 120, 999}, // one that is not
		{0, 130, 130, 999},
		{125, 125, 125, 125},
	} {
		h.Date(step.claim, step.believed)
		if h.Updated != step.updated || h.Claim() != step.said {
			t.Errorf("step %d: updated %d, claim %d, want %d, %d", i+1, h.Updated, h.Claim(), step.updated, step.said)
		}
		for _, life := range []uint64{0, 7} {
			was := h
			was.Life, was.Began = life, life*3
			got, err := DecodeHead(was.Encode())
			if err != nil || got.Claimed != h.Claimed || got.Claim() != h.Claim() || got.Life != life || got.Began != life*3 {
				t.Errorf("step %d, life %d: %+v, %v", i+1, life, got, err)
			}
		}
	}
	must.Same(t, h.Created, 100, "created %d, want %d")
}
