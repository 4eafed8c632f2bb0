package threads

import (
	"slices"
	"strings"

	"spool/pkg/casstore"
)

// Gap is a stretch of a producer's sequences that its thread has not seen, although it has seen a later one.
type Gap struct {
	Producer        string
	Epoch, From, To uint64 // To is the last one of them
}

// How many gaps a head knows, of one producer and of all; it forgets the oldest, of ephemeral producers first. What lies
// in one that is forgotten counts as seen.
const (
	GapsOfProducer = 8
	MaxGaps        = 64
)

func (g *Gap) has(producer string, epoch, seq uint64) bool {
	return g.Producer == producer && g.Epoch == epoch && g.From <= seq && seq <= g.To
}

// Late reports whether the thread has seen a later event of the producer in its epoch, and this one never.
func (h *Head) Late(producer string, epoch, seq uint64) bool {
	return slices.ContainsFunc(h.Gaps, func(g Gap) bool { return g.has(producer, epoch, seq) })
}

// skipped notes that a producer goes on with a sequence above from. Heads share the memory of their gaps.
func (h *Head) skipped(g Gap) {
	if g.From > g.To {
		return
	}
	n, oldest := 0, 0
	for i := len(h.Gaps) - 1; i >= 0; i-- {
		if h.Gaps[i].Producer == g.Producer {
			n, oldest = n+1, i
		}
	}
	gaps := append(make([]Gap, 0, len(h.Gaps)+1), h.Gaps...)
	switch {
	case n >= GapsOfProducer:
		gaps = slices.Delete(gaps, oldest, oldest+1)
	case len(gaps) >= MaxGaps:
		of := slices.IndexFunc(gaps, func(g Gap) bool { return strings.HasPrefix(g.Producer, Ephemeral) })
		gaps = slices.Delete(gaps, max(of, 0), max(of, 0)+1)
	}
	h.Gaps = append(gaps, g)
}

// fill notes that the thread has seen a late event.
func (h *Head) fill(producer string, epoch, seq uint64) {
	i := slices.IndexFunc(h.Gaps, func(g Gap) bool { return g.has(producer, epoch, seq) })
	if i < 0 {
		return
	}
	g := h.Gaps[i]
	h.Gaps = slices.Delete(slices.Clone(h.Gaps), i, i+1)
	h.skipped(Gap{producer, epoch, g.From, seq - 1})
	h.skipped(Gap{producer, epoch, seq + 1, g.To})
}

// takeGaps takes over those that another head knows of a producer.
func (h *Head) takeGaps(from *Head, of Producer) {
	for _, g := range from.Gaps {
		if g.Producer == of.ID {
			h.skipped(g)
		}
	}
}

// meetGaps leaves of a producer that this head and another one know what neither has seen. Of an earlier epoch nothing is to come.
func (h *Head) meetGaps(mine Producer, from *Head, theirs Producer) {
	if mine.Epoch > theirs.Epoch {
		return
	}
	here := h.missing(mine, theirs.Seq)
	h.forgetGaps(mine.ID)
	if mine.Epoch < theirs.Epoch {
		h.takeGaps(from, theirs)
		return
	}
	there := from.missing(theirs, mine.Seq)
	for _, a := range here {
		for _, b := range there {
			h.skipped(Gap{mine.ID, mine.Epoch, max(a.From, b.From), min(a.To, b.To)})
		}
	}
}

// missing is what the head has not seen of a producer, up to a sequence.
func (h *Head) missing(p Producer, to uint64) (list []Gap) {
	for _, g := range h.Gaps {
		if g.Producer == p.ID && g.Epoch == p.Epoch {
			list = append(list, g)
		}
	}
	if p.Seq < to {
		list = append(list, Gap{p.ID, p.Epoch, p.Seq + 1, to})
	}
	return list
}

// forgetGaps forgets those of a producer.
func (h *Head) forgetGaps(producer string) {
	of := func(g Gap) bool { return g.Producer == producer }
	if slices.ContainsFunc(h.Gaps, of) {
		h.Gaps = slices.DeleteFunc(slices.Clone(h.Gaps), of)
	}
}

// appendGaps writes an array of [producer, epoch, from, to].
func appendGaps(b []byte, list []Gap) []byte {
	b = casstore.AppendArrayHeader(b, len(list))
	for _, g := range list {
		b = casstore.AppendText(casstore.AppendArrayHeader(b, 4), []byte(g.Producer))
		b = casstore.AppendUint(casstore.AppendUint(casstore.AppendUint(b, g.Epoch), g.From), g.To)
	}
	return b
}

func parseGaps(c *casstore.Cursor) []Gap {
	return parseFours(c, MaxGaps, "gap", func() Gap { return Gap{string(c.Text()), c.Uint(), c.Uint(), c.Uint()} })
}
