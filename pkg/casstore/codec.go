package casstore

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

const (
	frameTarget    = 512 << 10 // uncompressed bytes at which a frame is closed
	maxSharedFrame = 64 << 20  // limit on the uncompressed bytes of a frame that holds several nodes
	maxRatio       = 1 << 15   // no zstd block holds more: 128 KiB in a block of 4 bytes
)

// The encoder and the decoder are made at first use and shared: each keeps its tables between calls, and both are safe
// for concurrent use. One encoder is enough for a process, which has one commit lane.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithSingleSegment(true))
		return must(e, err)
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxNode),
			zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true))
		return must(d, err)
	})
)

// must passes a value on; the errors it meets can only be options that this file gives wrongly.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The codec of a frame is a bit of its raw length in the frame table.
const (
	frameZstd   = 0
	frameSnappy = 1 << 31
	frameCodec  = frameSnappy
)

// compress appends raw as one frame. There is no checksum in it, because every node is checked by its SHA-256.
func compress(dst, raw []byte, codec uint32) []byte {
	if codec == frameZstd {
		return encoder().EncodeAll(raw, dst)
	}
	n := len(dst)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(raw)))
	return dst[:n+len(s2.EncodeSnappy(dst[n:cap(dst)], raw))]
}

// decompress decodes one frame of exactly size uncompressed bytes, and never allocates more.
func decompress(b []byte, size int64, codec uint32) ([]byte, error) {
	if codec == frameSnappy {
		return unsnap(b, size)
	}
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, fmt.Errorf("%w: frame header: %w", ErrCorrupt, err)
	}
	if h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("%w: frame does not announce its %d bytes", ErrCorrupt, size)
	}
	raw, err := decoder().DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: frame: %w", ErrCorrupt, err)
	}
	if int64(len(raw)) != size {
		return nil, fmt.Errorf("%w: frame has %d bytes, want %d", ErrCorrupt, len(raw), size)
	}
	return raw, nil
}

// unsnap is decompress for a Snappy block.
func unsnap(b []byte, size int64) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	if err != nil || int64(n) != size {
		return nil, fmt.Errorf("%w: frame does not announce its %d bytes", ErrCorrupt, size)
	}
	raw, err := s2.Decode(make([]byte, size), b)
	if err != nil {
		return nil, fmt.Errorf("%w: frame: %w", ErrCorrupt, err)
	}
	return raw, nil
}
