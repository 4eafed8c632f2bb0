package sim

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/backup"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/memjs"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// saved is a backup that was taken while agents went on.
type saved struct {
	manifest backup.Manifest
	upTo     uint64 // all events up to here were stored before it began
}

func (d *driver) repository(create bool) (*backup.Repository, error) {
	return backup.Open(filepath.Join(d.dir, "backup"), create)
}

// backUp adds a snapshot to the repository of the run.
func (d *driver) backUp(ctx context.Context, conn *natsio.Conn) error {
	repo, err := d.repository(true)
	if err != nil {
		return err
	}
	upTo := uint64(0)
	for _, m := range d.srv.Messages(events.EventsStream) {
		upTo = max(upTo, m.Seq)
	}
	m, err := backup.Create(ctx, conn, repo, nil)
	if err == nil {
		d.saved = &saved{m, upTo}
	}
	d.trace.add("backup: %d events, %d records, %d objects", m.Events, m.Records, m.Objects)
	return err
}

// restored puts the last backup into an empty store, has a persister and an agent go on there, and holds the store
// against the model: of every thread that goes on to this day, what was published before the backup is there, nothing
// that was never in it, each entry once and in its order; and what is published there comes behind.
func (j *judgement) restored() {
	if j.saved == nil || j.p.wants(Crash) {
		return
	}
	p := Program{Seed: j.p.Seed, Persisters: 1, Agents: 1, Free: true}
	w := &World{p: p, ledger: newLedger(), trace: newTrace(false), log: slog.New(slog.DiscardHandler), dir: j.dir,
		events: map[uint64]memjs.Msg{}, letters: map[uint64]memjs.Msg{}, posted: map[uint64]memjs.Msg{},
		deleted: map[uint64]bool{}, tried: map[uint64]map[record.Life]bool{}, tries: map[uint64]record.Life{},
		untaken: map[place]map[record.Life]bool{}, reached: map[events.Thread]uint64{}, pace: newPace()}
	w.procs = 1000 // no process has the name of one of the first store's
	w.srv = memjs.New(memjs.Config{Stored: w.stored})
	d := &driver{World: w, rng: j.rng}
	defer d.end()
	d.operator = d.process("operator")
	err := d.await(func(ctx context.Context) error { return d.restore(ctx, j.saved.manifest) })
	if err != nil {
		j.fail("a backup cannot be restored: %v", err)
		return
	}
	goesOn := j.goOnIn(d)
	if !d.rest() {
		j.fail("a restored store does not come to rest")
		return
	}
	err = d.await(func(ctx context.Context) error { return j.compareRestored(ctx, d, goesOn) })
	if err != nil {
		j.fail("a restored store cannot be read: %v", err)
	}
}

func (d *driver) restore(ctx context.Context, m backup.Manifest) error {
	conn, err := d.operator.connect()
	if err != nil {
		return err
	}
	repo, err := d.repository(false)
	if err != nil {
		return err
	}
	if err := backup.Restore(ctx, conn, repo, m, d.p.limits(), nil); err != nil {
		return err
	}
	d.persisters = append(d.persisters, d.startPersister(0))
	return nil
}

// goOnIn has an agent go on in the restored store, in every thread that takes entries. It publishes again what it
// published before, too: that adds nothing.
func (j *judgement) goOnIn(d *driver) map[events.Thread]string {
	goesOn := map[events.Thread]string{}
	a := d.newAgent(0)
	d.agents = append(d.agents, a)
	for _, t := range sortedThreads(j.model.threads) {
		if life := j.model.threads[t]; !j.comparable(life) || life.ended {
			continue
		}
		c := &call{agent: a, proc: a.proc, index: len(goesOn)}
		w := c.write(t, "goes-on", true)
		err := d.await(func(ctx context.Context) error {
			cl, err := a.proc.client()
			if err != nil {
				return err
			}
			e := client.Entry{Thread: t, Dialect: "item", Body: body(w.Mark, 0, 0)}
			_, err = cl.Publisher(client.PublisherConfig{}).Publish(ctx, e)
			return err
		})
		if err != nil {
			j.fail("a restored store takes no entry of %s: %v", t, err)
		}
		goesOn[t] = w.Mark
	}
	j.publishAgain(d)
	return goesOn
}

