package persist

import (
	"context"
	"fmt"
	"slices"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// world answers what an event asks on its way into a commit: from the store, which it waits for. It implements
// apply.World and apply.Back.
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
	if slices.ContainsFunc(of, w.l.pending) {
		return w.l.settle(ctx, w.c.epoch)
	}
	return nil
}

func (w world) Told(ctx context.Context) error {
	if len(w.c.reconcile) > 0 { // this commit is to tell what another process committed
		w.l.deciding.hold.first = true
		return errBarrier
	}
	return w.l.tell(ctx)
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

func (w world) Holds(ctx context.Context, o record.Object) (bool, error) {
	return asked(ctx, w.l.p, "look for an object", func() (bool, error) { return w.l.p.Bulk.Holds(ctx, o) })
}

func (w world) Reader() threads.Reader { return w.l.reader }

// Near is where the heads of the session's threads in memory are.
func (w world) Near(session string) (packs []casstore.PackID) {
	known := w.l.heads.sessions[session]
	if known == nil {
		return nil
	}
	for name := range known.names {
		if t := w.l.heads.threads[events.Thread{Session: session, Name: name}]; t != nil {
			for _, at := range append(t.Head.Located(), t.Head.Tips...) {
				packs = append(packs, at.Pack)
			}
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

func (w world) Past(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64,
) (events.Past, error) {
	return w.past(ctx, t, producer, epoch, from, before, 0)
}

func (w world) past(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64, most int,
) (events.Past, error) {
	w.l.lookedBack = true
	return asked(ctx, w.l.p, "look back", func() (events.Past, error) {
		return w.l.p.Deps.Past.Past(ctx, t, producer, epoch, from, before, most)
	})
}

func (w world) Reused(seq uint64, stored int64) bool { return w.l.p.Reused(seq, stored) }

func (w world) SessionKeys(ctx context.Context, session string) ([]string, error) {
	return asked(ctx, w.l.p, "list a session's records", func() ([]string, error) {
		return w.l.p.Sessions.SessionKeys(ctx, session)
	})
}

func (w world) SessionLive(ctx context.Context, session string) (live record.Live, err error) {
	live, err = asked(ctx, w.l.p, "look for live runs", func() (record.Live, error) {
		return w.l.p.Sessions.SessionLive(ctx, session)
	})
	for _, u := range live.Unread {
		w.l.p.Log.Warn("a record that cannot be read keeps no session", "record", u.Key, "error", u.Err)
	}
	return live, err
}

// asked asks until the store answers.
func asked[T any](ctx context.Context, p *Persister, what string, ask func() (T, error)) (v T, err error) {
	err = p.retry(ctx, what, func() (err error) {
		v, err = ask()
		return err
	})
	return v, err
}

// patient reads records until the store answers: whoever decides by them gets no error that passes.
type patient struct {
	bucket
	p *Persister
}

// bucket is Records, under a name that a struct can embed beside a method of that name.
type bucket = Records

func (r patient) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	return asked(ctx, r.p, "read records", func() ([]record.Record, error) { return r.bucket.Records(ctx, keys...) })
}

func (r patient) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return asked(ctx, r.p, "find a pack", func() (record.FoundPack, error) { return r.bucket.FindPack(ctx, id) })
}

func (r patient) Fence(ctx context.Context, lane int) (record.Fence, error) {
	return asked(ctx, r.p, "read the fence", func() (record.Fence, error) { return r.bucket.Fence(ctx, lane) })
}

// patientPacks reads packs until the store answers.
type patientPacks struct {
	packs casstore.PackGetter
	p     *Persister
}

func (r patientPacks) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	return asked(ctx, r.p, "read a pack", func() (*casstore.Pack, error) { return r.packs.Pack(ctx, id) })
}

// patientNodes looks for nodes until the store answers.
type patientNodes struct {
	nodes casstore.NodeLocator
	p     *Persister
}

func (r patientNodes) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	return asked(ctx, r.p, "look for a node", func() (casstore.Located, error) { return r.nodes.Locate(ctx, ref) })
}

// patientReader reads threads until the store answers.
func (p *Persister) patientReader() threads.Reader {
	r := threads.Reader{Packs: patientPacks{p.Packs, p}}
	if p.Search != nil {
		r.Nodes = patientNodes{p.Search, p}
	}
	return r
}
