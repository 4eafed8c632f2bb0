package interchange

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
	"time"

	"spool/internal/transcript"
)

// ErrThere is wrapped by the refusal to write over a file that holds what would be lost (SPEC P7).
var ErrThere = errors.New("what would be lost stands there")

// ErrAhead is an ErrThere: the file has all that is to be written, and goes on.
var ErrAhead = fmt.Errorf("%w, behind all that is to be written", ErrThere)

// File is a file that an export writes. A file of that name is left alone if it holds the same bytes, and replaced
// if it is a beginning of them, if Has knows each of its lines, or by Force. Any other is kept, and the error wraps
// ErrThere.
type File struct {
	Dir    *os.Root
	Name   string // below Dir, with slashes
	Shown  string // what refusals call it; empty: Name
	Mode   fs.FileMode
	Force  bool
	Keep   bool                            // under another name what Force replaces
	Ahead  bool                            // leave a file alone that has all that is to be written, and goes on
	Spare  bool                            // the others of a restore are written without it, too
	Time   time.Time                       // of the modification; zero: now
	Needs  int64                           // leave a file alone that has so many of the first bytes; 0: all
	Unpack bool                            // a file that is there is compressed, as its name says, and is not replaced
	Has    func(line []byte) (bool, error) // tells whether what is exported has that line somewhere; nil: of none
}

// Outcome is what became of a file.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Same      Outcome = "ready"     // it was there, with all that is asked for
	Ahead     Outcome = "ahead"     // it was there, and has more
	Forwarded Outcome = "forwarded" // it was a beginning of what is written
	Replaced  Outcome = "replaced"
)

// Written is a file and what became of it.
type Written struct {
	File    string  `json:"file"` // below the directory, with slashes
	Outcome Outcome `json:"outcome"`
	Kept    string  `json:"kept,omitempty"` // what was replaced, beside it
}

// Write writes beside the file and renames, so that whoever finds the file finds all of it. It returns when file and
// folders are durable. A crash leaves the old file, and perhaps a .part file beside it.
func (f File) Write(write func(io.Writer) error) (Written, error) {
	s, err := f.stage(write)
	if err != nil {
		return Written{}, err
	}
	return s.commit()
}

// staged is the content of a file, durable under another name.
type staged struct {
	File
	part string
	over fs.FileInfo // of the file that is to be replaced; nil: there is none
	is   Outcome
}

// stage writes beside the file, and refuses if it must not be replaced.
func (f File) stage(write func(io.Writer) error) (s *staged, err error) {
	if err := f.Dir.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return nil, err
	}
	s = &staged{File: f, part: f.beside("part")}
	part, err := f.Dir.OpenFile(s.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, f.Mode)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(part, 256<<10)
	err = errors.Join(write(w), w.Flush(), part.Sync())
	if err == nil {
		if _, err = part.Seek(0, io.SeekStart); err == nil {
			s.is, s.over, err = f.check(part)
		}
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return nil, errors.Join(err, s.drop())
	}
	return s, nil
}

// beside is a new name next to the file.
func (f File) beside(what string) string {
	dir, name := path.Split(f.Name)
	ext := path.Ext(name)
	return dir + fitted(strings.TrimSuffix(name, ext), ext+"."+rand.Text()[:8]+"."+what)
}

// maxName is the longest name of a file or folder that file systems take, in bytes.
const maxName = 255

// fitted is a name that is short enough: where it would be too long, a digest stands for the end of the stem.
func fitted(stem, ending string) string {
	if len(stem)+len(ending) <= maxName {
		return stem + ending
	}
	sum := sha256.Sum256([]byte(stem))
	ending = "-" + hex.EncodeToString(sum[:8]) + ending
	return strings.ToValidUTF8(stem[:maxName-len(ending)], "") + ending
}

// partName is what stage calls a file, and partLives longer than one is staged.
var partName = regexp.MustCompile(`^(.+)\.[A-Z2-7]{8}\.part$`)

