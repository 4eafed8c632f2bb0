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

// fixLost brings back what threads have lost whole: heads, and what was before the beginning or behind the end of one.
func (f *fixer) fixLost(ctx context.Context) error {
	for _, h := range f.c.anew {
		if err := f.repair(ctx, h, f.putBack); err != nil {
			return err
		}
	}
	for _, h := range f.c.short {
		if err := f.repair(ctx, h, f.replay); err != nil {
			return err
		}
	}
	if err := f.byBeginning(ctx, f.c.lostThreads); err != nil {
		return err
	}
	for _, t := range f.c.lostThreads {
		done, err := f.recover(ctx, t)
		if err != nil {
			return fmt.Errorf("repair %s: %w", events.HeadKey(t), err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, done)
	}
	return nil
}

// fixItems repairs what items tell of the heads that are there: those that are older than their items, and items that are missing.
func (f *fixer) fixItems(ctx context.Context) error {
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
			done.Detail = fmt.Sprintf("its items from %d on are not in %s, and cannot be made: %v", from+int64(done.Items+len(some)),
				events.ItemsStream, err)
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

// replay publishes those events again that a head has not seen: a persister applies them.
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
			done.Detail = fmt.Sprintf("%s has not got all that its events behind %d were made of: publish them again",
				events.EventsStream, h.Applied)
			return done, nil
		default:
			again = append(again, e.again())
		}
	}
	if len(again) == 0 {
		done.Detail = fmt.Sprintf("%s has not got the events any more that it lost: publish its entries behind the %dth again",
			events.EventsStream, h.Entries)
		return done, nil
	}
	f.publish(again)
	done.To, done.Replayed, done.Detail = at, len(again), "what it lost is applied again"
	return done, nil
}

// recover makes the record of a thread again, as what SPOOL_EVENTS says of its name: that it left it; or its head, from the newest state
// that is known of it, and what SPOOL_EVENTS has behind that; else from all its events, if SPOOL_EVENTS never forgot one.
func (f *fixer) recover(ctx context.Context, t events.Thread) (Repair, error) {
	done := Repair{Record: events.HeadKey(t)}
	names, err := f.c.namesOf(ctx, t.Session)
	if err != nil {
		return done, err
	}
	n := names.at(t.Name)
	if n.life == nil && n.left != nil {
		return f.noteLeft(ctx, t, n.left)
	}
	stored, err := f.events(ctx, t)
	if err != nil {
		return done, err
	}
	it, err := f.newest(ctx, t, n.life, stored)
	if err != nil {
		return done, err
	}
	if it == nil {
		return f.replayAll(ctx, applied(stored), done)
	}
	now, step, err := f.headAt(ctx, t, it.node)
	if err != nil {
		return done, err
	}
	rest := f.seen(ctx, &now, stored, step)
	if now.Tips, err = f.branches(ctx, t, n.life, now, stored, step); err != nil {
		return done, err
	}
	if len(now.Tips) > threads.MaxTips {
		return f.replayAll(ctx, applied(stored), done)
	}
	if err := f.born(ctx, t, n.life, it, &now); err != nil {
		return done, err
	}
	if err := f.putHead(ctx, t, &now, nil); err != nil {
		return done, err
	}
	done.From, done.To = step.At.Ref.String(), step.At.Ref.String()
	done.Detail = fmt.Sprintf("it is where its item %d was made, after entry %d", it.last, step.Entry.Index)
	switch {
	case len(stored) > 0 && now.Applied == 0:
		done.Detail += fmt.Sprintf("; which events of %s it has cannot be told: publish what came behind it again, "+
			"as a producer of another name", events.EventsStream)
	case now.Applied == 0:
		done.Detail += "; what its producers publish again it will take for new"
	case len(rest) > 0:
		f.publish(rest)
		done.Replayed = len(rest)
	}
	return done, nil
}

// newest is what SPOOL_ITEMS holds of a thread that leads to a state of it, under whichever of its names; nil: nothing
// does. Where events of the thread are known, the state is what became of one of them: the items of those that had its
// names before are others'.
func (f *fixer) newest(ctx context.Context, t events.Thread, l *life, stored []replayed) (best *held, err error) {
	at := -1
	for _, name := range l.under(t.Name) {
		for it := f.c.items[events.Thread{Session: t.Session, Name: name}]; it != nil; it = it.old {
			s := f.c.states[it.node]
			if s == nil || s.wrong != nil {
				continue
			}
			step, err := f.r.Step(ctx, casstore.Located{Ref: it.node, Pack: f.c.packs[s.pack].id})
			if err != nil {
				return nil, err
			}
			switch made := f.madeOf(ctx, stored, step); {
			case made > at:
				best, at = it, made
			case best == nil && (l == nil || !f.c.knowsAll(l)):
				best = it
			}
		}
	}
	return best, nil
}

