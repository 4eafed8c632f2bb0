package threads_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/threads"
)

// A head tells what a producer left out from what it saw, also when it is read again, and a copy of it keeps its own.
func TestGaps(t *testing.T) {
	var h threads.Head
	for _, seq := range []uint64{3, 4, 8} {
		h.Saw("p", 0, seq, 100+seq)
	}
	was := h.Clone()
	h.Saw("p", 0, 6, 110) // it came late
	check := func(name string, h threads.Head, late ...uint64) {
		t.Helper()
		for seq := uint64(1); seq <= 9; seq++ {
			want := false
			for _, l := range late {
				want = want || l == seq
			}
			must.Same(t, h.Late("p", 0, seq), want, "%s: Late(%d) = %v, want %v", name, seq)
			if got := h.Duplicate("p", 0, seq); got != (seq <= 8 && !want) {
				t.Errorf("%s: Duplicate(%d) = %v, want the opposite", name, seq, got)
			}
		}
	}
	check("before", was, 1, 2, 5, 6, 7)
	check("filled", h, 1, 2, 5, 7)
	read, err := threads.DecodeHead(h.Encode())
	if err != nil || cmp.Diff(h, read) != "" {
		t.Errorf("a head with gaps is read as %+v, %v, want %+v", read, err, h)
	}
	read.Later = []byte("\xa5later")
	if again, err := threads.DecodeHead(read.Encode()); err != nil || cmp.Diff(read, again) != "" {
		t.Errorf("with fields of a later writer it is read as %+v, %v, want %+v", again, err, read)
	}
	h.Saw("p", 1, 2, 111)
	if h.Late("p", 0, 5) || !h.Duplicate("p", 0, 5) || !h.Late("p", 1, 1) {
		t.Error("a new epoch leaves out its own sequences alone, and those before it are fenced")
	}
}

// The gaps of a head have a bound, of each producer and of all; what is forgotten counts as seen.
func TestGapsAreBounded(t *testing.T) {
	var h threads.Head
	for i := range 200 {
		for seq := uint64(2); seq <= 40; seq += 2 {
			h.Saw(fmt.Sprint(i), 0, seq, seq)
		}
	}
	must.Same(t, len(h.Gaps), threads.MaxGaps, "%d gaps, want %d")
	h.Saw("~", 0, 2, 2)
	h.Saw("199", 0, 42, 42)
	h.Saw("q", 0, 2, 2)
	if h.Late("~", 0, 1) || !h.Late("q", 0, 1) {
		t.Error("the gap of an ephemeral producer stays, or that of another one does not")
	}
	if h.Late("199", 0, 1) || !h.Duplicate("199", 0, 1) || !h.Late("199", 0, 39) {
		t.Error("the oldest gaps of a producer are forgotten, and only these")
	}
}

// Of a producer that two heads know, that is late which neither has seen, in the newer epoch of the two.
func TestInheritedGaps(t *testing.T) {
	var now, before threads.Head
	now.Saw("p", 0, 5, 5)
	now.Saw("later", 0, 4, 6)
	now.Saw("earlier", 1, 4, 7)
	before.Saw("p", 0, 2, 2)
	before.Saw("p", 0, 8, 3)
	before.Saw("q", 0, 2, 2)
	before.Saw("later", 1, 3, 4)
	before.Saw("earlier", 0, 9, 4)
	now.Inherit(&before)
	for producer, want := range map[string][]uint64{"p": {1, 3, 4, 6, 7}, "q": {1}} {
		var got []uint64
		for seq := range uint64(12) {
			if now.Late(producer, 0, seq) {
				got = append(got, seq)
			}
		}
		must.SameAll(t, got, want, "late of %s = %v, want %v", producer)
	}
	if now.Late("later", 0, 1) || !now.Late("later", 1, 2) || !now.Late("earlier", 1, 3) || now.Late("earlier", 0, 1) {
		t.Errorf("gaps %+v, want those of the later epochs", now.Gaps)
	}
}

// A producer that a full head forgot has no gaps there any more: what it sends from one of them is applied, and its repeat is
// a repeat.
func TestGapsOfAForgottenProducer(t *testing.T) {
	var h threads.Head
	h.Saw("a", 0, 1, 1)
	h.Saw("a", 0, 10, 2) // 2 to 9 are a gap
	at := uint64(3)
	for i := range threads.MaxProducers {
		h.Saw(fmt.Sprintf("p%d", i), 0, 1, at)
		at++
	}
	if h.Duplicate("a", 0, 5) || h.Late("a", 0, 5) {
		t.Errorf("the head still judges a producer that it has forgotten; gaps %v", h.Gaps)
	}
	h.Saw("a", 0, 5, at)
	if !h.Duplicate("a", 0, 5) {
		t.Errorf("an event that the thread saw last counts as late; gaps %v", h.Gaps)
	}
	h.Saw("a", 0, 6, at+1)
	if !h.Duplicate("a", 0, 6) {
		t.Errorf("the second counts as late; gaps %v", h.Gaps)
	}
}
