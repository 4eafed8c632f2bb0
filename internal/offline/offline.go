// Package offline keeps events on disk while no server takes them, and gives them back in order.
//
// A directory holds a queue for each process that uses it:
//
//	DIR/<queue>/lock          held by its process for as long as it lives
//	DIR/<queue>/00000001.log  segments, in order: a magic, then frames of length, CRC-32C and envelope
//	DIR/refused/…             what a server will never take, as segments; somebody has to look at them
//
// Append makes one write and one fsync, and returns behind both. What a crash leaves:
//
//	in Append               a torn frame at the end of the newest segment: it is cut, nobody was told that it is kept
//	after Append            events that are on disk; whoever drains next publishes them
//	in Drain, after an ack  a segment whose events are published: they are published again, and a thread skips what it has
//
// A queue whose process is gone is drained by the next one that uses the directory. Events keep the identity that they were
// published under, so nothing doubles, whoever sends them and however often. A successor of a producer appends behind what the
// predecessor left, until that is drained, by whomever (Behind); whoever drains sends the events of a producer in their order.
package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/family"
	"spool/internal/record"
	"spool/pkg/events"
)

// ErrFull: the directory holds as much as it may, or its disk does. Nothing of what was to be appended is kept.
var ErrFull = family.Unavailable.New("offline directory is full: events are published from it when the server is back; make room, or allow it more")

// ErrDamaged: a segment has bytes that were never written so. The whole events in it are published as far as they can
// be told, and the file is kept under another name.
var ErrDamaged = errors.New("damaged offline segment")

// Config of a directory. Dir is required.
type Config struct {
	Dir     string
	Limit   int64 // bytes of all queues in the directory; 0 = 1 GiB
	Segment int64 // bytes after which a segment is closed: what a crash can make be sent again; 0 = 8 MiB
	Log     *slog.Logger
}

// Queue is the part of a directory that one process appends to. Safe for concurrent use.
type Queue struct {
	cfg  Config
	name string
	lock *os.File

	draining sync.Mutex // held by the one Drain that works

	mu      sync.Mutex
	ended   bool          // by Close: whoever has the directory next may take what is here
	active  *segment      // that Append writes to; nil: the next one begins one
	next    int           // number of the next segment
	waiting int           // own segments that are not drained
	used    int64         // bytes of the directory, as far as this process knows
	some    chan struct{} // holds a token while there is something to drain
	empty   chan struct{} // closed while there is nothing
	through chan struct{} // closed when the drain that works is through; nil while none does
	again   bool          // the drain sends what came while it worked
	took    time.Time     // when a server last took something of the drain, or it began

	before   map[string]map[string]bool // by producer that was asked for: segments of others that hold events of it
	contents map[string]contents        // of segments of others, by path
}

// Open makes a queue in a directory, which it creates.
func Open(cfg Config) (*Queue, error) {
	cfg.Limit, cfg.Segment = cmp.Or(cfg.Limit, 1<<30), cmp.Or(cfg.Segment, 8<<20)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	q := &Queue{cfg: cfg, next: 1, some: make(chan struct{}, 1), empty: make(chan struct{})}
	q.before, q.contents = map[string]map[string]bool{}, map[string]contents{}
	close(q.empty)
	err := os.MkdirAll(cfg.Dir, 0o700)
	for tries := 0; err == nil && q.lock == nil && tries < mostTries; tries++ {
		q.name = ulid.Make().String()
		q.lock, err = lockNew(q.dir())
	}
	if err == nil && q.lock == nil {
		err = errors.New("other processes remove each new queue")
	}
	if err != nil {
		return nil, fmt.Errorf("offline directory %s: %w", cfg.Dir, err)
	}
	if q.used, err = usage(cfg.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("offline directory: %w", err), q.Close())
	}
	if q.used > 0 {
		cfg.Log.Info("offline directory holds entries of other processes", "dir", cfg.Dir, "bytes", q.used)
		q.wake()
	}
	return q, nil
}

// mostTries is how many queues are made until one stays.
const mostTries = 100

// lockNew makes the directory of a queue and takes its lock. Without an error and a lock: between the two another process took the
// queue for a dead one's, and removes it.
func lockNew(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	lock, held, err := tryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) || err == nil && !held {
		return nil, nil
	}
	return lock, err
}

// Close ends the queue. What it holds stays for the next process.
func (q *Queue) Close() error {
	q.draining.Lock()
	defer q.draining.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	err := q.seal()
	if q.waiting == 0 {
		err = errors.Join(err, removeQueue(q.dir()))
	}
	return errors.Join(err, q.lock.Close())
}

const lockFile = "lock"

func (q *Queue) dir() string { return filepath.Join(q.cfg.Dir, q.name) }

// Empty reports whether this process has nothing waiting here.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting == 0
}

// Drained is closed while this process has nothing waiting here.
func (q *Queue) Drained() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.empty
}

// lookAgain is how often a process looks at the directory although it has kept nothing itself: another process may have died since it
// looked last, or was dying then and still held its queue.
const lookAgain = 30 * time.Second

