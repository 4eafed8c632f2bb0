package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/pkg/events"
)

// State says who sends what waits in a directory.
type State string

// The states of what waits.
const (
	Live    State = "live"    // its process lives, or another one sends it now
	Ended   State = "ended"   // its process is gone: whoever uses the directory next sends it
	Refused State = "refused" // a server refused it for good: nobody sends it, unless somebody asks (SendRefused)
)

// Waiting is what waits in a queue, or was refused.
type Waiting struct {
	Queue     string    `json:"queue"` // its directory
	State     State     `json:"state"`
	Segments  int       `json:"segments"` // files
	Entries   int       `json:"entries"`
	Bytes     int64     `json:"bytes"`
	Oldest    time.Time `json:"oldest,omitzero"`             // when the oldest segment was written last
	Last      time.Time `json:"last,omitzero"`               // when something was written last
	Threads   []string  `json:"threads,omitempty"`           // whose entries wait, sorted
	Producers []string  `json:"producers,omitempty"`         // who published them, sorted
	Damaged   int       `json:"damaged_files,omitempty"`     // that were moved aside, and are still there
	Unread    int       `json:"unreadable_events,omitempty"` // by this version
}

// Look tells what waits in a directory. It reads all of it, a file at a time, and changes nothing; queues that hold
// nothing are left out. What is kept or sent meanwhile may be in the answer or not. Beside an error stands what could be
// read.
func Look(dir string) (all []Waiting, err error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("offline directory: %w", err)
	}
	var failed []error
	queues, others := 0, ""
	for _, e := range found {
		_, other := ulid.ParseStrict(e.Name())
		if !e.IsDir() || other != nil && e.Name() != refusedDir {
			if name := e.Name(); name[0] != '.' && name != "lost+found" {
				others = cmp.Or(others, name)
			}
			continue
		}
		queues++
		w := Waiting{Queue: filepath.Join(dir, e.Name())}
		if err := w.look(e.Name() == refusedDir); err != nil && !errors.Is(err, fs.ErrNotExist) { // drained meanwhile
			failed = append(failed, fmt.Errorf("offline directory: %w", err))
		}
		if w.Bytes > 0 || w.Damaged > 0 {
			all = append(all, w)
		}
	}
	if queues == 0 && others != "" {
		failed = append(failed, fmt.Errorf("%s is no offline directory: it holds %q, and no queue", dir, others))
	}
	return all, errors.Join(failed...)
}

func (w *Waiting) look(refused bool) error {
	suffix := segmentSuffix
	w.State = Ended
	if refused {
		suffix, w.State = refusedSuffix, Refused
	} else if held, err := isHeld(filepath.Join(w.Queue, lockFile)); err != nil {
		return err
	} else if held {
		w.State = Live
	}
	files, err := os.ReadDir(w.Queue)
	if err != nil {
		return err
	}
	threads, producers := map[string]bool{}, map[string]bool{}
	defer func() {
		w.Threads, w.Producers = slices.Sorted(maps.Keys(threads)), slices.Sorted(maps.Keys(producers))
	}()
	for _, f := range files {
		if strings.HasSuffix(f.Name(), damagedSuffix) {
			w.Damaged++
		}
		if !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		path := filepath.Join(w.Queue, f.Name())
		info, err := os.Stat(path)
		b, e := os.ReadFile(path)
		if err = cmp.Or(err, e); errors.Is(err, fs.ErrNotExist) { // sent meanwhile
			continue
		}
		if err != nil {
			return err
		}
		w.Segments, w.Bytes = w.Segments+1, w.Bytes+int64(len(b))
		if written := info.ModTime(); w.Oldest.IsZero() || written.Before(w.Oldest) {
			w.Oldest = written
		}
		if info.ModTime().After(w.Last) {
			w.Last = info.ModTime()
		}
		scan(b, func(_ int, payload []byte) {
			e, err := events.Decode(payload)
			if err != nil {
				w.Unread++
				return
			}
			w.Entries += 1 + len(e.More)
			threads[e.Thread.String()], producers[e.Producer] = true, true
		})
	}
	return nil
}

// SendRefused tries again what a server refused for good, in the order in which it did, and forgets what it takes now. A
// crash leaves what was sent a moment ago, too: sent again, it is a repeat. It returns the first error that may pass.
func (q *Queue) SendRefused(ctx context.Context, send func(context.Context, []*events.Event) error) error {
	q.draining.Lock()
	defer q.draining.Unlock()
	files, err := filepath.Glob(filepath.Join(q.cfg.Dir, refusedDir, "*"+refusedSuffix))
	if err != nil {
		return fmt.Errorf("offline directory: %w", err)
	}
	for _, path := range files { // Glob sorts
		err := sendFile(ctx, path, send)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process sent it
			if temporary(ctx, err) {
				return err
			}
			q.cfg.Log.Error("event is not taken", "file", path, "error", err)
		}
	}
	return nil
}

// sendFile sends what a file of a refused event holds, and removes it.
func sendFile(ctx context.Context, path string, send func(context.Context, []*events.Event) error) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var evs []*events.Event
	lost, _ := scan(raw, func(_ int, payload []byte) {
		e, bad := events.Decode(payload)
		evs, err = append(evs, &e), errors.Join(err, bad)
	})
	if lost > 0 {
		err = ErrDamaged
	}
	if err != nil {
		return err
	}
	if err := send(ctx, evs); err != nil {
		return err
	}
	return os.Remove(path)
}
