package sim

import (
	"math/rand/v2"
	"slices"
)

// failback is a scene: a persister stands still, another one takes over and is interrupted, and the first one goes
// on with what it remembers.
func (p *Program) failback(r *rand.Rand) []Op {
	p.Persisters = 2
	who := r.IntN(2)
	middle := []Verb{Publish, Async, Fork, End, Remove, Rename, Output, Delete, PoisonOp, Collect}
	thread := func(o Op) Op { o.Session, o.Thread = 0, 0; return o }
	many := p.op(r, Publish)
	many.N, many.Split, many.Ms = 4+r.IntN(6), true, 0
	ops := []Op{thread(p.op(r, Publish)), {Do: Settle}, {Do: FreezeOne, Who: who}}
	if r.IntN(2) == 0 {
		ops = append(ops, thread(p.op(r, middle[r.IntN(len(middle))])))
	}
	ops = append(ops, thread(many), Op{Do: Sleep, Ms: 9000 + r.IntN(15000)})
	if r.IntN(2) == 0 {
		ops = append(ops, thread(p.op(r, middle[r.IntN(len(middle))])))
	}
	ops = append(ops, Op{Do: []Verb{StopOne, KillOne, FreezeOne}[r.IntN(3)], Who: 1 - who}, Op{Do: ThawOne, Who: who})
	return append(ops, Op{Do: Sleep, Ms: 10_000}, thread(p.op(r, Publish)))
}

// undelete is a scene: several threads share packs, one of them goes, a collector with a quarantine works, and all
// is taken back.
func (p *Program) undelete(r *rand.Rand) []Op {
	p.Agents, p.BatchMax = max(p.Agents, 2), 0
	var ops []Op
	for range 2 + r.IntN(3) {
		one, other := p.op(r, Publish), p.op(r, Publish)
		one.Who, one.Session, one.Thread, one.Ms, one.Kind, one.To, one.ToSess = 0, 0, 0, 0, r.IntN(2), 1, 0
		other.Who, other.Session, other.Thread, other.Ms = 1, 0, 1, 0
		ops = append(ops, one, other)
		if r.IntN(2) == 0 {
			ops = append(ops, Op{Do: Settle})
		}
	}
	ops = append(ops, Op{Do: Settle}, Op{Do: Keep}, Op{Do: Remove, Kind: 1}, Op{Do: Settle})
	for range 1 + few(r, 3) {
		ops = append(ops, Op{Do: Collect, Kind: 1}, Op{Do: Settle})
	}
	return append(ops, Op{Do: Undelete})
}

// death is a scene: a persister dies right behind something that it has to do, at a step or with a message, or cannot
// reach the server in it, and another one has to find out how far it came.
func (p *Program) death(r *rand.Rand) []Op {
	p.BatchMax, p.Free = 1+r.IntN(3), r.IntN(4) == 0
	something := []Verb{Publish, Publish, Async, Delete, Remove, Rename, Fork, End, Poison, PoisonOp, PoisonOp, Output, Ask}
	var ops []Op
	if r.IntN(3) == 0 { // what is applied comes again
		ops = append(ops, Op{Do: DropAsk, On: "ack", Kind: 2, Times: 5 + r.IntN(40)})
	}
	for range 1 + r.IntN(3) {
		how := r.IntN(3)
		switch how {
		case 0:
			ops = append(ops, Op{Do: KillStep, On: []string{"commit", "items", "items", "ack"}[r.IntN(4)], N: r.IntN(4)})
		case 1:
			ops = append(ops, Op{Do: DieAt, On: []string{"commit", "item", "letter", "ack", "object"}[r.IntN(5)], Kind: 2,
				N: r.IntN(6), Ms: r.IntN(2)})
		}
		many := p.op(r, Publish)
		many.N, many.Split, many.Ms, many.Session, many.Thread = 3+r.IntN(4), r.IntN(3) == 0, 0, 0, 0
		ops = append(ops, many)
		if r.IntN(3) > 0 {
			o := p.op(r, something[r.IntN(len(something))])
			o.Session, o.Thread = 0, 0
			ops = append(ops, o)
		}
		if r.IntN(4) == 0 {
			ops = append(ops, p.op(r, DropTell))
		}
		if r.IntN(4) == 0 {
			ops = append(ops, Op{Do: Sleep, Ms: 1 + r.IntN(400)})
		}
		if how == 2 {
			for i := range p.Persisters {
				ops = append(ops, Op{Do: KillOne, Who: i})
			}
			p.Persisters++ // those that are started have numbers of their own
			ops = append(ops, Op{Do: StartOne})
		}
	}
	p.Persisters = 1
	return ops
}

