package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"

	"spool/internal/retry"
	"spool/pkg/events"
)

// Most of one batch. A longer line is a batch of its own.
const (
	batchLines = 1000
	batchBytes = 4 << 20
)

// rawDialect takes lines that are not JSON.
const rawDialect = "raw"

// file is one file on its way.
type file struct {
	src  Source
	id   Identity
	disk int64 // bytes, for the progress
	res  FileResult
}

func (f *file) warn(text string) { f.res.Warnings = append(f.res.Warnings, text) }

func (f *file) fail(err error) {
	if err != nil {
		f.res.Err, f.res.Error = err, err.Error()
	}
}

// generations is how often files of one source may part from each other.
const generations = 16

// errOther: the file is not, or no longer, what the claimed thread has.
var errOther = errors.New("the file is not what its thread has")

// file imports one file into the thread of its source, or, when it has parted from what is there, into one of its own, which
// is called after its lines up to the first that is different.
func (im *Importer) file(ctx context.Context, f *file, c *claim) error {
	for range generations {
		err := im.pass(ctx, f, c)
		if err == nil {
			c.src = &f.src
		}
		if !errors.Is(err, errOther) {
			return err
		}
		print, at, err := im.parting(ctx, f, c)
		if err != nil {
			return err
		}
		if print == nil {
			f.warn(fmt.Sprintf("it is only the beginning of what was imported into %s before: nothing was added (%d bytes; did it shrink?)", c.thread, at))
			return nil
		}
		first := c.thread
		if c, err = im.second(ctx, f.id, print); err != nil {
			return fmt.Errorf("%s: %w", f.src.Path, err)
		}
		f.warn(fmt.Sprintf("from byte %d on it is not what was imported into %s before, which stays as it is: the whole file is in %s", at, first, c.thread))
	}
	return fmt.Errorf("%s: %d others of its session begin like it and go on differently: import it with another session id", f.src.Path, generations)
}

// parting compares a file with what the thread has. print stands for the file up to the end of the first line that is
// different, which begins at that byte; nil: the file is a beginning of what is there.
func (im *Importer) parting(ctx context.Context, f *file, c *claim) (print []byte, at int64, err error) {
	if c.begun && c.src == nil {
		return nil, 0, fmt.Errorf("%s: another file of its session failed half way, so it cannot be compared: import it again", f.src.Path)
	}
	next, stop := iter.Pull2(im.has(ctx, c))
	defer stop()
	sum := sha256.New()
	for r, err := range f.src.records() {
		if err != nil {
			return nil, 0, err
		}
		has, err, ok := next()
		if err != nil {
			return nil, 0, fmt.Errorf("read the entries of %s: %w", c.thread, err)
		}
		if r.torn && ok && bytes.HasPrefix(has, r.body) {
			break
		}
		_, _ = sum.Write(r.body)
		_, _ = sum.Write([]byte{'\n'})
		if !ok || !bytes.Equal(r.body, has) {
			return sum.Sum(nil), r.start, nil
		}
		at = r.start + int64(len(r.body)) + 1
	}
	return nil, at, nil
}

// pass is one reading of a file from its beginning.
type pass struct {
	im *Importer
	f  *file
	c  *claim

	applied uint64 // what the thread has, when the pass begins
	met     bool   // the line that it has last stands where it stood
	batch   []*events.Event
	bytes   int // in batch
	lines   int // not in the progress yet
	tail    events.Tail
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
	in, done, err := f.src.open(func(n int) { read += n })
	if err != nil {
		return err
	}
	defer done()
	p := &pass{im: im, f: f, c: c, applied: c.lines, met: c.lines == 0}
	defer func() { im.report(read, p.lines) }()
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
	if err := p.flush(ctx); err != nil {
		return err
	}
	f.res.Bytes = in.at
	return p.end(ctx, in.at)
}

// take gives a record its place.
func (p *pass) take(ctx context.Context, r record) error {
	seq := uint64(r.start) + 1
	if seq == p.applied && !r.torn {
		same, more, err := p.im.knows(ctx, p.c, r.body)
		if err != nil {
			return err
		}
		if p.met = same; more > 0 {
			p.f.warn(fmt.Sprintf("the line at byte %d went on after it was imported, with %d more bytes that its thread does not have", r.start, more))
		}
	}
	if seq >= p.applied && !p.met {
		return errOther
	}
	if r.torn {
		p.tail = events.Tail{Bytes: r.body}
		return nil
	}
	p.tail.Open = r.open
	p.lines++
	p.f.res.Lines++
	if !r.json {
		p.f.res.Raw++
	}
	if seq <= p.applied {
		p.f.res.Skipped++
		return nil
	}
	e := &events.Event{Kind: events.KindEntry, Dialect: p.f.id.Dialect, Seq: seq, Body: r.body}
	if !r.json {
		e.Dialect = rawDialect
	}
	if len(p.batch) == batchLines || len(p.batch) > 0 && p.bytes+len(r.body) > batchBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.batch = append(p.batch, p.stamp(e, p.c.producer))
	p.bytes += len(r.body)
	return nil
}

// stamp makes an event the source's. It has no time: an entry tells its own, so that equal files make equal nodes.
func (p *pass) stamp(e *events.Event, producer string) *events.Event {
	e.Thread, e.Producer, e.Epoch = p.c.thread, producer, epoch
	e.User, e.Host = p.im.cfg.User, p.im.cfg.Host
	return e
}

func (p *pass) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	if err := p.publish(ctx, p.batch); err != nil {
		return err
	}
	last := p.batch[len(p.batch)-1]
	p.c.lines, p.c.newest, p.c.begun = last.Seq, last.Body, true
	p.f.res.Published += len(p.batch)
	p.f.res.Last.Seq = p.c.lines
	p.batch, p.bytes = nil, 0
	return nil
}

func (p *pass) publish(ctx context.Context, evs []*events.Event) error {
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
		return nil
	}
	e := &events.Event{Kind: events.KindControl, Seq: uint64(size), Body: events.Control{Op: events.OpTail, Tail: &p.tail}.Encode()}
	if err := p.publish(ctx, []*events.Event{p.stamp(e, tailOf(p.c.producer))}); err != nil {
		return err
	}
	p.c.tail = e.Seq
	p.f.res.Tail = Position{Producer: e.Producer, Epoch: epoch, Seq: e.Seq}
	return nil
}
