package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A session is deleted by an operation that its partition's persister applies in order with its events (SPEC A6):
//
//	refuse   while a run or an output is live, unless it is forced; and if the session was written to since it was decided
//	remove   its records, in one atomic batch; when they are too many, in several, behind a mark that hides the session
//	free     the bytes of its artifacts that no other session names
//	purge    items and dead letters: once all that was published before is out
//	done
//	events   those before the operation: once they are acknowledged, and all before them in their partition, whosever they are; only
//	         then is the operation acknowledged, which until then comes again to whoever has the partition
//
// Each batch writes the record events.DeletedKey, expecting the revision before, so that of two persisters that both delete one
// stops. The first one demands that nothing was refused in the partition since, and a refusal that the session was not deleted since, so
// that of two persisters of which one refuses the operation one stops too. A crash leaves that record, and the operation,
// which is not acked, in EVENTS: whoever applies it goes on. What is published to the session behind the operation is a
// new life of it; what was before is skipped.

// Sessions finds and takes away what a session has beside what this persister keeps of it.
type Sessions interface {
	// SessionKeys lists the keys of all records that belong to a session, also of those that are removed.
	SessionKeys(ctx context.Context, session string) ([]string, error)
	SessionLive(ctx context.Context, session string) (record.Live, error)
	// UserSessions counts the sessions that each user began, by their records.
	UserSessions(ctx context.Context) (map[string]int64, error)
	// FreeObjects drops bytes that the artifacts of a session named, but for those that another session names too. PurgeSession
	// drops of its items and dead letters what was there when the record was written. PurgeEvents drops its events before a sequence,
	// as far as they are acknowledged, and tells whether these are all. They may be repeated, also once the session has begun anew.
	FreeObjects(ctx context.Context, session string, objects []record.Object) error
	PurgeSession(ctx context.Context, session string, how record.Deleted) error
	PurgeEvents(ctx context.Context, session string, partition int, seq uint64) (all bool, err error)
	// PurgeLate drops the items and dead letters that came behind a deletion of what it took; seq is the sequence of its event.
	PurgeLate(ctx context.Context, session string, seq uint64) error
	// SessionEnds is how far the streams of items and of dead letters are now.
	SessionEnds(ctx context.Context) (items, dead uint64, err error)
}

// deleteBatch is how many records go in one batch: with the deletion's own two and the lane's they fit an atomic batch.
const deleteBatch = 900

// deletion is one under way.
type deletion struct {
	session string
	rec     record.Deleted
	rev     uint64 // of its record

	refusals *refusals // of its partition: whoever refuses the operation writes their record
}

// delete deletes the session of an event, or spares it. When it returns, nothing of a session that is deleted is left in the record
// bucket or in memory.
func (l *lane) delete(ctx context.Context, c *commit, t *thread, s *staged, ch *apply.Change) error {
	if ch.Delete.Spared != nil {
		return l.spare(ctx, c, t, s, ch)
	}
	d := &deletion{session: s.event.Thread.Session, rec: ch.Delete.Rec, rev: t.session.deletedRev, refusals: l.refusals[s.msg.Partition]}
	// What was judged before it in the batch is verified now: afterwards nothing is left to hold it against.
	if err := l.verify(ctx, c); err != nil {
		return err
	}
	c.undoubt(d.session)
	err := l.p.retry(ctx, "delete session", func() error { return l.p.removeRecords(ctx, d) })
	switch {
	case errors.Is(err, record.ErrConflict): // another persister is at it: what it did so far is to be read
		l.epoch.Add(1)
		return errEpoch
	case errors.Is(err, apply.ErrWritten):
		return l.spare(ctx, c, t, s, apply.Spare(world{l, c}, l.state(c, t, s), s.event, err))
	case err != nil && !never(err):
		return err
	}
	l.forget(d.session) // a part of it may be gone if not all
	c.ends = true
	if err != nil {
		s.verdict = apply.Refused(err)
		return nil
	}
	c.deletion = d
	l.users.add(t.session.Info.User, -1)
	l.p.Log.Info("session deleted", "session", d.session, "threads", d.rec.Gone.Threads, "records", d.rec.Gone.Records)
	return nil
}

