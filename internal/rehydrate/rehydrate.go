// Package rehydrate gives back what was put in: the raw lines of a thread, with everything that the persister moved out of
// them back in place, byte for byte (SPEC X1, T9, T10).
package rehydrate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// Source is where the bytes are.
type Source struct {
	Reader threads.Reader
	Blobs  casstore.BlobGetter // hashes what it read again

	// Open reads a blob of any size in bounded memory, from its beginning, as often as it is called; the reader fails with
	// casstore.ErrCorrupt where the bytes turn out to be others. nil: Blobs reads them.
	Open func(ctx context.Context, ref casstore.Ref) (io.Reader, error)

	// Warn is told of each blob that is missing or corrupt; then its ref stays in place and the work goes on (SPEC T10). nil:
	// such a blob is an error that ends the work.
	Warn func(Missing)

	header []byte // that Export writes in place of those before the state of a fork
}

// Form says how an entry is given back.
type Form int

// The forms.
const (
	Full   Form = iota // as its agent wrote it, byte for byte, images in line (SPEC T9, T10)
	Stored             // as it is persisted: long strings cut, images as blob refs (SPEC T1–T6)
	Loaded             // as a program goes on with it: Full, and images in line whose refs its agent wrote (SPEC T10, P9)
	InFile             // as it is in its harness's file: Full, without what that has in a file beside it
)

// Raw is the entry of a step as its agent wrote it. ok is false for a state that no agent wrote.
func (s Source) Raw(ctx context.Context, step threads.Step) (raw []byte, ok bool, err error) {
	var out bytes.Buffer
	if ok, err = s.RawTo(ctx, step, &out); !ok || err != nil {
		return nil, false, err
	}
	return out.Bytes(), true, nil
}

// RawTo is Raw for an entry of any size, in bounded memory. After an error what was written is incomplete.
func (s Source) RawTo(ctx context.Context, step threads.Step, w io.Writer) (ok bool, err error) {
	entry := &step.State.Entry
	stored, ok, err := s.Stored(ctx, step)
	if !ok || err != nil {
		return false, err
	}
	base := io.Reader(bytes.NewReader(stored))
	if !entry.Full.IsZero() {
		full, err := s.open(ctx, entry.Index, entry.Full)
		if err != nil {
			return false, fmt.Errorf("entry %d before it was cut: %w", entry.Index, err)
		}
		if full == nil { // the places are those in the entry before it was cut
			if jsonscan.Valid(stored) == nil {
				err = s.ResolveTo(ctx, entry.Index, stored, w, nil)
			} else {
				_, err = w.Write(stored)
			}
			return err == nil, err
		}
		base = full
	}
	splices := make([]truncate.Splice, len(entry.Splices))
	for i, sp := range entry.Splices {
		splices[i] = truncate.Splice{Offset: int(sp[0]), Form: truncate.Form(sp[1])}
	}
	err = truncate.RestoreTo(w, base, splices, func(text string) (io.ReadCloser, error) {
		ref, err := casstore.ParseRef(text)
		if err != nil {
			return nil, err
		}
		b, err := s.open(ctx, entry.Index, ref)
		if b == nil || err != nil {
			return nil, err
		}
		return io.NopCloser(b), nil
	})
	if err != nil {
		return false, fmt.Errorf("entry %d: %w", entry.Index, err)
	}
	return true, nil
}

// Stored is the entry of a step as it is persisted. ok is false for a state that no agent wrote.
func (s Source) Stored(ctx context.Context, step threads.Step) (text []byte, ok bool, err error) {
	if step.State.Entry.Dialect == "" {
		return nil, false, nil
	}
	if step.State.Entry.Raw != nil {
		return step.State.Entry.Raw, true, nil
	}
	content, err := step.ReadContent(ctx)
	if err != nil {
		return nil, false, err
	}
	return content.Text, true, nil
}

// storedTo writes Stored.
func (s Source) storedTo(ctx context.Context, step threads.Step, w io.Writer) (ok bool, err error) {
	text, ok, err := s.Stored(ctx, step)
	if ok && err == nil {
		_, err = w.Write(text)
	}
	return ok, err
}

// partDialect is that of bytes which stand between two entries in place of a newline (SPEC S6).
const partDialect = "part"

// Export writes the entries of a thread, branches included, in the order in which they came, a line each. In the form Full
// an imported transcript is the file, byte for byte: without the notes that commands and users wrote beside its agent.
func (s Source) Export(ctx context.Context, head threads.Head, form Form, w io.Writer) (entries int, err error) {
	write := s.RawTo
	if form == Stored {
		write = s.storedTo
	}
	out := bufio.NewWriterSize(w, 256<<10)
	var tail events.Tail
	glued := true // no newline is owed to what was written last
	if len(s.header) > 0 {
		_, _ = out.Write(s.header)
		entries, glued = 1, false
	}
	for step, err := range s.Reader.Entries(ctx, head) {
		if err != nil {
			return entries, err
		}
		if step.State.Role == threads.RoleTail {
			if tail, err = readTail(ctx, step); err != nil {
				return entries, err
			}
			continue
		}
		if s.header != nil && isHead(step.State.Entry) {
			continue
		}
		if project.IsOwn(step.State) {
			tail = events.Tail{} // of what it was forked from
		}
		d := step.State.Entry.Dialect
		if d == "" || dialect.IsNote(head.Dialect, d) || form == InFile && dialect.IsAside(d, step.State.Entry.Type) {
			continue
		}
		part := step.State.Entry.Dialect == partDialect
		if !glued && !part {
			_ = out.WriteByte('\n')
		}
		if _, err := write(ctx, step, out); err != nil {
			return entries, err
		}
		s.header = nil // the entries have begun
		if glued = part; !part {
			if entries++; entries&(entries-1) == 0 { // who only compares learns soon that the rest makes no difference
				_ = out.Flush()
			}
		}
		tail = events.Tail{}
	}
	if !glued && !tail.Open {
		_ = out.WriteByte('\n')
	}
	_, _ = out.Write(tail.Bytes)
	return entries, out.Flush() // keeps the first error of the writes before
}

func isHead(e threads.Record) bool {
	return e.Type == sessions.TypeHeader || e.Type == sessions.TypeTitleSlot
}

// readTail reads what a transcript held behind its last complete line.
func readTail(ctx context.Context, step threads.Step) (t events.Tail, err error) {
	content, err := step.ReadContent(ctx)
	if err != nil {
		return t, err
	}
	meta, err := casstore.DecodeValue(step.State.Meta)
	if err != nil {
		return t, err
	}
	m, _ := meta.(map[string]any)
	t.Open, _ = m["open"].(bool)
	t.Bytes = content.Text
	return t, nil
}
