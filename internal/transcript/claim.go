package transcript

import (
	"context"
	"crypto/sha256"
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
	lines    uint64 // sequence of the last line that is applied, or published by this import; 0: of none
	before   uint64 // sequence of the last line that the thread has, which no import published; 0: there is none
	tail     uint64 // the same as lines of the tail's own producer
	leaf     uint64 // and of the leaf's

	head     threads.Head // as it was read
	exported bool         // the source went on from an export of the thread: it is held against what that writes
	shared   bool         // others have written to the thread too: between the source's lines there are theirs
	begun    bool         // this import has published to it, so that head is old
	files    []*file      // of which this import found all in the thread
	group    []*file      // of its source, in this import
	src      *Source      // the one of them that is all that the source has in it

	started bool   // the name of the subagent that it is of is in it, or it was begun as a fork
	forked  bool   // it was begun as a fork: the lines before its entries are those of what it branches off from, as that was imported
	header  []byte // of the file, where that says itself that it is a fork; nil: what stands before the entries is not held against the file
	joined  bool   // entries of others that it had before this import gave it a source

	replaced bool // by this import, with a file that was written before the next one
}

// release gives up what only the files of its group need.
func (c *claim) release() { c.head, c.files, c.group, c.src = threads.Head{}, nil, nil, nil }

// epoch of every import: a source is never replaced by another one.
const epoch = 1

// imports begins the names of all producers of files. They do not begin with threads.Ephemeral, so that heads remember
// them.
const imports = "import:"

// source begins those of a harness's files.
func source(id Identity) string { return imports + id.Dialect + ":" }

// producer is the identity of a source in events: the thread that its harness names, whatever the file says (SPEC P6).
func producer(id Identity) string {
	sum := sha256.Sum256([]byte(id.Thread.String()))
	return fmt.Sprintf("%s%x", source(id), sum[:8])
}

// Producer is the identity under which the lines of a source are published that is the thread itself: sequences are the offsets of the
// lines, plus one.
func Producer(dialect string, t events.Thread) (id string, in uint64) {
	return producer(Identity{Dialect: dialect, Thread: t}), epoch
}

// Asides is the producer of entries that belong to such a source and stand in no file of it: a file is held against the others.
func Asides(producer string) string { return producer + ":aside" }

// startOf is the producer of what begins a subagent's thread, its name (SPEC C1), or a fork.
func startOf(producer string) string { return producer + ":start" }

// tailOf is the producer of a source's tail: its sequence is the size of the file.
func tailOf(producer string) string { return producer + ":tail" }

// exportOf is the producer of a source that went on from an export of a thread which Spool began: what is before its first line of its own
// came otherwise, and is not in the thread as the file has it.
func exportOf(id Identity) string {
	sum := sha256.Sum256([]byte(id.Thread.String()))
	return fmt.Sprintf("%s%s%x", source(id), exports, sum[:8])
}

// exports begins what stands for the file in the name of such a producer.
const exports = "export-"

// first claims the thread that the harness names, or, when that is another's, one beside it. f is the newest file of the source.
func (im *Importer) first(ctx context.Context, id Identity, f *file) (*claim, error) {
	c, err := im.claim(ctx, id, id.Thread)
	if err != nil || c != nil {
		return c, err
	}
	if c, err = im.goesOn(ctx, id, f); err != nil || c != nil {
		return c, err
	}
	t := beside(id)
	c, err = im.claim(ctx, id, t)
	if err == nil && c == nil {
		err = fmt.Errorf("%s and %s belong to others", id.Thread, t)
	}
	return c, err
}

// goesOn claims a thread that is another's for a file that is an export of it and what its harness wrote behind that, or a beginning of an
// export. nil: it is neither.
func (im *Importer) goesOn(ctx context.Context, id Identity, f *file) (*claim, error) {
	im.mu.Lock()
	c := im.claims[id.Thread]
	im.mu.Unlock()
	if imported(c.head) || id.Dialect != ompDialect {
		return nil, nil
	}
	lines, ok, err := im.stored.SessionLines(ctx, c.head)
	if err != nil || !ok {
		return nil, err
	}
	on := *c
	on.exported, on.producer, on.shared = true, exportOf(id), true
	for r, err := range f.src.records() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.src.Path, err)
		}
		if r.torn {
			break
		}
		switch {
		case r.heads():
		case len(lines) == 0: // it has no more
			*c = on
			return c, nil
		case !r.wrote(lines[0]):
			return nil, nil
		default:
			lines = lines[1:]
		}
		on.before = r.seq()
	}
	*c = on
	return c, nil
}

