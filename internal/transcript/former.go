package transcript

import (
	"context"
	"errors"
	"fmt"

	"spool/pkg/events"
)

// errFormer: the file is a former generation of what the claimed thread has, and that was noted.
var errFormer = errors.New("the file is what its thread was")

// supersede makes room for a file that was rewritten: what its thread has becomes a former generation, and the file
// is imported under the thread's name (SPEC P6). It does not where the file is the beginning of what its thread has, or of
// what an export of a thread of its session writes, or of a former generation and not written since one was replaced: that
// is an old copy. A crash behind it leaves no thread of the name, and the next import makes it. Where another import superseded
// the same lines, the file goes on with what that one has published by now. Nor does it where the file is one of two that
// are written (parted.go).
func (im *Importer) supersede(ctx context.Context, f *file, c *claim) (goOn bool, err error) {
	begins, more, at, err := im.begins(ctx, f, c)
	if err != nil {
		return false, err
	}
	if begins {
		f.held(c.thread, more)
		c.files = append(c.files, f)
		return false, nil
	}
	if err := im.settle(ctx, c); err != nil {
		return false, err
	}
	if held, err := im.isHeld(ctx, f, c); err != nil || held {
		return false, err
	}
	old, _, last, err := im.former(ctx, f, c)
	if err != nil {
		return false, err
	}
	if old.Name != "" && f.isOlder(c, last) {
		return false, f.isFormer(c, old)
	}
	if on, err := im.parted(ctx, f, c); err != nil || on != nil {
		if err == nil {
			err = im.goOn(ctx, f, on)
		}
		return false, err
	}
	was, err := im.stored.Retire(ctx, c.thread, c.head)
	if err != nil {
		if now, look := im.stored.Thread(ctx, c.thread); look == nil && now.Applied > c.head.Applied { // the file is held against that
			return true, im.lookAgain(ctx, f, c)
		}
		return false, fmt.Errorf("%s: it was rewritten from byte %d on, and %s cannot be kept as it was: %w", f.src.Path, at, c.thread, err)
	}
	f.warn(fmt.Sprintf("it was rewritten from byte %d on: %s is what it says now, and what it said before is in %s", at, c.thread, was))
	f.res.Former = was.Name
	for _, earlier := range c.files {
		earlier.res.moved(was)
	}
	if c.exported { // the file is all that the thread has from here on
		c.producer = producer(f.id)
	}
	c.replaced = true
	return true, im.lookAgain(ctx, f, c)
}

// former finds the former generation of c's thread that has all of a file: when it was replaced, and when the last of all was.
func (im *Importer) former(ctx context.Context, f *file, c *claim) (old events.Thread, replaced, last int64, err error) {
	beside, err := im.stored.Beside(ctx, c.thread)
	if err != nil {
		return old, 0, 0, err
	}
	for t, head := range beside {
		if !events.HasFormer(c.thread, t) {
			continue
		}
		last = max(last, head.Updated)
		begins, _, _, err := im.begins(ctx, f, &claim{thread: t, head: head})
		if err != nil {
			return old, 0, 0, err
		}
		if begins && head.Updated >= replaced {
			old, replaced = t, head.Updated
		}
	}
	return old, replaced, last, nil
}

// isOlder tells whether the file was not written since a generation was replaced, in Unix milliseconds.
func (f *file) isOlder(c *claim, replaced int64) bool {
	return !c.replaced && f.src.Modified().UnixMilli() <= replaced
}

// isFormer notes that a file is what its thread was.
func (f *file) isFormer(c *claim, old events.Thread) error {
	f.res.begin(&claim{thread: old})
	f.warn(fmt.Sprintf("it is what %s was before it was rewritten: that is in %s, and nothing was added", c.thread, old))
	return f.countHad()
}

// refuseFormer returns errFormer before the first line behind those that the thread has, where a former generation has all of the file
// and was replaced since the file was written: the thread is a beginning of that generation, to which its source went back; or it is not
// there, while another import replaces it. A file that was written later goes on, also where its import stopped half way.
func (p *pass) refuseFormer(ctx context.Context) error {
	if p.c.replaced {
		return nil
	}
	old, replaced, _, err := p.im.former(ctx, p.f, p.c)
	if err != nil || old.Name == "" || !p.f.isOlder(p.c, replaced) {
		return err
	}
	if err := p.f.isFormer(p.c, old); err != nil {
		return err
	}
	return errFormer
}

// lookAgain makes a claim one of what is in its thread by now: nothing, or what other imports have put there.
func (im *Importer) lookAgain(ctx context.Context, f *file, c *claim) error {
	now, err := im.look(ctx, f.id, c.thread)
	switch {
	case err != nil:
		return fmt.Errorf("read where %s is: %w", c.thread, err)
	case now.producer == "":
		return fmt.Errorf("%s: %s is another program's by now: import it again", f.src.Path, c.thread)
	case len(now.head.Producers) == 0:
		now.producer = c.producer
	}
	now.replaced, now.group = c.replaced, c.group
	*c = *now
	return nil
}
