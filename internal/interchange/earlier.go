package interchange

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"spool/pkg/sessions"
)

// earlier takes away what an export wrote of the session when that was one of another directory: else it were two sessions to the
// program. What lies beside the file comes along. Only a file that has nothing which its thread has not goes; has tells that, and
// what stays is named. A crash in here leaves some of it for the next export.
func (x *export) earlier(text []byte, has func([]byte) (bool, error)) error {
	const all = "sessions"
	folders, err := fs.ReadDir(x.Dir.FS(), all)
	if err != nil {
		return err
	}
	for _, d := range folders {
		name := path.Join(all, d.Name(), path.Base(x.File))
		if !d.IsDir() || name == x.File || x.isSame(path.Dir(name), path.Dir(x.File)) || !x.ofSession(name) {
			continue
		}
		f := File{Dir: x.Dir, Name: name, Has: has}
		is, over, err := f.check(bytes.NewReader(text))
		if errors.Is(err, ErrThere) {
			x.note("%v; it is of this session, too, which is in %s now: it stays", err, x.File)
			continue
		}
		if err != nil {
			return err
		}
		if err := x.bring(strings.TrimSuffix(name, sessionExt), strings.TrimSuffix(x.File, sessionExt)); err != nil {
			return err
		}
		if now, err := x.Dir.Lstat(name); err != nil || now.Size() != over.Size() || !now.ModTime().Equal(over.ModTime()) {
			x.note("%s is written to: it stays", name)
			continue
		}
		if ours, _ := x.isNotes(NotesFile(name))(nil); ours {
			err = x.Dir.Remove(NotesFile(name))
		}
		if err = cmp.Or(err, x.Dir.Remove(name)); err != nil {
			return err
		}
		_ = x.Dir.Remove(path.Dir(name)) // if nothing else is in it
		x.note("%s is removed, which was %s: the session is in %s now", name, map[Outcome]string{
			Same: "the same", Forwarded: "a beginning of it", Replaced: "written before it changed"}[is], x.File)
		if err := f.syncFolders(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (x *export) note(format string, args ...any) {
	x.Notes = append(x.Notes, fmt.Sprintf(format, args...))
}

// isSame tells whether two folders are one: of some file systems, in which the case of letters says nothing.
func (x *export) isSame(a, b string) bool {
	of, err := x.Dir.Stat(a)
	other, e := x.Dir.Stat(b)
	return err == nil && e == nil && os.SameFile(of, other)
}

// ofSession tells whether a file begins with the header of the session that is written.
func (x *export) ofSession(name string) bool {
	if info, err := x.Dir.Lstat(name); err != nil || !info.Mode().IsRegular() { // to open a pipe may take for ever
		return false
	}
	f, err := x.Dir.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	h, err := sessions.ParseHeader(head)
	return err == nil && h.ID == x.id
}

// bring moves the files of a folder into another one. One that is there with the same bytes, or more, is not moved but removed; one
// that is something else stays, and is named.
func (x *export) bring(from, to string) error {
	if info, err := x.Dir.Lstat(from); err == nil && !info.IsDir() {
		x.note("%s stays: it is no folder", from)
		return nil
	}
	list, err := fs.ReadDir(x.Dir.FS(), from)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	for _, d := range list {
		old, name := path.Join(from, d.Name()), path.Join(to, d.Name())
		there, err := x.Dir.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err = x.Dir.MkdirAll(to, 0o755); err == nil {
				err = x.Dir.Rename(old, name)
			}
		case err == nil && d.IsDir() && there.IsDir():
			err = x.bring(old, name)
		case err == nil && d.Type().IsRegular() && there.Mode().IsRegular():
			err = x.removeBeginning(old, name)
		case err == nil:
			err = fmt.Errorf("%s: %w", old, ErrThere)
		}
		if errors.Is(err, ErrThere) {
			x.note("%s stays: %s is something else", old, name)
			continue
		}
		if err != nil {
			return err
		}
	}
	_ = x.Dir.Remove(from) // if nothing stayed
	return nil
}

// removeBeginning removes a file that has nothing which another one has not, as it is or as its beginning.
func (x *export) removeBeginning(old, name string) error {
	there, err := x.Dir.Open(name)
	if err != nil {
		return err
	}
	_, _, err = File{Dir: x.Dir, Name: old, Has: x.ifNotes(old)}.check(there)
	if err = errors.Join(err, there.Close()); err != nil {
		return err
	}
	return x.Dir.Remove(old)
}

// ifNotes is isNotes of a file that is called as notes are.
func (x *export) ifNotes(name string) func([]byte) (bool, error) {
	if strings.HasSuffix(name, notesExt) {
		return x.isNotes(name)
	}
	return nil
}