// spare notes that a session is not deleted.
func (l *lane) spare(ctx context.Context, c *commit, t *thread, s *staged, ch *apply.Change) error {
	l.p.Log.Info("session not deleted", "session", s.event.Thread.Session, "reason", ch.Delete.Spared)
	if ch.Delete.Note {
		if err := l.p.retry(ctx, "note a deletion that is refused", func() error { return l.noteWithout(ctx, t, s) }); err != nil {
			return err
		}
		ch.Left = t.Left
	}
	l.take(c, t, s, ch)
	return nil
}

// forget drops what is in memory of a session; all that was prepared before is committed.
func (l *lane) forget(session string) {
	gone := map[string]bool{session: true}
	l.heads.forget(gone)
	l.outputs.forget(gone)
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.latched, func(t events.Thread, _ latched) bool { return t.Session == session })
	maps.DeleteFunc(l.lost, func(key string, _ error) bool { return events.SessionOf(key) == session })
}

// going is a record that is to be removed, and the bytes that it names.
type going struct {
	key  string
	rev  uint64
	free []byte // locator
}

// removeRecords removes the records of a session, and frees what they name. record.ErrConflict: another persister does it.
func (p *Persister) removeRecords(ctx context.Context, d *deletion) error {
	if err := p.free(ctx, d); err != nil {
		return err
	}
	for d.rec.State != record.Removed {
		// An artifact that is put behind the inventory would stay, with a number that the next life gives out again. The one batch
		// is refused then. Once the deletion has begun nobody makes one, so that of several batches the second inventory has all.
		newest, err := p.Records.Records(ctx, events.ArtifactKeys(d.session, ""))
		if err != nil {
			return err
		}
		list, gone, removed, err := p.inventory(ctx, d.session)
		if err != nil {
			return err
		}
		if d.rec.State == 0 {
			d.rec.Gone, d.rec.Removed = gone, removed
			if list, err = p.unchanged(ctx, d, list); err != nil {
				return err
			}
		}
		begun := d.rec.State != 0
		var alone []record.Put
		if !begun && len(list) <= deleteBatch {
			alone = []record.Put{p.demand(events.ArtifactKeys(d.session, ""), newest[0].Seq)}
		}
		for d.rec.State != record.Removed {
			n := min(len(list), deleteBatch)
			changed, err := p.removeSome(ctx, d, list[:n], n == len(list), alone)
			if err != nil {
				return err
			}
			if changed || !begun { // somebody put an artifact there, or a collector began
				break
			}
			list = list[n:]
		}
	}
	return nil
}

// unchanged is apply.ErrWritten if the deletion minds and a record is of after it was decided. The first batch expects the records that it
// removes as they are here: the counter is among them, from which each new artifact takes its number.
func (p *Persister) unchanged(ctx context.Context, d *deletion, list []going) ([]going, error) {
	since, counter := d.rec.UnchangedSince, events.CounterKey(d.session)
	if since == 0 {
		return list, nil
	}
	for _, g := range list {
		if g.rev > since {
			return nil, fmt.Errorf("%w: %s at sequence %d, above %d", apply.ErrWritten, g.key, g.rev, since)
		}
	}
	if i := slices.IndexFunc(list, func(g going) bool { return g.key == counter }); i >= 0 {
		list[0], list[i] = list[i], list[0]
		return list, nil
	}
	rs, err := p.Records.Records(ctx, counter)
	if err != nil {
		return nil, err
	}
	if rs[0].Exists() {
		return nil, fmt.Errorf("%w: it has its first artifact", apply.ErrWritten)
	}
	return slices.Insert(list, 0, going{key: counter, rev: rs[0].Seq}), nil
}

// removeSome removes a batch of records, the only one if there is a demand that it is alone with. changed: one of them is another by
// now, or the demand is not met; nothing was done.
func (p *Persister) removeSome(ctx context.Context, d *deletion, list []going, last bool, alone []record.Put) (changed bool, err error) {
	next := d.rec
	next.State, next.Free = record.Removing, nil
	mark := []byte{1}
	if last {
		next.State, mark = record.Removed, nil
	}
	puts := append(make([]record.Put, 1, len(list)+2), alone...)
	for _, g := range list {
		puts = append(puts, record.Put{Key: g.key, Expect: g.rev})
		if g.free != nil {
			next.Free = append(next.Free, g.free)
		}
	}
	if alone == nil {
		puts = append(puts, record.Put{Key: events.DeletingKey(d.session), Value: mark, Expect: record.Any})
	}
	if d.rec.State == 0 {
		puts = append(puts, p.demand(events.RefusedKey(d.refusals.partition), d.refusals.rev))
	}
	// A crash here leaves the records of this batch and the later ones, behind the mark if there were earlier ones.
	if err := p.At(StepRemove); err != nil {
		return false, err
	}
	begins := d.rec.State == 0
	if changed, err = p.note(ctx, d, next, puts); changed && begins {
		return true, p.refusedMeanwhile(ctx, d)
	}
	if err != nil || changed {
		return changed, err
	}
	return false, p.free(ctx, d)
}

