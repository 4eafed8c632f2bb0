package transcript

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a compressed file can demand.
const maxWindow = 128 << 20

// What makes a compressed file a bomb: a kilobyte of it can stand for terabytes. Transcripts become a fiftieth.
const (
	bombRatio = 1000     // times its compressed size
	bombBytes = 32 << 20 // that any file may have uncompressed: each line of it is an entry, be it empty
)

// ErrBomb: a compressed file holds so much more than its own size that it is not read to its end.
var ErrBomb = errors.New("compressed file holds more than it should")

// Decompress reads what the ending of a name says it is, up to where that can be no transcript any more. done frees the decoder.
func Decompress(name string, r io.Reader) (_ io.Reader, done func(), err error) {
	b := &bomb{in: r}
	switch {
	case strings.HasSuffix(name, ".zst"):
		d, err := zstd.NewReader(b.source(), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		b.out = d
		return b, d.Close, nil
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(b.source())
		b.out = z
		return b, func() {}, err
	}
	return r, func() {}, nil
}

// bomb compares what comes out of a decoder with what goes in.
type bomb struct {
	in, out     io.Reader
	taken, made int64
}

func (b *bomb) source() io.Reader { return &counting{b.in, func(n int) { b.taken += int64(n) }} }

// Read implements io.Reader.
func (b *bomb) Read(p []byte) (int, error) {
	n, err := b.out.Read(p)
	if b.made += int64(n); b.made > bombBytes && b.made > bombRatio*b.taken {
		return 0, fmt.Errorf("%w: %d bytes of it stand for more than %d; if that is right, uncompress it and import what comes out", ErrBomb,
			b.taken, b.made)
	}
	return n, err
}

// counting tells how many bytes were read.
type counting struct {
	r    io.Reader
	tell func(n int)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.tell != nil && n > 0 {
		c.tell(n)
	}
	return n, err
}
