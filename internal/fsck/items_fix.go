package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"spool/internal/apply"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// fixItems repairs what items tell of: heads that are lost, heads that are older than their items, and items that are missing.
func (f *fixer) fixItems(ctx context.Context) error {
	for _, h := range f.c.anew {
		done, err := f.putBack(ctx, h)
		if err != nil {
			return fmt.Errorf("repair %s: %w", h.key, err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, done)
	}
	for _, t := range f.c.lostThreads {
		done, err := f.recover(ctx, t)
		if err != nil {
			return fmt.Errorf("repair %s: %w", events.HeadKey(t), err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, done)
	}
	for i := range f.c.heads {
		h := &f.c.heads[i]
		it := f.c.items[h.id]
		if it == nil || !f.c.found(h) || slices.ContainsFunc(f.c.report.Repairs, func(r Repair) bool { return r.Record == h.key }) {
			continue
		}
		var done Repair
		wrong, err := f.c.itemsOf(ctx, h, it)
		if err != nil {
			return err
		}
		switch wrong {
		case itemsAhead:
			done, err = f.replay(ctx, h)
		case itemsGap:
			done, err = f.publishItems(ctx, h, it.gap())
		case itemsBehind:
			done, err = f.publishItems(ctx, h, it.through+1)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("repair %s: %w", h.key, err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, done)
	}
	return nil
}

// publishItems publishes the items of a thread again from a number on, in order: a reader drops those that it has.
func (f *fixer) publishItems(ctx context.Context, h *head, from int64) (Repair, error) {
	at := h.Head.Head().Ref.String()
	done := Repair{Record: h.key, From: at}
	var some []events.Posted
	flush := func() error {
		// A crash after this leaves fewer items missing.
		err := f.w.PublishItems(ctx, some)
		done.Items += len(some)
		some = nil
		return err
	}
	for item, err := range project.ItemsFrom(ctx, f.r, h.id, h.Head, from) {
		if err != nil {
			done.Detail = fmt.Sprintf("its items from %d on are not in %s, and cannot be made: %v", from+int64(done.Items+len(some)), events.ItemsStream, err)
			return done, errors.Join(ctx.Err(), flush())
		}
		if some = append(some, item); len(some) == itemsAtATime {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	if err := flush(); err != nil {
		return done, err
	}
	done.To, done.Detail = at, fmt.Sprintf("its items from %d on were made again and are in %s", from, events.ItemsStream)
	return done, nil
}

// itemsAtATime is how many items are made before they are published.
const itemsAtATime = 1000

// replay publishes those events again that a head has not seen, although its items say that it had: a persister applies them.
func (f *fixer) replay(ctx context.Context, h *head) (Repair, error) {
	at := h.Head.Head().Ref.String()
	done := Repair{Record: h.key, From: at}
	stored, err := f.events(ctx, h.id)
	if err != nil {
		return done, err
	}
	var again []*events.Event
	for _, e := range applied(stored) {
		switch {
		case h.Duplicate(e.Producer, e.Epoch, e.Event.Seq):
		case e.Kind == events.KindChunk || e.Ref != nil:
			done.Detail = fmt.Sprintf("%s has not got all that its events behind %d were made of: publish them again", events.EventsStream, h.Applied)
			return done, nil
		default:
			again = append(again, e.again())
		}
	}
	if len(again) == 0 {
		done.Detail = fmt.Sprintf("%s has not got the events any more that it lost: publish its entries behind the %dth again", events.EventsStream, h.Entries)
		return done, nil
	}
	if err := f.w.PublishEvents(ctx, again); err != nil {
		return done, err
	}
	done.To, done.Replayed, done.Detail = at, len(again), "what it lost is applied again"
	return done, nil
}

// recover makes the head of a thread again: from the state that its newest item was made from, and what SPOOL_EVENTS has behind
// it; else from all its events, if SPOOL_EVENTS never forgot one.
func (f *fixer) recover(ctx context.Context, t events.Thread) (Repair, error) {
	done := Repair{Record: events.HeadKey(t)}
	stored, err := f.events(ctx, t)
	if err != nil {
		return done, err
	}
	i, to, err := f.renames(ctx, t, stored)
	if err != nil {
		return done, err
	}
	if to != "" {
		return f.recoverLeft(ctx, t, stored[:i+1], to)
	}
	var s *state
	it := f.c.items[t]
	if it != nil {
		s = f.c.states[it.node]
	}
	if s == nil || s.wrong != nil {
		return f.replayAll(ctx, applied(stored), done)
	}
	now, step, err := f.headAt(ctx, t, it.node)
	if err != nil {
		return done, err
	}
	if _, now.Life, err = f.c.s.LastItem(ctx, t); err != nil { // the newest item is the one that it is made from
		return done, err
	}
	rest := f.seen(ctx, &now, stored, step)
	if err := f.putHead(ctx, t, &now, sessions.Info{ID: t.Session, Created: now.Created}); err != nil {
		return done, err
	}
	done.From, done.To = step.At.Ref.String(), step.At.Ref.String()
	done.Detail = fmt.Sprintf("it is where its item %d was made, after entry %d", it.last, step.Entry.Index)
	switch {
	case len(stored) > 0 && now.Applied == 0:
		done.Detail += fmt.Sprintf("; which events of %s it has cannot be told: publish what came behind it again, as a producer of another name", events.EventsStream)
	case now.Applied == 0:
		done.Detail += "; what its producers publish again it will take for new"
	case len(rest) > 0:
		if err := f.w.PublishEvents(ctx, rest); err != nil {
			return done, err
		}
		done.Replayed = len(rest)
	}
	return done, nil
}

// renames finds the event that took a thread from its name, and its new name; "": none did that a thread knows of, or there is more
// behind it.
func (f *fixer) renames(ctx context.Context, t events.Thread, stored []replayed) (at int, to string, err error) {
	for i, e := range slices.Backward(stored) {
		if e.refused {
			continue
		}
		if makesState(e.Event) {
			break
		}
		op, err := events.ParseControl(e.Body)
		if e.Kind != events.KindControl || err != nil || op.Op != events.OpRename {
			continue
		}
		known, err := f.known(ctx, t.Session, e)
		if err != nil || !known {
			return 0, "", err
		}
		return i, op.Rename.To, nil
	}
	return 0, "", nil
}

// known reports whether a thread of a session has had an event, or one that left its name.
func (f *fixer) known(ctx context.Context, session string, e replayed) (bool, error) {
	has := func(h *threads.Head) bool {
		return h.Applied >= e.Seq && h.Duplicate(e.Producer, e.Epoch, e.Event.Seq)
	}
	if slices.ContainsFunc(f.c.heads, func(h head) bool { return h.id.Session == session && has(&h.Head) }) {
		return true, nil
	}
	lefts, err := f.c.s.List(ctx, events.LeftKey(events.Thread{Session: session, Name: "*"}))
	return slices.ContainsFunc(lefts, func(r record.Record) bool {
		left, err := apply.DecodeLeft(r.Value)
		return err == nil && has(&left.Head)
	}), err
}

// recoverLeft notes again that a thread was renamed, by the last of its events: applied again they would make another thread of what it
// has under its new name.
func (f *fixer) recoverLeft(ctx context.Context, t events.Thread, stored []replayed, to string) (Repair, error) {
	done := Repair{Record: events.HeadKey(t)}
	left := apply.Left{To: to}
	for i, e := range stored {
		left.Head.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
		left.Head.Applied = e.Seq
		if op, err := events.ParseControl(e.Body); e.Kind == events.KindControl && err == nil && op.Op == events.OpRemove && i < len(stored)-1 {
			left.Head.Life = e.Seq + 1
		}
	}
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return done, err
	}
	key := events.LeftKey(t)
	rs, err := f.c.s.Records(ctx, key)
	if err == nil && !rs[0].Exists() {
		_, err = f.w.Commit(ctx, fence, []record.Put{{Key: key, Value: left.Encode(), Expect: rs[0].Seq}})
	}
	done.To = key
	done.Detail = fmt.Sprintf("event %d of %s renamed it to %s, and that is noted again", stored[len(stored)-1].Seq, events.EventsStream, to)
	return done, err
}

// seen tells a head what it had seen of its producers up to a step, and gives the events behind that.
func (f *fixer) seen(ctx context.Context, now *threads.Head, stored []replayed, step threads.Step) (rest []*events.Event) {
	at := len(stored) - 1
	for ; at >= 0; at-- {
		if makesState(stored[at].Event) && f.made(ctx, stored[at].Event, step) {
			break
		}
	}
	for i, e := range stored {
		switch {
		case at < 0:
		case i <= at:
			now.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
			now.Applied = e.Seq
		case !e.refused:
			rest = append(rest, e.again())
		}
	}
	return rest
}

// putHead stores the head of a thread that has none, and its session's header where there is none.
func (f *fixer) putHead(ctx context.Context, t events.Thread, now *threads.Head, info sessions.Info) error {
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return err
	}
	key := events.HeadKey(t)
	if ended := now.Ended(); ended != "" {
		key = events.HistoryKey(ended, t)
	}
	rs, err := f.c.s.Records(ctx, events.HeadKey(t), events.SessionKey(t.Session), key)
	if err != nil {
		return err
	}
	puts := []record.Put{{Key: key, Value: now.Encode(), Expect: rs[2].Seq}}
	if !rs[1].Exists() {
		puts = append(puts, record.Put{Key: events.SessionKey(t.Session), Value: info.Encode(), Expect: rs[1].Seq})
	}
	named := &filling{at: map[casstore.Ref]casstore.PackID{now.Start.Ref: now.Start.Pack}}
	for _, l := range now.Recent {
		named.at[l.Ref] = l.Pack
	}
	if puts, err = f.touch(ctx, fence, puts, named); err != nil {
		return err
	}
	// A crash after this leaves the thread as it was at its newest item.
	_, err = f.w.Commit(ctx, fence, puts)
	return err
}

// replayAll has a thread made again from all its events.
func (f *fixer) replayAll(ctx context.Context, stored []replayed, done Repair) (Repair, error) {
	whole, err := f.whole(ctx, stored)
	if err != nil {
		return done, err
	}
	var all []*events.Event
	for _, e := range stored {
		all = append(all, e.again())
	}
	if !whole {
		done.Detail = fmt.Sprintf("no state of it is known, and %s may not have all its events: restore it from a backup, or publish it again", events.EventsStream)
		return done, nil
	}
	if err := f.w.PublishEvents(ctx, all); err != nil {
		return done, err
	}
	done.To, done.Replayed, done.Detail = "its beginning", len(all), "all its events are applied again"
	return done, nil
}

// whole reports whether these are all events that a thread ever had, and those that were applied hold all that they were
// made of.
func (f *fixer) whole(ctx context.Context, stored []replayed) (bool, error) {
	states, err := f.c.s.StreamStates(ctx)
	whole := len(stored) > 0 && slices.ContainsFunc(states, func(s record.StreamState) bool {
		return s.Stream == events.EventsStream && s.First <= 1 && s.Deleted == 0
	})
	return whole && !slices.ContainsFunc(stored, func(e replayed) bool {
		return !e.refused && (e.Kind == events.KindChunk || e.Ref != nil)
	}), err
}
