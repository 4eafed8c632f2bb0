package events

import (
	"testing"

	"pgregory.net/rapid"
)

// TestGivenAround: what is told of some sequences alone is what is told of all, and whether a sequence stood is told of each.
func TestGivenAround(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seqs := rapid.Uint64Range(1, 40)
		all, some := Given{}, GivenAround(seqs.Draw(rt, "around"), 16)
		for at := range uint64(60) {
			l := Linked{Seq: seqs.Draw(rt, "seq"), At: at + 1, Is: Digest{byte(rapid.IntRange(0, 1).Draw(rt, "is"))}, In: "main"}
			if rapid.Bool().Draw(rt, "linked") {
				l.Prev = l.Seq - 1
			}
			if a, b := all.Add(l), some.Add(l); a != b {
				rt.Fatalf("Add(%+v) = %v and %v, want the same", l, a, b)
			}
		}
		for seq := range uint64(42) {
			if some.Stood(seq) != all.Names(seq, 100) {
				rt.Errorf("Stood(%d) = %v, want %v", seq, some.Stood(seq), !some.Stood(seq))
			}
			for at := range uint64(61) {
				for is := range byte(2) {
					d, told := Digest{is}, some.Tells(seq)
					if told && (some.Before(seq, d, at) != all.Before(seq, d, at) || some.Names(seq, at) != all.Names(seq, at)) {
						rt.Errorf("sequence %d at %d is told otherwise than by what tells of all", seq, at)
					}
				}
			}
		}
	})
}
