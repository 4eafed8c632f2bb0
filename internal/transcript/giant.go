package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/jsonscan"
	"spool/internal/redact"
	"spool/internal/rehydrate"
	"spool/internal/retry"
	"spool/internal/text"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/truncate"
)

// Inbox takes bodies of any size, in bounded memory, for events that carry the reference. Safe for concurrent use.
// natsio.Conn is one.
type Inbox interface {
	CheckIn(ctx context.Context, body io.Reader) (events.BodyRef, error)
}

// giantLine is how many bytes of a line are held in memory. A longer one is a giant: its record has no body, it is read again
// where it lies, and it is one entry, JSON or not.
const giantLine = 4 << 20

// giant is what is known of such a line.
type giant struct {
	line rehydrate.Line
	plan *truncate.Plan // nil: it is not JSON
}

// giant reads the line that begins with l.text and goes on in l.r.
func (l *lines) giant() (record, error) {
	rest := &text.LineReader{In: l.r}
	head := l.text
	l.text, l.long = nil, false
	var seen rehydrate.LineWriter
	all := io.TeeReader(io.MultiReader(bytes.NewReader(head), rest), &seen)
	plan, err := truncate.Scan(all, truncate.Options{})
	if _, err := io.Copy(io.Discard, all); err != nil {
		return record{}, fmt.Errorf("read at byte %d: %w", l.at+seen.Line().Size, err)
	}
	g := &giant{line: seen.Line()}
	if err == nil && jsonscan.KindOf(head) == jsonscan.KindObject {
		g.plan = plan
	}
	r := l.placed(record{start: l.at, line: l.line, giant: g, json: g.plan != nil})
	if r.json {
		l.objects++
	}
	l.at += g.line.Size
	if rest.Found {
		l.at, l.line, l.mid, l.part = l.at+1, l.line+1, false, false
		return r, nil
	}
	l.eof, l.mid = true, true
	r.open, r.torn = r.json, !r.json
	return r, nil
}

// size is the record's length in bytes.
func (r record) size() int64 {
	if r.giant != nil {
		return r.giant.line.Size
	}
	return int64(len(r.body))
}

// compare is the record's line.
func (r record) compare() rehydrate.Line {
	if r.giant != nil {
		return r.giant.line
	}
	return rehydrate.LineOf(r.body)
}

// is tells whether a line that is stored is this one, as it is or without its secrets.
func (r record) is(stored rehydrate.Line) bool {
	return r.compare().Equal(stored) || r.giant == nil && redact.Hides(stored.Head, r.body, r.json)
}

// wrote tells whether a line that an export writes is this one, but for blanks around it.
func (r record) wrote(line rehydrate.Line) bool {
	r.body = bytes.TrimSpace(r.body)
	return r.is(line)
}

// heads tells whether a record stands before the entries of a session's file: what an export makes of what Spool knows by now.
func (r record) heads() bool {
	if !r.json || r.giant != nil || !r.first {
		return false
	}
	typ := member(r.body, "type")
	return typ == sessions.TypeHeader || typ == sessions.TypeTitleSlot
}

// section copies n bytes of the uncompressed file from a place on.
func (s Source) section(w io.Writer, start, n int64) error {
	in, done, err := s.open(nil)
	if err != nil {
		return err
	}
	defer done()
	if _, err = io.CopyN(io.Discard, in.r, start); err == nil {
		_, err = io.CopyN(w, in.r, n)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: read %d bytes at byte %d: %w", s.Path, n, start, err)
	}
	return nil
}

// reader is section the other way round. done ends it.
func (s Source) reader(start, n int64) (r io.Reader, done func()) {
	pr, pw := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = pw.CloseWithError(s.section(pw, start, n))
	}()
	return pr, func() { _ = pr.Close(); <-ended }
}

// cut is what a persister will leave of a giant: enough to see what it is. nil if that is too long.
func (s Source) cut(g *giant, start int64) ([]byte, error) {
	if g.plan == nil || g.plan.TextSize > giantLine {
		return nil, nil
	}
	in, done := s.reader(start, g.line.Size)
	defer done()
	var out bytes.Buffer
	err := g.plan.Apply(in, &out, nil, nowhere{})
	return out.Bytes(), err
}

// nowhere keeps no blobs.
type nowhere struct{}

func (nowhere) NewBlob(string, int64) (truncate.BlobWriter, error) { return nil, nil }

func (im *Importer) checkIn(ctx context.Context, s Source, r record, e *events.Event) error {
	if im.cfg.Inbox == nil {
		var b bytes.Buffer
		err := s.section(&b, r.start, r.size())
		e.Body = b.Bytes()
		return err
	}
	return retry.Do(ctx, im.cfg.Retry, func() error {
		in, done := s.reader(r.start, r.size())
		defer done()
		ref, err := im.cfg.Inbox.CheckIn(ctx, in)
		e.Ref = &ref
		return err
	})
}
