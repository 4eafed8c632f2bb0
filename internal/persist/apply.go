package persist

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// apply decides over one event, and takes into the commit what becomes of it. An error is for the lane: the event is
// not judged, and nothing is changed.
func (l *lane) apply(ctx context.Context, c *commit, s *staged) error {
	refused := c.refusedBefore(s)
	s.verdict = apply.Refused(cmp.Or(refused, s.bad)) // what was found over another head does not count
	if !s.known {
		return nil
	}
	t, err := l.settledThread(ctx, c, s.event.Thread)
	if err != nil {
		return err
	}
	w, st, e := world{l, c}, l.state(c, t, s), s.event
	if l.p.Deps.Past != nil {
		st.Back = w
	}
	e.Now, e.Bad, e.Refused = c.now, cmp.Or(s.bad, l.refusedElsewhere(c, t, s)), refused
	e.PrevRefused = l.refusedNowhere(c, t, s, e.Prev)
	change, verdict, err := apply.Event(ctx, w, st, e)
	if err != nil {
		return err
	}
	s.verdict = verdict
	if change.Nowhere {
		l.noteNowhere(c, t, s)
	}
	if change.Delete != nil {
		return l.delete(ctx, c, t, s, change)
	}
	l.take(c, t, s, change)
	return nil
}

// keptRuns is how many runs of a thread stay in memory while nothing is under way.
const keptRuns = 64

// state is what is known before an event.
func (l *lane) state(c *commit, t *thread, s *staged) apply.State {
	if len(t.Runs) >= keptRuns && c.byKey[t.Key] == nil && t.pending.Load() == 0 {
		clear(t.Runs)
	}
	st := apply.State{
		Thread: &t.Thread, Session: &t.session.Session, Rules: l.p.rules, Latched: l.latchedBy(t.Key), Room: &l.room,
		UserSessions: l.users.sessions[s.event.User],
		Batch: apply.Batch{
			ID: c.id, Pack: casstore.PackID(c.id), Records: c.records, Runs: c.runs, Results: len(c.results), Items: &c.room,
		},
	}
	if s.event.Kind == events.KindChunk {
		if o := l.outputs.outputs[s.outputKey()]; o != nil {
			st.Output, st.Opened = &o.Output, o.fresh == c
		}
	}
	if n := l.outputs.counters[t.Key.Session]; n != nil {
		st.Counter, st.CounterBad = &n.rec, n.bad
	}
	return st
}

// take makes a change so: in the commit, and in what is in memory of its thread, session and output. It cannot fail.
func (l *lane) take(c *commit, t *thread, s *staged, ch *apply.Change) {
	for _, r := range ch.Reconcile {
		if errors.Is(s.bad, apply.ErrPoison) { // it was applied, and its items may be what processes die over
			l.p.stats.itemsRefused.Add(1)
			l.p.Log.Error("items that were not sent are left out", "thread", r.Thread, "error", s.bad)
			continue
		}
		c.reconcile = append(c.reconcile, reconcile{r.Thread, r.Head})
	}
	if ch.Doubt {
		c.doubt(t)
	}
	if ch.Info != nil {
		c.infos[t.session] = nil
	}
	if ch.Begins {
		l.users.add(s.event.User, 1)
	}
	ch.Session(&t.session.Session, apply.MarkedBy(&s.event.Event))
	if ch.Mark != nil {
		l.heads.count(t)
	}
	if ch.Noted {
		c.takeThread(t, ch)
		c.takeBytes(s, ch)
	}
	before := t.Places.Len()
	ch.Thread(&t.Thread)
	l.heads.boundPlaces(t, t.Places.Len()-before)
	if ch.Leaves != nil {
		l.takeName(c, t, ch.Leaves)
	}
	c.takeRecords(ch)
	l.takeOutputs(c, t, s, ch)
	l.p.stats.add(&ch.Counts)
	if why := ch.Counts.TooLarge; why != nil {
		l.p.stats.itemsTooLarge.Add(1)
		l.p.Log.Warn("an item is too large: a stub has its number, and its thread is failed until it is reopened",
			"thread", t.Key, "seq", s.msg.Seq, "error", why)
	}
	if unread := ch.Counts.Unread; len(unread) > 0 {
		l.p.stats.rowsUnread.Add(int64(len(unread)))
		l.p.Log.Warn("a fork does not get all artifacts of its source: their records cannot be read",
			"thread", t.Key, "seq", s.msg.Seq, "keys", unread)
	}
	l.p.tell(s, int(ch.Counts.Secrets))
}

