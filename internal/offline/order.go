package offline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spool/pkg/events"
)

// position is where an event stands among those of its producer.
type position struct{ epoch, seq uint64 }

func positionOf(e *events.Event) position { return position{e.Epoch, e.Seq} }

func (p position) before(o position) bool {
	return cmp.Or(cmp.Compare(p.epoch, o.epoch), cmp.Compare(p.seq, o.seq)) < 0
}

// backlog is what one queue of the directory holds, as a round of a drain sees it.
type backlog struct {
	dir   string
	own   bool     // of this process
	lock  *os.File // of a queue whose process is gone; nil for the own one, and for those that others hold
	names []string // segments that are not drained, in order

	force bool // the next event goes, whatever is before it
	done  bool // its directory is removed, or it cannot be read
	alien bool // the next event comes behind one that this drain does not send
}

// ours reports whether this drain sends what the queue holds.
func (b *backlog) ours() bool { return b.own || b.lock != nil }

// gather lists what the directory holds, and takes the queues whose processes are gone; the own one is last. A
// process appends behind what is in the directory already. So the queues that are sent are listed before those that
// are only waited for: what an event that was listed comes behind is listed too, or drained. The caller releases what
// it gets, also with an error.
func (d *drain) gather() (all []*backlog, err error) {
	own := &backlog{dir: d.q.dir(), own: true}
	if own.names, err = d.q.closed(); err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, list := range []func(string) (*backlog, error){takeDead, listHeld} {
		dirs, err := d.q.others()
		if err != nil {
			return all, fmt.Errorf("offline directory: %w", err)
		}
		for _, dir := range dirs {
			if taken[dir] || d.unreadable[dir] {
				continue
			}
			b, err := list(dir)
			switch {
			case errors.Is(err, fs.ErrPermission):
				d.skip(dir, err)
			case err != nil:
				return all, err
			case b != nil:
				all, taken[dir] = append(all, b), true
			}
		}
	}
	return append(all, own), nil
}

// takeDead locks and lists a queue whose process is gone. Without an error and a queue: its process lives, or another
// drains it.
func takeDead(dir string) (*backlog, error) {
	lock, held, err := tryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !held {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("offline queue %s: %w", dir, err)
	}
	b := &backlog{dir: dir, lock: lock}
	if b.names, err = segments(dir); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// listHeld lists a queue that another process has.
func listHeld(dir string) (*backlog, error) {
	names, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) { // drained meanwhile
		return nil, nil
	}
	return &backlog{dir: dir, names: names}, err
}

func (b *backlog) release() {
	if b.lock != nil {
		_ = b.lock.Close()
	}
}

// skip tells of a queue that cannot be read. This drain neither sends it nor waits for it.
func (d *drain) skip(dir string, err error) {
	d.q.cfg.Log.Error("what a process left offline cannot be read, and is not waited for", "dir", dir, "error", err)
	d.unreadable[dir] = true
	d.q.passed(dir)
}

// floor is the lowest position of a producer in the queues beside one: what is above it has to wait.
type floor struct {
	at    position
	any   bool // some queue holds events of the producer
	alien bool // one that this drain does not send holds the lowest
}

func (d *drain) floor(beside *backlog, all []*backlog, producer string) (f floor) {
	for _, b := range all {
		if b == beside {
			continue
		}
		if at, held := d.lowest(b, producer); held && (!f.any || at.before(f.at)) {
			f = floor{at, true, !b.ours()}
		}
	}
	return f
}

// lowest is the lowest position of a producer in what a queue still holds.
func (d *drain) lowest(b *backlog, producer string) (lowest position, held bool) {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	for _, name := range b.names {
		c, err := d.q.read(filepath.Join(b.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // drained meanwhile
			d.q.cfg.Log.Error("events of a predecessor cannot be read, and are not waited for",
				"dir", b.dir, "file", name, "error", err)
		}
		if at, ok := c.low[producer]; ok && (!held || at.before(lowest)) {
			lowest, held = at, true
		}
	}
	return lowest, held
}
