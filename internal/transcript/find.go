package transcript

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"
)

// Source is a file that may be a transcript.
type Source struct {
	FS     fs.FS
	Path   string // in FS; what messages call it
	Walked bool   // found in a directory, not named: that it is no transcript is no error

	// Restore, if not nil, gives the n-th JSON object of the file, from 1, as it was when it was taken in first.
	Restore func(n int, body []byte) []byte

	Fork *Fork // of the file of a fork, where an export says what it is; else nil

	Copies []Source // other files of the same, which may not have changed: they are looked at where this one parts from its thread
}

// Modified is when the file was written last; zero if nobody knows.
func (s Source) Modified() time.Time {
	info, err := fs.Stat(s.FS, s.Path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// modified is the same in Unix nanoseconds; 0 if nobody knows.
func (s Source) modified() int64 {
	if at := s.Modified(); !at.IsZero() {
		return at.UnixNano()
	}
	return 0
}

// Find lists the transcripts that names in a file system stand for: files as they are, directories with everything below that
// is called *.jsonl, *.jsonl.zst or *.jsonl.gz, wherever the harness keeps it, and what lies beside it. The list is sorted, and each file
// is in it once. What cannot be read is reported, and the rest is listed. Names may be the operating system's, absolute ones too, if fsys
// takes them.
func Find(fsys fs.FS, roots ...string) ([]Source, error) {
	var errs []error
	found := map[string]Source{}
	add := func(name string, walked bool) {
		if old, ok := found[name]; !ok || old.Walked {
			found[name] = Source{FS: fsys, Path: name, Walked: walked}
		}
	}
	for _, root := range roots {
		root = path.Clean(root)
		info, err := fs.Stat(fsys, root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !info.IsDir() {
			add(root, false)
			continue
		}
		_ = fs.WalkDir(fsys, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			if IsWanted(name) && regular(fsys, name, d) {
				add(name, true)
			}
			return nil
		})
	}
	out := make([]Source, 0, len(found))
	for _, s := range found {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.Path, b.Path) })
	return out, errors.Join(errs...)
}

// endings of the names of transcripts.
var endings = []string{".jsonl", ".jsonl.zst", ".jsonl.gz"}

// others are files that lie beside transcripts and hold lists of prompts and sessions.
var others = []string{"history.jsonl", "session_index.jsonl"}

// IsTranscript tells whether a file of a directory is taken for one, by its name.
func IsTranscript(name string) bool {
	return !slices.Contains(others, name) && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) })
}

// stem is a file's name without directory and ending.
func stem(name string) string {
	name = path.Base(name)
	for _, e := range endings {
		name = strings.TrimSuffix(name, e)
	}
	return name
}

// regular tells whether a directory entry is a file, or a link to one.
func regular(fsys fs.FS, name string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type().IsRegular()
	}
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// size is the number of bytes on the disk; 0 if it cannot be told.
func (s Source) size() int64 {
	info, err := fs.Stat(s.FS, s.Path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// open gives the file's bytes, uncompressed, and writes those that were read to the others. progress, if not nil, is told how many bytes
// were read from the disk.
func (s Source) open(progress func(n int), to ...io.Writer) (*lines, func(), error) {
	if info, err := fs.Stat(s.FS, s.Path); err == nil && !info.Mode().IsRegular() { // to open a pipe may take for ever
		return nil, nil, fmt.Errorf("%s: not a regular file", s.Path)
	}
	f, err := s.FS.Open(s.Path)
	if err != nil {
		return nil, nil, err
	}
	r, done, err := Decompress(s.Path, &counting{f, progress})
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	for _, w := range to {
		r = io.TeeReader(r, w)
	}
	l := newLines(r)
	l.restore = s.Restore
	return l, func() { done(); _ = f.Close() }, nil
}

// records iterates over what the file holds. The first error ends it.
func (s Source) records() iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		in, done, err := s.open(nil)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer done()
		for {
			r, err := in.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", s.Path, err)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
