package persist

import (
	"context"
	"fmt"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// stepDialect is the dialect of the steps that operations append.
const stepDialect = "step"

// whole applies an operation on a thread as a whole.
func (l *lane) whole(ctx context.Context, c *commit, t *thread, s *staged, op events.Control) error {
	if t.head.Start.IsZero() {
		return fmt.Errorf("%w: %s: there is no thread %s", events.ErrControl, op.Op, t.key)
	}
	switch op.Op {
	case events.OpCompact:
		return l.compact(ctx, c, t, s, *op.Compact)
	case events.OpRename:
		return l.rename(ctx, c, t, s, *op.Rename)
	case events.OpReopen:
		if t.head.Status != threads.StatusFailed {
			return fmt.Errorf("%w: reopen: %s is %s; only a failed thread is reopened", events.ErrControl, t.key, t.head.Status)
		}
		c.news(t, s, t.head)
		t.head.Status, t.head.Failure = threads.StatusActive, ""
		return nil
	}
	return l.remove(ctx, c, t, s, *op.Remove)
}

// compact appends a step that summarizes all before it (SPEC C6). In a session of omp it is the entry that omp itself
// writes, so that both see the same context.
func (l *lane) compact(ctx context.Context, c *commit, t *thread, s *staged, op events.Compact) error {
	if op.Summary == "" {
		return fmt.Errorf("%w: compact: the summary is empty", events.ErrControl)
	}
	if op.FirstKept != "" {
		if err := l.barrier(ctx, c); err != nil {
			return err
		}
		err := l.p.retry(ctx, "compact", func() (err error) {
			op.FirstKept, err = FindKept(ctx, l.p.reader, t.key, t.head, op.FirstKept)
			return err
		})
		if err != nil {
			return err
		}
	}
	if t.head.Dialect == ompDialect {
		d := sessions.Compaction{Summarized: sessions.Summarized{Summary: op.Summary}, FirstKept: op.FirstKept}.Draft()
		return l.append(ctx, c, t, s, d, nil)
	}
	d, ok := dialect.Lookup(stepDialect)
	if !ok {
		return fmt.Errorf("%w: compact: this version has no steps", events.ErrControl)
	}
	text := jsonscan.AppendString([]byte(`{"role":"`+dialect.RoleCompact+`","compact":`), op.Summary)
	if op.FirstKept != "" {
		text = jsonscan.AppendString(append(text, `,"firstKept":`...), op.FirstKept)
	}
	s.text = append(text, '}')
	return l.step(ctx, c, t, s, addition{dialect: d, operation: true})
}

// FindKept checks that an entry, by its id or the ref of its state, is on the way to a thread's head, and names it as the
// thread's dialect does. The error wraps sessions.ErrNotFound or is one of threads.Reader.
func FindKept(ctx context.Context, r threads.Reader, t events.Thread, head threads.Head, name string) (string, error) {
	at := head.Head()
	if len(head.Recent) == 0 {
		at = casstore.Located{}
	}
	for step, err := range r.Walk(ctx, at) {
		if err != nil {
			return "", err
		}
		if id := step.Entry.ID; id == name || step.At.Ref.String() == name {
			if head.Dialect == ompDialect {
				return id, nil
			}
			return name, nil
		}
	}
	return "", fmt.Errorf("firstKept: %w: it is not on the way to the head of %s", sessions.NotFound(name), t)
}

// rename gives a thread another name: its head's record moves in one batch, and the old name says where it went.
func (l *lane) rename(ctx context.Context, c *commit, t *thread, s *staged, op events.Rename) error {
	to := op.To
	target := events.Thread{Session: t.key.Session, Name: to}
	if err := target.Validate(); err != nil {
		return fmt.Errorf("%w: rename: %w", events.ErrControl, err)
	}
	if target == t.key {
		return fmt.Errorf("%w: rename: that is its name", events.ErrControl)
	}
	if err := l.barrier(ctx, c); err != nil {
		return err
	}
	open, err := l.quiet(ctx, t.key, op.Force)
	if err != nil {
		return err
	}
	other, err := l.reload(ctx, target)
	switch {
	case err != nil:
		return err
	case !other.head.Start.IsZero():
		return fmt.Errorf("%w: rename: %s exists already; choose another name", events.ErrControl, target)
	case other.left != nil && other.left.to != "" && other.left.to != t.key.Name:
		return fmt.Errorf("%w: rename: %w", events.ErrControl, other.left.renamed(target))
	}

	// From here on nothing fails.
	c.news(t, s, t.head)
	l.drop(c, open)
	t.head.Batch = c.id
	if other.reused {
		t.head.Life = s.msg.Seq
	}
	n := c.byKey[t.key]
	n.leaves = &leaving{to: to, takes: other.rev}
	c.records[events.LeftKey(t.key)] = record.Put{Key: events.LeftKey(t.key), Value: leftRecord(t.head, to), Expect: record.Any}
	if other.left != nil {
		c.records[events.LeftKey(target)] = record.Put{Key: events.LeftKey(target), Expect: record.Any}
	}
	l.heads.threads[t.key] = &thread{key: t.key, session: t.session, gone: true}
	delete(c.byKey, t.key)
	t.key, n.key = target, target
	c.byKey[target], l.heads.threads[target] = n, t
	return nil
}

// quiet refuses what would take a thread away from under whoever works in it. force does not mind runs and outputs: the
// records of those that are open are to be dropped then.
func (l *lane) quiet(ctx context.Context, t events.Thread, force bool) (open []string, err error) {
	rs, err := l.p.Records.Records(ctx, events.PromptKey(t, "*"))
	if err != nil {
		return nil, err
	}
	if rs[0].Exists() {
		return nil, fmt.Errorf("%w: a prompt of %s waits for its answer: answer it first", events.ErrControl, t)
	}
	if l.p.Sessions == nil {
		return nil, nil
	}
	live, err := l.live(ctx, t.Session)
	if err != nil {
		return nil, err
	}
	for _, o := range live.Outputs {
		switch {
		case o.Thread != t.Name:
		case !force:
			return nil, fmt.Errorf("%w: output %s of %s is open: end it first", events.ErrControl, o.ID, t)
		case len(open) == maxBatchOutputs:
			return nil, fmt.Errorf("%w: more than %d outputs of %s are open: end some first", events.ErrControl, len(open), t)
		default:
			open = append(open, events.OutputKey(t.Session, o.ID))
		}
	}
	now := time.Now()
	for _, r := range live.Runs {
		if !force && r.Thread == t.Name && !r.At(now).Standing(now).Ended() {
			return nil, fmt.Errorf("%w: run %s of %s is %s: end it first", events.ErrControl, r.ID, t, r.Status)
		}
	}
	return open, nil
}

// drop removes outputs without a result. The parts of their artifacts are gc's.
func (l *lane) drop(c *commit, keys []string) {
	for _, key := range keys {
		c.records[key] = record.Put{Key: key, Expect: record.Any}
		l.outputs.close(key)
	}
}

// remove takes a thread out of the index or the history. Its nodes stay for as long as something else reaches them, and are a
// collector's then. What it had seen stays known, so that none of it comes back; its name is free.
func (l *lane) remove(ctx context.Context, c *commit, t *thread, s *staged, op events.Remove) error {
	if err := l.barrier(ctx, c); err != nil {
		return err
	}
	open, err := l.quiet(ctx, t.key, op.Force)
	if err != nil {
		return err
	}
	c.news(t, s, t.head)
	l.drop(c, open)
	n := c.byKey[t.key]
	n.leaves, n.base = &leaving{}, casstore.PackID{}
	t.gone = true
	return nil
}

// removes reports whether an event takes its thread away, which alone is possible after a thread has ended.
func removes(s *staged) bool {
	if s.event.Kind != events.KindControl {
		return false
	}
	op, err := events.ParseControl(s.event.Body)
	return err == nil && op.Op == events.OpRemove
}
