package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"

	"spool/internal/memjs"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/events"
)

// Result is what became of a run.
type Result struct {
	Broken []string // rules, a sentence each; none: the run is good
	Trace  string
	Digest string
	Steps  int           // actions of the server that the seed chose
	Took   time.Duration // of virtual time
	Events int
	Counts map[string]int // of faults, by class of messages

	Operations int // of the server, as memjs counts them
}

// Options of a run.
type Options struct {
	Keep bool      // the trace, and its digest
	Log  io.Writer // what the processes log; nil: nowhere
}

// Run runs a program. It must be called in a bubble (synctest.Test) of its own: when it returns, all that it
// started has ended.
func Run(p Program, opt Options) Result {
	forgetEarlier(p.Seed)
	w := &World{p: p, ledger: newLedger(), trace: newTrace(opt.Keep), log: slog.New(slog.DiscardHandler),
		events: map[uint64]memjs.Msg{}, letters: map[uint64]memjs.Msg{}, posted: map[uint64]memjs.Msg{},
		deleted: map[uint64]bool{}, tried: map[uint64]map[record.Life]bool{}, tries: map[uint64]record.Life{},
		untaken: map[place]map[record.Life]bool{}, reached: map[events.Thread]uint64{}, pace: newPace()}
	if opt.Log != nil {
		w.log = slog.New(slog.NewTextHandler(opt.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	if w.dir, err = tempDir(); err != nil {
		return Result{Broken: []string{err.Error()}}
	}
	defer os.RemoveAll(w.dir)
	layout, err := layoutOf(p)
	if err != nil {
		return Result{Broken: []string{"setup: " + err.Error()}}
	}
	cfg := memjs.Config{Manual: !p.Free, Stored: w.stored, MaxPayload: p.Payload, Layout: layout}
	if p.wants(Stale) {
		cfg.Stale = w.staleRead
	}
	w.srv = memjs.New(cfg)
	d := &driver{World: w, rng: rand.New(rand.NewPCG(p.Seed, 1))}
	broken := d.run()
	d.end()
	return Result{
		Broken: broken, Trace: w.trace.String(), Digest: w.trace.Digest(), Steps: d.steps,
		Took: time.Since(w.trace.began), Events: len(w.events), Counts: w.counts,
		Operations: d.srv.Operations(),
	}
}

// driver decides what happens next. It is the bubble's first goroutine: while it waits for all others to be
// blocked, nothing moves but what it has set in motion.
type driver struct {
	*World
	rng    *rand.Rand
	next   int // operation
	steps  int
	faults []*fault    // that are to come
	until  time.Time   // nothing begins before
	again  []time.Time // when a persister is started in the place of one that died by a fault
	gaveUp bool
	judged bool // the schedule has ended: the server answers at once

	saved     *saved     // by the last backup; nil: there was none
	keepsakes []keepsake // by the operator's commands, one at a time
}

// limits of a run, in case it never comes to rest.
const (
	maxSteps   = 200_000
	restWithin = 20 * time.Minute
)

func (d *driver) run() []string {
	d.operator = d.process("operator")
	for i := range d.p.Persisters {
		d.persisters = append(d.persisters, d.startPersister(i))
	}
	for i := range d.p.Agents {
		d.agents = append(d.agents, d.newAgent(i))
	}
	d.program()
	d.calm()
	if d.p.wants(Subscribe) { // who follows a dead reader under its name waits for its pin
		d.settleFor(time.Minute)
	}
	if !d.rest() || !d.readOn() {
		return d.verdict("the system does not come to rest: events stay unapplied, or unacknowledged, " +
			restWithin.String() + " after the last fault")
	}
	return d.verdict()
}

// await runs something of the operator's to its end, without faults.
func (d *driver) await(do func(context.Context) error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(d.operator.ctx, restWithin)
		defer cancel()
		err = do(ctx)
	}()
	for wait := time.Millisecond; ; {
		synctest.Wait()
		select {
		case <-done:
			return err
		default:
		}
		if d.pump() {
			wait = time.Millisecond
			continue
		}
		time.Sleep(wait)
		wait = min(2*wait, 100*time.Millisecond)
	}
}

// pump has the server do all that it can, in order, and reports whether that was anything.
func (d *driver) pump() bool {
	if d.p.Free || d.judged {
		return false
	}
	ready := d.srv.Ready()
	for _, a := range ready {
		d.srv.Do(a, memjs.Fault{})
		d.steps++
	}
	return len(ready) > 0
}

// program runs the operations, and beside them the server, one action at a time.
func (d *driver) program() {
	bias := []int{2, 10, 40}[d.rng.IntN(3)] // of 100: how soon an operation that may begin does
	for idle := time.Millisecond; d.next < len(d.p.Ops) || d.busy.Load() > 0; {
		synctest.Wait()
		seedChance(d.p.Seed, uint64(d.steps))
		if d.steps > maxSteps {
			d.gaveUp = true
			return
		}
		var ready []memjs.Action
		d.tend()
		longest := longestWait
		if !d.p.Free {
			all := d.srv.Ready()
			n := len(all)
			if ready = d.quick(all); len(ready) < n {
				longest = slowWait
			}
		}
		can := d.next < len(d.p.Ops) && d.mayBegin(d.p.Ops[d.next])
		switch {
		case can && (len(ready) == 0 && d.rng.IntN(3) > 0 || d.rng.IntN(100) < bias):
			d.begin(d.p.Ops[d.next])
			d.next++
			idle = time.Millisecond
		case len(ready) > 0:
			d.act(ready)
			idle = time.Millisecond
		default:
			time.Sleep(idle)
			idle = min(2*idle, longest)
		}
	}
}

// act does one action of the server, or a run of them, and some of the time lets a little time pass.
func (d *driver) act(ready []memjs.Action) {
	a := ready[d.rng.IntN(len(ready))]
	f, wait := d.faultOf(a)
	if wait {
		d.trace.add("%s waits", line(a, f))
		return
	}
	if d.trace.keep {
		d.trace.add("%s", line(a, f))
	}
	d.srv.Do(a, f)
	d.steps++
	if d.doomed != "" {
		d.doom()
	}
	if d.rng.IntN(8) == 0 {
		time.Sleep(time.Duration(d.rng.IntN(2000)) * time.Microsecond)
	}
}

// mayBegin reports whether who does an operation has ended the last one.
func (d *driver) mayBegin(o Op) bool {
	if time.Now().Before(d.until) {
		return false
	}
	switch o.Do {
	case Die, FreezeAgent, ThawAgent, CutAgent, Replace:
		return true
	case Collect, Keep, Undelete, Retain, Fsck, BackUp, Index:
		return d.commands.Load() == 0
	case Settle:
		for _, a := range d.agents {
			if !a.idle() {
				return false
			}
		}
		return true
	}
	return !o.ofAgent() || len(d.agents) == 0 || d.agents[o.Who%len(d.agents)].idle()
}

func (o Op) ofAgent() bool {
	switch o.Do {
	case Publish, Async, Echo, Poison, PoisonOp, Skip, Reuse, Fork, Rename, Remove, End, Delete, Output, Sign, Ask,
		Answer, PutArtifact, Refer, Read:
		return true
	}
	return false
}

func (d *driver) begin(o Op) {
	d.trace.add("op %d: %s", d.next, o)
	if o.ofAgent() {
		d.agents[o.Who%len(d.agents)].start(d.next, o)
		return
	}
	d.operate(o)
}

// end ends all that runs, so that the bubble can.
func (d *driver) end() {
	d.srv.Close()
	for _, a := range d.agents {
		a.proc.end()
		for _, p := range a.replaced {
			p.end()
		}
	}
	for _, p := range d.persisters {
		p.kill()
	}
	for _, r := range d.readers {
		r.end()
	}
	d.operator.end()
	time.Sleep(2 * time.Minute) // behind every time-out: the bubble's clock stops when its first goroutine ends
}

// calm ends the faults and sees to it that there is somebody who applies events.
func (d *driver) calm() {
	d.faults = nil
	d.trace.add("calm")
	d.srv.SetDown(false)
	d.goOn()
	for _, a := range d.agents {
		d.srv.Thaw(a.proc.name)
		d.thawReplaced(a)
	}
	for _, p := range d.persisters {
		d.srv.Thaw(p.name)
	}
	d.revive()
	d.resume()
	if d.p.Offline { // somebody must publish what dead processes left on the disk
		for _, a := range d.agents {
			go func() { _, _ = a.proc.client() }()
		}
	}
}

// revive sees to it that a persister runs, as whoever runs them would.
func (d *driver) revive() {
	for _, p := range d.persisters {
		if !p.dead.Load() && !p.hasEnded() {
			return
		}
	}
	d.persisters = append(d.persisters, d.startPersister(len(d.persisters)))
}

// resume has every durable reader's name followed by somebody: the last one may have been killed, or have begun without a server.
func (d *driver) resume() {
	synctest.Wait()
	last := map[string]*reader{}
	for _, r := range d.readers {
		if r.durable != "" {
			last[r.durable] = r
		}
	}
	for _, r := range d.readers {
		if last[r.durable] == r && (r.dead.Load() || r.hasEnded()) {
			n := 0
			_, _ = fmt.Sscanf(r.durable, "d%d", &n)
			d.readers = append(d.readers, d.follow(true, n, 0))
		}
	}
}

// onDisk reports whether something that was published offline waits on the disk.
func (d *driver) onDisk() bool {
	if !d.p.Offline {
		return false
	}
	waiting, _ := filepath.Glob(filepath.Join(d.dir, "offline", "*", "*.log"))
	return len(waiting) > 0
}

// rest lets the system come to rest: nothing is published any more, and every event is applied and acknowledged.
func (d *driver) rest() bool {
	for began := time.Now(); time.Since(began) < restWithin; {
		for range 20 { // time for whoever was interrupted to begin again
			d.settleFor(100 * time.Millisecond)
		}
		d.revive()
		quiet := !d.onDisk()
		err := d.await(func(ctx context.Context) error {
			conn, err := d.operator.connect()
			if err != nil {
				return err
			}
			if d.p.EventsBytes > 0 { // whoever runs Spool trims it all the time: a full one takes nothing
				if _, err := natsadmin.New(conn).Trim(ctx); err != nil {
					return err
				}
			}
			for _, part := range usedPartitions {
				c, err := conn.JetStream().Consumer(ctx, events.EventsStream, events.PartitionConsumer(part))
				if err != nil {
					return err
				}
				info := c.CachedInfo()
				quiet = quiet && info.NumPending == 0 && info.NumAckPending == 0
			}
			return nil
		})
		if err == nil && quiet && d.busy.Load() == 0 {
			return true
		}
	}
	return false
}

// readOn gives readers that take their time with each item as long as they need for all that is posted. It reports
// whether the system is at rest then.
func (d *driver) readOn() bool {
	takes := time.Duration(0)
	for _, r := range d.readers {
		takes = max(takes, r.takes)
	}
	for read := 0; takes > 0; {
		synctest.Wait()
		if read == len(d.posted) {
			break
		}
		read = len(d.posted)
		d.settleFor(takes * time.Duration(read))
		if !d.rest() {
			return false
		}
	}
	return true
}

// settleFor lets time pass while the server does all that it can.
func (d *driver) settleFor(t time.Duration) {
	if d.p.Free { // it needs nobody
		time.Sleep(t)
		return
	}
	for until := time.Now().Add(t); time.Now().Before(until); {
		synctest.Wait()
		if !d.pump() {
			d.srv.Rest(time.Until(until))
		}
	}
}

func (d *driver) persister(i int) *persister {
	if len(d.persisters) == 0 {
		return nil
	}
	return d.persisters[i%len(d.persisters)]
}

// verdict holds what is stored against what the agents know.
func (d *driver) verdict(more ...string) []string {
	for i, p := range d.persisters {
		// One that could not begin because the server did not answer is started again by whoever runs it.
		if p.hasEnded() && p.err != nil && p.began.Load() && !p.dead.Load() {
			more = append(more, fmt.Sprintf("persister %d ended by itself: %v", i, p.err))
		}
	}
	if d.gaveUp {
		more = append(more, fmt.Sprintf("after %d steps of the server the operations have not ended", d.steps))
	}
	d.srv.SetManual(false)
	d.judged = true
	return append(more, d.judge()...)
}
