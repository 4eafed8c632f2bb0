package interchange

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
)

// ErrThere is wrapped by the refusal to write over a file that holds what would be lost (SPEC P7).
var ErrThere = errors.New("what would be lost stands there")

// File is a file that an export writes. A file of that name is left alone if it holds the same bytes, and replaced
// if it is a beginning of them, if Has knows each of its lines, or by Force. Any other is kept, and the error wraps
// ErrThere.
type File struct {
	Dir   *os.Root
	Name  string // below Dir, with slashes
	Shown string // what refusals call it; empty: Name
	Mode  fs.FileMode
	Force bool
	Has   func(line []byte) (bool, error) // tells whether what is exported has that line somewhere; nil: of none
}

// Write writes beside the file and renames, so that whoever finds the file finds all of it. It returns when file and
// folders are durable. A crash leaves the old file, and perhaps a .part file beside it.
func (f File) Write(write func(io.Writer) error) error {
	if err := f.Dir.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return err
	}
	name := f.Name + "." + rand.Text()[:8] + ".part"
	part, err := f.Dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, f.Mode)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(part, 256<<10)
	err = errors.Join(write(w), w.Flush(), part.Sync())
	same := false
	if err == nil {
		if _, err = part.Seek(0, io.SeekStart); err == nil {
			same, err = f.Check(part)
		}
	}
	err = errors.Join(err, part.Close())
	if err != nil || same {
		return errors.Join(err, f.Dir.Remove(name))
	}
	if err := f.Dir.Rename(name, f.Name); err != nil {
		return errors.Join(err, f.Dir.Remove(name))
	}
	return f.syncFolders()
}

// syncFolders makes the name durable, and those of the folders above it.
func (f File) syncFolders() error {
	if runtime.GOOS == "windows" { // it has no such call
		return nil
	}
	for folder := path.Dir(f.Name); ; folder = path.Dir(folder) {
		d, err := f.Dir.Open(folder)
		if err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if err != nil || folder == "." {
			return err
		}
	}
}

// Check tells whether the file holds those bytes already, and refuses if they must not replace it.
func (f File) Check(content io.Reader) (same bool, err error) {
	shown := cmp.Or(f.Shown, f.Name)
	info, err := f.Dir.Lstat(f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: %w: it is no regular file; name another", shown, ErrThere)
	}
	there, err := f.Dir.Open(f.Name)
	if err != nil {
		return false, err
	}
	defer func() { _ = there.Close() }()
	at, begins, same, err := compare(bufio.NewReaderSize(there, 64<<10), bufio.NewReaderSize(content, 64<<10))
	if err != nil || begins || f.Force {
		return same, err
	}
	if f.Has == nil {
		return false, fmt.Errorf("%s: %w: its %d bytes are something else from byte %d on; "+
			"name another file, or replace it with --force", shown, ErrThere, info.Size(), at)
	}
	if _, err := there.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return false, f.lines(bufio.NewReaderSize(there, 64<<10))
}

// compare tells where two texts part, and whether the first is a beginning of the second, or the same.
func compare(a, b *bufio.Reader) (at int64, begins, same bool, err error) {
	for ; ; at++ {
		x, errA := a.ReadByte()
		y, errB := b.ReadByte()
		switch {
		case errA != nil && !errors.Is(errA, io.EOF):
			return at, false, false, errA
		case errB != nil && !errors.Is(errB, io.EOF):
			return at, false, false, errB
		case errA != nil:
			return at, true, errB != nil, nil
		case errB != nil || x != y:
			return at, false, false, nil
		}
	}
}

// lines refuses if the file has a line that Has does not know.
func (f File) lines(r *bufio.Reader) error {
	all, lost, first := 0, 0, 0
	for {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			all++
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			has, err := f.Has(text)
			if err != nil {
				return err
			}
			if !has {
				if lost++; lost == 1 {
					first = all
				}
			}
		}
		if err != nil {
			break
		}
	}
	if lost == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: of its %d lines the thread does not have %d, the first is line %d; "+
		"take it in with spool import first, or replace it with --force", cmp.Or(f.Shown, f.Name), ErrThere, all, lost, first)
}