// in puts an operation into a thread.
func in(o Op, session, thread int) Op {
	o.Session, o.Thread = session, thread
	return o
}

// some is a publish of several entries, to one thread.
func (p *Program) some(r *rand.Rand, session, thread int) Op {
	o := in(p.op(r, Publish), session, thread)
	o.Kind, o.Ms, o.N = 0, 0, 1+r.IntN(4)
	return o
}

// refused is a scene: something is refused, what is linked to it is not, and the persister dies in it.
func (p *Program) refused(r *rand.Rand) []Op {
	if r.IntN(5) == 0 {
		return p.lateLetter(r)
	}
	p.BatchMax, p.Free, p.Persisters = r.IntN(4), r.IntN(3) == 0, 1
	thread := few(r, 2)
	var ops []Op
	if r.IntN(3) > 0 {
		ops = append(ops, p.some(r, 0, thread), Op{Do: Settle})
	}
	for range 1 + r.IntN(2) {
		switch r.IntN(5) {
		case 0, 1:
			ops = append(ops, Op{Do: KillStep, On: []string{"letters", "items", "ack", "commit"}[r.IntN(4)], N: r.IntN(2)})
		case 2:
			ops = append(ops, Op{Do: DieAt, On: []string{"letter", "item", "commit", "ack"}[r.IntN(4)], Kind: 2,
				N: r.IntN(3), Ms: r.IntN(2)})
		case 3:
			ops = append(ops, p.op(r, []Verb{End, Remove, Delete, Rename}[r.IntN(4)]))
		}
		ops = append(ops, in(p.op(r, []Verb{PoisonOp, PoisonOp, Poison}[r.IntN(3)]), 0, thread))
		if r.IntN(2) == 0 {
			ops = append(ops, p.some(r, 0, thread))
		}
		ops = append(ops, Op{Do: Sleep, Ms: 100 + r.IntN(4000)})
	}
	return ops
}

// lateLetter is a scene: a backup reads what is stored behind the commit that refuses something and before its letter is
// out.
func (p *Program) lateLetter(r *rand.Rand) []Op {
	p.Persisters = 1
	thread := few(r, 2)
	var ops []Op
	for range 1 + r.IntN(2) { // a head notes what is refused
		ops = append(ops, p.some(r, 0, thread), Op{Do: Settle})
	}
	pause := Op{Do: PauseStep, On: "letters", Ms: 3000 + r.IntN(9000)}
	if r.IntN(3) == 0 {
		pause = Op{Do: Late, On: "letter", Kind: 2, Ms: pause.Ms}
	}
	return append(ops, pause, in(p.op(r, []Verb{PoisonOp, Poison}[r.IntN(2)]), 0, thread),
		Op{Do: Sleep, Ms: 300 + r.IntN(2000)}, Op{Do: BackUp})
}

// answers is a scene: several answer one prompt.
func (p *Program) answers(r *rand.Rand) []Op {
	p.Agents, p.Free = 3, false
	ops := []Op{{Do: Ask, Ms: 20_000}, {Do: Sleep, Ms: 200 + r.IntN(800)}}
	if r.IntN(3) > 0 {
		for i := range p.Persisters {
			ops = append(ops, Op{Do: Slow, Kind: 2, Who: i, N: 5 + r.IntN(40)})
		}
	}
	if r.IntN(3) == 0 {
		ops = append(ops, Op{Do: Late, On: "record get", Kind: 2, N: r.IntN(4), Ms: 300})
	}
	for i := range 2 + r.IntN(3) {
		ops = append(ops, Op{Do: Answer, Who: 1 + i%2, Kind: r.IntN(2)})
	}
	if r.IntN(3) == 0 { // another thread of the name asks under the id meanwhile
		late := Op{Do: Answer, Who: 1, Kind: 2}
		ops = []Op{{Do: Ask, Ms: 1000}, {Do: Sleep, Ms: 1500}, late, {Do: Sleep, Ms: 500}, {Do: Delete, Who: 2}}
		if r.IntN(2) == 0 {
			ops = []Op{{Do: Ask, Ms: 1000}, {Do: Sleep, Ms: 1500}, {Do: Answer, Who: 1}, {Do: Settle},
				{Do: Remove, Who: 2}, {Do: Settle}}
		}
		ops = append(ops, Op{Do: Ask, Kind: 1 + r.IntN(2), Ms: 20_000}, Op{Do: Sleep, Ms: 9000})
	}
	if r.IntN(3) == 0 {
		ops = append(ops, Op{Do: []Verb{KillOne, FreezeOne, Remove}[r.IntN(3)]})
	}
	return ops
}

