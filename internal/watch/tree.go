package watch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Change is what a file has more, or else, than was captured of it.
type Change struct {
	Path  string
	Since int64 // bytes of it that were captured before, and are there still; 0: it is new, or another file
	Until int64 // where what is to be captured ends; behind it may stand what has no newline yet
	mark  Mark  // what it is then

	Copies []string // other files that were captured of the same, and are not among the changes
}

// Quiet is how long a file does not change before what stands behind its last newline is taken as it is.
const Quiet = 2 * time.Second

// A file that cannot be captured is tried again after a second, then more and more rarely.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute // and the first of what waits
	lastWait   = time.Hour
)

// Tree is the files below some roots, and what of them was captured. One goroutine uses it.
type Tree struct {
	roots   []string
	match   func(path string) bool // whether a file of a directory is one of them, by its name
	still   func(path string) bool // whether one is taken whole, when it has been quiet; nil: none is
	marks   map[string]Mark
	changed bool // marks, since they were saved
	pending map[string]pending
	failed  map[string]int // tries in vain
	now     func() time.Time
}

// pending is a file that differs from its mark.
type pending struct {
	due   time.Time
	noted bool // somebody writes it now: before what a walk found
	rest  bool // nobody does: what has no newline is taken too
	still bool // it is taken whole
	seen  Stat // of one that is
}

// NewTree is a tree of which nothing was captured. A root is a directory or a file, and need not be there yet.
func NewTree(roots []string, match, still func(path string) bool) *Tree {
	return &Tree{
		roots: roots, match: match, still: still, now: time.Now,
		marks: map[string]Mark{}, pending: map[string]pending{}, failed: map[string]int{},
	}
}

// Walk looks at every file. inside, if not nil, is called with each directory before it is read. The error is of
// what could not be read.
func (t *Tree) Walk(inside func(dir string)) error {
	var errs []error
	seen := make(map[string]bool, len(t.marks))
	for _, root := range t.roots {
		errs = append(errs, t.walk(root, inside, seen))
	}
	for path := range t.marks {
		if !seen[path] {
			t.forget(path)
		}
	}
	return errors.Join(errs...)
}

func (t *Tree) walk(root string, inside func(dir string), seen map[string]bool) error {
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no file and no directory", root)
		}
		seen[root] = true
		if inside != nil {
			inside(filepath.Dir(root))
		}
		return t.look(root, info, false)
	} else if err == nil && info.IsDir() {
		root += string(filepath.Separator) // of a link to a directory, what is in it
	}
	var errs []error
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // born later, or gone meanwhile
			errs = append(errs, err)
		}
	}
	note(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		path = filepath.Clean(path)
		switch {
		case err != nil:
			note(err)
		case d.IsDir():
			if inside != nil {
				inside(path)
			}
		case t.match(path):
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() {
				seen[path] = true
				err = t.look(path, info, false)
			}
			note(err)
		}
		return nil
	}))
	return errors.Join(errs...)
}

// Note looks at what somebody says has changed: a file, or a directory that was born, with all in it.
func (t *Tree) Note(path string, inside func(dir string)) error {
	named := slices.Contains(t.roots, path)
	below := func(root string) bool { return strings.HasPrefix(path, root+string(filepath.Separator)) }
	if !named && !slices.ContainsFunc(t.roots, below) { // beside a file that is a root
		return nil
	}
	matches := named || t.match(path)
	info, err := os.Stat(path)
	switch link, e := os.Lstat(path); {
	case !named && e == nil && link.Mode()&fs.ModeSymlink != 0 && (!matches || err == nil && info.IsDir()): // as a walk
		return nil
	case errors.Is(err, fs.ErrNotExist):
		t.forget(path)
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return t.walk(path, inside, map[string]bool{})
	case info.Mode().IsRegular() && matches:
		return t.look(path, info, true)
	}
	return nil
}

// look makes a file pending that differs from its mark.
func (t *Tree) look(path string, info os.FileInfo, noted bool) error {
	p, waits := t.pending[path]
	if waits && p.still && p.seen == statOf(info) {
		return nil
	}
	if waits && !p.rest {
		if soon := t.now().Add(firstRetry); noted && p.due.After(soon) { // it changed since it was tried
			p.due = soon
		}
		p.noted = p.noted || noted
		t.pending[path] = p
		return nil
	}
	m, marked := t.marks[path]
	if marked && m.Stat == statOf(info) {
		if m.settled() {
			return nil
		}
		same, err := m.began(path)
		if err != nil {
			return err
		}
		if same {
			m.Taken = t.now().UnixNano()
			t.marks[path], t.changed = m, true
			return nil
		}
	}
	delete(t.failed, path)
	p = pending{due: t.now(), noted: noted}
	if t.still != nil && t.still(path) {
		p = pending{due: t.now(), rest: true, still: true, seen: statOf(info)}
		if quiet := info.ModTime().Add(Quiet); quiet.After(p.due) && quiet.Before(p.due.Add(2*Quiet)) {
			p.due = quiet
		}
	}
	t.pending[path] = p
	return nil
}

// reset forgets everything.
func (t *Tree) reset() {
	clear(t.marks)
	clear(t.pending)
	clear(t.failed)
	t.changed = true
}

