package watch

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Store is what changes are captured into.
type Store struct {
	ID   string `json:"id"`   // of this very store: one that was made anew has another
	Last uint64 `json:"last"` // grows with all that it takes; smaller than before: it lost what it had
}

// memory is a file of marks. Each is of one store: what another one has is not known from them.
type memory struct {
	Store Store           `json:"store"`
	Files map[string]Mark `json:"files"`
}

// load gives the tree the marks that a file has of a store, and reports whether they were of it. A file that is not
// there, cannot be read, or is of another store gives none: everything is captured anew.
func (t *Tree) load(file string, store Store) (known bool, err error) {
	var m memory
	b, err := os.ReadFile(file)
	if err == nil {
		if err = json.Unmarshal(b, &m); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && m.Store.ID == store.ID && m.Store.Last <= store.Last:
		known = true
	}
	if !known {
		m.Files = nil
	}
	t.marks, t.changed = map[string]Mark{}, false
	clear(t.pending)
	clear(t.failed)
	for path, mark := range m.Files {
		t.marks[path] = mark
		if mark.Until < mark.Size {
			t.pending[path] = pending{due: t.now().Add(Quiet), rest: true}
		}
	}
	return known, err
}

// save writes the marks. A process that is killed leaves the file as it was, and what it lacks is captured again; a power cut may leave one
// that cannot be read, and everything is.
func (t *Tree) save(file string, store Store) error {
	b, err := json.Marshal(memory{store, t.marks})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	t.changed = false
	return nil
}

// FileName names the memory of what is captured below some roots in some way, at a place where a store is looked for.
func FileName(place, way string, roots []string) string {
	sum := sha256.New()
	for _, s := range append([]string{place, way}, roots...) {
		fmt.Fprintf(sum, "%d:%s", len(s), s)
	}
	return fmt.Sprintf("watch-%x.json", sum.Sum(nil)[:8])
}
