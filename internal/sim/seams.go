package sim

import (
	"math/rand/v2"
	"slices"

	"spool/pkg/threads"
)

// Scenes in which somebody goes on with what it knew before.

// remembered is a scene: a persister stands still with a thread that has ended, was renamed or is gone, or with an open
// output; another one makes the thread anew, or goes on with the output; and the first one has the partition back.
func (p *Program) remembered(r *rand.Rand) []Op {
	p.Persisters, p.Agents = 2, max(p.Agents, 2)
	who := r.IntN(2)
	one := func(thread int) Op { o := p.some(r, 0, thread); o.As = 0; return o }
	ops := []Op{one(0), {Do: Settle}}
	var middle []Op
	switch r.IntN(4) {
	case 0: // it ended, is removed, and begins anew
		ops = append(ops, Op{Do: End}, one(1))
		middle = []Op{{Do: Remove, Kind: 1}, one(0)}
	case 1: // it was renamed, which somebody is told, and has its name back
		ops = append(ops, Op{Do: Rename, To: 2}, Op{Do: Settle}, one(0))
		middle = []Op{{Do: Rename, Thread: 2, To: 0}, one(0)}
	case 2: // its name was taken, and is free
		ops = append(ops, Op{Do: Rename, To: 2}, Op{Do: Settle}, one(0))
		middle = []Op{{Do: Delete}, one(0)}
	default: // pieces of an output every 9 s
		ops = append(ops, Op{Do: Output, Who: 1, Kind: 1, N: 4 + r.IntN(4)})
	}
	ops = append(ops, Op{Do: Sleep, Ms: 1500 + r.IntN(9000)}, Op{Do: FreezeOne, Who: who},
		Op{Do: Sleep, Ms: r.IntN(2) * 9000})
	ops = append(ops, middle...)
	ops = append(ops, Op{Do: Sleep, Ms: 10_000 + r.IntN(20_000)},
		Op{Do: []Verb{StopOne, KillOne, FreezeOne}[r.IntN(3)], Who: 1 - who}, Op{Do: ThawOne, Who: who},
		Op{Do: Sleep, Ms: r.IntN(10_000)})
	return append(ops, one(0), Op{Do: Sleep, Ms: 9000}, one(0))
}

// lateAck is a scene: an acknowledgement of a persister that stood still comes when another one has the partition, and
// that one dies with what it was given. The server numbers anew what it gives to that one: what the first one was given
// has higher numbers.
func (p *Program) lateAck(r *rand.Rand) []Op {
	p.Persisters, p.BatchMax, p.Free = 2, 1+r.IntN(2), false
	one := func(n int) Op { o := p.some(r, 0, 0); o.N, o.Split = n, true; return o }
	pause := Op{Do: PauseStep, On: []string{"fence", "bulk", "commit"}[r.IntN(3)], N: r.IntN(2), Ms: 12_000}
	who := r.IntN(2)
	ops := []Op{one(1 + r.IntN(4)), {Do: Settle}, {Do: FreezeOne, Who: who}}
	if r.IntN(3) == 0 {
		ops = []Op{{Do: Late, On: "ack", Kind: 2, N: r.IntN(3), Ms: []int{12_000, 25_000}[r.IntN(2)]}}
	}
	ops = append(ops, one(1+r.IntN(3)), Op{Do: Sleep, Ms: 9000 + r.IntN(3000)})
	if r.IntN(3) > 0 {
		ops = append(ops, pause)
	}
	ops = append(ops, one(1+r.IntN(3)), Op{Do: Sleep, Ms: r.IntN(3000)}, Op{Do: ThawOne, Who: who},
		Op{Do: Sleep, Ms: r.IntN(6000)}, Op{Do: KillOne, Who: 1 - who})
	return append(ops, Op{Do: Sleep, Ms: r.IntN(3000)}, one(1+r.IntN(2)), Op{Do: Sleep, Ms: 8000 + r.IntN(4000)}, one(1))
}

