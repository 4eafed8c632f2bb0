package cluster_test

import (
	"testing"
	"time"
)

// The checker must be able to say no: what a correct cluster cannot show is refused, and what it can is not.
func TestCheckerOfHeads(t *testing.T) {
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	v := func(n byte) id { return id{15: n} }
	begin := headOp{key: "h", do: made, call: at(0), ret: at(1), new: v(1)}
	moved := func(from, to byte, call, ret float64) headOp {
		return headOp{key: "h", do: move, old: v(from), new: v(to), call: at(call), ret: at(ret)}
	}
	saw := func(n byte, call, ret float64) headOp {
		return headOp{key: "h", do: read, old: v(n), call: at(call), ret: at(ret)}
	}
	open := func(op headOp) headOp { op.open = true; return op }
	for _, c := range []struct {
		name    string
		history []headOp
		ok      bool
		stale   int
	}{
		{"one after the other", []headOp{begin, moved(1, 2, 2, 3), saw(2, 4, 5), moved(2, 3, 6, 7), saw(3, 8, 9)}, true, 0},
		{"a read beside a move sees either", []headOp{begin, moved(1, 2, 2, 5), saw(1, 3, 4), saw(2, 3, 4)}, true, 0},
		{"two winners of one revision", []headOp{begin, moved(1, 2, 2, 3), moved(1, 3, 2, 4)}, false, 0},
		{"a value comes back", []headOp{begin, moved(1, 2, 2, 3), moved(2, 3, 4, 5), moved(1, 4, 6, 7)}, false, 0},
		{"a read of what nobody wrote", []headOp{begin, saw(9, 2, 3)}, false, 0},
		{"a read of a move that nobody made", []headOp{begin, saw(2, 4, 5), moved(2, 3, 6, 7)}, false, 0},
		{"an acked move is lost", []headOp{begin, moved(1, 2, 2, 3), moved(1, 3, 4, 5), saw(3, 6, 7)}, false, 0},
		{"no answer, and it took place late", []headOp{begin, open(moved(1, 2, 2, 3)), saw(1, 4, 5), saw(2, 6, 7), moved(2, 3, 8, 9)}, true, 0},
		{"no answer, and it never took place", []headOp{begin, open(moved(1, 2, 2, 3)), moved(1, 3, 4, 5), saw(3, 6, 7)}, true, 0},
		{"many without an answer that nobody saw", unseen(begin, moved), true, 0},
		{"no answer, and two took place", []headOp{begin, open(moved(1, 2, 2, 3)), open(moved(1, 3, 2, 3)), saw(2, 4, 5),
			saw(3, 6, 7)}, false, 0},
		{"a stale read is told apart", []headOp{begin, moved(1, 2, 2, 3), saw(1, 4, 5), saw(2, 6, 7)}, true, 1},
		{"and one behind a move without an answer", []headOp{begin, open(moved(1, 2, 2, 3)), saw(2, 4, 5), saw(1, 6, 7)}, true, 1},
	} {
		got, err := judge(c.history)
		if (err == nil) != c.ok || got.stale != c.stale || got.undecided != 0 {
			t.Errorf("%s: %v, %d stale, %d undecided; want ok = %v, %d stale", c.name, err, got.stale, got.undecided, c.ok, c.stale)
		}
	}
	// Without that, a stale read is no history of a register.
	if porcupineAccepts([]headOp{begin, moved(1, 2, 2, 3), saw(1, 4, 5)}) {
		t.Error("a stale read was accepted as it is")
	}
}

// unseen are moves without an answer, more than a checker could try in every order.
func unseen(begin headOp, moved func(from, to byte, call, ret float64) headOp) []headOp {
	history := []headOp{begin}
	for i := range byte(200) {
		op := moved(1, 10+i, 2, 3)
		op.open = true
		history = append(history, op)
	}
	return append(history, moved(1, 2, 4, 5))
}
