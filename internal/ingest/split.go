package ingest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"spool/pkg/events"
)

// line is one line of a stream.
type line struct {
	n    int64           // from 1
	text []byte          // without the newline; its own memory
	bad  error           // why it is no entry, known before all of it was read; text is nil
	ref  *events.BodyRef // in the inbox; text is nil
	held int             // bytes of room that it has taken
}

// sum is the line's SHA-256.
func (l line) sum() [sha256.Size]byte {
	if l.ref != nil {
		return l.ref.Sum
	}
	return sha256.Sum256(l.text)
}

// split reads lines in a goroutine of its own, because a Read cannot be given up, until r ends or stop is called. Once the
// channel is closed *ended says how r ended, nil at its end. No more than one line is read ahead. stop waits for the goroutine
// if it is given a function that ends a blocked Read.
func split(ctx context.Context, r io.Reader, cfg Config) (lines <-chan line, ended *error, stop func(interrupt func())) {
	out, ended, stopped, done := make(chan line), new(error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(out)
		defer close(done) // first: whoever sees the channel closed knows that no Read goes on
		in := bufio.NewReaderSize(r, pieceSize)
		for n := int64(1); ; n++ {
			l, err := readLine(ctx, in, cfg)
			if cut := err != nil && !errors.Is(err, io.EOF); !cut && (l.bad != nil || l.ref != nil || !blank(l.text)) {
				l.n = n
				select {
				case out <- l:
				case <-stopped:
					cfg.Room.Give(l.held)
					return
				}
			} else {
				cfg.Room.Give(l.held)
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					*ended = fmt.Errorf("read line %d: %w", n, err)
				}
				return
			}
		}
	}()
	return out, ended, func(interrupt func()) {
		close(stopped)
		select {
		case <-done:
			return
		default:
		}
		if interrupt != nil {
			interrupt()
			<-done
		}
	}
}

// readLine reads a line of cfg.MaxBody bytes; what is longer is read and dropped. One that is too large for memory goes to the inbox,
// if there is one. The error is why there is no line after this one; one that was cut off has no text.
func readLine(ctx context.Context, in *bufio.Reader, cfg Config) (l line, err error) {
	var head pieces
	defer func() { head.free() }()
	for {
		piece, err := in.ReadSlice('\n')
		if err == nil {
			piece = piece[:len(piece)-1]
		}
		if l.bad == nil && int64(l.held+len(piece)) > cfg.MaxBody {
			l.bad = tooLarge(cfg)
		}
		if l.bad != nil {
			cfg.Room.Give(l.held)
			l.held = 0
			head.free()
		} else if no := cfg.Room.Take(ctx, len(piece), l.held); no != nil {
			return l, no
		} else {
			l.held += len(piece)
			head = append(head, clone(piece))
		}
		switch {
		case err == nil, errors.Is(err, io.EOF):
			l.text = head.join()
			return l, err
		case !errors.Is(err, bufio.ErrBufferFull):
			return l, err
		}
		if l.held > inMemory && cfg.Inbox != nil {
			begin := head
			head = nil // they are read beside us
			sent, err := sendLine(ctx, &begin, in, cfg)
			sent.held = l.held
			return sent, err
		}
	}
}

// pieces are the beginning of a line. Who reads them takes them away: what goes to the inbox holds as much of a line on its
// way as waited here, so that both together never have more than the line's room.
type pieces [][]byte

const pieceSize = 64 << 10

// spare are pieces whose lines have ended, to be used again. As garbage they would be as much again as the lines that come.
var spare = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// clone is a piece of its own memory.
func clone(b []byte) []byte {
	if len(b) < pieceSize {
		return bytes.Clone(b)
	}
	p := spare.Get().(*[pieceSize]byte)
	copy(p[:], b)
	return p[:]
}

// free gives all pieces away.
func (ps *pieces) free() {
	for _, p := range *ps {
		if len(p) == pieceSize {
			spare.Put((*[pieceSize]byte)(p))
		}
	}
	*ps = nil
}

// join takes all pieces away. It is bytes.Join, but for a single piece, which it gives as it is.
func (ps *pieces) join() []byte {
	if len(*ps) == 1 {
		one := (*ps)[0]
		*ps = nil
		return one
	}
	defer ps.free()
	return bytes.Join(*ps, nil)
}

func (ps pieces) size() (n int64) {
	for _, p := range ps {
		n += int64(len(p))
	}
	return n
}

func (ps *pieces) Read(p []byte) (n int, err error) {
	for n < len(p) && len(*ps) > 0 {
		first := &(*ps)[0]
		k := copy(p[n:], *first)
		n += k
		if *first = (*first)[k:]; len(*first) == 0 {
			*first, *ps = nil, (*ps)[1:]
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