// knowsAll reports whether SPOOL_EVENTS has a thread from its beginning: nothing that it was before is forgotten.
func (c *checker) knowsAll(l *life) bool { return c.ledger.oldest <= 1 || l.spans[0].used }

// born tells a head which life it is of its name, and where that began.
func (f *fixer) born(ctx context.Context, t events.Thread, l *life, it *held, now *threads.Head) (err error) {
	if l == nil || len(l.renames) == 0 {
		if now.Life, err = f.lifeOfItem(ctx, t, it); err != nil || l == nil {
			return err
		}
	}
	for _, e := range l.renames {
		now.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
		if s := l.spans[len(l.spans)-1]; s.used {
			now.Life = s.from
		}
	}
	if f.c.knowsAll(l) {
		now.Began = l.seen.Began
	}
	return nil
}

// lifeOfItem is the life of its name that the newest item says.
func (f *fixer) lifeOfItem(ctx context.Context, t events.Thread, it *held) (uint64, error) {
	if it != f.c.items[t] {
		return 0, nil
	}
	_, life, err := f.c.s.LastItem(ctx, t)
	return life, err
}

// noteLeft notes again that a thread left its name: applied again, its events would make it anew.
func (f *fixer) noteLeft(ctx context.Context, t events.Thread, left *apply.Left) (Repair, error) {
	done := Repair{Record: events.HeadKey(t)}
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
	done.Detail = fmt.Sprintf("%s removed it, and that is noted again", events.EventsStream)
	if left.To != "" {
		done.Detail = fmt.Sprintf("%s renamed it to %s, and that is noted again", events.EventsStream, left.To)
	}
	return done, err
}

// madeOf is which of a thread's events became a state; -1: none did.
func (f *fixer) madeOf(ctx context.Context, stored []replayed, step threads.Step) int {
	for at, e := range slices.Backward(stored) {
		if makesState(e.Event) && f.made(ctx, e.Event, step) {
			return at
		}
	}
	return -1
}

