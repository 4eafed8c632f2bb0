package offline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
)

// segment is a file of frames that is being written.
type segment struct {
	file *os.File
	size int64
}

const (
	segmentSuffix = ".log"
	damagedSuffix = ".damaged" // behind the name of a segment that is kept for a person to look at
	partSuffix    = ".part"    // of a file that takes the place of a segment when it is whole
	magic         = "spooloff1\n"
	frameHead     = 8 // length and sum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendFrame(dst, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	return append(dst, payload...)
}

// createSegment makes a new file, and its name durable.
func createSegment(dir string, n int) (*segment, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%08d%s", n, segmentSuffix)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segment{file: f}
	if _, err = f.WriteString(magic); err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	s.size = int64(len(magic))
	return s, nil
}

// append writes frames and forces them to disk. After an error they are not there.
func (s *segment) append(frames []byte) error {
	_, err := s.file.Write(frames)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(frames))
	return nil
}

// scan calls f with every whole payload of a segment, and where its frame begins. lost is how many bytes are of no
// whole frame. torn: nothing whole comes behind them, as a crash in Append leaves it; otherwise they are damage.
// Behind a frame whose length is damaged f gets nothing: what looks like a frame there can be a part of an event's
// body.
func scan(b []byte, f func(begin int, payload []byte)) (lost int, torn bool) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return len(b), !holdsFrame(b)
	}
	end := len(magic) // of the last whole frame
	for at := end; ; {
		payload, whole := frameAt(b, at)
		if payload == nil {
			break
		}
		if whole {
			lost += at - end
			f(at, payload)
			end = at + frameHead + len(payload)
		}
		at += frameHead + len(payload)
	}
	return lost + len(b) - end, lost == 0 && !holdsFrame(b[end:])
}

// frameAt reads the frame that begins at an offset; nil: it would end behind the end, or it is empty, which none ever is.
func frameAt(b []byte, at int) (payload []byte, whole bool) {
	if len(b)-at < frameHead {
		return nil, false
	}
	n, sum := int64(binary.LittleEndian.Uint32(b[at:])), binary.LittleEndian.Uint32(b[at+4:])
	if n == 0 || n > int64(len(b)-at-frameHead) {
		return nil, false
	}
	payload = b[at+frameHead:][:n]
	return payload, crc32.Checksum(payload, castagnoli) == sum
}

// mostSummed is how many bytes holdsFrame sums before it takes for granted that there is a frame.
const mostSummed = 1 << 30

// holdsFrame reports whether a whole frame begins anywhere. An event is a MessagePack array.
func holdsFrame(b []byte) bool {
	summed := 0
	for at := 0; at+frameHead < len(b); at++ {
		if first := b[at+frameHead]; first>>4 != 0x9 && first != 0xdc {
			continue
		}
		payload, whole := frameAt(b, at)
		if summed += len(payload); whole || summed > mostSummed {
			return true
		}
	}
	return false
}

// writeFile makes a file durable, but not its name.
func writeFile(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(ignoreUnsupported(d.Sync()), d.Close())
}

// ignoreUnsupported forgives systems that cannot sync a directory.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}

// asFull names what a full disk means here.
func asFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("offline queue: %w", err)
}
