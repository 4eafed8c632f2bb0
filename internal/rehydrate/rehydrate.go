// Package rehydrate gives back what was put in: the raw lines of a thread, with everything that the persister moved out of
// them back in place, byte for byte (SPEC X1, T9, T10).
package rehydrate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"

	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// Source is where the bytes are.
type Source struct {
	Reader threads.Reader
	Blobs  casstore.BlobGetter // hashes what it read again

	// Warn is told of each blob that is missing or corrupt; then its ref stays in place and the work goes on (SPEC T10). nil:
	// such a blob is an error that ends the work.
	Warn func(Missing)
}

// Form says how an entry is given back.
type Form int

// The forms.
const (
	Full   Form = iota // as its agent wrote it, byte for byte, images in line (SPEC T9, T10)
	Stored             // as it is persisted: long strings cut, images as blob refs (SPEC T1–T6)
)

// Raw is the entry of a step as its agent wrote it. ok is false for a state that no agent wrote.
func (s Source) Raw(ctx context.Context, step threads.Step) (raw []byte, ok bool, err error) {
	entry := &step.State.Entry
	base, ok, err := s.Stored(ctx, step)
	if !ok || err != nil {
		return nil, false, err
	}
	if !entry.Full.IsZero() {
		full, err := s.Blobs.Blob(ctx, entry.Full)
		if s.Warn != nil && isMissing(err) {
			s.Warn(Missing{Ref: entry.Full, Entry: entry.Index, Err: err})
			raw, err = s.resolve(ctx, entry.Index, base) // the places are those in the entry before it was cut
			return raw, err == nil, err
		}
		if err != nil {
			return nil, false, fmt.Errorf("entry %d before it was cut: %w", entry.Index, err)
		}
		base = full
	}
	splices := make([]truncate.Splice, len(entry.Splices))
	for i, sp := range entry.Splices {
		splices[i] = truncate.Splice{Offset: int(sp[0]), Form: truncate.Form(sp[1])}
	}
	raw, err = s.restore(ctx, entry.Index, base, splices)
	if err != nil {
		return nil, false, fmt.Errorf("entry %d: %w", entry.Index, err)
	}
	return raw, true, nil
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

// restore puts the blobs back at their places. With Warn it leaves out the places of those that are missing.
func (s Source) restore(ctx context.Context, index int64, base []byte, splices []truncate.Splice) ([]byte, error) {
	found := map[string][]byte{}
	lost := map[string]bool{}
	get := func(text string) ([]byte, error) {
		if b, ok := found[text]; ok {
			return b, nil
		}
		ref, err := casstore.ParseRef(text)
		if err != nil {
			return nil, err
		}
		b, err := s.Blobs.Blob(ctx, ref)
		if s.Warn != nil && isMissing(err) {
			s.Warn(Missing{Ref: ref, Entry: index, Err: err})
			lost[text] = true
		}
		if err == nil {
			found[text] = b
		}
		return b, err
	}
	for {
		known := len(lost)
		raw, err := truncate.Restore(base, splices, get)
		if len(lost) == known {
			return raw, err
		}
		splices = slices.DeleteFunc(splices, func(sp truncate.Splice) bool { return lost[refAt(base, sp.Offset)] })
	}
}

// refAt is the blob ref at an offset that Restore has found to be one.
func refAt(base []byte, offset int) string {
	end := offset + len("blob:sha256:") + 64
	if offset < 0 || end > len(base) {
		return ""
	}
	return string(base[offset:end])
}

// resolve is Resolve for an entry of a thread.
func (s Source) resolve(ctx context.Context, index int64, text []byte) ([]byte, error) {
	if jsonscan.Valid(text) != nil {
		return text, nil
	}
	return Resolve(ctx, text, s.Blobs, func(m Missing) {
		m.Entry = index
		s.Warn(m)
	})
}

// Export writes the entries of a thread, branches included, in the order in which they came, a line each. In the form Full
// an imported transcript is the file, byte for byte.
func (s Source) Export(ctx context.Context, head threads.Head, form Form, w io.Writer) (entries int, err error) {
	read := s.Raw
	if form == Stored {
		read = s.Stored
	}
	out := bufio.NewWriterSize(w, 256<<10)
	var tail events.Tail
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
		raw, ok, err := read(ctx, step)
		if err != nil {
			return entries, err
		}
		if !ok {
			continue
		}
		if entries > 0 {
			_ = out.WriteByte('\n')
		}
		_, _ = out.Write(raw)
		entries++
		tail = events.Tail{}
	}
	if entries > 0 && !tail.Open {
		_ = out.WriteByte('\n')
	}
	_, _ = out.Write(tail.Bytes)
	return entries, out.Flush() // keeps the first error of the writes before
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
