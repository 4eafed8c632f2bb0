package apply

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
func (d *draft) control(ctx context.Context) error {
	if d.opBad != nil {
		return d.opBad
	}
	switch op := d.op; op.Op {
	case events.OpStart:
		if !d.Head.Start.IsZero() {
			return fmt.Errorf("%w: %s has started already", events.ErrControl, d.st.Key)
		}
		d.note(d.Head)
		d.start("", op.Start)
		d.seeAgent(op.Start.Name)
		d.timestamp(0)
		d.account(&dialect.Entry{Step: dialect.Step{Known: true}})
		return nil
	case events.OpFork:
		return d.fork(ctx, *op.Fork)
	case events.OpTail:
		return d.tail(*op.Tail)
	case events.OpEnd:
		return d.end(ctx, *op.End)
	case events.OpAnswer:
		return d.answer(ctx, *op.Answer)
	case events.OpRun:
		return d.sign(ctx, *op.Run)
	case events.OpBranch, events.OpReset, events.OpLabel, events.OpSummary, events.OpAppend:
		return d.tree(ctx, op)
	case events.OpCompact, events.OpRename, events.OpReopen, events.OpRemove:
		return d.whole(ctx, op)
	case events.OpName, events.OpMove:
		return d.describe(op)
	}
	return fmt.Errorf("%w: op %q", events.ErrControl, d.op.Op)
}

// tail records what a transcript holds behind its last complete line.
func (d *draft) tail(tail events.Tail) error {
	if d.Head.Start.IsZero() && len(tail.Bytes) == 0 {
		return fmt.Errorf("%w: tail: %s has no entry whose line could be open", events.ErrControl, d.st.Key)
	}
	d.note(d.Head)
	d.start(rawDialect, nil)
	st := d.Head.Next(threads.RoleTail)
	st.Timestamp = d.timestamp(0)
	st.Meta = metaMap("open", tail.Open)
	d.Head.Entries++
	st.Entry = threads.Record{Index: d.Head.Entries, First: d.Head.N + 1}
	d.append(&st, threads.Content{Text: tail.Bytes})
	d.account(&dialect.Entry{Step: dialect.Step{Known: true}})
	return nil
}

// end appends the last state of a thread: the step of role __end__, as workflows write it themselves (SPEC C4, I7).
func (d *draft) end(ctx context.Context, e events.End) error {
	if d.Head.Start.IsZero() {
		return fmt.Errorf("%w: end: there is no thread %s", events.ErrControl, d.st.Key)
	}
	if err := MayEnd(d.st.Key, d.Head); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"role": dialect.RoleEnd, "meta": e})
	if err != nil {
		return err
	}
	lang, ok := dialect.Lookup(stepDialect)
	if !ok {
		return fmt.Errorf("%w: end: this version has no steps", events.ErrControl)
	}
	d.e.Text = text
	return d.step(ctx, addition{dialect: lang, operation: true})
}

// MayEnd refuses to complete a thread that failed: it stays so until it is reopened (SPEC P10).
func MayEnd(t events.Thread, head threads.Head) error {
	if head.Status != threads.StatusFailed {
		return nil
	}
	return fmt.Errorf("%w: end: %s has failed: reopen it first: %s", events.ErrControl, t, head.Failure)
}

// place is the head that an addition goes after: the thread's own, or one that is moved.
func (d *draft) place(ctx context.Context, a addition, where dialect.Place) (threads.Head, error) {
	if a.at != nil {
		return *a.at, nil
	}
	if where.Kind == dialect.Leaf || where.Kind == dialect.Parent && where.ID == d.Head.Leaf {
		return d.Head, nil
	}
	if len(d.Head.Recent) == 0 && (d.Head.Branches() == 0 || where.Kind != dialect.Parent) {
		return d.Head, nil
	}
	head := d.Head.Clone()
	if where.Kind == dialect.Root {
		head.MoveTo(nil)
		return head, nil
	}
	recent, err := d.branchPoint(ctx, head, where)
	if err == nil {
		head.MoveTo(recent)
	}
	return head, err
}

// known finds an entry by Places, which it makes if that is worth it. False: the thread is to be read.
func (d *draft) known(ctx context.Context, head threads.Head, id string) (recent []casstore.Located, ok bool, err error) {
	d.branched = true
	if d.Places == nil && d.st.Branched >= oftenBranched && head.Entries <= MostPlaces/2 {
		if err := d.w.Settle(ctx, d.st.Key); err != nil {
			return nil, false, err
		}
		if d.Places, err = readPlaces(ctx, d.w.Reader(), head); err != nil {
			return nil, false, err
		}
	}
	if d.under, ok = d.Places.find(id); ok && d.under != nil {
		recent, err = d.under.recentOf(ctx, d.w.Reader())
	}
	return recent, ok, err
}

// branchPoint finds the state that an entry names as its parent. One that is not there makes the entry a root: the walk
// of a context ends at a missing parent too (SPEC S7).
func (d *draft) branchPoint(ctx context.Context, head threads.Head, where dialect.Place) ([]casstore.Located, error) {
	r, at := d.w.Reader(), casstore.Located{}
	if where.Kind == dialect.Parent {
		if recent, ok, err := d.known(ctx, head, where.ID); ok || err != nil {
			return recent, err
		}
	}
	if err := d.w.Settle(ctx, d.st.Key); err != nil {
		return nil, err
	}
	switch where.Kind {
	case dialect.Before:
		for step, err := range r.Walk(ctx, head.Head()) {
			if err != nil {
				return nil, err
			}
			if step.State.Entry.ID != where.ID {
				continue
			}
			if at = (casstore.Located{}); step.State.Parent.IsZero() {
				break
			}
			if at, err = step.Locate(step.State.Parent); err != nil {
				return nil, err
			}
		}
	case dialect.UserTurns:
		turns := int64(0)
		for step, err := range r.Walk(ctx, head.Head()) {
			if err != nil {
				return nil, err
			}
			if e := step.State.Entry; step.State.Role == dialect.RoleUser && e.Count > 0 && e.Dialect == d.e.Dialect {
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
	default:
		step, err := r.Find(ctx, head, func(st threads.State) bool { return st.Entry.ID == where.ID })
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
	return r.Recent(ctx, at)
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
func metaMap(key string, value any) []byte { return stateMeta(map[string]any{key: value}) }

func stateMeta(m map[string]any) []byte {
	b, err := casstore.AppendValue(nil, m)
	if err != nil {
		panic(err) // strings and booleans have an encoding
	}
	return b
}