// purged is a scene: a session is deleted while an event of another one, which came before its own in their partition, waits for its
// body for longer than the server waits for acks, and then whoever has it in hand dies. Who purges may die over it, or stand still until
// another one has done it.
func (p *Program) purged(r *rand.Rand) []Op {
	p.Agents, p.Payload, p.Free = max(p.Agents, 2), 64<<10, false
	large, deleted := p.some(r, 0, 0), p.some(r, 1, 0)
	large.Size, large.Image, deleted.Who = 60_000, 0, 1
	ops := []Op{p.some(r, 0, 1), {Do: Settle}, {Do: DropAsk, On: "chunks", Kind: 2, Times: 4 + r.IntN(8)}, large,
		{Do: Sleep, Ms: 50 + r.IntN(500)}, deleted, {Do: Sleep, Ms: r.IntN(1000)}, {Do: Delete, Session: 1, Who: 1}}
	switch r.IntN(4) {
	case 0:
		ops = append([]Op{{Do: DieAt, On: "purge", Kind: 2, N: r.IntN(5), Ms: r.IntN(2)}}, ops...)
	case 1:
		p.Persisters = 2
		who := r.IntN(2)
		ops = append(append([]Op{{Do: PauseStep, On: "purge", N: r.IntN(2), Ms: 5000 + r.IntN(20_000)}}, ops...),
			Op{Do: Sleep, Ms: r.IntN(4000)}, Op{Do: FreezeOne, Who: who}, Op{Do: Sleep, Ms: 9000 + r.IntN(5000)}, Op{Do: ThawOne, Who: who})
	}
	return append(ops, Op{Do: Sleep, Ms: 18_000 + r.IntN(12_000)}, Op{Do: KillOne}, Op{Do: KillOne, Who: 1}, Op{Do: StartOne},
		Op{Do: Sleep, Ms: 9000}, p.some(r, 0, 0))
}

// lateRemoval is a scene: a removal, or what else takes a name from a thread, is committed late, behind what another persister
// applied meanwhile. An end is late behind the removal of its thread: the name is another thread's by then.
func (p *Program) lateRemoval(r *rand.Rand) []Op {
	p.Persisters, p.Agents, p.Free = 2, max(p.Agents, 2), false
	leaves := Op{Do: []Verb{Remove, Rename, End, End}[r.IntN(4)], Kind: 1, To: 2}
	late := Op{Do: PauseStep, On: []string{"bulk", "commit"}[r.IntN(2)], Ms: 10_000 + r.IntN(15_000)}
	if leaves.Do == End {
		late.Ms += 6000
	}
	if r.IntN(2) == 0 {
		late = Op{Do: Late, On: "commit", Kind: 2, N: r.IntN(3), Ms: late.Ms}
	}
	ops := []Op{p.some(r, 0, 0), {Do: Settle}, late, leaves, {Do: Sleep, Ms: r.IntN(9000)}}
	if leaves.Do == End {
		ops = append(ops, Op{Do: Remove, Kind: 1})
	}
	again := p.some(r, 0, 0)
	again.Who = 1
	return append(ops, again, Op{Do: Sleep, Ms: 9000 + r.IntN(20_000)}, p.some(r, 0, 0))
}

// killedAgain is a scene: processes die one after another over the same events, the third and those behind it over one that they
// try alone.
func (p *Program) killedAgain(r *rand.Rand) []Op {
	p.Persisters, p.BatchMax, p.Free = 1, r.IntN(3), r.IntN(2) == 0
	one := p.some(r, 0, 0)
	one.Split = r.IntN(2) == 0
	var ops []Op
	stops := r.IntN(3) == 0 // they end in order
	times, wait := 3+[]int{0, 0, 1, 6}[r.IntN(4)], 9000
	if stops || times > 4 { // until the server gives the event again
		wait = 22_000
	}
	for i := range times {
		at := Op{Do: KillStep, On: []string{"bulk", "commit"}[r.IntN(2)]}
		if stops && i > 1 {
			at = Op{Do: DropAsk, On: "object", Kind: 2, Times: 40}
		}
		if ops = append(ops, at); i == 0 {
			ops = append(ops, one)
		} else {
			ops = append(ops, Op{Do: StartOne})
		}
		if ops = append(ops, Op{Do: Sleep, Ms: wait + r.IntN(15_000)}); at.Do == DropAsk {
			for who := range 2*i + 3 { // others were started in the place of those that were killed
				ops = append(ops, Op{Do: StopOne, Who: who})
			}
			ops = append(ops, Op{Do: Sleep, Ms: 13_000})
		}
	}
	return append(ops, Op{Do: StartOne}, p.some(r, 0, 0), Op{Do: Sleep, Ms: 12_000})
}

