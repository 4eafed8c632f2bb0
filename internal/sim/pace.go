package sim

import (
	"context"
	"slices"
	"time"

	"spool/internal/memjs"
)

// pace is how processes are held up: for a time, at a step, or all the while.
type pace struct {
	slow   map[string]int       // by process: of its messages one in so many is taken
	paused map[string]time.Time // by process: it stands still until then
	steps  []*stepFault         // that are to come
	doomed string               // a process that dies with the message that is taken now
	stale  int                  // reads that are to be answered by a copy that is behind
	counts map[string]int       // what was done to which class of messages
}

func newPace() pace {
	return pace{slow: map[string]int{}, paused: map[string]time.Time{}, counts: map[string]int{}}
}

// stepFault is something that happens to whoever comes to a step.
type stepFault struct {
	op   Op
	left int
}

// pause has a process stand still for a while.
func (d *driver) pause(process string, t time.Duration) {
	d.srv.Freeze(process)
	d.paused[process] = time.Now().Add(t)
}

// wake ends the pauses that are over, or all.
func (d *driver) wake(all bool) {
	for name, until := range d.paused {
		if all || !time.Now().Before(until) {
			d.srv.Thaw(name)
			delete(d.paused, name)
		}
	}
}

// quick leaves out of what the server can do what is of a slow process, but for some of it.
func (d *driver) quick(ready []memjs.Action) []memjs.Action {
	if len(d.slow) == 0 {
		return ready
	}
	now := ready[:0]
	for _, a := range ready {
		if n := d.slow[a.Process]; n == 0 || d.rng.IntN(n) == 0 {
			now = append(now, a)
		}
	}
	return now
}

// longestWait is how much time passes at once when nothing can happen, and slowWait when only slow processes could do
// something. They do not wait for long: a subscription of nats.go that misses heartbeats begins again with a mutex in its
// hand, and time stands still for whoever waits for a mutex.
const (
	longestWait = 250 * time.Millisecond
	slowWait    = 5 * time.Millisecond
)

// slowDown makes a process slow.
func (d *driver) slowDown(o Op) {
	switch o.Kind {
	case 1:
		d.slow[d.agents[o.Who%len(d.agents)].proc.name] = o.N
	case 2:
		if p := d.persister(o.Who); p != nil {
			d.slow[p.name] = o.N
		}
	case 3:
		d.slow[d.operator.name] = o.N
	}
}

// startLater starts a persister some seconds from now.
func (d *driver) startLater() {
	d.again = append(d.again, time.Now().Add(ms([]int{0, 1, 500, 3000, 12_000}[d.rng.IntN(5)])))
}

// goOn ends what holds processes up.
func (d *driver) goOn() {
	d.wake(true)
	clear(d.slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pace.steps = nil
	d.stale = 0
}

// doom ends a process that was to die with its last message.
func (d *driver) doom() {
	name := d.doomed
	d.doomed = ""
	for _, p := range d.persisters {
		if p.name == name {
			p.kill()
			d.startLater()
			return
		}
	}
	for i, a := range d.agents {
		if a.proc.name == name {
			d.toAgent(Op{Do: Die, Who: i})
			return
		}
	}
	for _, r := range d.readers {
		if r.name == name {
			r.whole = false
			r.kill()
			return
		}
	}
}

// tend ends pauses that are over, and starts persisters in the place of those that died by a fault, as whoever runs them
// does.
func (d *driver) tend() {
	d.wake(false)
	for _, p := range d.persisters {
		if p.fell.CompareAndSwap(true, false) {
			d.startLater()
		}
	}
	d.again = slices.DeleteFunc(d.again, func(at time.Time) bool {
		if time.Now().Before(at) {
			return false
		}
		d.persisters = append(d.persisters, d.startPersister(len(d.persisters)))
		return true
	})
}

// atStep is called before each durable step of a persister or a collector. It reports whether the process dies there.
func (w *World) atStep(ctx context.Context, step string) (dies bool) {
	w.mu.Lock()
	var op Op
	for i, f := range w.pace.steps {
		if f.op.On != step {
			continue
		}
		if f.left--; f.left < 0 {
			op = f.op
			w.pace.steps = append(w.pace.steps[:i], w.pace.steps[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	switch op.Do {
	case KillStep:
		w.count("step "+step, string(KillStep))
		return true
	case PauseStep:
		w.count("step "+step, string(PauseStep))
		_ = sleep(ctx, op.Ms)
	}
	return false
}

// sleep waits, in ms, unless the context ends before.
func sleep(ctx context.Context, n int) error {
	select {
	case <-time.After(ms(n)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