// takeThread has the commit change a thread, and gives the commit its pack when it is the first.
func (c *commit) takeThread(t *thread, ch *apply.Change) {
	if c.pack.IsZero() {
		c.nodes = builders.Get().(*casstore.PackBuilder)
		c.pack = casstore.PackID(c.id)
		c.blobs = map[casstore.Ref][]byte{}
		c.uploads = map[casstore.Ref]*uploaded{}
		c.refers = map[casstore.Ref]bool{}
	}
	n := c.byKey[t.Key]
	if n == nil || ch.Moved { // what a later state refers to beside this is in the pack itself
		c.locate(ch.On.Start)
		c.locate(ch.On.Recent...)
	}
	if n == nil {
		on := ch.On.Head()
		n = &touched{thread: t, was: t.Key, key: t.Key, base: on.Pack}
		c.byKey[t.Key] = n
		c.threads = append(c.threads, n)
	}
	c.locate(ch.Locate...)
	for _, id := range ch.Beside {
		if id != c.pack {
			n.beside = append(n.beside, id)
		}
	}
	n.refers = append(n.refers, ch.Refers...)
}

// locate tells the pack being built where the nodes are that a thread's next states refer to.
func (c *commit) locate(at ...casstore.Located) {
	for _, l := range at {
		if !l.IsZero() && l.Pack != c.pack {
			c.nodes.Locate(l)
		}
	}
}

func (c *commit) takeBytes(s *staged, ch *apply.Change) {
	c.nodes.AddDraft(&ch.Nodes)
	for _, b := range ch.Blobs {
		if b.Bytes != nil {
			c.blobs[b.Ref] = b.Bytes
		} else {
			c.uploads[b.Ref] = s.uploaded(b.Ref)
		}
	}
	for _, ref := range ch.Holds {
		c.refers[ref] = true
	}
	c.items = append(c.items, ch.Items...)
	for _, r := range ch.Results {
		c.results = append(c.results, &attached{Record: r.Record, text: r.Text})
	}
}

// takeName gives a thread its new name, or none.
func (l *lane) takeName(c *commit, t *thread, to *apply.Leaving) {
	n := c.byKey[t.Key]
	n.leaves = to
	if to.To == "" {
		n.base, t.gone = casstore.PackID{}, true
		return
	}
	target := events.Thread{Session: t.Key.Session, Name: to.To}
	l.liftMoved(target, to.Takes)
	l.heads.put(&thread{Thread: apply.Thread{Key: t.Key}, session: t.session, gone: true, became: t, bytes: t.bytes})
	delete(c.byKey, t.Key)
	t.Key, n.key = target, target
	c.byKey[target] = n
	l.heads.put(t)
}

// takeRecords takes records that are written as they are.
func (c *commit) takeRecords(ch *apply.Change) {
	for _, key := range ch.Unput {
		delete(c.records, key)
	}
	maps.Copy(c.records, ch.Puts)
	c.rows = append(c.rows, ch.Rows...)
	if ch.Run == nil {
		return
	}
	if c.runs == nil {
		c.runs = map[string]record.Put{}
	}
	c.runs[ch.Run.Put.Key] = ch.Run.Put
}

// takeOutputs takes a piece of an output, and numbers of artifacts.
func (l *lane) takeOutputs(c *commit, t *thread, s *staged, ch *apply.Change) {
	for _, key := range ch.OutputsMoved {
		l.outputs.move(key)
	}
	for _, key := range ch.OutputsDropped {
		l.outputs.drop(key)
	}
	if ch.Counter != nil {
		n := l.outputs.counters[t.Key.Session]
		n.rec = *ch.Counter
		c.numbers[n] = nil
	}
	if ch.Output == nil {
		return
	}
	o := l.outputs.outputs[s.outputKey()]
	if ch.Output.Begins != nil {
		o.fresh = c
		o.Take(ch.Output, &l.p.rules)
		c.touch(o)
		return
	}
	n := c.touch(o)
	n.live = append(n.live, o.Take(ch.Output, &l.p.rules)...)
	if end := ch.Output.Ends; end != nil {
		n.ended, n.artifact, n.end = true, end.Artifact, &end.End
	}
}
