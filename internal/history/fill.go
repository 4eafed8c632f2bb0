package history

import (
	"context"
	"errors"
	"iter"
	"time"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// fill stores the posts of every thread, made again from its nodes, but for those up to which the thread was read before. A
// thread that is not as it should be gives what can be read, with a warning, and does not keep the others; a server that does
// not answer ends it, and nothing counts as read.
func (f *Follower) fill(ctx context.Context, at Position) error {
	all, err := f.client.EverySession().Threads(ctx)
	if err != nil {
		return err
	}
	done, err := f.db.Filled(ctx)
	if err != nil {
		return err
	}
	var some gathered
	for _, t := range all {
		had := done[t.Thread]
		if had.Life != int64(t.Head.Life) {
			had = Filled{}
		}
		if had.N >= t.Head.N {
			continue
		}
		agent, err := f.isAgents(ctx, t)
		if err != nil && (ctx.Err() != nil || record.Temporary(err)) {
			return errors.Join(ctx.Err(), err)
		}
		if agent {
			some.whole(t.Thread, Filled{t.Head.N, int64(t.Head.Life)})
			continue
		}
		if err := f.fillThread(ctx, f.past(ctx, f.client.Reader(), t, had.N), t, at, &some); err != nil {
			return err
		}
	}
	return f.store(ctx, &some, at, 0)
}

// fillThread adds the posts of a thread to those gathered, and stores them when they are many.
func (f *Follower) fillThread(ctx context.Context, posts iter.Seq2[Post, error], t client.Thread, at Position, some *gathered) error {
	for p, err := range posts {
		if ctx.Err() != nil || record.Temporary(err) {
			return errors.Join(ctx.Err(), err)
		}
		if err != nil {
			f.log.Warn("prompts of a thread are missing", "session", t.Session, "thread", t.Name, "error", err)
			return nil
		}
		if some.add(p); some.full() {
			if err := f.store(ctx, some, at, 0); err != nil {
				return err
			}
		}
	}
	if err := f.retired(ctx, Post{Thread: t.Thread, Life: int64(t.Head.Life)}, some); err != nil {
		return err
	}
	some.whole(t.Thread, Filled{t.Head.N, int64(t.Head.Life)})
	if !some.full() {
		return nil
	}
	return f.store(ctx, some, at, 0)
}

// past gives the posts of a thread above a number, branches that were left included, newest first. A fork has those behind its fork
// point; the others are its source's (SPEC C5). A former generation has those of its source, which is no more (SPEC P6).
func (f *Follower) past(ctx context.Context, reader threads.Reader, t client.Thread, after int64) iter.Seq2[Post, error] {
	return func(yield func(Post, error) bool) {
		theirs := events.FormerOf(t.Thread) != ""
		for step, err := range reader.EntriesBack(ctx, t.Head) {
			var found []Post
			if err == nil {
				if last, ok := step.Entry.LastItem(); ok && last <= after {
					return // so are all before it
				}
				found, err = f.postsOf(ctx, t, step)
			}
			if err != nil {
				yield(Post{}, err)
				return
			}
			for _, p := range found {
				if p.N > after && !yield(p, nil) {
					return
				}
			}
			if step.Role == threads.RoleFork && !theirs {
				return // what is before it is the source's
			} else if step.Role == threads.RoleFork {
				theirs = false
			}
		}
	}
}

// postsOf makes the posts of one entry.
func (f *Follower) postsOf(ctx context.Context, t client.Thread, step threads.Step) (found []Post, err error) {
	items, err := project.Items(ctx, t.Thread, step)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		if p, ok := f.parse(it.Data); ok {
			p.Life = int64(t.Head.Life)
			if events.FormerOf(t.Thread) != "" { // behind the life that it keeps, before the next one: see unsaid
				p.Life = int64(t.Head.Began)
			}
			if p.Time != events.Believed(p.Time, time.Now().UnixMilli()) {
				p.Time = t.Head.Updated
			}
			found = append(found, p)
		}
	}
	return found, nil
}
