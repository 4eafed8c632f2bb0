package redact

import "slices"

// keywords finds many words in a text in one pass, in any case: the automaton of Aho and Corasick, with a row of
// followers for each state. A byte that is in no word shares one column with all such bytes.
type keywords struct {
	class [256]uint8
	next  []uint32 // [state+class]: the place of the next state's row, and heard if a word ends there
	words [][]word // by the state's number
	width uint32   // of a row
}

// word is a keyword of a rule.
type word struct{ rule, length int }

const heard = 1 << 31

// newKeywords makes the automaton of the words, which are lower case.
func newKeywords(words map[string][]int) *keywords {
	k := &keywords{width: 1}
	sorted := make([]string, 0, len(words))
	for w := range words {
		sorted = append(sorted, w)
		for _, c := range []byte(w) {
			if k.class[c] == 0 {
				k.class[c] = uint8(k.width)
				k.width++
			}
		}
	}
	slices.Sort(sorted)
	for c := byte('a'); c <= 'z'; c++ {
		k.class[c-'a'+'A'] = k.class[c]
	}
	tree := [][]uint32{make([]uint32, k.width)} // children by class; 0: none
	k.words = [][]word{nil}
	for _, w := range sorted {
		at := uint32(0)
		for _, c := range []byte(w) {
			child := &tree[at][k.class[c]]
			if *child == 0 {
				*child = uint32(len(tree))
				tree, k.words = append(tree, make([]uint32, k.width)), append(k.words, nil)
			}
			at = tree[at][k.class[c]]
		}
		for _, rule := range words[w] {
			k.words[at] = append(k.words[at], word{rule, len(w)})
		}
	}
	k.link(tree)
	return k
}

// link turns the tree into rows: where a state has no child it goes where its longest proper suffix goes.
func (k *keywords) link(tree [][]uint32) {
	suffix := make([]uint32, len(tree))
	queue := []uint32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c, child := range tree[at] {
			switch {
			case child != 0:
				if at != 0 {
					suffix[child] = tree[suffix[at]][c]
				}
				k.words[child] = append(k.words[child], k.words[suffix[child]]...)
				queue = append(queue, child)
			case at != 0:
				tree[at][c] = tree[suffix[at]][c]
			}
		}
	}
	k.next = make([]uint32, 0, len(tree)*int(k.width))
	for _, row := range tree {
		for _, to := range row {
			place := to * k.width
			if len(k.words[to]) > 0 {
				place |= heard
			}
			k.next = append(k.next, place)
		}
	}
}

// each calls f for every keyword in text: its rule, and from where to where it stands. Places are in the order of their
// ends.
func (k *keywords) each(text []byte, f func(rule, from, to int)) {
	at, next := uint32(0), k.next
	for i, c := range text {
		at = next[at+uint32(k.class[c])]
		if at >= heard {
			at &^= heard
			for _, w := range k.words[at/k.width] {
				f(w.rule, i+1-w.length, i+1)
			}
		}
	}
}