// lettersKept is a scene: a backup is made while events are refused. What is linked to them may be in the restored store
// without them.
func (p *Program) lettersKept(r *rand.Rand) []Op {
	p.Persisters, p.BatchMax, p.Free = 1, 1, r.IntN(2) == 0
	var ops []Op
	for range 1 + r.IntN(3) {
		refused := in(p.op(r, []Verb{Poison, PoisonOp}[r.IntN(2)]), 0, few(r, 2))
		ops = append(ops, refused)
		if r.IntN(2) == 0 {
			ops = append(ops, p.some(r, r.IntN(2), few(r, 2)))
		}
	}
	return append(ops, Op{Do: Sleep, Ms: r.IntN(2) * r.IntN(400)}, Op{Do: BackUp, Who: 1})
}

// ownQueue is a scene: a process that kept events on its disk has a server again, and publishes as the same producers, in
// several threads, while its disk is not empty yet.
func (p *Program) ownQueue(r *rand.Rand) []Op {
	p.Offline = true
	publish := func(n int) Op {
		o := p.some(r, 0, few(r, 2))
		o.N, o.Who, o.As, o.Again = n, 0, r.IntN(3), false
		if r.IntN(2) == 0 {
			o.Kind, o.ToSess, o.To = 1, 0, 1
		}
		return o
	}
	ops := []Op{publish(1 + r.IntN(2)), {Do: Away}}
	for range 2 + r.IntN(4) {
		ops = append(ops, publish(1+r.IntN(3)))
	}
	ops = append(ops, Op{Do: Sleep, Ms: []int{10, 3000, 9000}[r.IntN(3)]}, Op{Do: Back})
	for range 3 + r.IntN(6) {
		ops = append(ops, Op{Do: Sleep, Ms: 10 + r.IntN(500)}, publish(1))
	}
	return ops
}

// deletedInside is a scene: a persister dies while it deletes a session, and what came before the deletion comes again.
func (p *Program) deletedInside(r *rand.Rand) []Op {
	ops := []Op{{Do: DropAsk, On: "ack", Kind: 2, Times: 10 + r.IntN(40)}, p.some(r, 0, 0)}
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 0, 1))
	}
	ops = append(ops, Op{Do: Settle},
		Op{Do: KillStep, On: []string{"purge", "purge", "done", "items", "remove"}[r.IntN(5)]}, Op{Do: Delete},
		Op{Do: Sleep, Ms: []int{50, 3000, 22_000}[r.IntN(3)]})
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 0, few(r, 2)))
	}
	return append(ops, Op{Do: Settle})
}

// oneID is a scene: several put an artifact under one id, or take the next number, at the same time.
func (p *Program) oneID(r *rand.Rand) []Op {
	p.Agents, p.Free = max(p.Agents, 2), false
	var ops []Op
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 0, 0), Op{Do: Settle})
	}
	for range 1 + r.IntN(2) {
		if r.IntN(2) == 0 {
			ops = append(ops, Op{Do: Late, On: "commit", Kind: 1, Ms: 300 + r.IntN(2000)})
		}
		n, kind := r.IntN(2), r.IntN(3)/2
		ops = append(ops, Op{Do: PutArtifact, Who: 0, N: n, Kind: kind}, Op{Do: PutArtifact, Who: 1, N: n, Kind: kind})
	}
	return ops
}

// refusedFirst is a scene: the first operation of a thread is refused, and the persister that refused it dies before it
// takes what is linked to it.
func (p *Program) refusedFirst(r *rand.Rand) []Op {
	p.Persisters, p.BatchMax = 1, 1
	thread := r.IntN(2)
	return []Op{{Do: PauseStep, On: []string{"commit", "bulk", "fence"}[r.IntN(3)], N: 1, Ms: 3000},
		in(p.op(r, PoisonOp), 0, thread), {Do: Sleep, Ms: 500 + r.IntN(2000)}, {Do: KillOne}, {Do: StartOne},
		{Do: Sleep, Ms: 1000 + r.IntN(25_000)}, p.some(r, 0, thread), {Do: Settle}}
}