// replacement is a scene: an agent stands still, another one takes its place, in the next epoch of its producers, and
// the first one goes on.
func (p *Program) replacement(r *rand.Rand) []Op {
	var ops []Op
	publish := func(n int) Op {
		o := p.some(r, 0, 0)
		o.As, o.N, o.Split, o.Again, o.Who = 1, n, r.IntN(2) == 0, r.IntN(2) == 0, 0
		return o
	}
	for range 1 + r.IntN(2) {
		ops = append(ops, publish(2+r.IntN(6)), Op{Do: Replace}, publish(1+r.IntN(3)), Op{Do: Sleep, Ms: r.IntN(3) * 1500},
			Op{Do: ThawAgent}, Op{Do: Sleep, Ms: 50 + r.IntN(3000)})
	}
	return append(ops, publish(1))
}

// sweep is a scene: something becomes garbage, somebody who is slow refers to it again, and a collector works beside.
func (p *Program) sweep(r *rand.Rand) []Op {
	p.Free = r.IntN(3) > 0 // pauses at a step need no schedule of messages
	image := 1 + r.IntN(2)
	first := p.some(r, 0, 1)
	first.Image = image
	ops := []Op{first, {Do: Settle}}
	if r.IntN(2) == 0 {
		o := p.some(r, 2, 0) // a head, and a session, in another partition
		ops = append(ops, o, Op{Do: Settle})
	}
	remove := Op{Do: Remove, Kind: 1, Thread: 1}
	again := p.some(r, []int{0, 1, 2}[r.IntN(3)], 0)
	again.Image, again.Who = image, 1
	if r.IntN(3) == 0 {
		again = Op{Do: Fork, Thread: 1, ToSess: r.IntN(3), To: 2, Who: 1}
	}
	p.Agents = max(p.Agents, 2)
	slow := Op{Do: Slow, Kind: 2, Who: r.IntN(2), N: []int{5, 20, 60}[r.IntN(3)]}
	switch at := r.IntN(3); {
	case at == 0 || p.Free:
		slow = Op{Do: PauseStep, On: []string{"bulk", "commit", "commit", "fence"}[r.IntN(4)], N: r.IntN(3),
			Ms: 1000 + r.IntN(9000)}
	case at == 1:
		slow = Op{Do: Late, On: []string{"commit", "record get", "object"}[r.IntN(3)], Kind: 2, N: r.IntN(8),
			Ms: 1000 + r.IntN(6000)}
	}
	collect := Op{Do: Collect, Kind: []int{0, 0, 2}[r.IntN(3)]}
	switch r.IntN(3) {
	case 0:
		ops = append(ops, remove, slow, again, collect)
	case 1:
		ops = append(ops, remove, Op{Do: Settle}, slow, again, collect)
	default:
		ops = append(ops, slow, again, remove, collect)
	}
	if r.IntN(2) == 0 { // told before the cycle begins
		pause := Op{Do: PauseStep, On: []string{"gc second fence", "gc mark", "gc condemn", "gc reclaim"}[r.IntN(4)],
			Ms: 300 + r.IntN(4000)}
		ops = slices.Insert(ops, len(ops)-1, pause)
		if r.IntN(2) == 0 { // and the entry comes while it waits
			again.Who, again.As = 0, 0
			ops = append(ops, Op{Do: Sleep, Ms: 50 + r.IntN(1000)}, again)
		}
	}
	ops = append(ops, collect)
	if r.IntN(2) == 0 {
		ops = append(ops, Op{Do: Sleep, Ms: 2000 + r.IntN(8000)}, collect)
	}
	return append(ops, Op{Do: Read, Session: again.Session, Thread: again.Thread})
}

// successor is a scene: a process dies that left events on the disk, and another one goes on as the same producers.
func (p *Program) successor(r *rand.Rand) []Op {
	p.Offline = true
	as := 1 + r.IntN(2)
	publish := func(n int) Op {
		o := p.some(r, 0, 0)
		o.As, o.N, o.Again, o.Who, o.Split = as, n, false, 0, r.IntN(2) == 0
		return o
	}
	ops := []Op{publish(1 + r.IntN(2)), {Do: Away}, publish(1 + r.IntN(4)),
		{Do: Sleep, Ms: []int{10, 3000, 9000}[r.IntN(3)]}}
	if r.IntN(3) > 0 {
		ops = append(ops, publish(1+r.IntN(2)))
	}
	back := []Op{{Do: Die}, {Do: Back}}
	if r.IntN(2) == 0 {
		back = []Op{{Do: Back}, {Do: Sleep, Ms: r.IntN(300)}, {Do: Die}}
	}
	ops = append(ops, back...)
	if r.IntN(3) == 0 {
		ops = append(ops, Op{Do: []Verb{Late, Refuse, DropTell, DieAt}[r.IntN(4)], On: "event", Kind: 1, N: r.IntN(5),
			Ms: 1 + r.IntN(2)*3000})
	}
	return append(ops, publish(1+r.IntN(3)), Op{Do: Sleep, Ms: 100 + r.IntN(4000)}, publish(1))
}

