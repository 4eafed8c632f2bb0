package transcript

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"

	"spool/internal/rehydrate"
	"spool/internal/retry"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// Most of one batch. A longer line is a batch of its own.
const (
	batchLines = 1000
	batchBytes = 4 << 20
)

// Dialects of what is no JSON object: a line, and what stands in place of a newline (SPEC S6).
const (
	rawDialect  = "raw"
	partDialect = "part"
)

// itemDialect is that of what users and tools write into a session beside its harness.
const itemDialect = "item"

// file is one file on its way.
type file struct {
	src  Source
	id   Identity
	disk int64 // bytes, for the progress

	place string // where its harness keeps it
	res   FileResult
	refs  map[casstore.Ref]bool // blobs that were looked for
}

func (f *file) warn(text string) { f.res.Warnings = append(f.res.Warnings, text) }

func (f *file) fail(err error) {
	if err != nil {
		f.res.Err, f.res.Error = err, err.Error()
	}
}

// errOther: the file is not, or no longer, what the claimed thread has.
var errOther = errors.New("the file is not what its thread has")

// file imports one file into the thread of its source. One that has parted from what is there supersedes it.
func (im *Importer) file(ctx context.Context, f *file, c *claim) error {
	if c.begun && c.src == nil {
		return fmt.Errorf("%s: another file of its session failed half way: import it again", f.src.Path)
	}
	if c.thread != f.id.Thread && c.lines == 0 { // it would begin a thread beside the one that its harness names
		if held, err := im.isHeld(ctx, f, c); err != nil || held {
			return err
		}
	}
	err := im.fork(ctx, f, c)
	if err == nil {
		err = im.pass(ctx, f, c)
	}
	for try := 0; (errors.Is(err, errOther) || errors.Is(err, errAhead)) && try < mostRewrites; try++ {
		if errors.Is(err, errAhead) {
			err = im.afresh(ctx, f, c)
			continue
		}
		var goOn bool
		if goOn, err = im.supersede(ctx, f, c); err != nil || !goOn {
			return err
		}
		if err = im.fork(ctx, f, c); err == nil {
			err = im.pass(ctx, f, c)
		}
	}
	switch {
	case errors.Is(err, errFormer):
		return nil
	case errors.Is(err, errOther), errors.Is(err, errAhead):
		err = fmt.Errorf("%s: another import writes something else to %s: import it again", f.src.Path, c.thread)
	}
	if err != nil {
		c.src = nil
		return err
	}
	c.src, c.files = &f.src, append(c.files, f)
	return nil
}

// mostRewrites is how often a file may find that its thread says something else: once for what was there before, and again
// for what other imports make of it meanwhile.
const mostRewrites = 3

// settle returns when a thread has what this import published to it, and learns where it is then.
func (im *Importer) settle(ctx context.Context, c *claim) (err error) {
	if !c.begun {
		return nil
	}
	for producer, seq := range map[string]uint64{c.producer: c.lines, tailOf(c.producer): c.tail, leafOf(c.producer): c.leaf} {
		if seq == 0 {
			continue
		}
		if err := im.stored.Await(ctx, c.thread, producer, epoch, seq); err != nil {
			return err
		}
	}
	c.head, err = im.stored.Thread(ctx, c.thread)
	return err
}

// begins tells whether the complete lines of a file are a beginning of what the thread has, and whether that has more; at
// is where the first one begins that is different. Where others have written to the thread too, nothing says whose a line
// is: there it is enough that it has all lines of the file, in their order.
func (im *Importer) begins(ctx context.Context, f *file, c *claim) (same, more bool, at int64, err error) {
	next, stop := iter.Pull2(im.has(ctx, c))
	defer stop()
	for r, err := range f.src.records() {
		if err != nil {
			return false, false, 0, err
		}
		if r.torn {
			break
		}
		same, err := c.stands(r, next)
		if err != nil || !same {
			return false, false, r.start, err
		}
	}
	_, err, more = next()
	return err == nil, more, 0, err
}

// pass is one reading of a file from its beginning.
type pass struct {
	im *Importer
	f  *file
	c  *claim

	applied  uint64 // what the thread has, when the pass begins
	met      bool   // the line that it has last stands where it stood
	asked    bool   // whether the file is a former generation, and what is ahead
	batch    []*events.Event
	bytes    int   // in batch
	lines    int   // not in the progress yet
	at       int64 // when the record was written, Unix milliseconds, as far as the file says; 0: nowhere
	timeless bool  // no record of the file says a time
	tail     events.Tail
	leaf     storedLeaf

	captured events.Captured // the file, as far as it is known
	sum      hash.Hash       // of what was read of it

	ahead []events.Linked                      // lines of an earlier import behind this one, which the thread does not have yet
	has   func() (rehydrate.Line, error, bool) // the next line that the thread has; nil: it has none
}

