package fsck

import (
	"cmp"
	"context"
	"slices"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// What SPOOL_EVENTS says of the names of a session: which thread has each, of which events, and what took those before it from theirs. Who
// looks for what is lost, and who makes it again, asks here: so nothing comes back that left its name since, and no thread
// gets what another one said.

// name is one name of a session.
type naming struct {
	life *life       // the thread that has it; nil: none
	left *apply.Left // what is known of those that left it; nil: none did
}

// life is a thread, from what began it.
type life struct {
	evs     []replayed // its own under all names that it had, in order, refused ones too, without those that renamed it
	renames []replayed // those
	spans   []span     // the names that it had, the last one last
	seen    threads.Head
}

// span is when a thread had a name: behind from, and up to to, which took it away; 0: it has it.
type span struct {
	name     string
	from, to uint64
	used     bool // others had the name before
}

// last is the sequence of the last event of a thread that was applied.
func (l *life) last() (seq uint64) {
	for _, e := range slices.Concat(l.evs, l.renames) {
		if !e.refused {
			seq = max(seq, e.Seq)
		}
	}
	return seq
}

// under are the names that a thread had; of one that SPOOL_EVENTS tells nothing of, the one that it has.
func (l *life) under(now string) (names []string) {
	if l == nil {
		return []string{now}
	}
	for _, s := range l.spans {
		names = append(names, s.name)
	}
	return names
}

// grewAfter reports whether what a fork of a thread takes over may have become more behind a sequence.
func (l *life) grewAfter(seq uint64) bool {
	return slices.ContainsFunc(l.evs, func(e replayed) bool { return e.Seq > seq && !e.refused && (makesState(e.Event) || moves(e.Event)) })
}

// namings are the names of a session, with all lives that there were, in the order of their beginning.
type namings struct {
	of    map[string]*naming
	lives []*life
}

func (n *namings) at(name string) *naming {
	if n.of[name] == nil {
		n.of[name] = &naming{}
	}
	return n.of[name]
}

// holder is the thread that had a name when an event came.
func (n *namings) holder(name string, seq uint64) *life {
	for _, l := range n.lives {
		if slices.ContainsFunc(l.spans, func(s span) bool { return s.name == name && s.from <= seq && (s.to == 0 || s.to > seq) }) {
			return l
		}
	}
	return nil
}

// namesOf reads what SPOOL_EVENTS has of a session. Nothing leaves its name by what may not be applied yet.
//
// What was published again, by a producer that got no ack or by a repair, counts once: a persister passes it over. Of two copies the second
// one counts where the event before was not stored ahead of the first (SPEC P2): its producer was told, and published both again. Until it
// has, the event is in no thread.
func (c *checker) namesOf(ctx context.Context, session string) (*namings, error) {
	if n := c.names[session]; n != nil {
		return n, nil
	}
	if err := c.readLetters(ctx); err != nil {
		return nil, err
	}
	stored, err := c.s.ThreadEvents(ctx, events.Thread{Session: session, Name: events.EveryThread})
	if err != nil {
		return nil, err
	}
	rs, err := c.s.Records(ctx, events.DeletedKey(session))
	if err != nil {
		return nil, err
	}
	w := walk{namings: &namings{of: map[string]*naming{}}, oldest: c.ledger.oldest, floor: c.floor, copies: map[ownCopy]int{}}
	if w.deleted = rs[0].Exists(); w.deleted {
		if d, err := record.DecodeDeleted(rs[0].Value); err == nil {
			w.deletion = d.Seq
		}
	}
	stored = slices.DeleteFunc(stored, func(e record.StoredEvent) bool { return e.Seq <= w.deletion })
	for i := range stored {
		w.copies[ownCopyOf(&stored[i])]++
	}
	for _, e := range c.ledger.markRefused(stored) {
		w.take(e)
	}
	if c.names == nil {
		c.names = map[string]*namings{}
	}
	c.names[session] = w.namings
	return w.namings, nil
}

// walk goes through the events of a session in order.
type walk struct {
	*namings
	oldest   uint64 // sequence of the oldest event that SPOOL_EVENTS has
	floor    uint64 // below it all is applied
	deleted  bool   // the session was, by the event at deletion
	deletion uint64
	copies   map[ownCopy]int // of an event, those that are still to come
}

// ownCopy is what two copies of an event of a session share.
type ownCopy struct {
	name       string
	producer   string
	epoch, seq uint64
}

func ownCopyOf(e *record.StoredEvent) ownCopy {
	return ownCopy{e.Thread.Name, e.Producer, e.Epoch, e.Event.Seq}
}

func (w *walk) take(e replayed) {
	one := ownCopyOf(&e.StoredEvent)
	w.copies[one]--
	n := w.at(e.Thread.Name)
	knows := func(seq uint64) bool {
		return n.life != nil && n.life.seen.Duplicate(e.Producer, e.Epoch, seq) ||
			n.left != nil && n.left.Head.Duplicate(e.Producer, e.Epoch, seq)
	}
	var op events.Control
	if e.Kind == events.KindControl {
		op, _ = events.ParseControl(e.Body)
	}
	leaves := op.Op == events.OpRemove || op.Op == events.OpRename
	switch {
	case n.life == nil && n.left != nil && n.left.To != "": // it was told so, or is a repeat
		return
	case e.Prev != 0 && (w.copies[one] > 0 || w.oldest <= 1) && !knows(e.Prev):
		return
	case n.life != nil && n.life.seen.Duplicate(e.Producer, e.Epoch, e.Event.Seq):
		return
	case leaves && (knows(e.Event.Seq) || e.Seq >= w.floor): // it is done once
		return
	}
	if n.life == nil {
		n.life = &life{spans: []span{{name: e.Thread.Name, from: e.Seq, used: n.left != nil || w.deleted}}}
		n.life.seen.Began = e.Seq
		w.lives = append(w.lives, n.life)
	}
	n.life.seen.Saw(e.Producer, e.Epoch, e.Event.Seq, e.Seq)
	n.life.seen.Applied = e.Seq
	switch {
	case e.refused:
		n.life.evs = append(n.life.evs, e)
	case op.Op == events.OpRename:
		w.rename(n, e, op.Rename.To)
	case op.Op == events.OpRemove:
		n.left = (&apply.Thread{Head: n.life.seen, Left: n.left}).LeaveTo("")
		n.life.end(e.Seq)
		n.life = nil
	case op.Op == events.OpDelete && !w.deleted && e.Seq < w.floor && op.Delete.UnchangedSince == 0: // its record is lost
		w.deleted, w.of = true, map[string]*naming{}
		for _, l := range w.lives {
			l.end(e.Seq)
		}
	case op.Op == events.OpDelete:
	default:
		n.life.evs = append(n.life.evs, e)
	}
}

func (l *life) end(seq uint64) {
	if s := &l.spans[len(l.spans)-1]; s.to == 0 {
		s.to = seq
	}
}

// rename gives the thread of a name another one.
func (w *walk) rename(n *naming, e replayed, to string) {
	l := n.life
	n.left = (&apply.Thread{Head: l.seen, Left: n.left}).LeaveTo(to)
	l.end(e.Seq)
	n.life = nil
	l.renames = append(l.renames, e)
	next := w.at(to)
	if next.left != nil && next.left.To != "" { // it comes back
		next.left = nil
	}
	l.spans = append(l.spans, span{name: to, from: e.Seq, used: next.left != nil || next.life != nil || w.deleted})
	next.life = l
}

// lifeOf is the thread that has a name; nil: SPOOL_EVENTS tells of none.
func (c *checker) lifeOf(ctx context.Context, t events.Thread) (*life, error) {
	n, err := c.namesOf(ctx, t.Session)
	if err != nil || n.of[t.Name] == nil {
		return nil, err
	}
	return n.of[t.Name].life, nil
}

// events are those that SPOOL_EVENTS still has of the thread that has a name, in order, the refused ones too.
func (f *fixer) events(ctx context.Context, t events.Thread) ([]replayed, error) {
	l, err := f.c.lifeOf(ctx, t)
	if err != nil || l == nil {
		return nil, err
	}
	evs := slices.Clone(l.evs)
	for i := range evs {
		evs[i].Thread = t
	}
	return evs, nil
}

// byBeginning orders threads by what began them: what others come from is first.
func (f *fixer) byBeginning(ctx context.Context, ts []events.Thread) error {
	began := map[events.Thread]uint64{}
	for _, t := range ts {
		l, err := f.c.lifeOf(ctx, t)
		if err != nil {
			return err
		}
		if l != nil {
			began[t] = l.seen.Began
		}
	}
	slices.SortStableFunc(ts, func(a, b events.Thread) int { return cmp.Compare(began[a], began[b]) })
	return nil
}
