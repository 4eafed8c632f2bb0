package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"spool/internal/must"
	"spool/pkg/events"
)

// nemesis is a fault, from its beginning until all is healed. It returns when the cluster is whole again.
type nemesis struct {
	name string
	cuts bool // needs namespaces
	do   func(*run)
}

// nemeses are all of them. Of a group that is attacked it is the leader.
func nemeses() []nemesis {
	all := []nemesis{
		{"a follower is killed", false, func(r *run) {
			n := r.c.nodes[(r.c.leads(events.RecordsStream).number+1)%servers]
			r.killed(n)
		}},
		{"all are killed at once", false, (*run).killAll},
		{"one is stopped for 20 s", false, (*run).pause},
		{"leaders step down again and again", false, (*run).stepdowns},
		{"rolling restart", false, (*run).rolling},
		{"lame duck", false, (*run).lameDuck},
		{"a disk is wiped", false, (*run).wipe},
		{"a machine is cut off", true, (*run).vanish},
		{"two of three lose each other", true, (*run).triangle},
	}
	for _, group := range groups {
		all = append(all, nemesis{"the leader of " + group + " is killed", false, func(r *run) { r.killed(r.c.leads(group)) }})
	}
	for _, group := range groups[:2] {
		all = append(all, nemesis{"the leader of " + group + " is cut off, both sides are written to", true,
			func(r *run) { r.cutOff(r.c.leads(group), routes) }})
	}
	return all
}

// run is a load under faults.
type run struct {
	c *cluster
	l *load
}

// goesOn waits until publishers get acks and heads are moved, both more than a few times: a majority works.
func (r *run) goesOn() {
	r.c.t.Helper()
	entries, moves := r.l.progress()
	r.c.await("the others go on", func(context.Context) error {
		must.Do(r.c.t, r.l.failed())
		if e, m := r.l.progress(); e < entries+30 || m < moves+5 {
			return fmt.Errorf("%d entries and %d moves of heads since", e-entries, m-moves)
		}
		return nil
	})
}

// whole waits until every copy of everything is there.
func (r *run) whole() {
	r.c.t.Helper()
	r.c.await("the cluster is whole", r.c.current)
}

func (r *run) must(errs ...error) {
	r.c.t.Helper()
	must.Do(r.c.t, errors.Join(errs...))
}

func (r *run) killed(n *node) {
	n.Kill()
	r.goesOn()
	n.start()
	r.whole()
}

func (r *run) killAll() {
	for _, n := range r.c.nodes {
		n.Signal(syscall.SIGKILL)
	}
	for _, n := range r.c.nodes {
		n.down()
	}
	for _, n := range r.c.nodes {
		n.start()
	}
	r.goesOn()
	r.whole()
}

// pause stops the leader of the records for longer than an election takes. It wakes up in the belief that it leads.
func (r *run) pause() {
	n := r.c.leads(events.RecordsStream)
	n.Signal(syscall.SIGSTOP)
	defer n.Signal(syscall.SIGCONT)
	wait(r.c.t.Context(), 20*time.Second) // the fault is the time
	r.goesOn()
	n.Signal(syscall.SIGCONT)
	r.whole()
}

// stepdowns moves leaders about, in the middle of batches.
func (r *run) stepdowns() {
	const times = 12
	for i := range times {
		for _, group := range groups {
			_ = r.c.stepDown(r.c.t.Context(), group) // refused while there is none to step down
		}
		wait(r.c.t.Context(), time.Duration(300+100*i)*time.Millisecond)
	}
	r.goesOn()
	r.whole()
}

func (r *run) rolling() {
	for _, n := range r.c.nodes {
		n.Signal(syscall.SIGTERM)
		n.down()
		n.start()
		r.whole()
	}
	r.goesOn()
}

// lameDuck is the polite way: a server hands over what it leads and sends its clients away before it ends.
func (r *run) lameDuck() {
	n := r.c.leads(events.EventsStream)
	n.Signal(syscall.SIGUSR2)
	n.down()
	r.goesOn()
	n.start()
	r.whole()
}

// wipe takes all that a server has stored. It gets it back from the others.
func (r *run) wipe() {
	n := r.c.leads(events.EventsStream)
	n.Kill()
	r.goesOn()
	r.must(os.RemoveAll(n.data()))
	n.start()
	r.whole()
	r.goesOn()
}

// cutOff takes a server's links away. Without the one to its clients, nobody speaks to it; with it, those that know no other server
// go on writing to it, and get no ack.
func (r *run) cutOff(n *node, links ...string) {
	r.must(r.c.net.cut(n.number, links...))
	defer func() { _ = r.c.net.mend(n.number, links...) }()
	r.goesOn()
	wait(r.c.t.Context(), 3*time.Second) // both sides are written to
	r.must(r.c.net.mend(n.number, links...))
	r.whole()
	r.goesOn()
}

// vanish takes a machine away: whoever is connected to it is told nothing, finds out, and goes to another server if it knows one.
func (r *run) vanish() {
	n := r.c.leads(events.EventsStream)
	r.must(r.c.net.cut(n.number, routes, clients))
	defer func() { _ = r.c.net.mend(n.number, routes, clients) }()
	r.goesOn()
	for _, g := range r.l.ledgers {
		if !strings.HasPrefix(g.Sessions()[0], "any-") {
			continue
		}
		was := g.Acked()
		r.c.await("publishers go to another server", func(context.Context) error {
			if g.Acked() == was {
				return fmt.Errorf("%v stands still", g.Sessions())
			}
			return nil
		})
	}
	r.must(r.c.net.mend(n.number, routes, clients))
	r.whole()
	r.goesOn()
}

// triangle takes one link of three away: the leader of the records and a follower lose each other, and both reach the third.
func (r *run) triangle() {
	a := r.c.leads(events.RecordsStream).number
	b := (a + 1) % servers
	r.must(r.c.net.part(a, b))
	r.goesOn()
	wait(r.c.t.Context(), 10*time.Second) // elections, if it comes to any
	r.goesOn()
	r.must(r.c.net.join(a, b))
	r.whole()
	r.goesOn()
}
