// Package rehydrate gives back what was put in: the raw lines of a thread, with everything that the persister moved out of
// them back in place, byte for byte (SPEC X1, T9, T10).
package rehydrate

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// Source is where the bytes are.
type Source struct {
	Reader threads.Reader
	Blobs  casstore.BlobGetter
}

// Raw is the entry of a step as its agent wrote it. ok is false for a state that no agent wrote.
func (s Source) Raw(ctx context.Context, step threads.Step) (raw []byte, ok bool, err error) {
	if step.State.Entry.Dialect == "" {
		return nil, false, nil
	}
	base := step.State.Entry.Raw
	if base == nil {
		content, err := step.ReadContent(ctx)
		if err != nil {
			return nil, false, err
		}
		base = content.Text
	}
	if full := step.State.Entry.Full; !full.IsZero() {
		if base, err = s.Blobs.Blob(ctx, full); err != nil {
			return nil, false, fmt.Errorf("entry %d before it was cut: %w", step.State.Entry.Index, err)
		}
	}
	splices := make([]truncate.Splice, len(step.State.Entry.Splices))
	for i, sp := range step.State.Entry.Splices {
		splices[i] = truncate.Splice{Offset: int(sp[0]), Form: truncate.Form(sp[1])}
	}
	raw, err = truncate.Restore(base, splices, func(ref string) ([]byte, error) {
		r, err := casstore.ParseRef(ref)
		if err != nil {
			return nil, err
		}
		return s.Blobs.Blob(ctx, r)
	})
	if err != nil {
		return nil, false, fmt.Errorf("entry %d: %w", step.State.Entry.Index, err)
	}
	return raw, true, nil
}

// Export writes the raw entries of a thread, branches included, in the order in which they came, a line each. For an
// imported transcript that is the file, byte for byte.
func (s Source) Export(ctx context.Context, head threads.Head, w io.Writer) (entries int, err error) {
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
		raw, ok, err := s.Raw(ctx, step)
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
