package truncate

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"spool/internal/jsonscan"
)

// rule is what an edit was made for.
type rule byte

const (
	truncated    rule = iota // T1
	cleared                  // T2
	stripped                 // T3
	counted                  // T4
	externalized             // T5, T6
)

// edit replaces the text from start to end. An exact one is undone by its splice.
type edit struct {
	start, end int64
	rule       rule
	exact      bool
	form       Form
	lines      int    // counted: the new number
	size       int64  // externalized: bytes of the blob
	ref        string // externalized
	mark       string // truncated: what comes behind the notice
}

// text is what comes in the place of the old text.
func (e *edit) text() string {
	switch e.rule {
	case truncated:
		return quotedNotice + e.mark
	case counted:
		return strconv.Itoa(e.lines)
	case externalized:
		return e.ref
	}
	return ""
}

// blob is what an edit moves out of raw.
func (e *edit) blob(raw []byte) []byte {
	if e.exact && e.form == FormVerbatim {
		return raw[e.start:e.end]
	}
	var b bytes.Buffer
	b.Grow(int(e.size))
	d := decoder{form: e.form, w: &b}
	_ = d.read(jsonscan.NewTextReader(raw[e.start:e.end+1], 0), nil) // it was read before
	d.close()
	return b.Bytes()
}

// Plan is what the rules do to one entry.
type Plan struct {
	Summary
	// Lossy says that Text lost something, so that there is a Full.
	Lossy bool
	// Size is of the entry in bytes, TextSize and FullSize of what becomes of it. FullSize is 0 if there is no Full.
	Size, TextSize, FullSize int64

	edits []edit // ascending, apart from each other
}

// newPlan makes a plan of the edits of an entry of size bytes.
func newPlan(edits []edit, size int64) *Plan {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	p := &Plan{Size: size, TextSize: size, edits: edits}
	base := int64(0) // what the exact edits added so far
	for i := range edits {
		e := &edits[i]
		grown := int64(len(e.text())) - (e.end - e.start)
		p.TextSize += grown
		if e.exact {
			p.Splices = append(p.Splices, Splice{Offset: int(e.start + base), Form: e.form})
			base += grown
		}
		p.Lossy = p.Lossy || !e.exact
		p.count(e.rule)
	}
	if p.Lossy {
		p.FullSize = size + base
	}
	return p
}

func (p *Plan) count(rule rule) {
	switch rule {
	case truncated:
		p.Truncated++
	case cleared:
		p.Cleared++
	case stripped:
		p.Stripped++
	case externalized:
		p.Externalized++
	}
}

// Hole is what a cut took out of a string: a range of bytes of the entry, inside a string as JSON spells it.
type Hole struct{ Start, End int64 }

// Marked is the plan with mark(k) behind Notice where the k-th cut string ends, and what is missing there: wherever such a
// string is copied to, its mark leads back to all of it. mark must need no escapes in JSON.
func (p *Plan) Marked(mark func(k int) string) (*Plan, []Hole) {
	m, holes := *p, []Hole(nil)
	m.edits = slices.Clone(p.edits)
	for i := range m.edits {
		if e := &m.edits[i]; e.rule == truncated {
			e.mark = mark(len(holes))
			m.TextSize += int64(len(e.mark))
			holes = append(holes, Hole{e.start, e.end})
		}
	}
	return &m, holes
}

// Clean says that no rule applies: the text stays what it is.
func (p *Plan) Clean() bool { return len(p.edits) == 0 }

// edit makes the edits, or the exact ones only. It returns raw itself if there are none.
func (p *Plan) edit(raw []byte, exactOnly bool) []byte {
	size := p.TextSize
	if exactOnly {
		size = p.FullSize
	}
	if p.Clean() || exactOnly && len(p.Splices) == 0 {
		return raw
	}
	out, from := make([]byte, 0, size), int64(0)
	for i := range p.edits {
		if e := &p.edits[i]; e.exact || !exactOnly {
			out = append(append(out, raw[from:e.start]...), e.text()...)
			from = e.end
		}
	}
	return append(out, raw[from:]...)
}