// oldReader is a scene: an agent reads a thread that shares its pack with another one, packs become others and their
// names are forgotten, and the same process, which has the old pack in memory, reads the other thread.
func (p *Program) oldReader(r *rand.Rand) []Op {
	p.BatchMax = 0
	var ops []Op
	for range 2 { // a head names the pack of its first state, and those of its last ones: one between is to be forgotten
		ops = append(ops, p.some(r, 0, 0), Op{Do: Settle})
	}
	both := p.some(r, 0, 0)
	both.Kind, both.ToSess, both.To, both.N, both.Split = 1, 0, 1, 2*(threads.MaxRecent+8)+r.IntN(4), true
	read := Op{Do: Read, Thread: 1, Who: r.IntN(p.Agents)}
	ops = append(ops, Op{Do: FreezeOne}, Op{Do: FreezeOne, Who: 1}, both, Op{Do: Sleep, Ms: 100}, // one commit has all
		Op{Do: ThawOne}, Op{Do: ThawOne, Who: 1}, Op{Do: Settle}, read)
	for range 3 { // the packs are merged, the old ones go, and then their names
		ops = append(ops, Op{Do: Collect, Kind: 2}, Op{Do: Settle})
	}
	read.Thread = 0
	return append(ops, read)
}

// nameAgain is a scene: a name that another thread had is left and taken again, and what was published to that other
// thread comes again.
func (p *Program) nameAgain(r *rand.Rand) []Op {
	if p.wants(Rename) { // a second time it meets what is not mended: testdata/programs/renamed-to-anothers-name.json
		return nil
	}
	p.Free = false
	first, next := p.some(r, 0, 0), p.some(r, 0, 0)
	first.As, next.As, next.Who, first.Who = 1, r.IntN(3)/2*2, 0, 0
	ops := []Op{{Do: DropAsk, On: "ack", Kind: 2, Times: 30 + r.IntN(40)}, first}
	again := r.IntN(2) == 0
	if again { // its producer sends it again
		p.Agents = max(p.Agents, 2)
		ops = []Op{{Do: Reuse, Who: 1, N: 5000, Kind: 1, Again: true}, {Do: Sleep, Ms: 100 + r.IntN(900)}}
	}
	ops = append(ops, Op{Do: Remove, Kind: 1}, next, Op{Do: Rename, To: 2})
	if r.IntN(3) == 0 {
		ops = append(ops, p.some(r, 0, 0))
	}
	ops = append(ops, Op{Do: Rename, Thread: 2, To: 0}, Op{Do: Settle})
	if !again {
		ops = append(ops, Op{Do: KillOne}, Op{Do: KillOne, Who: 1}, Op{Do: StartOne})
	}
	ops = append(ops, Op{Do: Sleep, Ms: 9000 + r.IntN(15_000)}, p.some(r, 0, 0), Op{Do: Settle})
	if again && r.IntN(2) == 0 { // so is what the thread itself had under the name before it left it
		p.Agents = max(p.Agents, 3)
		leaves := slices.IndexFunc(ops, func(o Op) bool { return o.Do == Rename })
		ops = slices.Insert(ops, leaves, Op{Do: Reuse, Who: 2, N: 2000, Kind: 1}, Op{Do: Sleep, Ms: 100})
	}
	return ops
}

// unread is a scene: records cannot be read for a moment by whoever applies what depends on them.
func (p *Program) unread(r *rand.Rand) []Op {
	p.Free = false
	ops := []Op{p.some(r, 0, 0), p.some(r, 2, 0), {Do: Settle}}
	for range 1 + r.IntN(3) {
		ops = append(ops, Op{Do: []Verb{Refuse, Refuse, DropAsk, DropTell}[r.IntN(4)], On: "record get", Kind: 2,
			N: r.IntN(12), Times: 1 + r.IntN(3), Ms: r.IntN(3)})
		needs := p.op(r, []Verb{Fork, Fork, Fork, Rename, Ask, Output}[r.IntN(6)])
		ops = append(ops, in(needs, []int{0, 2}[r.IntN(2)], 0))
	}
	return ops
}

