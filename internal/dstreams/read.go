package dstreams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"spool/internal/jsonscan"
	"spool/internal/runes"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/dialect/raw"
	"spool/pkg/threads"
)

// chunkBytes is how much one answer holds. An append of JSON that is larger is whole, up to wholeBytes; of an entry that is
// larger still, which an agent wrote, what is shown of it is given.
const (
	chunkBytes = 1 << 20
	wholeBytes = 2 * maxJSON
	chunkSteps = 1024 // entries of one answer at most
)

// chunk is a piece of a stream.
type chunk struct {
	body []byte // of JSON: the messages, with commas between them
	more bool   // there is nothing in it, because the next append is whole or not at all, and does not fit
	next offset
	tail bool // it ends where the stream does
	done bool // and the stream is closed
}

// array is the JSON array of a chunk's messages.
func (c *chunk) array() []byte {
	return append(append(append(make([]byte, 0, len(c.body)+2), '['), c.body...), ']')
}

// end is the chunk of nothing at the end of a stream.
func (v *view) end() chunk { return chunk{next: v.tail(), tail: true, done: v.completed} }

// chunk reads up to that many bytes from an offset.
func (h *Handler) chunk(ctx context.Context, s *state, v *view, from offset, most int64) (c chunk, err error) {
	tail := v.tail()
	if from.after(tail) {
		return c, refuse(http.StatusBadRequest, fmt.Sprintf("offset %s is behind the end of the stream, %s", from, tail))
	}
	if from == tail {
		return v.end(), nil
	}
	steps, err := h.steps(ctx, s, v, from.entries, chunkSteps)
	if err != nil {
		return c, err
	}
	c.next = from
	for _, step := range steps {
		if step.Entry.Dialect != "" && step.Entry.Dialect != raw.PartName {
			full, err := h.add(ctx, v, &c, step, most)
			if err != nil || full {
				return c, err
			}
		}
		c.next = offset{entries: step.Entry.Index}
		if len(c.body) >= chunkBytes {
			break
		}
	}
	if len(steps) == 0 || !tail.after(c.next) {
		c.next, c.tail, c.done = tail, true, v.completed
	}
	return c, nil
}

// chunks reads a chunk, within the memory there is for answers.
type chunks func(ctx context.Context, v *view, from offset, most int64) (chunk, error)

// with gives a chunk to use, and takes its memory back when that returns.
func (h *Handler) with(ctx context.Context, read chunks, v *view, from offset, use func(chunk) error) error {
	c, room, err := h.hold(ctx, read, v, from)
	if err != nil {
		return err
	}
	defer h.release(ctx, room)
	return use(c)
}

// hold reads a chunk and keeps the room that it needs: a client that is slow to take a small one holds up nobody.
func (h *Handler) hold(ctx context.Context, read chunks, v *view, from offset) (c chunk, room int64, err error) {
	for _, most := range []int64{chunkBytes, wholeBytes} {
		if err := h.acquire(ctx, most); err != nil {
			return c, 0, err
		}
		if c, err = read(ctx, v, from, most); err == nil && !c.more {
			room = min(most, 4*int64(len(c.body)))
		}
		h.release(ctx, most-room)
		if err != nil || !c.more {
			break
		}
	}
	return c, room, err
}

// add appends an entry to a chunk, or what fits of it; full: nothing more fits.
func (h *Handler) add(ctx context.Context, v *view, c *chunk, step threads.Step, most int64) (full bool, err error) {
	if isJSON(v.contentType()) {
		body, fits, err := h.whole(ctx, step, most-int64(len(c.body)))
		if !fits || err != nil {
			c.more = len(c.body) == 0
			return true, err
		}
		if len(c.body) > 0 && len(body) > 0 {
			c.body = append(c.body, ',')
		}
		c.body = append(c.body, body...)
		return false, nil
	}
	out := window{b: c.body, skip: c.next.bytes, left: most - int64(len(c.body)), untag: isTagged(step)}
	if err := h.read(ctx, step, &out); err != nil {
		return false, err
	}
	if out.more {
		if isText(v.contentType()) {
			out.b = out.b[:max(len(c.body), runes.Whole(out.b))]
		}
		c.next = offset{entries: step.Entry.Index - 1, bytes: c.next.bytes + int64(len(out.b)-len(c.body))}
	}
	c.body = out.b
	return out.more, nil
}

func isTagged(step threads.Step) bool { return step.Entry.Dialect == raw.TaggedName }

