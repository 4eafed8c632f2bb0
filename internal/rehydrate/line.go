package rehydrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"

	"spool/pkg/threads"
)

// Line is a raw entry to compare others with: a long one is known by its hash.
type Line struct {
	Head []byte            // its first bytes: all of it, up to LineHead
	Size int64             // bytes of all
	Sum  [sha256.Size]byte // of all; zero if Head is all

	// Of the entry that has it; "" and 0 of a line of a file. They do not count in comparisons.
	Dialect string
	Index   int64 // its place in the thread, from 1
}

// LineHead is how much of a line is kept, in bytes.
const LineHead = 4 << 20

// LineOf is the line with these bytes, which it keeps.
func LineOf(b []byte) Line {
	l := Line{Head: b, Size: int64(len(b))}
	if l.Size > LineHead {
		l.Head, l.Sum = bytes.Clone(b[:LineHead]), sha256.Sum256(b)
	}
	return l
}

// Equal tells whether both are the same bytes.
func (l Line) Equal(m Line) bool {
	return l.Size == m.Size && l.Sum == m.Sum && bytes.Equal(l.Head, m.Head)
}

// Line reads the raw entry of a step, of any size, in bounded memory.
func (s Source) Line(ctx context.Context, step threads.Step) (l Line, ok bool, err error) {
	var w LineWriter
	ok, err = s.RawTo(ctx, step, &w)
	l = w.Line()
	l.Dialect, l.Index = step.State.Entry.Dialect, step.State.Entry.Index
	return l, ok, err
}

// LineWriter makes a line of what is written to it.
type LineWriter struct {
	l   Line
	sum hash.Hash
}

func (w *LineWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.l.Size += int64(n)
	if w.sum == nil && w.l.Size <= LineHead {
		w.l.Head = append(w.l.Head, p...)
		return n, nil
	}
	if w.sum == nil {
		w.sum = sha256.New()
		w.sum.Write(w.l.Head)
		w.l.Head = append(w.l.Head, p[:LineHead-len(w.l.Head)]...)
	}
	w.sum.Write(p)
	return n, nil
}

// Line is what was written so far.
func (w *LineWriter) Line() Line {
	if w.sum != nil {
		w.sum.Sum(w.l.Sum[:0])
	}
	return w.l
}