// begunLater is a scene: the log has lost its beginning with a session that was deleted, and in a thread that began behind that a
// producer gives its sequences to others.
func (p *Program) begunLater(r *rand.Rand) []Op {
	p.Free = r.IntN(2) == 0
	reuse := in(p.op(r, Reuse), 1+r.IntN(2), few(r, 2))
	reuse.N = r.IntN(2) * 50
	ops := []Op{p.some(r, 0, 0), {Do: Settle}, {Do: Delete}, {Do: Settle}, reuse}
	if r.IntN(2) == 0 {
		ops = append(ops, Op{Do: KillOne, Who: r.IntN(2)}, Op{Do: StartOne}, in(p.op(r, Reuse), reuse.Session, reuse.Thread))
	}
	return ops
}

// deletedBetween is a scene: a session is deleted while a call publishes to it.
func (p *Program) deletedBetween(r *rand.Rand) []Op {
	p.Agents, p.Free = max(p.Agents, 2), false
	slow, call := Op{Do: Slow, Kind: 1, N: []int{5, 20, 60}[r.IntN(3)]}, p.some(r, 0, 0)
	call.Who, call.N, call.Split, call.Again = 0, 3+r.IntN(6), true, false
	ops := []Op{slow, call}
	if r.IntN(2) == 0 {
		ops = []Op{p.some(r, 0, few(r, 2)), {Do: Settle}, slow, call}
	}
	return append(ops, Op{Do: Delete, Who: 1}, Op{Do: Sleep, Ms: 1000 + r.IntN(9000)}, Op{Do: Settle})
}

// lostEvents is a scene: one of the messages of a call is lost, and the call is made again.
func (p *Program) lostEvents(r *rand.Rand) []Op {
	var ops []Op
	for range 1 + r.IntN(2) {
		lost := Op{Do: []Verb{DropAsk, DropAsk, Refuse, DropTell, Late}[r.IntN(5)], On: "event", Kind: 1, N: r.IntN(5),
			Ms: r.IntN(2)}
		call := p.some(r, 0, few(r, 2))
		call.N, call.Split, call.Again = 3+r.IntN(7), true, true
		ops = append(ops, lost, call)
	}
	return ops
}

// gaveUp is a scene: a publisher is not told what became of a call, and goes on with others.
func (p *Program) gaveUp(r *rand.Rand) []Op {
	var ops []Op
	thread := few(r, 2)
	for range 1 + r.IntN(2) {
		lost := Op{Do: []Verb{DropTell, DropTell, Late}[r.IntN(3)], On: "event", Kind: 1, N: r.IntN(2), Times: 1 + r.IntN(4), Ms: 10_000}
		call := p.some(r, 0, thread)
		call.Who, call.As, call.Again, call.Ms = 0, 0, false, 1000+r.IntN(5000)
		ops = append(ops, lost, call)
	}
	next := p.some(r, 0, thread)
	next.Who, next.As = 0, 0
	return append(ops, next)
}

// removedMeanwhile is a scene: a thread is removed between two messages of a call that runs out of time and is made again. What the
// call has behind the removal begins the thread anew, and is linked to what was removed.
func (p *Program) removedMeanwhile(r *rand.Rand) []Op {
	p.Persisters, p.Agents, p.Payload = 1, max(p.Agents, 2), 64<<10
	call := p.some(r, 0, 0)
	call.Who, call.N, call.Size, call.Split, call.Again, call.Ms = 1, 4+r.IntN(5), 30_000, true, true, 1+r.IntN(2)
	return []Op{{Do: Remove, Kind: 1, N: 1 + r.IntN(5), Again: true}, call, {Do: Settle}, p.some(r, 0, 0)}
}

// renamedUntold is a scene: a persister dies behind the commit of what it did not send yet, and whoever gets that again gets a rename of
// its thread with it, and dies too.
func (p *Program) renamedUntold(r *rand.Rand) []Op {
	p.Persisters, p.BatchMax, p.Free = 1, 0, r.IntN(2) == 0
	dies := func() Op { return Op{Do: KillStep, On: []string{"items", "items", "ack"}[r.IntN(3)], N: r.IntN(2)} }
	ops := []Op{p.some(r, 0, 0), {Do: Settle}, dies(), p.some(r, 0, 0), {Do: Sleep, Ms: r.IntN(500)}, {Do: KillOne}}
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 2, 0))
	}
	ops = append(ops, Op{Do: Rename, To: 2}, dies(), Op{Do: StartOne}, Op{Do: Sleep, Ms: 9000 + r.IntN(9000)})
	return append(ops, Op{Do: StartOne}, p.some(r, 0, 2), Op{Do: Settle})
}