// read writes an entry's bytes to a window, up to its end.
func (h *Handler) read(ctx context.Context, step threads.Step, out *window) error {
	_, err := h.cfg.Client.Internal().Source().RawTo(ctx, step, out)
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// whole is the messages of an entry of JSON, if it has at most that many bytes: of an append the elements of its array, or itself.
func (h *Handler) whole(ctx context.Context, step threads.Step, most int64) (body []byte, fits bool, err error) {
	out := window{left: most, untag: isTagged(step)}
	if err := h.read(ctx, step, &out); err != nil || out.more && most < wholeBytes {
		return nil, false, err
	}
	body = out.b
	if out.more {
		if body, _, err = h.cfg.Client.Internal().Source().Stored(ctx, step); err != nil {
			return nil, false, err
		}
	}
	body = bytes.TrimSpace(body)
	switch {
	case dialect.IsJSON(step.Entry.Dialect):
	case jsonscan.Valid(body) != nil: // of an agent that wrote something else
		body = jsonscan.AppendString(nil, string(body))
	case jsonscan.KindOf(body) == jsonscan.KindArray:
		body = bytes.TrimSpace(body[1 : len(body)-1])
	}
	return body, true, nil
}

// errFull ends the reading of an entry whose end is not wanted.
var errFull = errors.New("enough")

// window takes a part of what is written to it.
type window struct {
	b     []byte
	untag bool  // the first line does not count
	skip  int64 // bytes to leave out
	left  int64 // bytes to take then
	more  bool  // there were others behind
}

func (w *window) Write(p []byte) (int, error) {
	n := len(p)
	if w.untag {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			return n, nil
		}
		w.untag, p = false, p[i+1:]
	}
	cut := min(w.skip, int64(len(p)))
	w.skip, p = w.skip-cut, p[cut:]
	cut = min(w.left, int64(len(p)))
	w.b, w.left = append(w.b, p[:cut]...), w.left-cut
	if cut < int64(len(p)) {
		w.more = true
		return n, errFull
	}
	return n, nil
}

// steps reads up to n states of a stream behind an index, oldest first; none at its end.
func (h *Handler) steps(ctx context.Context, s *state, v *view, behind int64, n int64) ([]threads.Step, error) {
	last := min(behind+n, v.head.Entries)
	if last <= behind {
		return nil, nil
	}
	at, linear, err := h.locate(ctx, s, v, last)
	if err != nil {
		return nil, err
	}
	if !linear {
		return h.branched(ctx, v, behind, n)
	}
	var steps []threads.Step
	for step, err := range h.cfg.Client.Reader().Walk(ctx, at) {
		if err != nil {
			return nil, err
		}
		if step.Entry.Index <= behind {
			break
		}
		steps = append(steps, step)
	}
	slices.Reverse(steps)
	return steps, nil
}

// locate finds the state with an index, from the nearest place behind it that is known. linear is false for a thread whose
// states do not count up one by one: it has branches, or was forked from one that has.
func (h *Handler) locate(ctx context.Context, s *state, v *view, index int64) (at casstore.Located, linear bool, err error) {
	if v.head.Branches() > 0 {
		return at, false, nil
	}
	r, id := h.cfg.Client.Reader(), v.identity()
	from := mark{index: v.head.Entries, at: v.head.Head()}
	if m, ok := s.places.nearest(id, index); ok && m.index < from.index {
		from = m
	}
	for {
		step, err := r.Step(ctx, from.at)
		if err != nil || step.Entry.Index != from.index {
			return at, false, err
		}
		if from.index%markEvery == 0 {
			s.places.add(id, from)
		}
		if from.index == index {
			return from.at, true, nil
		}
		next := max(index, (from.index-1)/markEvery*markEvery)
		to, err := r.Back(ctx, from.at, int(from.index-next))
		if err != nil || to.IsZero() {
			return at, false, err
		}
		from = mark{next, to}
	}
}

// branched is steps in a thread that is not linear: all its states in the order in which they came.
func (h *Handler) branched(ctx context.Context, v *view, behind, n int64) (steps []threads.Step, err error) {
	for step, err := range h.cfg.Client.Reader().Entries(ctx, v.head) {
		if err != nil {
			return nil, err
		}
		if step.Entry.Index > behind {
			steps = append(steps, step)
		}
		if int64(len(steps)) == n {
			break
		}
	}
	return steps, nil
}
