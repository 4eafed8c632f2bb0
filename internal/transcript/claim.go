package transcript

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"spool/internal/rehydrate"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// claim is a thread that belongs to a source. One group of files uses it at a time.
type claim struct {
	thread   events.Thread
	producer string // of its lines; empty: the thread belongs to another source
	lines    uint64 // sequence of the last line that is applied, or published by this import
	tail     uint64 // the same of the tail's own producer
	leaf     uint64 // and of the leaf's

	head   threads.Head    // as it was read
	shared bool            // others have written to the thread too: its newest entry need not be the source's
	newest *rehydrate.Line // the last line, once it is known
	begun  bool            // this import has published to it, so that head is old

	started bool    // the name of the subagent that it is of is in it
	src     *Source // a file that is all in the thread, once one was imported
}

// release gives up what only the files of its group need.
func (c *claim) release() { c.head, c.newest, c.src = threads.Head{}, nil, nil }

// epoch of every import: a source is never replaced by another one.
const epoch = 1

// producer is the identity of a source in events. It does not begin with threads.Ephemeral, so that heads remember it.
func producer(id Identity, print []byte) string {
	return fmt.Sprintf("import:%s:%x", id.Dialect, print[:8])
}

// startOf is the producer of what begins a subagent's thread: its name (SPEC C1).
func startOf(producer string) string { return producer + ":start" }

// tailOf is the producer of a source's tail: its sequence is the size of the file.
func tailOf(producer string) string { return producer + ":tail" }

// first claims the thread that the harness names, or, when it belongs to a different source, one that is called after this
// source too.
func (im *Importer) first(ctx context.Context, id Identity) (*claim, error) {
	c, err := im.claim(ctx, id.Thread, producer(id, id.Print[:]))
	if err != nil || c != nil {
		return c, err
	}
	return im.second(ctx, id, id.Print[:])
}

// second claims a thread beside one that is taken.
func (im *Importer) second(ctx context.Context, id Identity, print []byte) (*claim, error) {
	t := events.Thread{Session: id.Thread.Session, Name: limit(id.Thread.Name, 1+shortHex) + "-" + short(print)}
	c, err := im.claim(ctx, t, producer(id, print))
	if err == nil && c == nil {
		err = fmt.Errorf("%s and %s belong to other sources", id.Thread, t)
	}
	return c, err
}

// claim gives a source a thread: a new one, or one that has it already. nil: the thread is another's.
func (im *Importer) claim(ctx context.Context, t events.Thread, producer string) (*claim, error) {
	im.mu.Lock()
	c := im.claims[t]
	im.mu.Unlock()
	if c == nil {
		var err error
		if c, err = im.look(ctx, t, producer); err != nil {
			return nil, fmt.Errorf("read where %s is: %w", t, err)
		}
		im.mu.Lock()
		im.claims[t] = c
		im.mu.Unlock()
	}
	if c.producer != producer && !(isOMP(c.producer) && isOMP(producer)) {
		return nil, nil
	}
	return c, nil
}

// isOMP tells whether a producer is a source of oh-my-pi: its thread has one, whatever its file began with.
func isOMP(producer string) bool { return strings.HasPrefix(producer, "import:"+ompDialect+":") }

func (im *Importer) look(ctx context.Context, t events.Thread, producer string) (*claim, error) {
	head, err := im.stored.Thread(ctx, t)
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		return nil, err
	}
	c := &claim{thread: t, head: head}
	if len(head.Producers) == 0 {
		c.producer = producer
	}
	if i := slices.IndexFunc(head.Producers, func(p threads.Producer) bool { return isOMP(p.ID) }); i >= 0 && isOMP(producer) {
		parts := strings.SplitN(head.Producers[i].ID, ":", 4)
		producer = strings.Join(parts[:3], ":") // an earlier version named it after the first line
	}
	for _, p := range head.Producers {
		switch p.ID {
		case producer:
			c.producer, c.lines = producer, p.Seq
		case leafOf(producer): // it is not where the last line is
			c.producer, c.leaf, c.shared = producer, p.Seq, true
		case tailOf(producer):
			c.producer, c.tail = producer, p.Seq
		case startOf(producer):
			c.producer, c.started = producer, true
		default:
			c.shared = true
		}
	}
	return c, nil
}

// knows tells whether a line may be the last one that the thread has. It may have grown since: then more is what came behind
// it.
func (im *Importer) knows(ctx context.Context, c *claim, src Source, r record) (same bool, more int64, err error) {
	if c.shared {
		return true, 0, nil
	}
	if c.newest == nil {
		newest, err := im.stored.NewestEntry(ctx, c.head)
		if err != nil {
			return false, 0, fmt.Errorf("read the newest entry of %s: %w", c.thread, err)
		}
		c.newest = &newest
	}
	if r.is(*c.newest) {
		return true, 0, nil
	}
	begins, err := src.begins(r, c.newest.Size)
	if err != nil || !begins.Equal(*c.newest) {
		return false, 0, err
	}
	return true, r.size() - c.newest.Size, nil
}

// has iterates over the lines that the thread has.
func (im *Importer) has(ctx context.Context, c *claim) iter.Seq2[rehydrate.Line, error] {
	if c.src == nil {
		return im.stored.RawEntries(ctx, c.head)
	}
	return func(yield func(rehydrate.Line, error) bool) {
		for r, err := range c.src.records() {
			if err == nil && r.torn {
				return
			}
			if !yield(r.compare(), err) || err != nil {
				return
			}
		}
	}
}
