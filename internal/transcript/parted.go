package transcript

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"spool/internal/rehydrate"
	"spool/pkg/events"
)

// parted finds where a copy of a session goes on that parted from another one, which is written too and has the thread's name:
// in the former generation that it begins with, the longest. So each of the two has a thread, and neither takes the name
// from the other again. nil: the file is the only one of its source, or never had the name.
func (im *Importer) parted(ctx context.Context, f *file, c *claim) (on *claim, err error) {
	beside, err := im.stored.Beside(ctx, c.thread)
	if err != nil {
		return nil, err
	}
	var former []*claim
	for t := range beside {
		if !events.HasFormer(c.thread, t) {
			continue
		}
		was, err := im.look(ctx, f.id, t)
		if err != nil {
			return nil, err
		}
		former = append(former, was)
		all, further, err := im.goesOnFrom(ctx, f, was)
		if err != nil {
			return nil, err
		}
		if all && (further || was.lines > 0) && (on == nil || was.before > on.before) {
			on = was
		}
	}
	if on == nil {
		return nil, nil
	}
	other, err := im.another(ctx, f, c)
	if err == nil && other == "" {
		other, err = im.alternates(ctx, f, c, former)
	}
	if err != nil || other == "" {
		return nil, err
	} else if on.lines == 0 {
		f.res.Parted = true
		f.warn(fmt.Sprintf("it parted from %s, which is written too: %s is that one, and this one goes on in %s", other, c.thread, on.thread))
	}
	on.producer = producer(f.id)
	return on, nil
}

// another names who else has what the thread says: a file that begins with all of it, or one in another home, which wrote it last. Where
// nothing says whose it is, this is taken for the only one.
func (im *Importer) another(ctx context.Context, f *file, c *claim) (string, error) {
	others := slices.DeleteFunc(slices.Clone(c.group), func(g *file) bool { return g == f || g.res.Err != nil })
	for _, src := range f.src.Copies {
		others = append(others, &file{src: src, id: f.id})
	}
	for _, g := range others {
		has, _, err := im.goesOnFrom(ctx, g, &claim{thread: c.thread, head: c.head})
		if err != nil || has {
			return g.src.Path, err
		}
	}
	if by := c.head.Captured; im.cfg.By != "" && by.By != "" && by.By != im.cfg.By {
		return fmt.Sprintf("the one in the home %q of %q", by.Home, by.Host), nil
	}
	return "", nil
}

// mostReturns is how often a thread may go back to what it was and go on from there, before who does that is taken for two. A file that a
// user or its harness puts back does it once; two homes that nothing tells apart do it by turns, and each turn would keep a generation.
const mostReturns = 3

// alternates names the other one of two files that take the thread's name from each other; "": there is only one yet.
func (im *Importer) alternates(ctx context.Context, f *file, c *claim, former []*claim) (string, error) {
	returns := 0
	for _, was := range former {
		begins, err := im.isBeginning(ctx, f, was, c)
		if err != nil {
			return "", err
		}
		if begins {
			returns++
		}
	}
	if returns < mostReturns {
		return "", nil
	}
	return "another copy", nil
}

// isBeginning tells whether a thread begins with all that another one has, of the file's harness.
func (im *Importer) isBeginning(ctx context.Context, f *file, was, c *claim) (bool, error) {
	next, stop := iter.Pull2(im.said(ctx, f, &claim{thread: c.thread, head: c.head}))
	defer stop()
	some := false
	for line, err := range im.said(ctx, f, was) {
		if err != nil {
			return false, err
		}
		if now, err, ok := next(); err != nil || !ok || !now.Equal(line) {
			return false, err
		}
		some = true
	}
	return some, nil
}

// said iterates over the lines that the file's harness has in a thread, and what is none of a harness.
func (im *Importer) said(ctx context.Context, f *file, c *claim) iter.Seq2[rehydrate.Line, error] {
	return func(yield func(rehydrate.Line, error) bool) {
		for line, err := range im.has(ctx, c) {
			if d := line.Dialect; err != nil || d == f.id.Dialect || d == rawDialect || d == partDialect {
				if !yield(line, err) {
					return
				}
			}
		}
	}
}

// goesOnFrom tells whether a file begins with all that its harness has in a thread, and sets how far that is in it; and whether
// it has more.
func (im *Importer) goesOnFrom(ctx context.Context, f *file, c *claim) (all, further bool, err error) {
	next, stop := iter.Pull2(im.said(ctx, f, c))
	defer stop()
	line, err, more := next()
	for r, e := range f.src.records() {
		if err = errors.Join(err, e); err != nil || r.torn || !more || !r.is(line) {
			further = !more && !r.torn
			break
		}
		c.before = r.seq()
		line, err, more = next()
	}
	return err == nil && !more && c.before > 0, further, err
}

// goOn imports a file into the former generation that it goes on from.
func (im *Importer) goOn(ctx context.Context, f *file, c *claim) error {
	err := im.pass(ctx, f, c)
	if errors.Is(err, errOther) || errors.Is(err, errAhead) {
		err = fmt.Errorf("%s: another import writes to %s: import it again", f.src.Path, c.thread)
	}
	return err
}
