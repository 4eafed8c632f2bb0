package project

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

const (
	logMiddle = "/threads/"
	logEnd    = "/logs/thread.log"
)

// LocalLog is the path under which the full items of a thread can be had (SPEC I5).
func LocalLog(t events.Thread) string { return t.Session + logMiddle + t.Name + logEnd }

// ParseLocalLog is the inverse of LocalLog; ok is false for anything that is no such path.
func ParseLocalLog(path string) (t events.Thread, ok bool) {
	rest, ok := strings.CutSuffix(path, logEnd)
	session, name, found := strings.Cut(rest, logMiddle)
	t = events.Thread{Session: session, Name: name}
	return t, ok && found && t.Validate() == nil
}

// Full makes the items of a stored entry as they were before any budget, each a JSON object. raw is the entry as it was
// before the size rules cut it. An item that has no number, because it was too large before there were stubs (SPEC
// P10), is among them with the number 0.
func Full(t events.Thread, at casstore.Ref, st threads.State, raw []byte) (lines [][]byte, err error) {
	err = full(t, at, st, raw, func(item []byte) []byte { return item }, func(line []byte) error {
		lines = append(lines, line)
		return nil
	})
	return lines, err
}

// FullTo writes what Full gives, a line each, of an entry of any size: what its cut leaves of it is in memory, and each whole
// string goes from raw to where the items have it. What an item says about a string, such as how many lines it has, is said
// about what was left of it, as in the item that was posted. checked and raw are both the entry as it was before it was cut;
// checked is read once, to its end, before anything is written. each is given the lines, and writes them by fill, in
// pieces that divide no string; nil: whole.
func FullTo(
	w io.Writer, t events.Thread, at casstore.Ref, st threads.State, checked io.Reader, raw io.ReadSeeker,
	each func(line []byte, fill func(part []byte) error) error,
) error {
	plan, err := truncate.Scan(checked, truncate.Options{})
	if err != nil {
		return err
	}
	m := marks{raw: raw, sign: "~" + at.Hex() + "."} // nobody knew the hash who wrote the entry
	plan, m.holes = plan.Marked(func(k int) string { return m.sign + strconv.Itoa(k) + "~" })
	text := bytes.NewBuffer(make([]byte, 0, plan.TextSize))
	if err := plan.Apply(raw, text, nil, nowhere{}); err != nil {
		return err
	}
	fill := func(part []byte) error { return m.fill(w, part) }
	return full(t, at, st, text.Bytes(), m.strip, func(line []byte) error {
		if each == nil {
			return fill(append(line, '\n'))
		}
		return each(append(line, '\n'), fill)
	})
}

// full gives the items of an entry, line by line. posted makes of a part of an item what it was when it was posted.
func full(t events.Thread, at casstore.Ref, st threads.State, raw []byte, posted func([]byte) []byte, give func(line []byte) error) error {
	e, limit, err := reread(t, st, raw)
	if err != nil {
		return err
	}
	s, n := stampOf(t, at, st, e, limit), st.Entry.First
	items, large := s.attach(e.Items)
	for k, it := range items {
		fits := !s.Gaps
		if s.Gaps {
			was := it
			was.Content, was.Metadata = posted(it.Content), posted(it.Metadata)
			_, err := s.post(was, n, k, s.excerpt(large, k))
			fits = err == nil
		}
		number := int64(0)
		if fits {
			number, n = n, n+1
		}
		if err := give(join(s.head(number, k, len(it.Content)+len(it.Metadata)), it.Content, it.Metadata)); err != nil {
			return err
		}
	}
	return nil
}

// marks stand in the items of a giant behind the notice of each string that was cut.
type marks struct {
	sign  string
	holes []truncate.Hole
	raw   io.ReadSeeker
}

// next divides text at its first mark.
func (m marks) next(text []byte) (before []byte, hole int, behind []byte, ok bool) {
	before, rest, found := bytes.Cut(text, []byte(m.sign))
	number, behind, ended := bytes.Cut(rest, []byte("~"))
	hole, err := strconv.Atoi(string(number))
	return before, hole, behind, found && ended && err == nil && hole >= 0 && hole < len(m.holes)
}

// strip removes the marks.
func (m marks) strip(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for {
		before, _, behind, ok := m.next(text)
		if !ok {
			return append(out, text...)
		}
		out, text = append(out, before...), behind
	}
}

// fill writes text with what is missing in the place of each notice. A notice inside a string of a string stays: its
// escapes are others.
func (m marks) fill(w io.Writer, text []byte) error {
	notice := jsonscan.AppendString(nil, truncate.Notice)
	notice = notice[1 : len(notice)-1]
	for {
		before, hole, behind, ok := m.next(text)
		if !ok {
			_, err := w.Write(text)
			return err
		}
		text = behind
		kept, cut := bytes.CutSuffix(before, notice)
		if _, err := w.Write(kept); err != nil {
			return err
		}
		if !cut {
			continue
		}
		h := m.holes[hole]
		if _, err := m.raw.Seek(h.Start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(w, m.raw, h.End-h.Start); err != nil {
			return err
		}
	}
}

// nowhere stores no blobs: they are there.
type nowhere struct{}

// NewBlob implements truncate.Blobs.
func (nowhere) NewBlob(string, int64) (truncate.BlobWriter, error) { return nil, nil }