func (t *Tree) forget(path string) {
	if _, ok := t.marks[path]; ok {
		delete(t.marks, path)
		t.changed = true
	}
	delete(t.pending, path)
	delete(t.failed, path)
}

// Take gives changes that are due, those of files first that somebody writes, then by their paths, and last those that are taken whole;
// some files, or so
// many bytes of them that one more is too much. all: also what would wait for its newline, or to be tried again.
func (t *Tree) Take(files int, bytes int64, all bool) (changes []Change, err error) {
	now := t.now()
	var paths []string
	for path, p := range t.pending {
		if all || !p.due.After(now) {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if x, y := t.pending[a].still, t.pending[b].still; x != y { // what one belongs to comes first
			if y {
				return -1
			}
			return 1
		}
		if x, y := t.pending[a].noted, t.pending[b].noted; x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var errs []error
	for _, path := range paths {
		c, err := t.change(path, all || t.pending[path].rest)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			t.forget(path)
			continue
		case err != nil:
			errs = append(errs, err)
			t.retry(path)
			continue
		}
		if bytes -= c.Until - c.Since; len(changes) > 0 && bytes < 0 {
			break
		}
		if changes = append(changes, c); len(changes) == files {
			break
		}
	}
	t.findCopies(changes)
	return changes, errors.Join(errs...)
}

// findCopies tells changes of the other copies of what their files are.
func (t *Tree) findCopies(changes []Change) {
	of, changed := map[string]*Change{}, map[string]bool{}
	for i := range changes {
		c := &changes[i]
		changed[c.Path] = true
		if m := t.marks[c.Path]; m.Of != "" {
			of[m.Of] = c
		}
	}
	for path, m := range t.marks {
		if c := of[m.Of]; c != nil && !changed[path] {
			c.Copies = append(c.Copies, path)
		}
	}
}

// change is what is to be captured of a file now.
func (t *Tree) change(path string, rest bool) (c Change, err error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // it took the place of a file, and to open it may take for ever
		err = fs.ErrNotExist
	}
	if err != nil {
		return c, err
	}
	stat := statOf(info)
	c = Change{Path: path, Until: stat.Size, mark: Mark{Stat: stat, Taken: t.now().UnixNano()}}
	if !rest {
		if c.Until, err = whole(path, stat.Size); err != nil {
			return c, err
		}
	}
	if c.mark.Begin, err = beginning(path, stat.Size); err != nil {
		return c, err
	}
	c.mark.Until = c.Until
	if m, ok := t.marks[path]; ok && m.Inode == stat.Inode && m.Device == stat.Device && m.Until <= c.Until && m.Size <= stat.Size {
		same, err := m.began(path)
		if err != nil {
			return c, err
		}
		if same && (stat.Size > m.Size || rest) {
			c.Since = m.Until
		}
	}
	return c, nil
}

// Captured marks what a change says. Its rest, if it has one, is due when the file has been quiet.
func (t *Tree) Captured(c Change) {
	t.marks[c.Path], t.changed = c.mark, true
	delete(t.failed, c.Path)
	delete(t.pending, c.Path)
	if c.mark.Until < c.mark.Size {
		t.pending[c.Path] = pending{due: t.now().Add(Quiet), rest: true}
	}
}

// lost forgets the other files of what the store lost a part of, but for those that are captured just now, and reports whether there
// were any. Those that are parts of nothing go too: an earlier version did not mark it.
func (t *Tree) lost(part string, but []Change) (some bool) {
	for path, m := range t.marks {
		if (m.Part == part || m.Part == "") && !slices.ContainsFunc(but, func(c Change) bool { return c.Path == path }) {
			t.forget(path)
			some = true
		}
	}
	return some
}

// Waits has a change wait for longer: what it needs may never come, and thousands may wait for it.
func (t *Tree) Waits(c Change) {
	p := t.pending[c.Path]
	p.due = t.now().Add(min(lastRetry<<min(t.failed[c.Path], 10), lastWait))
	t.failed[c.Path]++
	t.pending[c.Path] = p
}

// Failed has a change wait before it is tried again.
func (t *Tree) Failed(c Change) { t.retry(c.Path) }

func (t *Tree) retry(path string) {
	p := t.pending[path]
	p.due = t.now().Add(min(firstRetry<<min(t.failed[path], 10), lastRetry))
	t.failed[path]++
	t.pending[path] = p
}

// Next is when a change is due; false: there is none.
func (t *Tree) Next() (due time.Time, ok bool) {
	for _, p := range t.pending {
		if !ok || p.due.Before(due) {
			due, ok = p.due, true
		}
	}
	return due, ok
}

// Recent are files that changed within some time, at most so many, the newest first.
func (t *Tree) Recent(within time.Duration, most int) []string {
	since := t.now().Add(-within).UnixNano()
	var paths []string
	for path, m := range t.marks {
		if m.Modified > since {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(t.marks[b].Modified, t.marks[a].Modified) })
	return paths[:min(len(paths), most)]
}

// Files is how many are known, and Waiting how many of them have something that was not captured.
func (t *Tree) Files() int {
	n := len(t.marks)
	for path := range t.pending {
		if _, ok := t.marks[path]; !ok {
			n++
		}
	}
	return n
}

func (t *Tree) Waiting() int { return len(t.pending) }
