package persist

import (
	"context"
	"fmt"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// world answers what an event asks on its way into a commit: from the store, which it waits for. It implements
// apply.World.
type world struct {
	l *lane
	c *commit
}

// errBarrier puts an event aside, with what follows in its session, that must see what is committed: the store does not
// hold the nodes yet that the batch before it made.
var errBarrier = fmt.Errorf("%w: it is for the next batch", apply.ErrUnsettled)

// errEpoch: a commit was refused while this batch was being prepared.
var errEpoch = fmt.Errorf("%w: a commit was refused", apply.ErrUnsettled)

func (w world) Settle(ctx context.Context, of ...events.Thread) error {
	if len(of) == 0 {
		return w.l.barrier(ctx, w.c)
	}
	for _, t := range of {
		if w.c.byKey[t] != nil {
			return errBarrier
		}
		if known := w.l.heads.threads[t]; known != nil && known.gone { // it has left its name, and is stored under it perhaps
			return w.l.barrier(ctx, w.c)
		}
	}
	for _, t := range of {
		if w.l.pending(t) {
			return w.l.settle(ctx, w.c.epoch)
		}
	}
	return nil
}

func (w world) SettleBefore(ctx context.Context, session string) error {
	if w.l.waits(session) {
		w.l.deciding.hold = hold{all: session == "", after: session}
		return errBarrier
	}
	return w.l.barrier(ctx, w.c)
}

// waits reports whether something came before the event that is being applied and is not: of a session, or of any.
func (l *lane) waits(session string) bool {
	for _, of := range l.beside {
		for _, s := range of {
			if s.came < l.deciding.came && (session == "" || session == s.event.Thread.Session) {
				return true
			}
		}
	}
	return l.p.queue.waits(l.deciding, session)
}

// barrier makes sure that all that was prepared before is committed.
func (l *lane) barrier(ctx context.Context, c *commit) error {
	if !c.empty() {
		l.deciding.hold.first = true
		return errBarrier
	}
	return l.settle(ctx, c.epoch)
}

// pending reports whether a thread's record, or the nodes that it leads to, may be in a commit that is under way.
func (l *lane) pending(key events.Thread) bool {
	t := l.heads.threads[key] // one that is not in memory is in none
	return t != nil && t.pending.Load() > 0
}

func (w world) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	return w.l.p.Records.Records(ctx, keys...)
}

func (w world) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return w.l.p.Records.FindPack(ctx, id)
}

func (w world) Holds(ctx context.Context, o record.Object) (there bool, err error) {
	err = w.l.p.retry(ctx, "look for an object", func() error {
		there, err = w.l.p.Bulk.Holds(ctx, o)
		return err
	})
	return there, err
}

func (w world) Reader() threads.Reader { return w.l.reader }

// Near is where the heads of the session's threads in memory are.
func (w world) Near(session string) (packs []casstore.PackID) {
	for _, t := range w.l.heads.threads {
		if t.Key.Session != session {
			continue
		}
		for _, at := range append(t.Head.Located(), t.Head.Tips...) {
			packs = append(packs, at.Pack)
		}
	}
	return packs
}

func (w world) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	if w.l.p.Nodes == nil {
		return casstore.Located{}, casstore.ErrNotFound
	}
	return patientNodes{w.l.p.Nodes, w.l.p}.Locate(ctx, ref)
}

func (w world) Past(ctx context.Context, t events.Thread, producer string, epoch, from, before uint64) (
	past events.Past, err error,
) {
	err = w.l.p.retry(ctx, "look back", func() error {
		past, err = w.l.p.Deps.Past.Past(ctx, t, producer, epoch, from, before)
		return err
	})
	return past, err
}

func (w world) Reused(seq uint64, stored int64) bool { return w.l.p.Reused(seq, stored) }

func (w world) SessionKeys(ctx context.Context, session string) (keys []string, err error) {
	err = w.l.p.retry(ctx, "list a session's records", func() error {
		keys, err = w.l.p.Sessions.SessionKeys(ctx, session)
		return err
	})
	return keys, err
}

func (w world) SessionLive(ctx context.Context, session string) (live record.Live, err error) {
	err = w.l.p.retry(ctx, "look for live runs", func() error {
		live, err = w.l.p.Sessions.SessionLive(ctx, session)
		return err
	})
	for _, u := range live.Unread {
		w.l.p.Log.Warn("a record that cannot be read keeps no session", "record", u.Key, "error", u.Err)
	}
	return live, err
}

// patient reads records until the store answers: whoever decides by them gets no error that passes.
type patient struct {
	bucket
	p *Persister
}

// bucket is Records, under a name that a struct can embed beside a method of that name.
type bucket = Records

func (r patient) Records(ctx context.Context, keys ...string) (rs []record.Record, err error) {
	err = r.p.retry(ctx, "read records", func() error {
		rs, err = r.bucket.Records(ctx, keys...)
		return err
	})
	return rs, err
}

func (r patient) FindPack(ctx context.Context, id casstore.PackID) (found record.FoundPack, err error) {
	err = r.p.retry(ctx, "find a pack", func() error {
		found, err = r.bucket.FindPack(ctx, id)
		return err
	})
	return found, err
}

func (r patient) Fence(ctx context.Context, lane int) (f record.Fence, err error) {
	err = r.p.retry(ctx, "read the fence", func() error {
		f, err = r.bucket.Fence(ctx, lane)
		return err
	})
	return f, err
}

// patientPacks reads packs until the store answers.
type patientPacks struct {
	packs casstore.PackGetter
	p     *Persister
}

func (r patientPacks) Pack(ctx context.Context, id casstore.PackID) (pack *casstore.Pack, err error) {
	err = r.p.retry(ctx, "read a pack", func() error {
		pack, err = r.packs.Pack(ctx, id)
		return err
	})
	return pack, err
}

// patientNodes looks for nodes until the store answers.
type patientNodes struct {
	nodes casstore.NodeLocator
	p     *Persister
}

func (r patientNodes) Locate(ctx context.Context, ref casstore.Ref) (at casstore.Located, err error) {
	err = r.p.retry(ctx, "look for a node", func() error {
		at, err = r.nodes.Locate(ctx, ref)
		return err
	})
	return at, err
}

// patientReader reads threads until the store answers.
func (p *Persister) patientReader() threads.Reader {
	r := threads.Reader{Packs: patientPacks{p.Packs, p}}
	if p.Search != nil {
		r.Nodes = patientNodes{p.Search, p}
	}
	return r
}
