package transcript

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"spool/pkg/events"
)

// errAhead: the file is not what an earlier import published of it, which its thread does not have yet. A line has its place in the file
// for its sequence, so both would be one mixture: each place has what came to it first.
var errAhead = errors.New("the file is not what was published of it")

// lookAhead learns what earlier imports have published to the thread that it does not have yet.
func (p *pass) lookAhead(ctx context.Context) error {
	links, err := p.im.stored.Unapplied(ctx, p.c.thread, p.c.head, p.c.producer, epoch)
	last := p.applied
	for _, l := range links {
		if l.Seq > last { // what comes again comes behind its first time
			p.ahead, last = append(p.ahead, l), l.Seq
		}
	}
	return err
}

// follows tells whether a line is the next one that is ahead, if any is.
func (p *pass) follows(e *events.Event) bool {
	if len(p.ahead) == 0 {
		return true
	}
	next := p.ahead[0]
	p.ahead = p.ahead[1:]
	if next.Seq != e.Seq || next.Is == e.Means() {
		return next.Seq == e.Seq
	}
	there := *e // its body may be in the inbox
	there.Ref = &events.BodyRef{Sum: sha256.Sum256(e.Body)}
	return next.Is == there.Means()
}

// afresh imports a file when its thread has all that was published to it.
func (im *Importer) afresh(ctx context.Context, f *file, c *claim) error {
	if err := im.stored.Settled(ctx, c.thread); err != nil {
		return fmt.Errorf("%s: it was rewritten, and what it said before is on its way to %s: import it again: %w", f.src.Path, c.thread, err)
	}
	if err := im.lookAgain(ctx, f, c); err != nil {
		return err
	}
	if err := im.fork(ctx, f, c); err != nil {
		return err
	}
	return im.pass(ctx, f, c)
}
