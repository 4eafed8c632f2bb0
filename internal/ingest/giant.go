package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"spool/internal/text"
)

// inMemory is how many bytes of a line wait in memory for its end; what is longer goes to the inbox.
const inMemory = 4 << 20

// errLong ends the check-in of a line that is longer than allowed.
var errLong = errors.New("too long")

// sendLine checks in a line that begins with head and goes on in in, up to its newline. When that fails in the middle,
// its beginning is gone: the error ends the stream.
func sendLine(ctx context.Context, head []byte, in *bufio.Reader, most int64, inbox Inbox) (line, error) {
	rest := &text.LineReader{In: in}
	l, err := checkIn(ctx, head, rest, most, inbox)
	if err != nil {
		return line{}, err
	}
	if _, err := io.Copy(io.Discard, rest); err != nil { // of a line that was too long
		return line{}, err
	}
	if !rest.Found {
		err = io.EOF
	}
	return l, err
}

// whole reads all of r, but for a newline at its end.
func whole(ctx context.Context, r io.Reader, most int64, inbox Inbox) (line, error) {
	r = butNewline{bufio.NewReaderSize(r, 64<<10)}
	room := int64(inMemory)
	if inbox == nil {
		room = min(most, math.MaxInt64-1)
	}
	head, err := io.ReadAll(io.LimitReader(r, room+1))
	switch {
	case err != nil:
		return line{}, err
	case int64(len(head)) > most:
		return line{n: 1, long: true}, nil
	case int64(len(head)) <= room:
		return line{n: 1, text: head}, nil
	}
	l, err := checkIn(ctx, head, r, most, inbox)
	l.n = 1
	return l, err
}

// checkIn stores head and rest in the inbox.
func checkIn(ctx context.Context, head []byte, rest io.Reader, most int64, inbox Inbox) (line, error) {
	bounded := &atMost{r: rest, left: most - int64(len(head))}
	ref, err := inbox.CheckIn(ctx, io.MultiReader(bytes.NewReader(head), bounded))
	if errors.Is(err, errLong) {
		return line{long: true}, nil
	}
	if err != nil {
		return line{}, fmt.Errorf("store an entry of more than %d bytes: %w", len(head), err)
	}
	return line{ref: &ref}, nil
}

// atMost fails with errLong behind so many bytes.
type atMost struct {
	r    io.Reader
	left int64
}

func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, errLong
	}
	return n, err
}

// butNewline leaves out a newline at the very end.
type butNewline struct{ in *bufio.Reader }

func (b butNewline) Read(p []byte) (int, error) {
	if _, err := b.in.Peek(1); err != nil || len(p) == 0 {
		return 0, err
	}
	piece, _ := b.in.Peek(min(b.in.Buffered(), len(p)))
	if last := len(piece) - 1; piece[last] == '\n' {
		if last > 0 {
			piece = piece[:last] // it comes first the next time
		} else if _, err := b.in.Peek(2); err != nil {
			return 0, err
		}
	}
	n := copy(p, piece)
	_, err := b.in.Discard(n)
	return n, err
}