// publishAgain stores the last events from before the backup once more, as whoever had no answer does. Those of an
// earlier life of their name are left out: behind a removal they begin it anew (docs/format.md, "Left record"), in a
// restored store as in any.
func (j *judgement) publishAgain(d *driver) {
	var msgs []natsadmin.StoredMessage
	for seq := max(j.saved.upTo, 3) - 2; seq <= j.saved.upTo; seq++ {
		m, ok := j.events[seq]
		t, _, err := events.ParseStored(m.Subject)
		published, _ := events.PublishedSubject(m.Subject)
		life := j.model.threads[t]
		if e, bad := events.Open(m.Subject, m.Data); !ok || err != nil || bad != nil || e.Kind != events.KindEntry ||
			!j.comparable(life) || seq < life.began {
			continue
		}
		msgs = append(msgs, natsadmin.StoredMessage{Subject: published, Data: m.Data})
	}
	err := d.await(func(ctx context.Context) error {
		conn, err := d.operator.connect()
		if err != nil {
			return err
		}
		return natsadmin.New(conn).PutMessages(ctx, msgs)
	})
	if err != nil {
		j.fail("a restored store takes no event: %v", err)
	}
}

// comparable reports whether what the model knows of a thread at the end says what it was at the backup.
func (j *judgement) comparable(l *life) bool {
	return l != nil && !l.foreign && !l.moved && l.began <= j.saved.upTo
}

func (j *judgement) compareRestored(ctx context.Context, d *driver, goesOn map[events.Thread]string) error {
	conn, err := d.operator.connect()
	if err != nil {
		return err
	}
	cl := client.New(conn)
	for _, t := range sortedThreads(j.model.threads) {
		life := j.model.threads[t]
		if !j.comparable(life) {
			continue
		}
		head, err := cl.Thread(t).Head(ctx)
		if err != nil {
			j.fail("%s is not in the restored store: %v", t, err)
			continue
		}
		var got []string
		for line, err := range cl.Internal().RawEntries(ctx, head) {
			if err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			if mark := markOf(line.Head); mark != "" {
				got = append(got, mark)
			}
		}
		j.sameRestored(life, got, goesOn[t])
	}
	r, err := fsck.Check(ctx, natsadmin.Of(conn), fsck.Config{Items: true})
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		if j.p.countsBadly(f) {
			continue
		}
		j.fail("fsck of a restored store: %s", f)
	}
	c, err := service.NewCollector(conn, gc.Config{Share: 1}, d.log)
	if err == nil {
		_, err = c.Plan(ctx)
	}
	return err
}

// sameRestored compares a restored thread with its life: it is a beginning of it, as long as the backup must have, and
// behind it is what was published since.
func (j *judgement) sameRestored(life *life, got []string, last string) {
	got = slices.DeleteFunc(got, func(mark string) bool { // it waited while the thread was latched: no restore latches it
		f := j.fates[mark]
		return f != nil && f.outcome == buried && j.unfit(f.at, f.why)
	})
	if last != "" {
		i := slices.Index(got, last)
		if i < 0 || i != len(got)-1 {
			j.fail("restored %s does not end with what was published there: it has %v", life.thread, got)
			return
		}
		got = got[:i]
	}
	at := 0
	for _, h := range life.held {
		switch f := j.fates[h.mark]; {
		case at < len(got) && got[at] == h.mark:
			at++
		case h.must && f != nil && f.at <= j.saved.upTo:
			j.fail("restored %s lacks %s, which was stored before the backup: it has %v of %s", life.thread, h.mark, got,
				marks(life.held))
			return
		}
	}
	if at < len(got) {
		j.fail("restored %s holds %s, and must not, or not there: it has %v of %s", life.thread, got[at], got,
			marks(life.held))
	}
}

// countsBadly reports whether a finding is about a producer that gives its sequences to several, or leaves some out. Where EVENTS has the
// first entry of a sequence no more, fsck alone tells the second one from a repeat.
func (p Program) countsBadly(f fsck.Finding) bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool {
		return (o.Do == Reuse || o.Do == Skip) && strings.Contains(f.String(), "-"+string(o.Do))
	})
}
