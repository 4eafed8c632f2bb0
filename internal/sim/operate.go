package sim

import (
	"context"
	"errors"
	"time"

	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// operate does what is no agent's: something to a process, to the server, or a command of an operator.
func (d *driver) operate(o Op) {
	switch o.Do {
	case Sleep:
		d.until = time.Now().Add(ms(o.Ms))
	case Settle:
		d.until = time.Now().Add(max(ms(o.Ms), 1500*time.Millisecond))
	case Collect, Keep, Undelete, Retain, Fsck, BackUp, Index:
		d.command(o)
	case Refuse, DropAsk, DropTell, Late, DieAt:
		d.faults = append(d.faults, newFault(o))
	case KillStep, PauseStep:
		d.mu.Lock()
		d.pace.steps = append(d.pace.steps, &stepFault{o, o.N})
		d.mu.Unlock()
	case Stale:
		d.mu.Lock()
		d.stale = o.N
		d.mu.Unlock()
	case Slow:
		d.slowDown(o)
	case Away:
		d.srv.SetDown(true)
	case Back:
		d.srv.SetDown(false)
	case Crash:
		d.srv.Crash()
	case Subscribe:
		d.readers = append(d.readers, d.follow(o.Kind == 1, o.N, o.Ms))
	case Unsubscribe:
		d.unsubscribe(o.Who)
	default:
		d.toProcess(o)
	}
}

// toProcess does something to an agent's process or to a persister.
func (d *driver) toProcess(o Op) {
	switch o.Do {
	case Die, FreezeAgent, ThawAgent, CutAgent, Replace:
		d.toAgent(o)
		return
	case StartOne:
		p := d.startPersister(len(d.persisters))
		d.persisters = append(d.persisters, p)
		return
	}
	p := d.persister(o.Who)
	if p == nil || p.dead.Load() {
		return
	}
	switch o.Do {
	case StopOne:
		p.dead.Store(true)
		p.cancel()
	case KillOne:
		p.kill()
	case FreezeOne:
		d.srv.Freeze(p.name)
	case ThawOne:
		d.srv.Thaw(p.name)
	case CutOne:
		d.srv.Cut(p.name)
	}
}

func (d *driver) toAgent(o Op) {
	a := d.agents[o.Who%len(d.agents)]
	switch o.Do {
	case Die:
		a.proc.kill()
		time.Sleep(time.Millisecond) // its files are closed, as a system does at once
		for !a.idle() {              // what it was doing ends; nobody is told how
			time.Sleep(time.Millisecond)
		}
		a.begin()
	case FreezeAgent:
		d.srv.Freeze(a.proc.name)
	case ThawAgent:
		d.srv.Thaw(a.proc.name)
		d.thawReplaced(a)
	case Replace:
		d.srv.Freeze(a.proc.name)
		a.replaced = append(a.replaced, a.proc)
		a.done = nil // what it was doing goes on beside
		a.begin()
	case CutAgent:
		d.srv.Cut(a.proc.name)
	}
}

// thawReplaced has the processes go on that stood still when others took their place.
func (d *driver) thawReplaced(a *agent) {
	for _, p := range a.replaced {
		d.srv.Thaw(p.name)
	}
}

// unsubscribe ends a reader as a crash does. A durable one goes on with the next Subscribe.
func (d *driver) unsubscribe(i int) {
	if len(d.readers) == 0 {
		return
	}
	r := d.readers[i%len(d.readers)]
	r.whole = false
	r.kill()
}

// command runs a command of an operator, one at a time.
func (d *driver) command(o Op) {
	d.busy.Add(1)
	d.commands.Add(1)
	index := d.next
	go func() {
		defer d.busy.Add(-1)
		defer d.commands.Add(-1)
		ctx, cancel := context.WithTimeout(d.operator.ctx, 2*time.Minute)
		defer cancel()
		err := d.run1(ctx, o)
		d.trace.add("op %d ends: %s", index, short(err))
	}()
}

func (d *driver) run1(ctx context.Context, o Op) error {
	conn, err := d.operator.connect()
	if err != nil {
		return err
	}
	switch o.Do {
	case Collect, Undelete:
		return d.collect(ctx, conn, o)
	case Keep:
		return d.keep(ctx, conn, o)
	case BackUp:
		return d.backUp(ctx, conn)
	case Index:
		return d.index(ctx, conn, o)
	case Retain:
		r := service.Retention{Conn: conn, Policies: []retention.Policy{{Name: "old", MaxAge: ms(max(o.Ms, 1))}},
			By: "sim", Log: d.log, Share: 1}
		_, err := r.Apply(ctx)
		return err
	case Fsck:
		if o.Kind == 1 {
			_, err = fsck.Fix(ctx, natsadmin.Of(conn), natsadmin.Of(conn), conn.Store(0), fsck.Config{})
			return err
		}
		r, err := fsck.Check(ctx, natsadmin.Of(conn), fsck.Config{})
		if err == nil {
			for _, f := range r.Findings {
				d.ledger.fault("fsck beside writers: %s", f)
			}
		}
		return err
	}
	return nil
}

// collect runs a cycle of gc, or takes back what one condemned.
func (d *driver) collect(ctx context.Context, conn *natsio.Conn, o Op) error {
	cfg := gc.Config{Share: 1, InboxAge: time.Hour, Follow: 24 * time.Hour, Ended: 24 * time.Hour, Merge: 2}
	switch o.Kind {
	case 1:
		cfg.Quarantine = 24 * time.Hour
	case 2:
		cfg.Follow, cfg.Ended = 0, 0
	}
	c, err := service.NewCollector(conn, cfg, d.log)
	if err != nil {
		return err
	}
	c.At = func(step gc.Step) error {
		if d.atStep(ctx, "gc "+string(step)) {
			return errKilled
		}
		return nil
	}
	c.Records = waits{c.Records, c.At}
	if o.Do == Undelete {
		u, err := c.Undelete(ctx)
		if err != nil && !errors.Is(err, gc.ErrPartly) && !errors.Is(err, gc.ErrNothing) {
			return err
		}
		d.trace.add("undelete: %d restored, %d unburied, lost %q", len(u.Restored), u.Unburied, u.Lost)
		return d.undeleted(ctx, conn)
	}
	if o.Kind != 1 { // what it takes is gone for good
		d.keepsakes = nil
	}
	_, r, err := service.Collect(ctx, conn, c, true)
	if errors.Is(err, gc.ErrUnsafe) {
		d.ledger.fault("a cycle of gc finds what is referred to missing: %v", err)
	}
	d.trace.add("gc: condemned %d, repacked %d, reclaimed %d", r.Done.Condemned, r.Done.Repacked, r.Done.Reclaimed)
	return err
}

// keepsake is a thread as it was: as long as all collectors keep a quarantine, all of it can be had back.
type keepsake struct {
	head   threads.Head
	thread events.Thread
}

func (d *driver) keep(ctx context.Context, conn *natsio.Conn, o Op) error {
	t := threadOf(o.Session, o.Thread)
	head, err := client.New(conn).Thread(t).Head(ctx)
	if err == nil {
		d.keepsakes = append(d.keepsakes, keepsake{head, t})
	}
	return err
}

// undeleted checks that what Undelete says is had back is whole.
func (d *driver) undeleted(ctx context.Context, conn *natsio.Conn) error {
	for _, k := range d.keepsakes {
		n := int64(0)
		for _, err := range client.New(conn).Internal().RawEntries(ctx, k.head) {
			if record.Temporary(err) {
				return err
			}
			if err != nil {
				d.ledger.fault("undelete gives back %s as it was kept, and of its %d entries %d can be read: %v", k.thread,
					k.head.Entries, n, err)
				break
			}
			n++
		}
	}
	return nil
}