// refusedMeanwhile is record.ErrConflict if another persister refused something of the partition since that was read: it may have been
// this deletion.
func (p *Persister) refusedMeanwhile(ctx context.Context, d *deletion) error {
	rs, err := p.Records.Records(ctx, events.RefusedKey(d.refusals.partition))
	if err == nil && rs[0].Seq != d.refusals.rev {
		err = fmt.Errorf("%w: partition %d: something was refused elsewhere", record.ErrConflict, d.refusals.partition)
	}
	return err
}

// note writes the deletion's record, as the first of puts. changed: it is as it was, and another of the records is not.
func (p *Persister) note(ctx context.Context, d *deletion, next record.Deleted, puts []record.Put) (changed bool, err error) {
	key := events.DeletedKey(d.session)
	puts[0] = record.Put{Key: key, Value: next.Encode(), Expect: d.rev}
	fence, err := p.Records.Fence(ctx, p.cfg.Lane)
	if err != nil {
		return false, err
	}
	rev, err := p.Records.Commit(ctx, fence, puts)
	if errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrUnknown) {
		rs, e := p.Records.Records(ctx, key)
		switch {
		case e != nil:
			return false, e
		case rs[0].Seq == d.rev:
			return errors.Is(err, record.ErrConflict), notConflict(err)
		case string(rs[0].Value) != string(puts[0].Value):
			return false, fmt.Errorf("%w: session %s is being deleted elsewhere", record.ErrConflict, d.session)
		}
		rev, err = rs[0].Seq, nil // done, and the answer was lost
	}
	if err == nil {
		d.rec, d.rev = next, rev
	}
	return false, err
}

func notConflict(err error) error {
	if errors.Is(err, record.ErrConflict) {
		return nil
	}
	return err
}

