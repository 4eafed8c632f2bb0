package client

import (
	"bytes"
	"context"
	"iter"

	"spool/internal/rehydrate"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// RawEntries iterates over the raw entries of a thread, branches included, in the order in which they came. The first error
// ends it.
func (i Internal) RawEntries(ctx context.Context, head threads.Head) iter.Seq2[rehydrate.Line, error] {
	return i.c.rawEntriesFrom(ctx, head, 0)
}

// rawEntriesFrom is RawEntries without those that all items of are before that number.
func (c *Client) rawEntriesFrom(ctx context.Context, head threads.Head, item int64) iter.Seq2[rehydrate.Line, error] {
	return func(yield func(rehydrate.Line, error) bool) {
		for step, err := range c.reader.EntriesFrom(ctx, head, item) {
			var raw rehydrate.Line
			ok := false
			if err == nil {
				raw, ok, err = c.Internal().Source().Line(ctx, step)
			}
			if (ok || err != nil) && !yield(raw, err) || err != nil {
				return
			}
		}
	}
}

// OwnHeader is rehydrate.Source.OwnHeader.
func (i Internal) OwnHeader(ctx context.Context, head threads.Head, session string) ([]byte, error) {
	return i.Source().OwnHeader(ctx, head, session)
}

// SessionLines are the entries of a thread as lines of a session's file in the current version: what an export of it has behind the header
// (SPEC S9). Not ok: its entries are not those of such files, or it began with an older version.
func (i Internal) SessionLines(ctx context.Context, head threads.Head) (lines []rehydrate.Line, ok bool, err error) {
	s, err := i.Source().Session(ctx, head, rehydrate.Full)
	if err != nil {
		return nil, false, err
	}
	if v := s.Header.Version; !s.OMP && s.Header.ID == "" || v != 0 && v != sessions.Version {
		return nil, false, nil
	}
	for _, e := range s.Entries {
		lines = append(lines, rehydrate.LineOf(bytes.TrimSpace(e.JSON())))
	}
	return lines, true, nil
}
