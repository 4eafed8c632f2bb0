package redact

import "bytes"

const (
	heldBytes    = maxReach // of the end of a piece that wait for the next one, at most: no match is longer
	contextBytes = 512      // before a piece that are looked at with it
	starBytes    = 64       // of masks in there are kept
)

// Piece is Blank for text that comes in pieces: a secret that lies across them is masked whole. A piece ends where its
// last word begins, because the next piece may go on with it: that word is held back, and given back with the next
// piece. context and held are what the last call for the text gave; the text ends with the piece for which last is set.
// What comes out is as long as what goes in.
func (r *Redactor) Piece(context, held, piece []byte, last bool) (out, nextContext, nextHeld []byte, found int) {
	text := piece
	if len(held) > 0 {
		text = append(bytes.Clone(held), piece...)
	}
	w := window{tail: context}
	secrets := w.find(r, text, true)
	cut := len(text)
	if r.mask && !last {
		cut = lastWord(text)
		for i := len(secrets) - 1; i >= 0; i-- {
			s := secrets[i]
			if s.from-len(context) < cut && s.to-len(context) > cut && len(context)+len(text)-s.from <= heldBytes {
				cut = s.from - len(context)
			}
		}
	}
	out = bytes.Clone(text[:cut])
	for _, s := range secrets {
		if s.from-len(context) >= cut {
			break
		}
		found++
		if r.mask {
			for i := s.from - len(context); i < min(s.to-len(context), cut); i++ {
				out[i] = '*'
			}
		}
	}
	if last {
		return out, nil, nil, found
	}
	return out, shortContext(context, out), bytes.Clone(text[cut:]), found
}

// lastWord is where the last word of a text begins that may go on; its end if there is none.
func lastWord(text []byte) int {
	from, word := len(text), false
	for from > 0 && (text[from-1] > ' ' || text[from-1] == 0x1b) {
		from--
		word = word || isAlnum(text[from]) || text[from] == 0x1b
	}
	switch {
	case !word:
		return len(text)
	case len(text)-from > heldBytes:
		return len(text) - heldBytes/2
	}
	return from
}

// shortContext is the end of what was given out, with long masks cut: what stands before one may say what comes behind
// it.
func shortContext(context, out []byte) []byte {
	short := make([]byte, 0, len(context)+len(out))
	stars := 0
	for _, part := range [][]byte{context, out} {
		for _, c := range part {
			if c != '*' {
				stars = 0
			} else if stars++; stars > starBytes {
				continue
			}
			short = append(short, c)
		}
	}
	return bytes.Clone(short[max(0, len(short)-contextBytes):])
}