// free drops the bytes that the last batch left without a record. With Erase those under names of our own are left to
// whoever writes over them, and to gc.
func (p *Persister) free(ctx context.Context, d *deletion) error {
	var objects []record.Object
	for _, b := range d.rec.Free {
		o, err := record.DecodeLocator(b)
		if err != nil { // gc finds bytes that no record names
			p.Log.Warn("where the bytes of a removed artifact are cannot be read", "session", d.session, "error", err)
			continue
		}
		if !d.rec.Erase || o.Name != "" && !ours(o.Name) {
			objects = append(objects, o)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	// A crash here leaves bytes that the deletion's record names.
	if err := p.At(StepFree); err != nil {
		return err
	}
	return p.Sessions.FreeObjects(ctx, d.session, objects)
}

// ours reports whether an artifact's object has a name as Spool gives it: <session>/<artifact>/<file>.
func ours(object string) bool { return strings.Count(object, "/") == 2 }

// inventory lists the records of a session, and counts what goes with them, and what went before with threads that were removed.
func (p *Persister) inventory(ctx context.Context, session string) (
	list []going, gone record.Gone, removed []record.Removal, err error,
) {
	keys, err := p.Sessions.SessionKeys(ctx, session)
	if err != nil {
		return nil, gone, nil, err
	}
	for some := range slices.Chunk(keys, deleteBatch) {
		rs, err := p.Records.Records(ctx, some...)
		if err != nil {
			return nil, gone, nil, err
		}
		for _, r := range rs {
			if !r.Exists() {
				continue
			}
			class, err := record.ClassOf(r.Key)
			if err != nil { // it may name bytes that others need
				return nil, gone, nil, fmt.Errorf("delete session %s: %w", session, err)
			}
			if was, ok := removal(r, class); ok {
				removed = append(removed, was)
			}
			list = append(list, going{r.Key, r.Seq, count(&gone, r, class)})
		}
	}
	slices.SortFunc(removed, func(a, b record.Removal) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, gone, removed[max(0, len(removed)-record.MostRemovals):], nil
}

// removal is what a record says that a removed thread had: of one that was renamed it counts nothing.
func removal(r record.Record, class record.Class) (was record.Removal, ok bool) {
	if class.Name != "left" {
		return was, false
	}
	l, err := record.DecodeLeft(r.Value)
	if err != nil {
		return was, false
	}
	h, err := threads.DecodeHead(l.Head)
	return record.Removal{Seq: r.Seq, Entries: h.Entries, Items: h.N, Bytes: h.BytesIn}, err == nil && h.Entries > 0
}

// count adds a record, and gives the locator of bytes that it names. One that cannot be read is removed all the same; its bytes
// are gc's.
func count(g *record.Gone, r record.Record, class record.Class) (free []byte) {
	g.Records++
	switch class.Name {
	case "thread", "history":
		g.Threads++
		if h, err := threads.DecodeHead(r.Value); err == nil {
			g.Entries, g.Items, g.Bytes = g.Entries+h.Entries, g.Items+h.N, g.Bytes+h.BytesIn
		}
	case "artifact":
		g.Artifacts++
		if a, err := artifacts.DecodeRecord(r.Value); err == nil {
			g.ArtifactBytes += max(a.Size, 0)
		}
	case "output":
		g.Outputs++
	case "run":
		g.Runs++
	case "prompt":
		g.Prompts++
	}
	if o, err := class.Object(r.Value); err == nil && o.NUID != "" {
		free = o.Locator()
	}
	return free
}

// endDeletion finishes a deletion. One that is refused for good stops no other session: what is left of it in the streams stays there
// until it is deleted again.
func (p *Persister) endDeletion(ctx context.Context, c *commit) error {
	err := p.retry(ctx, "delete session", func() error { return p.finishDeletion(ctx, c.deletion) })
	if !never(err) {
		return err
	}
	if e := p.retry(ctx, "probe the store", func() error { return p.probe(ctx, c.fence) }); e != nil {
		return fmt.Errorf("%w (and so is a commit of nothing: %w)", err, e)
	}
	p.Log.Error(unfinished, "session", c.deletion.session, "error", err)
	return nil
}

const unfinished = "a deletion cannot be finished: delete the session again to purge its events, items and dead letters"

// finishDeletion is the part behind the batch's items. Another persister may go on with it at the same time, or may have done it all,
// and died since: what the record says counts.
func (p *Persister) finishDeletion(ctx context.Context, d *deletion) error {
	for {
		if left, err := p.learnDeletion(ctx, d); !left || err != nil { // what is there now may be of a new life
			return err
		}
		if err := p.At(StepPurge); err != nil {
			return err
		}
		// Whoever purges does it up to where the record says that the streams were, if it is late too.
		next := d.rec
		next.Free = nil
		if next.Items|next.Dead == 0 {
			var err error
			if next.Items, next.Dead, err = p.Sessions.SessionEnds(ctx); err != nil {
				return err
			}
			if !next.Erase {
				if ours, err := p.goOn(ctx, d, next); err != nil {
					return err
				} else if !ours {
					continue
				}
			}
		}
		if !next.Erase {
			if err := p.Sessions.PurgeSession(ctx, d.session, d.rec); err != nil {
				return err
			}
		}
		// A crash here leaves the operation to be applied again: there is nothing left for it to do but this.
		if err := p.At(StepDone); err != nil {
			return err
		}
		next.State = record.Done
		if ours, err := p.goOn(ctx, d, next); ours || err != nil {
			return err
		}
	}
}

// learnDeletion reads how far a deletion is. left is false if there is nothing left to do for it.
func (p *Persister) learnDeletion(ctx context.Context, d *deletion) (left bool, err error) {
	rs, err := p.Records.Records(ctx, events.DeletedKey(d.session))
	if err != nil || rs[0].Seq == d.rev {
		return err == nil && d.rec.State != record.Done, err
	}
	if !rs[0].Exists() {
		return false, nil
	}
	rec, err := record.DecodeDeleted(rs[0].Value)
	if err != nil || rec.Seq != d.rec.Seq || rec.Stored != d.rec.Stored || rec.State != record.Removed {
		return false, err
	}
	d.rec, d.rev = rec, rs[0].Seq
	return true, nil
}

// goOn writes how far a deletion is. ours is false if another persister went on with it meanwhile.
func (p *Persister) goOn(ctx context.Context, d *deletion, next record.Deleted) (ours bool, err error) {
	for {
		changed, err := p.note(ctx, d, next, make([]record.Put, 1))
		if errors.Is(err, record.ErrConflict) {
			return false, nil
		}
		if err != nil || !changed { // changed: a collector began
			return err == nil, err
		}
	}
}