// beside is the thread of a source whose harness names one that another has.
func beside(id Identity) events.Thread {
	t := id.Thread
	t.Name = limit(t.Name, 1+shortHex) + "-" + short([]byte(producer(id)))
	return t
}

// joins tells whether a source may go on in a thread that no import has begun: where there is nothing but what users and
// tools wrote into the session beside its harness, as spool exec and spool publish do. What a harness, or its agent, said
// itself is in the transcript once more: that stays apart.
func (im *Importer) joins(ctx context.Context, id Identity, t events.Thread, head threads.Head) (bool, error) {
	if t != id.Thread || id.Agent != "" || id.Dialect == itemDialect || head.Ended() != "" || imported(head) {
		return false, nil
	}
	for line, err := range im.stored.RawEntries(ctx, head) {
		if err != nil || line.Dialect != itemDialect {
			return false, err
		}
	}
	_, err := im.stored.Thread(ctx, beside(id)) // an earlier version put the source there
	if errors.Is(err, threads.ErrNoThread) {
		return true, nil
	}
	return false, err
}

// imported tells whether a thread has a source.
func imported(head threads.Head) bool {
	return slices.ContainsFunc(head.Producers, func(p threads.Producer) bool { return strings.HasPrefix(p.ID, imports) })
}

// place says in which thread a file is, where that is not to be expected.
func (c *claim) place(id Identity) string {
	switch {
	case c.thread != id.Thread:
		return fmt.Sprintf("%s was there before, of an agent or of another program: the file is in %s beside it; "+
			"read it with: spool tail --all %s, or spool export %s", id.Thread, c.thread, c.thread, c.thread)
	case c.joined:
		return fmt.Sprintf("%s begins with what commands or notes wrote before: the file's lines are behind that", c.thread)
	}
	return ""
}

// claim gives a source a thread: a new one, or one that has it already. nil: the thread is another's.
func (im *Importer) claim(ctx context.Context, id Identity, t events.Thread) (*claim, error) {
	im.mu.Lock()
	c := im.claims[t]
	im.mu.Unlock()
	if c == nil {
		var err error
		if c, err = im.look(ctx, id, t); err != nil {
			return nil, fmt.Errorf("read where %s is: %w", t, err)
		}
		im.mu.Lock()
		im.claims[t] = c
		im.mu.Unlock()
	}
	if !strings.HasPrefix(c.producer, source(id)) {
		return nil, nil
	}
	return c, nil
}

func (im *Importer) look(ctx context.Context, id Identity, t events.Thread) (*claim, error) {
	head, err := im.stored.Thread(ctx, t)
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		return nil, err
	}
	c, producer := &claim{thread: t, head: head}, producer(id)
	if len(head.Producers) == 0 {
		c.producer = producer
	} else if c.joined, err = im.joins(ctx, id, t, head); err != nil {
		return nil, err
	} else if c.joined {
		c.producer = producer
	}
	ours := func(p threads.Producer) bool { return strings.HasPrefix(p.ID, source(id)) }
	if i := slices.IndexFunc(head.Producers, ours); i >= 0 {
		parts := strings.SplitN(head.Producers[i].ID, ":", 4)
		producer = strings.Join(parts[:3], ":") // an earlier version named it after the first line
		c.exported = strings.HasPrefix(parts[2], exports)
	}
	for _, p := range head.Producers {
		switch p.ID {
		case producer:
			c.producer, c.lines = producer, p.Seq
		case leafOf(producer): // it is not where the last line is
			c.producer, c.leaf, c.shared = producer, p.Seq, true
		case tailOf(producer):
			c.producer, c.tail = producer, p.Seq
		case Asides(producer):
			c.producer, c.shared = producer, true
		case startOf(producer):
			c.producer, c.started = producer, true
			c.forked = id.Agent == ""
			c.shared = c.shared || c.forked // what it shares may have others' lines in it
			if c.header, err = im.stored.OwnHeader(ctx, head, t.Session); err != nil {
				return nil, err
			}
		default:
			c.shared = true
		}
	}
	return c, nil
}

// has iterates over the lines that the thread has, those of others included.
func (im *Importer) has(ctx context.Context, c *claim) iter.Seq2[rehydrate.Line, error] {
	if c.src == nil && c.exported {
		return im.exported(ctx, c)
	}
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

// exported iterates over the lines that an export of the thread has.
func (im *Importer) exported(ctx context.Context, c *claim) iter.Seq2[rehydrate.Line, error] {
	return func(yield func(rehydrate.Line, error) bool) {
		lines, _, err := im.stored.SessionLines(ctx, c.head)
		if err != nil {
			yield(rehydrate.Line{}, err)
		}
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}