// seen tells a head what it had seen of its producers up to a step, and gives the events behind that.
func (f *fixer) seen(ctx context.Context, now *threads.Head, stored []replayed, step threads.Step) (rest []*events.Event) {
	at := f.madeOf(ctx, stored, step)
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

// putHead stores the head of a thread that has none, and with info that its session is if that has no record: else fixSessions makes it.
func (f *fixer) putHead(ctx context.Context, t events.Thread, now *threads.Head, info *sessions.Info) error {
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
	switch session := events.SessionKey(t.Session); {
	case rs[1].Exists():
	case info != nil:
		puts = append(puts, record.Put{Key: session, Value: info.Encode(), Expect: rs[1].Seq})
	case !slices.Contains(f.c.noRecord, session):
		f.c.noRecord = append(f.c.noRecord, session)
	}
	named := &filling{at: map[casstore.Ref]casstore.PackID{now.Start.Ref: now.Start.Pack}}
	for _, l := range slices.Concat(now.Recent, now.Tips) {
		named.at[l.Ref] = l.Pack
	}
	if puts, err = f.touch(ctx, fence, puts, named); err != nil {
		return err
	}
	// A crash after this leaves the thread as it was at its newest item.
	_, err = f.w.Commit(ctx, fence, puts)
	f.recovered = append(f.recovered, head{key: key, id: t, Head: *now})
	return err
}

// replayAll has a thread made again from all its events.
func (f *fixer) replayAll(ctx context.Context, stored []replayed, done Repair) (Repair, error) {
	whole, err := f.whole(ctx, stored)
	if err != nil {
		return done, err
	}
	if !whole {
		done.Detail = fmt.Sprintf("no state of it is known, and %s may not have all its events: restore it from a backup, or publish it again",
			events.EventsStream)
		return done, nil
	}
	var all []*events.Event
	for _, e := range stored {
		again := e.again()
		why, err := f.pin(ctx, e, again)
		if err != nil || why != "" {
			done.Detail = why
			return done, err
		}
		all = append(all, again)
	}
	f.publish(all)
	done.To, done.Replayed, done.Detail = "its beginning", len(all), "all its events are applied again"
	return done, nil
}

// pin makes a fork that is applied again begin where it began: its source may have gone on since, under another name as well. why says what
// keeps it from that.
func (f *fixer) pin(ctx context.Context, e replayed, again *events.Event) (why string, err error) {
	op, bad := events.ParseControl(e.Body)
	if e.Kind != events.KindControl || bad != nil || op.Op != events.OpFork {
		return "", nil
	}
	names, err := f.c.namesOf(ctx, op.Fork.Session)
	if err != nil {
		return "", err
	}
	by := fmt.Sprintf("it was forked from %s/%s", op.Fork.Session, op.Fork.Thread)
	source := names.holder(op.Fork.Thread, e.Seq)
	if source == nil {
		return "", nil // a persister says what is wrong
	}
	now := source.spans[len(source.spans)-1]
	if now.to != 0 {
		return by + ", which is no more: what it had of that is not to be had", nil
	}
	op.Fork.Thread = now.name
	if !f.stands(events.Thread{Session: op.Fork.Session, Name: now.name}, e.Thread.Session) {
		return by + ", which is not all there yet: repair again once that is applied", nil
	}
	if source.grewAfter(e.Seq) && !op.Fork.Point() {
		node, err := f.pointAt(ctx, source, events.Thread{Session: op.Fork.Session, Name: now.name}, e.Seq, op.Fork.Whole)
		if err != nil {
			return "", err
		}
		if op.Fork.Node = node; node == "" {
			return by + ", which went on since, and where it was then cannot be told: repair again if that has come back meanwhile, " +
				"else fork it again", nil
		}
	}
	again.Body = op.Encode()
	return "", nil
}

// stands reports whether a thread is there for what is applied again of a session behind it: if events of it are to be applied again,
// persisters come to them in order only in that session.
func (f *fixer) stands(t events.Thread, session string) bool {
	if slices.ContainsFunc(f.again, func(evs []*events.Event) bool { return len(evs) > 0 && evs[0].Thread == t }) {
		return t.Session == session
	}
	is := func(h head) bool { return h.id == t }
	return slices.ContainsFunc(f.c.heads, is) || slices.ContainsFunc(f.recovered, is)
}

// pointAt is the state at which a fork without a point began, or the newest one for a whole fork, of a source as it was before a sequence
// of SPOOL_EVENTS; "" if it cannot be told.
func (f *fixer) pointAt(ctx context.Context, source *life, now events.Thread, before uint64, whole bool) (node string, err error) {
	entries := int64(0)
	for _, e := range source.evs {
		if e.refused || e.Seq > before || !makesState(e.Event) && !moves(e.Event) {
			continue
		}
		if entries++; e.Kind != events.KindEntry {
			return "", nil
		}
	}
	if !f.c.knowsAll(source) {
		return "", nil
	}
	var was threads.Head
	i := slices.IndexFunc(f.c.heads, func(h head) bool { return h.id == now })
	if i >= 0 {
		was = f.c.heads[i].Head
	} else if it, err := f.newest(ctx, now, source, source.evs); err != nil || it == nil {
		return "", err
	} else if was, _, err = f.headAt(ctx, now, it.node); err != nil {
		return "", err
	}
	last := func(s threads.State) bool { return s.Entry.Index == entries }
	step, err := f.r.Find(ctx, was, last)
	if i >= 0 && unread(err) { // it is yet to go back
		if at, _ := f.ancestor(&f.c.heads[i]); !at.IsZero() {
			if was, _, err = f.headAt(ctx, now, at.Ref); err == nil {
				step, err = f.r.Find(ctx, was, last)
			}
		}
	}
	if err == nil && whole {
		return step.At.Ref.String(), nil
	}
	if err == nil {
		was, _, err = f.headAt(ctx, now, step.At.Ref)
	}
	if err == nil {
		was, err = threads.Fork(ctx, f.r, was, threads.Point{})
	}
	if errors.Is(err, threads.ErrNoStep) || errors.Is(err, threads.ErrNoPoint) || unread(err) || err == nil && len(was.Recent) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return was.Recent[0].Ref.String(), nil
}

// unread reports whether an error says that something is not there, or not good, and not that the store does not answer.
func unread(err error) bool {
	return errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrCorrupt)
}

// moves reports whether an event moves the leaf of its thread, or may.
func moves(e events.Event) bool {
	op, err := events.ParseControl(e.Body)
	return e.Kind == events.KindChunk || e.Kind == events.KindControl && err == nil && (op.Op == events.OpBranch || op.Op == events.OpReset)
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
