package transcript

import (
	"compress/gzip"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a compressed file can demand.
const maxWindow = 128 << 20

// decompress reads what the ending of a name says it is. done frees the decoder.
func decompress(name string, r io.Reader) (_ io.Reader, done func(), err error) {
	switch {
	case strings.HasSuffix(name, ".zst"):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	}
	return r, func() {}, nil
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