// Wait returns when this process has something to drain, or it is time to look for what others left; an error when ctx ends.
func (q *Queue) Wait(ctx context.Context) error {
	select {
	case <-q.some:
		return nil
	case <-time.After(lookAgain):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Appending is faster than sending. So that a drain comes to an end however much is published meanwhile, who publishes waits for it:
// for a moment while it sends what was there before it, then until it is through; not for a server that has taken nothing for patience,
// nor while only what other processes left is sent: that does not grow.
const (
	moment   = 50 * time.Millisecond
	patience = 2 * time.Second
)

// Yield waits for a drain that gets on, as long as ctx lives. It is called before Append and Empty.
func (q *Queue) Yield(ctx context.Context) {
	q.mu.Lock()
	through, again, empty, silent := q.through, q.again, q.empty, time.Since(q.took)
	q.mu.Unlock()
	if through == nil || silent >= patience {
		return
	}
	if !again {
		short, cancel := context.WithTimeout(ctx, moment)
		defer cancel()
		ctx = short
	}
	select {
	case <-through:
	case <-empty:
	case <-ctx.Done():
	}
}

// works begins what Yield waits for, or a further round of it.
func (q *Queue) works() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again = q.through != nil
	if q.took = time.Now(); !q.again {
		q.through = make(chan struct{})
	}
}

// rests ends works.
func (q *Queue) rests() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.through)
	q.through = nil
}

func (q *Queue) wake() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// Append keeps events behind what is there. They are on disk when it returns without an error; with one, a part of them may
// be, and appending all of them again is harmless.
func (q *Queue) Append(evs []*events.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var buf []byte
	for _, e := range evs {
		buf = appendFrame(buf, e.Encode())
		if int64(len(buf)) >= q.cfg.Segment {
			if err := q.write(buf); err != nil {
				return err
			}
			buf = nil
		}
	}
	if len(buf) == 0 {
		return nil
	}
	return q.write(buf)
}

// write makes frames durable at the end of the active segment.
func (q *Queue) write(frames []byte) error {
	if q.ended {
		return fmt.Errorf("offline queue: %w", os.ErrClosed)
	}
	if q.used+int64(len(frames)) > q.cfg.Limit {
		used, err := usage(q.cfg.Dir) // other processes may have made room
		if err != nil {
			return fmt.Errorf("offline directory: %w", err)
		}
		if q.used = used; used+int64(len(frames)) > q.cfg.Limit {
			return fmt.Errorf("%w: %s holds %d of %d bytes", ErrFull, q.cfg.Dir, used, q.cfg.Limit)
		}
	}
	if q.active != nil && q.active.size+int64(len(frames)) > q.cfg.Segment {
		if err := q.seal(); err != nil {
			return err
		}
	}
	if q.active == nil {
		s, err := createSegment(q.dir(), q.next)
		if err != nil {
			return asFull(err)
		}
		if q.waiting == 0 {
			q.empty = make(chan struct{})
		}
		q.active, q.next, q.waiting = s, q.next+1, q.waiting+1
		q.used += s.size
	}
	if err := q.active.append(frames); err != nil {
		return asFull(errors.Join(err, q.seal())) // the next one gets a file of its own
	}
	q.used += int64(len(frames))
	q.wake()
	return nil
}

// seal closes the active segment; it is drained like the others.
func (q *Queue) seal() error {
	if q.active == nil {
		return nil
	}
	err := q.active.file.Close()
	q.active = nil
	return err
}

// closed lists the own segments, oldest first, none of which is appended to any more. An Append between the two would begin a
// segment that is listed: what it takes behind the drain's read of it would go with it.
func (q *Queue) closed() ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.seal(); err != nil {
		return nil, fmt.Errorf("offline queue: %w", err)
	}
	return segments(q.dir())
}

// Drain gives everything that waits to send, in groups of one batch, and forgets it when send returns nil: what dead
// processes left and its own, until nothing is left. Each queue goes in its order, and of one producer nothing goes
// before what another queue of the directory holds of it below that (SPEC P3). Drain returns the first error that may
// pass, errBehind when events wait for those that other processes hold; what send will never take (see
// record.Temporary) is moved aside.
func (q *Queue) Drain(ctx context.Context, send func(context.Context, []*events.Event) error) error {
	q.draining.Lock()
	defer q.draining.Unlock()
	q.works()
	defer q.rests()
	d := &drain{q: q, send: send, unreadable: map[string]bool{}}
	for {
		own, err := d.round(ctx)
		if err != nil {
			return err
		}
		if q.passed("") {
			return errBehind
		}
		if own == 0 {
			return nil
		}
		q.works()
	}
}

// segments lists the segments of a queue, oldest first.
func segments(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("offline queue: %w", err)
	}
	var names []string
	for _, e := range all {
		if n, ok := strings.CutSuffix(e.Name(), segmentSuffix); ok {
			if _, err := strconv.Atoi(n); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// usage is how many bytes of segments a directory holds.
func usage(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) { // drained meanwhile
			return nil
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, segmentSuffix) {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// temporary reports whether sending again can help.
func temporary(ctx context.Context, err error) bool {
	return ctx.Err() != nil || record.Temporary(err) || errors.Is(err, context.DeadlineExceeded)
}
