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
	for t := range beside {
		if !events.HasFormer(c.thread, t) {
			continue
		}
		was, err := im.look(ctx, f.id, t)
		if err != nil {
			return nil, err
		}
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
	if other, err := im.another(ctx, f, c); err != nil || other == "" {
		return nil, err
	} else if on.lines == 0 {
		f.res.Parted = true
		f.warn(fmt.Sprintf("it parted from %s, which is written too: %s is that one, and this one goes on in %s", other, c.thread, on.thread))
	}
	on.producer = producer(f.id)
	return on, nil
}

// another names who else has what the thread says: a file that begins with all of it, or another machine.
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
	if im.cfg.Writer == nil || im.cfg.Host == "" {
		return "", nil
	}
	host, err := im.cfg.Writer(ctx, c.thread.Session)
	if host == im.cfg.Host {
		host = ""
	}
	return host, err
}

// goesOnFrom tells whether a file begins with all that its harness has in a thread, and sets how far that is in it; and whether
// it has more.
func (im *Importer) goesOnFrom(ctx context.Context, f *file, c *claim) (all, further bool, err error) {
	next, stop := iter.Pull2(im.has(ctx, c))
	defer stop()
	theirs := func() (rehydrate.Line, error, bool) {
		for {
			line, err, ok := next()
			if d := line.Dialect; err != nil || !ok || d == f.id.Dialect || d == rawDialect || d == partDialect {
				return line, err, ok
			}
		}
	}
	line, err, more := theirs()
	for r, e := range f.src.records() {
		if err = errors.Join(err, e); err != nil || r.torn || !more || !r.is(line) {
			further = !more && !r.torn
			break
		}
		c.before = r.seq()
		line, err, more = theirs()
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