// pass publishes what the thread does not have. errOther: nothing was published.
//
//  1. Skip the lines up to the one that was applied last.
//  2. Publish what follows, batch by batch. A crash between two leaves a beginning of the file in the thread; the next import
//     goes on from there.
//  3. Publish the tail, when the file has one or its thread had one before.
func (im *Importer) pass(ctx context.Context, f *file, c *claim) error {
	f.res.begin(c)
	read := 0
	applied := max(c.lines, c.before)
	p := &pass{im: im, f: f, c: c, applied: applied, met: applied == 0, sum: sha256.New()}
	p.captured = events.Captured{By: im.cfg.By, Home: im.cfg.Home, Modified: f.src.modified()}
	in, done, err := f.src.open(func(n int) { read += n }, p.sum)
	if err != nil {
		return err
	}
	defer done()
	defer func() { im.report(read, p.lines) }()
	if applied > 0 {
		next, stop := iter.Pull2(im.has(ctx, c))
		defer stop()
		p.has = next
	}
	for {
		r, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", f.src.Path, err), p.flush(ctx))
		}
		if err := p.take(ctx, r); err != nil {
			return err
		}
		if read > 1<<20 || p.lines > batchLines {
			im.report(read, p.lines)
			read, p.lines = 0, 0
		}
	}
	p.captured.Size = in.at
	p.sum.Sum(p.captured.Sum[:0])
	if err := p.flush(ctx); err != nil {
		return err
	}
	f.res.Bytes = in.at
	return p.end(ctx, in.at)
}

// take gives a record its place.
func (p *pass) take(ctx context.Context, r record) error {
	seq := r.seq()
	if seq <= p.applied && !r.torn {
		same, err := p.c.stands(r, p.has)
		if err != nil {
			return err
		}
		if !same {
			return errOther
		}
		p.met = seq == p.applied
	}
	if seq >= p.applied && !p.met {
		return errOther
	}
	if r.torn && r.giant != nil {
		p.f.warn(fmt.Sprintf("the last line is not complete: its %d bytes are not stored before it is; import it again then", r.size()))
		return nil
	}
	if r.torn {
		p.tail = events.Tail{Bytes: r.body, Open: r.open}
		return nil
	}
	p.tail.Open = r.open
	if err := p.date(r); err != nil {
		return err
	}
	if p.f.id.Dialect == ompDialect && !p.leaf.begun && r.heads() {
		p.f.res.Heads = append(append(p.f.res.Heads, r.body...), '\n')
	}
	p.leaf.see(r)
	had := seq <= p.applied
	if !had && p.c.shared && p.has != nil { // what others wrote stands in an export behind what the source has
		var err error
		if had, err = p.c.stands(r, p.has); err != nil {
			return err
		}
		if !had {
			p.has = nil
		}
	}
	p.count(r, had)
	if had {
		return nil
	}
	if !p.asked {
		p.asked = true
		if err := errors.Join(p.refuseFormer(ctx), p.lookAhead(ctx)); err != nil {
			return err
		}
		p.f.res.Begins = p.c.head.Applied == 0 && len(p.ahead) == 0 && !p.c.replaced
	}
	e := &events.Event{Kind: events.KindEntry, Dialect: p.f.id.Dialect, Seq: seq, Time: p.at, Body: r.body}
	if err := p.im.fetch(ctx, p.f, r); err != nil {
		return err
	}
	if r.giant != nil {
		if err := p.im.checkIn(ctx, p.f.src, r, e); err != nil {
			return errors.Join(fmt.Errorf("%s: line %d: %w", p.f.src.Path, r.line, err), p.flush(ctx))
		}
	}
	switch {
	case r.part:
		e.Dialect = partDialect
	case !r.json:
		e.Dialect = rawDialect
	}
	if !p.follows(e) {
		return errAhead
	}
	if len(p.batch) == batchLines || len(p.batch) > 0 && p.bytes+len(e.Body) > batchBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.batch = append(p.batch, p.stamp(e, p.c.producer))
	p.bytes += len(e.Body)
	return nil
}