const partLives = time.Hour

// drop takes back what was staged.
func (s *staged) drop() error { return s.Dir.Remove(s.part) }

// commit gives what was staged its name. A file that was written to since it was staged is kept, and the error wraps ErrThere.
func (s *staged) commit() (Written, error) {
	done := Written{File: s.Name, Outcome: s.is}
	if s.is == Same || s.is == Ahead {
		return done, s.drop()
	}
	now, err := s.Dir.Lstat(s.Name)
	switch there := err == nil; {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
	case there != (s.over != nil), there && (now.Size() != s.over.Size() || !now.ModTime().Equal(s.over.ModTime())):
		err = fmt.Errorf("%s: %w: it was written to just now; try again", cmp.Or(s.Shown, s.Name), ErrThere)
	case there && s.Keep && s.is == Replaced:
		done.Kept = s.beside("kept")
		err = s.Dir.Link(s.Name, done.Kept)
	default:
		err = nil
	}
	if err == nil && !s.Time.IsZero() { // not before: by its time others see that a part is somebody's still
		err = s.Dir.Chtimes(s.part, s.Time, s.Time)
	}
	if err == nil {
		err = s.Dir.Rename(s.part, s.Name)
	}
	if err != nil {
		return Written{}, errors.Join(err, s.drop())
	}
	return done, s.syncFolders()
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

// Check refuses if the file must not be replaced by that content.
func (f File) Check(content io.Reader) error {
	_, _, err := f.check(content)
	return err
}

// check says what writing makes of the file, and what is there now.
func (f File) check(content io.Reader) (Outcome, fs.FileInfo, error) {
	shown := cmp.Or(f.Shown, f.Name)
	info, err := f.Dir.Lstat(f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return Created, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s: %w: it is no regular file; name another", shown, ErrThere)
	}
	there, err := f.Dir.Open(f.Name)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = there.Close() }()
	text, done := io.Reader(there), func() {}
	if f.Unpack {
		if text, done, err = transcript.Decompress(f.Name, there); err != nil {
			return "", nil, fmt.Errorf("%s: %w", shown, err)
		}
	}
	defer done()
	at, begins, goesOn, err := compare(bufio.NewReaderSize(text, 64<<10), bufio.NewReaderSize(content, 64<<10))
	switch {
	case err != nil:
		return "", nil, err
	case begins && goesOn, f.Needs > 0 && at >= f.Needs:
		return Same, info, nil
	case goesOn && f.Ahead:
		return Ahead, info, nil
	case f.Unpack:
		return "", nil, fmt.Errorf("%s: %w: it is compressed, and something else from byte %d of its text on; move it away", shown, ErrThere, at)
	case begins:
		return Forwarded, info, nil
	case f.Force:
		return Replaced, info, nil
	}
	lost := ErrThere
	if goesOn {
		lost = ErrAhead
	}
	if f.Has == nil {
		return "", nil, fmt.Errorf("%s: %w: its %d bytes are something else from byte %d on; "+
			"name another file, or replace it with --force", shown, lost, info.Size(), at)
	}
	if _, err := there.Seek(0, io.SeekStart); err != nil {
		return "", nil, err
	}
	return Replaced, info, f.lines(bufio.NewReaderSize(there, 64<<10), lost)
}

// compare tells where two texts part, and which of them is a beginning of the other; both are, when they are the same.
func compare(a, b *bufio.Reader) (at int64, first, second bool, err error) {
	for ; ; at++ {
		x, errA := a.ReadByte()
		y, errB := b.ReadByte()
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, io.EOF) {
				return at, false, false, err
			}
		}
		if errA != nil || errB != nil || x != y {
			return at, errA != nil, errB != nil, nil
		}
	}
}

// lines refuses if the file has a line that Has does not know; is says what that is.
func (f File) lines(r *bufio.Reader, is error) error {
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
		"take it in with spool import first, or replace it with --force", cmp.Or(f.Shown, f.Name), is, all, lost, first)
}
