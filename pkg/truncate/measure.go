package truncate

import (
	"encoding/binary"
	"unicode/utf8"

	"spool/internal/jsonscan"
)

const (
	quotedNotice = `\n\n[Session persistence truncated large content]`
	noticeLines  = 2
	keptUnits    = MaxUnits - len(Notice) // of a string that is cut; the notice is all ASCII
	headLen      = refLen + 1             // enough to know a ref, and a name that a rule looks for
)

// measure is what the rules need to know of a string, found in passing.
type measure struct {
	start   int64  // of the string, behind its quote
	head    []byte // the beginning of what it denotes, at most headLen bytes
	units   int    // UTF-16 units; not counted further once there are more than MaxUnits
	lines   int    // newlines, likewise
	long    bool   // there are more than keptUnits units
	cut     int64  // where SPEC T1 cuts, if long
	before  int    // newlines before the cut
	wasHigh bool   // the last part is a high surrogate without its low one
	space   [headLen]byte
}

func (m *measure) begin(start int64) { *m = measure{start: start, head: m.space[:0]} }

// linesKept is the number of newlines after SPEC T1.
func (m *measure) linesKept() int {
	if m.units > MaxUnits {
		return m.before + noticeLines
	}
	return m.lines
}

// add takes the next part, which begins at the offset at.
func (m *measure) add(p jsonscan.Part, at int64) {
	m.head = appendHead(m.head, p)
	if m.units > MaxUnits {
		return
	}
	n := 1
	switch {
	case p.Rune < 0:
		n = units(p.Raw)
	case p.Rune > 0xFFFF:
		n = 2
	}
	if !m.long && m.units+n > keptUnits {
		m.long, m.cut, m.before = true, at, m.lines
		switch {
		case m.wasHigh && m.units == keptUnits:
			m.cut -= int64(len(`\ud800`))
		case p.Rune < 0:
			m.cut += int64(advance(p.Raw, keptUnits-m.units))
		}
	}
	m.units += n
	if p.Rune == '\n' {
		m.lines++
	}
	m.wasHigh = p.Rune >= 0xD800 && p.Rune < 0xDC00
}

// appendHead appends what p denotes to the first bytes of a string, as long as they are not headLen.
func appendHead(head []byte, p jsonscan.Part) []byte {
	room := headLen - len(head)
	if room == 0 {
		return head
	}
	text := p.Raw
	if p.Rune >= 0 {
		text = utf8.AppendRune(make([]byte, 0, utf8.UTFMax), p.Rune)
	}
	return append(head, text[:min(room, len(text))]...)
}

// units counts the UTF-16 units of a run: a sequence of four bytes has two, any other sequence or invalid byte one.
func units(run []byte) int {
	ascii := asciiLen(run)
	run = run[ascii:]
	n := ascii + utf8.RuneCount(run)
	for i, c := range run {
		if c >= 0xF0 {
			if _, size := utf8.DecodeRune(run[i:]); size == utf8.UTFMax {
				n++
			}
		}
	}
	return n
}

// asciiLen returns a length up to which all of run is ASCII.
func asciiLen(run []byte) int {
	i := 0
	for i+8 <= len(run) && binary.LittleEndian.Uint64(run[i:])&0x8080808080808080 == 0 {
		i += 8
	}
	return i
}

// advance returns the length of the longest beginning of a run that has no more than most units.
func advance(run []byte, most int) int {
	i := 0
	for i < len(run) && most > 0 {
		r, n := utf8.DecodeRune(run[i:])
		if most--; r > 0xFFFF {
			most--
		}
		if most < 0 {
			break
		}
		i += n
	}
	return i
}