// slowReader is a scene: who reads under a name takes its time with each item, and dies with one in its hand, perhaps
// when a session whose items come behind it was deleted.
func (p *Program) slowReader(r *rand.Rand) []Op {
	read := Op{Do: Subscribe, Kind: 1, Ms: []int{40, 300, 1500}[r.IntN(3)]}
	ops := []Op{read}
	for range 1 + r.IntN(3) {
		ops = append(ops, p.some(r, 0, 0))
		if r.IntN(4) == 0 {
			ops = append(ops, p.some(r, 2, 0), Op{Do: Sleep, Ms: 100 + r.IntN(900)}, Op{Do: Delete, Session: 2})
		}
		ops = append(ops, Op{Do: Sleep, Ms: 200 + r.IntN(2500)})
		switch r.IntN(3) {
		case 0:
			ops = append(ops, Op{Do: Unsubscribe, Who: r.IntN(3)}, read)
		case 1:
			ops = append(ops, p.op(r, []Verb{Remove, Delete, Rename}[r.IntN(3)]))
		}
	}
	return append(ops, Op{Do: Unsubscribe, Who: r.IntN(3)}, read)
}

// lostCommits is a scene: a persister does not learn what became of its commits, uploads, items and letters.
func (p *Program) lostCommits(r *rand.Rand) []Op {
	p.Free = false
	var ops []Op
	for range 1 + r.IntN(3) {
		what := []string{"commit", "commit", "commit", "item", "letter", "object", "record get"}[r.IntN(7)]
		ops = append(ops, Op{Do: []Verb{DropAsk, DropTell, Late, Refuse}[r.IntN(4)], On: what, Kind: 2, N: r.IntN(9),
			Times: 1 + few(r, 4), Ms: []int{0, 1, 6000, 12_000}[r.IntN(4)]}, p.some(r, 0, few(r, 2)))
		if r.IntN(3) == 0 {
			ops = append(ops, p.op(r, []Verb{PoisonOp, Poison, Output, Fork, Rename, Remove, Delete, End, Ask}[r.IntN(9)]))
		}
	}
	return ops
}

// takenUp is a scene: a policy finds a session due, and something happens in it before it is removed.
func (p *Program) takenUp(r *rand.Rand) []Op {
	p.Agents = max(p.Agents, 2)
	ops := []Op{p.some(r, 0, 0), p.some(r, 2, 0), {Do: Sleep, Ms: 6000}}
	if r.IntN(2) == 0 {
		ops = append(ops, Op{Do: Slow, Kind: 3, N: []int{5, 20, 80}[r.IntN(3)]})
	}
	again := p.some(r, []int{0, 2}[r.IntN(2)], few(r, 2))
	again.Who = 1
	ops = append(ops, Op{Do: Retain, Ms: []int{1, 5000, 5000, 5000}[r.IntN(4)]}, again)
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 2, 0))
	}
	return append(ops, Op{Do: Settle}, p.some(r, 0, 0))
}

// full is a scene: EVENTS is more than half full, with events that nobody has applied, when a cycle trims it.
func (p *Program) full(r *rand.Rand) []Op {
	p.EventsBytes = 250_000
	var ops []Op
	if r.IntN(2) == 0 {
		ops = append(ops, Op{Do: FreezeOne}, Op{Do: FreezeOne, Who: 1})
	}
	for range 3 + r.IntN(4) {
		o := p.some(r, few(r, 3), 0)
		o.Size, o.N, o.Split, o.Image = 30_000, 1+r.IntN(2), true, 0
		ops = append(ops, o)
		if r.IntN(5) == 0 {
			ops = append(ops, Op{Do: Collect})
		}
	}
	ops = append(ops, Op{Do: Collect}, Op{Do: ThawOne}, Op{Do: ThawOne, Who: 1}, Op{Do: Settle})
	if r.IntN(2) == 0 {
		ops = append(ops, Op{Do: Collect})
	}
	return ops
}
