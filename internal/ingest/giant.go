package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"spool/internal/jsonscan"
	"spool/internal/text"
	"spool/pkg/dialect"
	"spool/pkg/truncate"
)

// inMemory is how many bytes of a line wait in memory for its end; what is longer goes to the inbox.
const inMemory = 4 << 20

// errLong ends the check-in of a line that is longer than allowed.
var errLong = errors.New("too long")

// sendLine checks in a line that begins with head and goes on in in, up to its newline. When that fails in the middle,
// its beginning is gone: the error ends the stream.
func sendLine(ctx context.Context, head *pieces, in *bufio.Reader, cfg Config) (line, error) {
	rest := &text.LineReader{In: in}
	l, err := checkIn(ctx, head, rest, cfg)
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
func whole(ctx context.Context, r io.Reader, cfg Config) (l line, err error) {
	r = butNewline{bufio.NewReaderSize(r, 64<<10)}
	room := int64(inMemory)
	if cfg.Inbox == nil {
		room = min(cfg.MaxBody, math.MaxInt64-1)
	}
	taken := &taker{ctx: ctx, in: io.LimitReader(r, room+1), room: cfg.Room}
	defer func() { l.held = taken.held }()
	head, err := readPieces(taken)
	switch size := head.size(); {
	case err != nil:
		return line{}, err
	case size > cfg.MaxBody:
		return line{n: 1, bad: tooLarge(cfg)}, nil
	case size <= room:
		return line{n: 1, text: head.join()}, nil
	}
	l, err = checkIn(ctx, &head, r, cfg)
	l.n = 1
	return l, err
}

// readPieces reads all of r.
func readPieces(r io.Reader) (ps pieces, err error) {
	for size := 512; ; size = min(2*size, pieceSize) {
		p := make([]byte, 0, size)
		for len(p) < size {
			n, err := r.Read(p[len(p):size])
			p = p[:len(p)+n]
			if err == nil {
				continue
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return append(ps, p), err
		}
		ps = append(ps, p)
	}
}

// taker takes room for what it reads.
type taker struct {
	ctx  context.Context
	in   io.Reader
	room Room
	held int
}

func (t *taker) Read(p []byte) (int, error) {
	n, err := t.in.Read(p)
	if no := t.room.Take(t.ctx, n, t.held); no != nil {
		return 0, no
	}
	t.held += n
	return n, err
}

// checkIn stores head and rest in the inbox, unless they are no entry.
func checkIn(ctx context.Context, head *pieces, rest io.Reader, cfg Config) (line, error) {
	size := head.size()
	var body io.Reader = io.MultiReader(head, &atMost{r: rest, left: cfg.MaxBody - size})
	if dialect.IsJSON(cfg.Dialect) {
		read := scan(body)
		defer read.end()
		body = read
	}
	ref, err := cfg.Inbox.CheckIn(ctx, body)
	switch {
	case errors.Is(err, errLong):
		return line{bad: tooLarge(cfg)}, nil
	case errors.Is(err, jsonscan.ErrSyntax), errors.Is(err, jsonscan.ErrDepth):
		return line{bad: notJSON(err)}, nil
	case err != nil:
		return line{}, fmt.Errorf("store an entry of more than %d bytes: %w", size, err)
	}
	return line{ref: &ref}, nil
}

// scanned is what is read of in, as JSON: Read fails with what jsonscan says of it.
type scanned struct {
	in   io.Reader
	to   *io.PipeWriter
	said chan error // what the scan says
}

func scan(in io.Reader) *scanned {
	from, to := io.Pipe()
	s := &scanned{in, to, make(chan error, 1)}
	go func() {
		err := truncate.Check(from)
		s.said <- err
		_ = from.CloseWithError(err)
	}()
	return s
}

func (s *scanned) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if _, no := s.to.Write(p[:n]); no != nil {
		return 0, no
	}
	if errors.Is(err, io.EOF) {
		_ = s.to.Close()
		if no := <-s.said; no != nil {
			return 0, no
		}
		s.said <- nil // for who reads on
	}
	return n, err
}

// end ends the scan of what was not read to its end.
func (s *scanned) end() { _ = s.to.CloseWithError(io.ErrUnexpectedEOF) }

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
