package persist

import (
	"context"
	"math"
	"slices"
	"time"

	"spool/internal/apply"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// publish tells the world about a commit: the steps of DESIGN 8 after it is durable. Nothing uncommitted is ever shown.
func (p *Persister) publish(ctx context.Context, c *commit) error {
	// Step 3: dead letters. A crash here leaves events without a letter that are noted as refused: whoever gets them again sends it.
	if err := p.At(StepLetters); err != nil {
		return err
	}
	if letters := p.letters(c); len(letters) > 0 {
		for _, d := range letters {
			p.Log.Warn("event goes to the dead letters", "subject", d.Subject, "seq", d.Seq, "error", d.Reason)
		}
		if err := p.sendLetters(ctx, letters); err != nil {
			return err
		}
	}

	// Step 4: items, in order. A crash here leaves threads whose items are not all in ITEMS; their events are not acked, and
	// whoever gets them again reconciles.
	if err := p.retry(ctx, "items", func() error { return p.At(StepItems) }); err != nil {
		return err
	}
	if err := p.publishItems(ctx, c); err != nil {
		return err
	}
	if err := p.retry(ctx, "late items", func() error { return p.takeBack(ctx, c) }); err != nil {
		return err
	}
	p.publishLive(c)
	c.items = nil
	c.room.Release()
	for _, s := range c.events {
		p.count(s)
	}
	if c.deletion != nil {
		if err := p.lane.nothingLeft(ctx, c.deletion.session); err != nil {
			return err
		}
		if err := p.endDeletion(ctx, c); err != nil {
			return err
		}
	}

	// Step 5: ack. A crash here leaves events that come again and are skipped, or are refused again; their letters are not written
	// twice.
	if err := p.At(StepAck); err != nil {
		return err
	}
	if err := p.lane.ack(ctx, c); err != nil {
		return err
	}
	c.through()
	for _, s := range c.events {
		// The body of any other one may be needed still: its producer publishes a superseded event again, with the same body, and what
		// is repeated may be a dead letter. Once no event and no letter claims it, it is gc's.
		if s.event.Ref != nil && s.verdict.Is == apply.Applied {
			body := *s.event.Ref
			if err := p.lane.leave(ctx, leftover{session: s.from.session, body: &body}); err != nil {
				return err
			}
		}
		for _, up := range s.ahead {
			if up.named {
				continue
			}
			if err := p.lane.leave(ctx, leftover{session: s.from.session, upload: up}); err != nil {
				return err
			}
		}
	}
	p.release(c.events...)
	p.stats.applied.Add(int64(len(c.events)))
	return nil
}

// ackEvery is how long an ack waits at most for the next commits: a consumer writes its state to disk for acks, and one
// covers all before it.
const ackEvery = 250 * time.Millisecond

// ack notes what is to be acknowledged, and does it when it is due.
func (l *lane) ack(ctx context.Context, c *commit) error {
	now := false
	for _, s := range c.events {
		// Who comes next is to find done what is tried alone; and whoever published what was refused learns it by the ack.
		now = now || s.alone || s.verdict.Is == apply.Dead
		s.of.deletes = s.of.deletes || l.p.Sessions != nil && s.deletes()
		if !s.last {
			continue
		}
		if s.of.deletes {
			l.emptied, now = append(l.emptied, emptied{delivery: s.of, session: s.event.Thread.Session, stored: s.msg.Stored}), true
			continue
		}
		d := s.of.end()
		if d == nil {
			continue
		}
		if before := l.unacked[d.partition]; before == nil || before.term <= d.term {
			l.unacked[d.partition] = d
		}
	}
	if now || time.Since(l.acked) >= ackEvery {
		return l.ackAll(ctx)
	}
	return nil
}

// ackAll acknowledges, of each partition, the last event up to which all are through, and with it those before. One that deleted its
// session is, once what the session had before is gone: the acks of that, which the server may not have heard yet, come first. Others
// do not wait for that.
func (l *lane) ackAll(ctx context.Context) error {
	for _, d := range l.unacked {
		l.acknowledge(d)
	}
	clear(l.unacked)
	l.acked = time.Now()
	if err := l.endEmptied(); err != nil {
		return err
	}
	for i, d := range l.emptied {
		if d.outcome == nil && d.first() {
			l.emptied[i].outcome = l.purge(ctx, d)
		}
	}
	return nil
}

func (l *lane) acknowledge(d *delivery) {
	if err := d.acknowledge(); err != nil {
		l.p.Log.Debug("ack", "partition", d.partition, "error", err)
	}
}

// discard drops a body from the inbox; what stays after a crash here is gc's.
func (p *Persister) discard(ctx context.Context, ref events.BodyRef) {
	err := p.At(StepDiscard)
	if err == nil {
		err = p.Inbox.DiscardBody(ctx, ref)
	}
	if err != nil {
		p.Log.Warn("discard a body in the inbox", "object", ref.Object, "error", err)
	}
}

// publishItems sends the commit's items, and before them those that an earlier owner of a thread committed and did not
// send.
func (p *Persister) publishItems(ctx context.Context, c *commit) error {
	for _, t := range c.reconcile {
		err := p.retry(ctx, "items", func() error { return p.reconcile(ctx, t) })
		if err != nil && apply.Passing(err) {
			return err
		}
		if err != nil { // its nodes cannot be read: fsck finds that, and other threads go on
			p.stats.itemsRefused.Add(1)
			p.Log.Error("items that were not sent cannot be made again", "thread", t.thread, "error", err)
		}
	}
	if err := p.sendItems(ctx, c, c.items, false); err != nil {
		return err
	}
	for _, t := range c.threads {
		t.sent.Store(t.last)
	}
	p.stats.items.Add(int64(len(c.items)))
	return nil
}

// unsent drops the items that are stored already, and those that were purged with their session since. After an error they are as
// they were, and all are asked for again.
func (p *Persister) unsent(ctx context.Context, of *commit, items []events.Posted) ([]events.Posted, error) {
	type life struct {
		thread events.Thread
		life   uint64
	}
	last := map[life]int64{}
	var rest []events.Posted
	for _, it := range items {
		t, ok := events.ParseItemSubject(it.Subject)
		n, asked := last[life{t, it.Life}]
		if ok && !asked {
			var err error
			if n, err = p.Outbox.LastItemOf(ctx, t, it.Life); err != nil {
				return items, err
			}
			if n == 0 && of != nil {
				gone, err := p.deletedBehind(ctx, of, t.Session)
				if err != nil {
					return items, err
				}
				if gone {
					n = math.MaxInt64
				}
			}
			last[life{t, it.Life}] = n
		}
		if !ok || it.N > n {
			rest = append(rest, it)
		}
	}
	return rest, nil
}

// deletedBehind reports whether a session was deleted behind the events of a commit: by whoever had its partition while this process
// stood still.
func (p *Persister) deletedBehind(ctx context.Context, c *commit, session string) (bool, error) {
	i := slices.IndexFunc(c.events, func(s *staged) bool { return s.event.Thread.Session == session })
	if i < 0 {
		return false, nil
	}
	rs, err := p.Records.Records(ctx, events.DeletedKey(session))
	if err != nil || !rs[0].Exists() {
		return false, err
	}
	rec, err := record.DecodeDeleted(rs[0].Value)
	return err == nil && rec.Before(c.events[i].msg.Seq, c.events[i].msg.Stored), nil //nolint:nilerr // fsck names what cannot be read
}

// takeBack removes what a commit has told of sessions that were deleted behind its events: whoever had its partition, while this process
// stood still, purged them before that came. A crash before this leaves it; deleting the session again takes it.
func (p *Persister) takeBack(ctx context.Context, c *commit) error {
	if time.Since(c.now) < p.cfg.Late || c.deletion != nil {
		return nil
	}
	var keys []string
	first := map[string]*staged{}
	for _, s := range c.events {
		if session := s.event.Thread.Session; first[session] == nil {
			first[session] = s
			keys = append(keys, events.DeletedKey(session))
		}
	}
	rs, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for session, s := range first {
		i := slices.Index(keys, events.DeletedKey(session))
		rec, err := record.DecodeDeleted(rs[i].Value)
		if !rs[i].Exists() || err != nil || !rec.Before(s.msg.Seq, s.msg.Stored) { // fsck names what cannot be read
			continue
		}
		p.Log.Info("what was told late of a deleted session is removed", "session", session)
		if err := p.Sessions.PurgeLate(ctx, session, rec.Seq); err != nil {
			return err
		}
	}
	return nil
}

// reconcile publishes the items of a thread that are committed and not in ITEMS, made again from its nodes. They can be on
// a branch that was left since.
func (p *Persister) reconcile(ctx context.Context, r reconcile) error {
	sent, err := p.Outbox.LastItemOf(ctx, r.thread, r.head.Life)
	if err != nil {
		return err
	}
	sent = max(sent, r.head.Sent)
	if sent >= r.head.N {
		return nil
	}
	var missing []events.Posted
	for it, err := range project.ItemsFrom(ctx, p.reader, r.thread, r.head, sent+1) {
		if err != nil {
			return err
		}
		missing = append(missing, it)
	}
	p.Log.Info("publishing items that were committed and not sent", "thread", r.thread, "items", len(missing))
	return p.sendItems(ctx, nil, missing, false)
}

// reconcile is a thread that came with events which were applied already: its items may be missing.
type reconcile struct {
	thread events.Thread
	head   threads.Head // as it was loaded
}
