package history

import (
	"context"
	"errors"
	"iter"
	"slices"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/threads"
)

// fill stores the posts of every thread, made again from its nodes, but for those up to which the thread was read before. A
// thread that is not as it should be gives what can be read, with a warning, and does not keep the others; a server that does
// not answer ends it, and nothing counts as read.
func (f *Follower) fill(ctx context.Context, at Position) error {
	cl := client.New(f.conn)
	all, err := cl.Threads(ctx, "")
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
		if err := f.fillThread(ctx, past(ctx, cl.Reader(), t, had.N), t, at, &some); err != nil {
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
	some.whole(t.Thread, Filled{t.Head.N, int64(t.Head.Life)})
	if !some.full() {
		return nil
	}
	return f.store(ctx, some, at, 0)
}

// past gives the posts of a thread above a number, branches that were left included, newest first on each. A fork has those
// behind its fork point; the others are its source's (SPEC C5).
func past(ctx context.Context, reader threads.Reader, t client.Thread, after int64) iter.Seq2[Post, error] {
	return func(yield func(Post, error) bool) {
		seen := map[casstore.Ref]bool{}
		after, err := forkedAt(ctx, reader, t.Head, after)
		if err != nil {
			yield(Post{}, err)
			return
		}
		for _, root := range roots(t.Head) {
			for step, err := range reader.Walk(ctx, root) {
				if err != nil {
					yield(Post{}, err)
					return
				}
				entry := step.State.Entry
				if step.State.Role == threads.RoleFork {
					after = max(after, entry.First-1)
				}
				if seen[step.At.Ref] || entry.First+entry.Count <= after+1 {
					break
				}
				seen[step.At.Ref] = true
				found, err := postsOf(ctx, t, step)
				if err != nil {
					yield(Post{}, err)
					return
				}
				for _, p := range found {
					if p.N > after && !yield(p, nil) {
						return
					}
				}
			}
		}
	}
}

// forkedAt is the number up to which the items of a thread with branches are its source's, or after if that is more: the
// fork's first state may be on any branch, and those of a forked session come from its source.
func forkedAt(ctx context.Context, reader threads.Reader, head threads.Head, after int64) (int64, error) {
	if len(head.Tips) == 0 {
		return after, nil
	}
	seen := map[casstore.Ref]bool{}
	for _, root := range roots(head) {
		for step, err := range reader.Walk(ctx, root) {
			if err != nil {
				return 0, err
			}
			entry := step.State.Entry
			if seen[step.At.Ref] || entry.First+entry.Count <= after {
				break
			}
			seen[step.At.Ref] = true
			if step.State.Role == threads.RoleFork {
				after = max(after, entry.First-1)
			}
		}
	}
	return after, nil
}

// roots are the newest states of a thread's branches.
func roots(h threads.Head) []casstore.Located {
	return slices.Concat(h.Tips, h.Recent[:min(len(h.Recent), 1)])
}

// postsOf makes the posts of one entry.
func postsOf(ctx context.Context, t client.Thread, step threads.Step) (found []Post, err error) {
	if step.State.Entry.Count == 0 {
		return nil, nil
	}
	content, err := step.ReadContent(ctx)
	if err != nil {
		return nil, err
	}
	items, err := project.Rebuild(t.Thread, step.At.Ref, step.State, content.Text)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		if p, ok := parse(it.Data); ok {
			p.Life = int64(t.Head.Life)
			if p.Time == 0 {
				p.Time = t.Head.Updated
			}
			found = append(found, p)
		}
	}
	return found, nil
}
