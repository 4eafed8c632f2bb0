package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/pkg/events"
)

// refusedDir holds what no server takes: files of this suffix, by name in the order in which it was refused.
const (
	refusedDir    = "refused"
	refusedSuffix = ".event"
)

// Most of what send gets at once; a larger event is alone.
const (
	batchEvents = 1000
	batchBytes  = 4 << 20
)

// drain is one run of Drain.
type drain struct {
	q          *Queue
	send       func(context.Context, []*events.Event) error
	unreadable map[string]bool // queues that are not waited for, by directory
}

// round sends what the directory holds now, as far as the order of each producer allows. own is how many segments of
// this process there were.
func (d *drain) round(ctx context.Context) (own int, err error) {
	all, err := d.gather()
	defer func() {
		for _, b := range all {
			b.release()
		}
	}()
	if err != nil {
		return 0, err
	}
	own = len(all[len(all)-1].names)
	for {
		moved, alien := false, false
		var stuck *backlog
		for _, b := range all {
			if !b.ours() {
				continue
			}
			some, err := d.advance(ctx, b, all)
			if err != nil {
				return own, err
			}
			moved = moved || some
			if len(b.names) > 0 {
				stuck, alien = cmp.Or(stuck, b), alien || b.alien
			}
		}
		switch {
		case moved:
		case stuck == nil:
			return own, nil
		case alien:
			return own, errBehind
		default: // each waits for another: their sequences do not grow with time
			d.q.cfg.Log.Warn("offline queues come behind each other", "dir", stuck.dir)
			stuck.force = true
		}
	}
}

// advance sends what a queue holds, up to an event that comes behind those of another queue. moved: something changed.
func (d *drain) advance(ctx context.Context, b *backlog, all []*backlog) (moved bool, err error) {
	for len(b.names) > 0 {
		sent, done, err := d.segment(ctx, b, all)
		if !b.own && (errors.Is(err, errLater) || errors.Is(err, fs.ErrPermission)) {
			d.skip(b.dir, err)
			b.names, b.done = nil, true
			return true, nil
		}
		if err != nil {
			return moved, err
		}
		if !done {
			return moved || sent > 0, nil
		}
		moved, b.names = true, b.names[1:]
		if !b.own && len(b.names) == 0 {
			d.q.cfg.Log.Info("what a process left offline is sent", "dir", b.dir)
		}
		if b.own {
			d.q.mu.Lock()
			if d.q.waiting--; d.q.waiting == 0 {
				close(d.q.empty)
			}
			d.q.mu.Unlock()
		}
	}
	if b.lock != nil && !b.done {
		b.done = true
		return true, removeQueue(b.dir)
	}
	return moved, nil
}

// removeQueue drops the directory of a queue that holds no segment. A damaged one stays.
func removeQueue(dir string) error {
	if err := os.Remove(filepath.Join(dir, lockFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("offline queue: %w", err)
	}
	parts, _ := filepath.Glob(filepath.Join(dir, "*"+partSuffix)) // of a crash in cut
	for _, part := range parts {
		_ = os.Remove(part)
	}
	_ = os.Remove(dir) // only if it is empty
	return nil
}

// segment sends what the first segment of a queue holds, and removes it. A crash before the removal sends it again.
// done is false when an event in it has to wait: those before it are sent, and gone from the segment, so that nobody
// waits for them.
func (d *drain) segment(ctx context.Context, b *backlog, all []*backlog) (sent int, done bool, err error) {
	path := filepath.Join(b.dir, b.names[0])
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, false, fmt.Errorf("offline queue: %w", err)
	}
	var batch []*events.Event
	size, at, waits, bad := 0, 0, false, error(nil)
	flush := func() {
		if bad == nil && len(batch) > 0 {
			bad = d.publish(ctx, batch)
		}
		batch, size = nil, 0
	}
	mayGo := d.order(b, all)
	lost, torn := scan(raw, func(begin int, payload []byte) {
		if bad != nil || waits {
			return
		}
		e, err := events.Decode(payload)
		if err != nil { // of a later version
			if flush(); bad == nil {
				bad = fmt.Errorf("%s: %w: %w", path, errLater, err)
			}
			return
		}
		if waits = !mayGo(&e); waits {
			at = begin
			return
		}
		if len(batch) == batchEvents || size+len(payload) > batchBytes {
			flush()
		}
		batch, size, sent = append(batch, &e), size+len(payload), sent+1
	})
	if flush(); bad != nil {
		return 0, false, bad
	}
	if waits && sent == 0 {
		return 0, false, nil
	}
	switch newest := !b.own && len(b.names) == 1; {
	case lost > 0 && newest && torn:
		d.q.cfg.Log.Warn("offline segment ends early", "file", path, "bytes", len(raw), "lost", lost)
	case lost > 0:
		err = d.setAside(path, raw, lost)
	}
	if err == nil && waits {
		return sent, false, d.cut(path, raw, at)
	}
	if err == nil {
		err = d.remove(path, len(raw))
	}
	return sent, true, err
}

// setAside keeps all of a damaged segment under another name.
func (d *drain) setAside(path string, raw []byte, lost int) error {
	aside := path + damagedSuffix
	err := os.Link(path, aside)
	if errors.Is(err, fs.ErrExist) { // as it was before it was cut
		return nil
	}
	if err != nil { // a file system without links
		err = writeFile(aside, raw)
	}
	if err != nil {
		return asFull(err)
	}
	d.q.cfg.Log.Error("events may be lost", "file", aside, "bytes", len(raw), "lost", lost, "error", ErrDamaged)
	return nil
}

// order tells of events of a queue, one after the other, whether they may go now.
func (d *drain) order(b *backlog, all []*backlog) func(*events.Event) bool {
	floors := map[string]floor{}
	return func(e *events.Event) bool {
		if strings.HasPrefix(e.Producer, ephemeral) {
			return true
		}
		f, known := floors[e.Producer]
		if !known {
			f = d.floor(b, all, e.Producer)
			floors[e.Producer] = f
		}
		if !f.any || !f.at.before(positionOf(e)) || b.force {
			b.force = false
			return true
		}
		b.alien = f.alien
		return false
	}
}

// cut leaves of a segment what begins at an offset.
func (d *drain) cut(path string, raw []byte, at int) error {
	part := path + partSuffix
	err := writeFile(part, append([]byte(magic), raw[at:]...))
	if err == nil {
		err = os.Rename(part, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("offline queue: %w", err)
	}
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	d.q.used -= int64(at - len(magic))
	return nil
}

// remove drops a segment that is sent.
func (d *drain) remove(path string, size int) error {
	if err := errors.Join(os.Remove(path), syncDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("offline queue: %w", err)
	}
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	d.q.used -= int64(size)
	delete(d.q.contents, path)
	return nil
}

// publish sends a batch; what will never be taken is moved aside, so that it does not hold up what is behind it.
func (d *drain) publish(ctx context.Context, batch []*events.Event) error {
	err := d.send(ctx, batch)
	if err == nil {
		d.q.mu.Lock()
		d.q.took = time.Now()
		d.q.mu.Unlock()
	}
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
	path := filepath.Join(dir, ulid.Make().String()+refusedSuffix)
	err := writeFile(path+partSuffix, appendFrame([]byte(magic), e.Encode()))
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return asFull(err)
	}
	return nil
}
