package persist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// control applies an operation.
func (l *lane) control(ctx context.Context, c *commit, t *thread, s *staged) error {
	op, err := events.ParseControl(s.event.Body)
	if err != nil {
		return err
	}
	switch op.Op {
	case events.OpStart:
		if !t.head.Start.IsZero() {
			return fmt.Errorf("%w: %s has started already", events.ErrControl, t.key)
		}
		c.news(t, s, t.head)
		c.start(t, "", op.Start)
		s.timestamp(t, 0)
		l.account(c, t, s, &dialect.Entry{Step: dialect.Step{Known: true}})
		return nil
	case events.OpFork:
		return l.fork(ctx, c, t, s, *op.Fork)
	case events.OpTail:
		return l.tail(c, t, s, *op.Tail)
	case events.OpEnd:
		return l.end(ctx, c, t, s, *op.End)
	case events.OpAnswer:
		return l.answer(ctx, c, t, s, *op.Answer)
	case events.OpRun:
		return l.sign(ctx, c, t, s, *op.Run)
	case events.OpBranch, events.OpReset, events.OpLabel, events.OpSummary, events.OpAppend:
		return l.tree(ctx, c, t, s, op)
	case events.OpCompact, events.OpRename, events.OpReopen, events.OpRemove:
		return l.whole(ctx, c, t, s, op)
	}
	return fmt.Errorf("%w: op %q", events.ErrControl, op.Op)
}

// tail records what a transcript holds behind its last complete line.
func (l *lane) tail(c *commit, t *thread, s *staged, tail events.Tail) error {
	if t.head.Start.IsZero() && len(tail.Bytes) == 0 {
		return fmt.Errorf("%w: tail: %s has no entry whose line could be open", events.ErrControl, t.key)
	}
	c.news(t, s, t.head)
	c.start(t, rawDialect, nil)
	st := t.head.Next(threads.RoleTail)
	st.Timestamp = s.timestamp(t, 0)
	st.Meta = metaMap("open", tail.Open)
	t.head.Entries++
	st.Entry = threads.Record{Index: t.head.Entries, First: t.head.N + 1}
	c.append(t, st, threads.Content{Text: tail.Bytes})
	l.account(c, t, s, &dialect.Entry{Step: dialect.Step{Known: true}})
	return nil
}

// end appends the last state of a thread: the step of role __end__, as workflows write it themselves (SPEC C4, I7).
func (l *lane) end(ctx context.Context, c *commit, t *thread, s *staged, e events.End) error {
	if t.head.Start.IsZero() {
		return fmt.Errorf("%w: end: there is no thread %s", events.ErrControl, t.key)
	}
	text, err := json.Marshal(map[string]any{"role": dialect.RoleEnd, "meta": e})
	if err != nil {
		return err
	}
	d, ok := dialect.Lookup("step")
	if !ok {
		return fmt.Errorf("%w: end: this version has no steps", events.ErrControl)
	}
	s.text = text
	return l.step(ctx, c, t, s, addition{dialect: d, operation: true})
}

// barrier makes sure that all that was prepared before is committed.
func (l *lane) barrier(ctx context.Context, c *commit) error {
	if !c.empty() {
		return errBarrier
	}
	return l.settle(ctx, c.epoch)
}

// place is the head that an entry is appended to: the thread's own, or one that is moved.
func (l *lane) place(ctx context.Context, c *commit, t *thread, where dialect.Place) (threads.Head, error) {
	if where.Kind == dialect.Leaf || where.Kind == dialect.Parent && where.ID == t.head.Leaf {
		return t.head, nil
	}
	if len(t.head.Recent) == 0 && (len(t.head.Tips) == 0 || where.Kind != dialect.Parent) {
		return t.head, nil
	}
	head := t.head.Clone()
	if where.Kind == dialect.Root {
		head.MoveTo(nil)
		return head, nil
	}
	if err := l.barrier(ctx, c); err != nil {
		return head, err
	}
	err := l.p.retry(ctx, "branch", func() error {
		recent, err := l.branchPoint(ctx, head, where)
		if err == nil {
			head.MoveTo(recent)
		}
		return err
	})
	return head, err
}

// branchPoint finds the state that an entry names as its parent. One that is not there makes the entry a root: the walk of
// a context ends at a missing parent too (SPEC S7).
func (l *lane) branchPoint(ctx context.Context, head threads.Head, where dialect.Place) ([]casstore.Located, error) {
	var at casstore.Located
	if where.Kind == dialect.UserTurns {
		turns := int64(0)
		for step, err := range l.p.reader.Walk(ctx, head.Head()) {
			if err != nil {
				return nil, err
			}
			if step.State.Role == dialect.RoleUser && step.State.Entry.Count > 0 {
				turns++
			}
			if turns == where.N {
				if step.State.Parent.IsZero() {
					return nil, nil
				}
				if at, err = step.Locate(step.State.Parent); err != nil {
					return nil, err
				}
				break
			}
		}
	} else {
		step, err := l.p.reader.Find(ctx, head, func(st threads.State) bool { return st.Entry.ID == where.ID })
		if errors.Is(err, threads.ErrNoStep) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		at = step.At
	}
	if at.IsZero() {
		return nil, nil
	}
	return l.p.reader.Recent(ctx, at)
}

// metaOf is a JSON object as a canonical map.
func metaOf(raw []byte) ([]byte, error) {
	if raw == nil {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	b, err := casstore.AppendValue(nil, numbers(m))
	if err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	return b, nil
}

// numbers makes integers of numbers that are such, and floats of the others; the entry itself keeps their spelling.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		f, _ := v.Float64() // beyond the range: an infinity
		return f
	case map[string]any:
		for k, e := range v {
			v[k] = numbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = numbers(e)
		}
	}
	return v
}

// metaMap is a map of one key.
func metaMap(key string, value any) []byte {
	b, err := casstore.AppendValue(nil, map[string]any{key: value})
	if err != nil {
		panic(err) // strings and booleans have an encoding
	}
	return b
}
