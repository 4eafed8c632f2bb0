package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// Stat is what a look at a file costs no read to know. Two equal ones of a path are the same bytes, but for a change
// within the tick of the file system's clock.
type Stat struct {
	Size     int64  `json:"size"`  // bytes
	Modified int64  `json:"mtime"` // Unix nanoseconds
	Changed  int64  `json:"ctime"` // the same; 0 where the system does not tell
	Device   uint64 `json:"dev"`   // 0 where the system does not tell
	Inode    uint64 `json:"inode"` // the same
}

func statOf(info os.FileInfo) Stat {
	s := Stat{Size: info.Size(), Modified: info.ModTime().UnixNano()}
	s.Device, s.Inode, s.Changed = identity(info)
	return s
}

// Mark is a file as it was captured.
type Mark struct {
	Stat
	Until int64  `json:"until"` // bytes that were captured
	Begin string `json:"begin"` // SHA-256 of the first bytes, in hex: of beginBytes, or all that there were
	Taken int64  `json:"taken"` // when the file was looked at, Unix nanoseconds
	Of    string `json:"of,omitempty"`
	Part  string `json:"part,omitempty"` // as of Taken
}

const (
	beginBytes = 4096
	tick       = time.Second // more than that of any file system's clock
)

// settled tells whether a later write would show in the Stat: the file had not been changed just before.
func (m Mark) settled() bool { return m.Taken-max(m.Modified, m.Changed) > int64(tick) }

// began tells whether a file still begins as it did.
func (m Mark) began(path string) (bool, error) {
	sum, err := beginning(path, m.Size)
	return sum == m.Begin, err
}

// beginning is the hash of a file's first bytes, of those that are within size.
func beginning(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, min(size, beginBytes))); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// whole is the offset behind the last newline of a file's first bytes. A compressed file is taken as it is.
func whole(path string, size int64) (int64, error) {
	if strings.HasSuffix(path, ".zst") || strings.HasSuffix(path, ".gz") {
		return size, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		from := max(0, end-int64(len(buf)))
		n, err := f.ReadAt(buf[:end-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}
