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
	partSuffix    = ".part" // of a file that takes the place of a segment when it is whole
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

// scan calls f with every payload of a segment, and where its frame begins. good is how many bytes are as they were written: less than all of them when
// the file ends in a torn frame, or is damaged.
func scan(b []byte, f func(begin int, payload []byte)) (good int) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return 0
	}
	for good = len(magic); len(b)-good >= frameHead; {
		n := int(binary.LittleEndian.Uint32(b[good:]))
		sum := binary.LittleEndian.Uint32(b[good+4:])
		if n > len(b)-good-frameHead {
			return good
		}
		payload := b[good+frameHead : good+frameHead+n]
		if crc32.Checksum(payload, castagnoli) != sum {
			return good
		}
		f(good, payload)
		good += frameHead + n
	}
	return good
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
