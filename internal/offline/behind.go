package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"spool/internal/record"
	"spool/pkg/events"
)

// errBehind: a producer of this process has a predecessor whose events wait elsewhere in the directory. Draining again can help.
var errBehind = fmt.Errorf("%w: another process drains what a predecessor left, or holds it", record.ErrBusy)

// errLater: a segment holds an event that this version cannot read.
var errLater = errors.New("segment of a later version")

// ephemeral begins the producers that live as long as one process (threads.Ephemeral): they have no predecessor.
const ephemeral = "~"

// Behind reports whether what a producer publishes now must be appended here, because a predecessor of the same name
// left events in the directory (SPEC P3): in a queue whose process is gone, in one that another process drains, or in
// one that still lives. Drain publishes them first, and until they are published it keeps what comes behind them.
// Behind looks at the disk once a producer.
//
// What cannot be read, for want of permission or of a later version, is told in the log and not waited for.
func (q *Queue) Behind(producer string) bool {
	if strings.HasPrefix(producer, ephemeral) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	before, asked := q.before[producer]
	if !asked {
		before = q.holding(producer)
		q.before[producer] = before
		if len(before) > 0 {
			q.wake()
		}
	}
	return len(before) > 0
}

// holding finds the segments of other queues that hold events of a producer. What is read stays known until the file
// changes: a segment grows, and once it is closed a drain can cut it.
func (q *Queue) holding(producer string) map[string]bool {
	found := map[string]bool{}
	queues, err := q.others()
	if err != nil {
		q.cfg.Log.Warn("look for events of a predecessor", "error", err)
	}
	for _, dir := range queues {
		names, err := segments(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			q.cfg.Log.Error("events of a predecessor cannot be read, and are not waited for", "dir", dir, "error", err)
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			held, err := q.read(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // drained meanwhile
				q.cfg.Log.Error("events of a predecessor cannot be read, and are not waited for", "file", path, "error", err)
			}
			if _, ok := held.low[producer]; ok {
				found[path] = true
			}
		}
	}
	return found
}

// others lists the queues of other processes.
func (q *Queue) others() (dirs []string, err error) {
	all, err := os.ReadDir(q.cfg.Dir)
	for _, e := range all {
		if _, bad := ulid.ParseStrict(e.Name()); bad == nil && e.IsDir() && e.Name() != q.name {
			dirs = append(dirs, filepath.Join(q.cfg.Dir, e.Name()))
		}
	}
	return dirs, err
}

// contents are the lowest events in a segment of each producer that can have a successor, as of when it was that file.
type contents struct {
	file os.FileInfo
	low  map[string]position
}

func (q *Queue) read(path string) (contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return contents{}, err
	}
	was, ok := q.contents[path]
	if ok && os.SameFile(was.file, info) && was.file.Size() == info.Size() && was.file.ModTime().Equal(info.ModTime()) {
		return was, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return contents{}, err
	}
	c := contents{info, map[string]position{}}
	scan(b, func(_ int, payload []byte) {
		e, err := events.Decode(payload)
		if err != nil || strings.HasPrefix(e.Producer, ephemeral) {
			return
		}
		if low, known := c.low[e.Producer]; !known || positionOf(&e).before(low) {
			c.low[e.Producer] = positionOf(&e)
		}
	})
	q.contents[path] = c
	return c, nil
}

// passed forgets the segments that are drained, and those of a queue that is not waited for. It reports whether some are left.
func (q *Queue) passed(unreadable string) (left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, paths := range q.before {
		for path := range paths {
			_, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) || unreadable != "" && filepath.Dir(path) == unreadable {
				delete(paths, path)
				delete(q.contents, path)
			}
		}
		left = left || len(paths) > 0
	}
	return left
}
