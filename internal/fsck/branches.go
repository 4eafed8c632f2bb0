package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// branches are the ends of those branches of a thread that do not lead to a step, oldest first: states before that one which its events
// made, or its items were made from.
func (f *fixer) branches(
	ctx context.Context, t events.Thread, l *life, now threads.Head, stored []replayed, step threads.Step,
) (tips []casstore.Located, err error) {
	from, err := f.itemNodes(ctx, t, l)
	if err != nil {
		return nil, err
	}
	made := map[madeEntry]bool{}
	for _, e := range stored[:f.madeOf(ctx, stored, step)+1] {
		if d, ok := dialect.Lookup(e.Dialect); ok && e.Kind == events.KindEntry && !e.refused {
			body := e.Body
			if f.c.cfg.Secrets != nil {
				body, _ = f.c.cfg.Secrets.Clean(body, dialect.IsJSON(e.Dialect))
			}
			read, err := d.Read(body, nil)
			made[entryMade(e.Dialect, read.ID, body)] = err == nil
		}
	}
	led := map[casstore.Ref]bool{}
	f.c.addStates(&head{Head: now}, led)
	var all []casstore.Ref
	for ref, s := range f.c.states {
		if s.start == now.Start.Ref && s.wrong == nil && s.index < step.Entry.Index && !led[ref] {
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, func(a, b casstore.Ref) int {
		return cmp.Or(cmp.Compare(f.c.states[b].index, f.c.states[a].index), cmp.Compare(a.Hex(), b.Hex()))
	})
	for _, ref := range all {
		if led[ref] {
			continue
		}
		at := casstore.Located{Ref: ref, Pack: f.c.packs[f.c.states[ref].pack].id}
		s, err := f.r.Step(ctx, at)
		var text []byte
		if err == nil && s.Entry.ID == "" {
			text, err = textOf(ctx, s)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if from[ref] || err == nil && made[entryMade(s.Entry.Dialect, s.Entry.ID, text)] {
			tips = append(tips, at)
			f.c.addStates(&head{Head: threads.Head{Recent: []casstore.Located{at}}}, led)
		}
	}
	slices.Reverse(tips)
	return tips, nil
}

// itemNodes are the states that SPOOL_ITEMS says a thread's items were made from, under those of its names that it had first. Where
// SPOOL_EVENTS does not tell, items count no more from the first number on that was given again for another state.
func (f *fixer) itemNodes(ctx context.Context, t events.Thread, l *life) (map[casstore.Ref]bool, error) {
	if f.nodes == nil { // of all lost threads in one go
		f.nodes = map[events.Thread]map[int64]casstore.Ref{}
		err := f.c.s.Messages(ctx, events.ItemsStream, 1, func(_ uint64, subject string, data []byte) error {
			of, ok := events.ParseItemSubject(subject)
			n, _ := jsonscan.Int(jsonscan.Get(data, "n"))
			if !ok || slices.ContainsFunc(f.c.heads, func(h head) bool { return h.id == of }) {
				return nil
			}
			all := f.nodes[of]
			if all == nil {
				all = map[int64]casstore.Ref{}
				f.nodes[of] = all
			}
			node := nodeOf(data)
			if was, again := all[n]; again && was != node {
				maps.DeleteFunc(all, func(k int64, _ casstore.Ref) bool { return k >= n })
			}
			all[n] = node
			return nil
		})
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
	}
	nodes := map[casstore.Ref]bool{}
	for _, name := range l.under(t.Name) {
		if l != nil && slices.ContainsFunc(l.spans, func(s span) bool { return s.name == name && s.used }) {
			continue // SPOOL_EVENTS has the thread from its beginning there
		}
		for _, node := range f.nodes[events.Thread{Session: t.Session, Name: name}] {
			nodes[node] = true
		}
	}
	return nodes, nil
}

// madeEntry is what an entry and the state that it became have in common: its id at its source, or what it says.
type madeEntry struct {
	dialect, id string
	says        [sha256.Size]byte
}

func entryMade(dialect, id string, text []byte) madeEntry {
	m := madeEntry{dialect: dialect, id: id}
	if id == "" {
		m.says = sha256.Sum256(text)
	}
	return m
}
