package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spool/pkg/events"
)

// refusedDir holds what no server takes.
const refusedDir = "refused"

// Most of what send gets at once; a larger event is alone.
const (
	batchEvents = 1000
	batchBytes  = 4 << 20
)

// drain is one run of Drain.
type drain struct {
	q    *Queue
	send func(context.Context, []*events.Event) error
}

// leftovers drains the queues whose processes are gone.
func (d *drain) leftovers(ctx context.Context) error {
	queues, err := d.q.others()
	if err != nil {
		return fmt.Errorf("offline directory: %w", err)
	}
	for _, dir := range queues {
		err := d.leftover(ctx, dir)
		if errors.Is(err, errLater) || errors.Is(err, fs.ErrPermission) {
			d.q.cfg.Log.Error("what a process left offline cannot be read, and is not waited for", "dir", dir, "error", err)
			d.q.passed(dir)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *drain) leftover(ctx context.Context, dir string) error {
	lock, held, err := tryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) || err == nil && !held {
		return nil // drained by another, or its process lives
	}
	if err != nil {
		return fmt.Errorf("offline queue %s: %w", dir, err)
	}
	defer func() { _ = lock.Close() }()
	names, err := segments(dir)
	for i, name := range names {
		if err == nil {
			err = d.segment(ctx, filepath.Join(dir, name), i == len(names)-1)
		}
	}
	if err != nil {
		return err
	}
	return removeQueue(dir)
}

// removeQueue drops the directory of a queue that holds no segment. A damaged one stays.
func removeQueue(dir string) error {
	if err := os.Remove(filepath.Join(dir, lockFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("offline queue: %w", err)
	}
	_ = os.Remove(dir) // only if it is empty
	return nil
}

// segment sends what a segment holds, and removes it. A crash before the removal sends it again.
func (d *drain) segment(ctx context.Context, path string, newest bool) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("offline queue: %w", err)
	}
	var batch []*events.Event
	size, bad := 0, error(nil)
	flush := func() {
		if bad == nil && len(batch) > 0 {
			bad = d.publish(ctx, batch)
		}
		batch, size = nil, 0
	}
	good := scan(b, func(payload []byte) {
		e, err := events.Decode(payload)
		if err != nil { // of a later version
			if flush(); bad == nil {
				bad = fmt.Errorf("%s: %w: %w", path, errLater, err)
			}
			return
		}
		if len(batch) == batchEvents || size+len(payload) > batchBytes {
			flush()
		}
		batch, size = append(batch, &e), size+len(payload)
	})
	flush()
	if bad != nil {
		return bad
	}
	if good < len(b) {
		d.q.cfg.Log.Warn("offline segment ends early", "file", path, "bytes", len(b), "good", good, "torn", newest)
	}
	if good < len(b) && !newest {
		err = os.Rename(path, path+".damaged")
		d.q.cfg.Log.Error("events may be lost", "file", path+".damaged", "error", ErrDamaged)
	} else {
		err = os.Remove(path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("offline queue: %w", err)
	}
	d.q.mu.Lock()
	d.q.used -= int64(len(b))
	d.q.mu.Unlock()
	return nil
}

// publish sends a batch; what will never be taken is moved aside, so that it does not hold up what is behind it.
func (d *drain) publish(ctx context.Context, batch []*events.Event) error {
	err := d.send(ctx, batch)
	if err == nil || temporary(ctx, err) {
		return err
	}
	for _, e := range batch {
		err := d.send(ctx, []*events.Event{e})
		if err != nil && !temporary(ctx, err) {
			d.q.cfg.Log.Error("event is refused and moved aside", "thread", e.Thread, "seq", e.Seq, "dir", refusedDir, "error", err)
			err = d.refused(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused keeps an event for a person to look at.
func (d *drain) refused(e *events.Event) error {
	dir := filepath.Join(d.q.cfg.Dir, refusedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("offline directory: %w", err)
	}
	f, err := os.CreateTemp(dir, "*.event")
	if err != nil {
		return asFull(err)
	}
	_, err = f.Write(appendFrame([]byte(magic), e.Encode()))
	if err = errors.Join(err, f.Sync(), f.Close(), syncDir(dir)); err != nil {
		return asFull(err)
	}
	return nil
}
