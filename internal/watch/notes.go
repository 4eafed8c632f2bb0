package watch

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/fsnotify/fsnotify"
)

// notes are what the system says of directories that are watched.
type notes struct {
	w      *fsnotify.Watcher // nil: it says nothing
	lacks  error             // why a directory is not watched; nil: all are
	events chan fsnotify.Event
	errors chan error
}

// newNotes begins to listen. Where the system wants an open file for each file that is watched, as kqueue does, it
// is not asked.
func newNotes() *notes {
	n := &notes{}
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		n.lacks = fmt.Errorf("not used on %s", runtime.GOOS)
		return n
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		n.lacks = err
		return n
	}
	n.w, n.events, n.errors = w, w.Events, w.Errors
	return n
}

// add watches a directory; one that is watched already stays so.
func (n *notes) add(dir string) {
	if n.w == nil {
		return
	}
	if err := n.w.Add(dir); err != nil && n.lacks == nil {
		n.lacks = fmt.Errorf("%s: %w", dir, err)
	}
}

func (n *notes) close() error {
	if n.w == nil {
		return nil
	}
	return n.w.Close()
}

// lost tells whether an error says that notifications are missing.
func lost(err error) bool { return errors.Is(err, fsnotify.ErrEventOverflow) }