// date learns when a record was written: what it says, else the time of the one before it, else of the first behind it that
// says one. So it follows from the file alone, and equal files make equal nodes.
func (p *pass) date(r record) error {
	p.at = cmp.Or(r.time(), p.at)
	if p.at != 0 || p.timeless {
		return nil
	}
	for behind, err := range p.f.src.records() {
		if err != nil {
			return err
		}
		if p.at = behind.time(); p.at != 0 {
			return nil
		}
	}
	p.timeless = true
	return nil
}

// time is what the record says of its time.
func (r record) time() int64 {
	if !r.json || r.giant != nil {
		return 0
	}
	return dialect.Time(r.body)
}

// stands tells whether the thread has a line at its place: next gives the thread's. Between the source's lines there may be those that
// others wrote.
func (c *claim) stands(r record, next func() (rehydrate.Line, error, bool)) (bool, error) {
	if (c.exported || c.forked) && r.heads() {
		return c.header == nil || r.is(rehydrate.LineOf(c.header)), nil
	}
	is := r.is
	if c.exported {
		is = r.wrote
	}
	for {
		line, err, ok := next()
		if err != nil {
			return false, fmt.Errorf("read the entries of %s: %w", c.thread, err)
		}
		if same := ok && is(line); same || !ok || !c.shared {
			return same, nil
		}
	}
}

// count notes a record in the result. A part is of the line that the record behind it is on.
func (p *pass) count(r record, had bool) {
	res := &p.f.res
	if r.malformed() {
		res.malformed(r.line)
	}
	if r.part {
		return
	}
	p.lines++
	res.Lines++
	if had {
		res.Skipped++
	}
	if !r.json {
		res.Raw++
	}
}

// stamp makes an event the source's.
func (p *pass) stamp(e *events.Event, producer string) *events.Event {
	e.Thread, e.Producer, e.Epoch = p.c.thread, producer, epoch
	e.User, e.Host, e.File = p.im.cfg.User, p.im.cfg.Host, p.f.place
	return e
}

func (p *pass) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	captured := p.captured
	p.batch[len(p.batch)-1].Captured = &captured
	if err := p.publish(ctx, p.batch); err != nil {
		return err
	}
	last := p.batch[len(p.batch)-1]
	p.c.lines = last.Seq
	for _, e := range p.batch {
		if e.Dialect != partDialect {
			p.f.res.Published++
		}
	}
	p.f.res.Last.Seq = p.c.lines
	p.batch, p.bytes = nil, 0
	return nil
}

// start tells the thread of a subagent what its harness calls it, before its first line.
func (p *pass) start(ctx context.Context) error {
	name := p.f.id.Agent
	if name == "" || p.c.started || p.c.lines+p.c.before > 0 {
		return nil
	}
	start := events.Start{Name: name, Depth: 1 + strings.Count(name, ".")}
	e := &events.Event{Kind: events.KindControl, Seq: 1, Time: p.at, Body: events.Control{Op: events.OpStart, Start: &start}.Encode()}
	if err := p.publish(ctx, []*events.Event{p.stamp(e, startOf(p.c.producer))}); err != nil {
		return err
	}
	p.c.started = true
	return nil
}

func (p *pass) publish(ctx context.Context, evs []*events.Event) error {
	p.c.begun = true
	err := retry.Do(ctx, p.im.cfg.Retry, func() error { return p.im.out.PublishEvents(ctx, evs) })
	switch {
	case err == nil:
		return nil
	case p.c.lines == 0:
		return fmt.Errorf("%s: nothing of it is stored: %w", p.f.src.Path, err)
	}
	return fmt.Errorf("%s: stored up to the line at byte %d; import it again to go on: %w", p.f.src.Path, p.c.lines-1, err)
}

// end publishes what stands behind the last complete line. A tail says something only while it is the newest of its thread;
// one that no longer holds is replaced by an empty one.
func (p *pass) end(ctx context.Context, size int64) error {
	if !p.met {
		return errOther
	}
	p.f.res.Open = p.tail.Open || p.tail.Bytes != nil
	if uint64(size) <= p.c.tail || p.c.tail == 0 && !p.f.res.Open {
		return p.branch(ctx, size)
	}
	e := &events.Event{Kind: events.KindControl, Seq: uint64(size), Time: p.at, Captured: &p.captured,
		Body: events.Control{Op: events.OpTail, Tail: &p.tail}.Encode()}
	if err := p.publish(ctx, []*events.Event{p.stamp(e, tailOf(p.c.producer))}); err != nil {
		return err
	}
	p.c.tail = e.Seq
	p.f.res.Tail = Position{Producer: e.Producer, Epoch: epoch, Seq: e.Seq}
	return p.branch(ctx, size)
}
