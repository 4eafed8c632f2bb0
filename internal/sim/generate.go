package sim

import "math/rand/v2"

// mood is what a program is mostly about: what its agents and operators tend to do, and what tends to go wrong. A
// schedule in which everything happens rarely has two things happen in the one order that matters; so a program
// has one mood or two.
type mood struct {
	name  string
	verbs map[Verb]int // weights
}

var moods = []mood{
	{"failover", map[Verb]int{Publish: 30, Async: 5, FreezeOne: 8, ThawOne: 8, KillOne: 4, StopOne: 6, StartOne: 4,
		CutOne: 3, Sleep: 10, Settle: 4}},
	{"failback", nil},            // a scene: freeze, takeover, return
	{"death", nil},               // a scene: a persister dies in the middle of something
	{"undelete", map[Verb]int{}}, // a scene: what is removed, collected and taken back
	{"lost answers", map[Verb]int{Publish: 30, Async: 10, Refuse: 10, DropAsk: 8, DropTell: 12, CutAgent: 8,
		CutOne: 4, Sleep: 6}},
	{"threads", map[Verb]int{Publish: 30, Fork: 8, Rename: 6, Remove: 8, End: 6, Settle: 4, Subscribe: 2}},
	{"deletion", map[Verb]int{Publish: 30, Delete: 8, Remove: 4, Async: 4, Subscribe: 4, Settle: 5, KillOne: 2,
		StartOne: 2}},
	{"poison", map[Verb]int{Publish: 15, Poison: 12, PoisonOp: 8, End: 2, KillOne: 2, StartOne: 2}},
	{"outputs", map[Verb]int{Publish: 8, Output: 14, FreezeOne: 3, ThawOne: 3, Remove: 3, Sleep: 6, KillOne: 2,
		StartOne: 2, Settle: 2}},
	{"offline", map[Verb]int{Publish: 30, Away: 8, Back: 8, Die: 8, Sleep: 8, Settle: 2}},
	{"garbage", map[Verb]int{Publish: 30, Collect: 12, Keep: 6, Undelete: 5, Remove: 6, Delete: 3, Read: 10,
		Fork: 4, Settle: 8, Sleep: 4, Fsck: 1}},
	{"people", map[Verb]int{Publish: 6, Ask: 8, Answer: 14, Remove: 2, KillOne: 2, StartOne: 2, Sleep: 4}},
	{"artifacts", map[Verb]int{PutArtifact: 20, Publish: 6, Delete: 2, DropTell: 5, Refuse: 5, Sleep: 2}},
	{"readers", map[Verb]int{Publish: 25, Subscribe: 8, Unsubscribe: 3, Remove: 4, Delete: 3, KillOne: 3,
		StartOne: 3, Settle: 3}},
	{"retention", map[Verb]int{Publish: 25, Retain: 10, Sleep: 10, Settle: 4}},
	{"deaths", map[Verb]int{Publish: 30, Async: 6, Die: 10, FreezeAgent: 3, ThawAgent: 3, DropTell: 4, Settle: 2}},
	{"crashes", map[Verb]int{Publish: 30, Crash: 4, Sleep: 8, Settle: 4, KillOne: 2, StartOne: 2}},
}

// Generate makes the program of a seed. One in twenty is large.
func Generate(seed uint64) Program {
	r := rand.New(rand.NewPCG(seed, 7))
	p := Program{Seed: seed, Persisters: 1 + r.IntN(2), Agents: 1 + r.IntN(3), Free: r.IntN(3) == 0,
		BatchMax: []int{0, 1, 2, 3}[r.IntN(4)]}
	n := 3 + r.IntN(9)
	if r.IntN(20) == 0 {
		n, p.Agents = 15+r.IntN(40), 2+r.IntN(4)
	}
	one, two := moods[r.IntN(len(moods))], moods[r.IntN(len(moods))]
	if r.IntN(2) == 0 {
		two = one
	}
	p.Offline = one.name == "offline" || two.name == "offline"
	for _, m := range []mood{one, two} {
		switch m.name {
		case "failback":
			p.Ops = append(p.Ops, p.failback(r)...)
		case "death":
			p.Ops = append(p.Ops, p.death(r)...)
		case "undelete":
			p.Ops = append(p.Ops, p.undelete(r)...)
		}
	}
	for len(p.Ops) < n {
		m := one
		if r.IntN(2) == 0 {
			m = two
		}
		if len(m.verbs) == 0 {
			m = moods[0]
		}
		p.Ops = append(p.Ops, p.op(r, m.pick(r)))
	}
	return p
}

// pick chooses a verb by weight. The order of the choice is fixed: a map has none.
func (m mood) pick(r *rand.Rand) Verb {
	sum := 0
	for _, v := range verbs {
		sum += m.verbs[v]
	}
	at := r.IntN(sum)
	for _, v := range verbs {
		if at -= m.verbs[v]; at < 0 {
			return v
		}
	}
	return Publish
}

var verbs = []Verb{
	Publish, Async, Poison, PoisonOp, Fork, Rename, Remove, End, Delete, Output, Ask, Answer,
	PutArtifact, Subscribe, Unsubscribe, Read,
	Die, FreezeAgent, ThawAgent, Collect, Keep, Undelete, Retain, Fsck, StartOne, StopOne, KillOne,
	FreezeOne, ThawOne, CutOne, CutAgent,
	Crash, Sleep, Settle, Refuse, DropAsk, DropTell, Away, Back,
}

// op makes an operation. Few sessions, threads and producers: what meets is what breaks.
func (p *Program) op(r *rand.Rand, v Verb) Op {
	o := Op{Do: v, Who: r.IntN(3)}
	if o.ofAgent() {
		o.Who = r.IntN(p.Agents)
		o.Session, o.Thread = few(r, 3), few(r, 3)
		o.ToSess, o.To = few(r, 3), r.IntN(4)
	}
	switch v {
	case Publish, Async:
		o.N, o.As, o.Kind, o.Split = 1+few(r, 6), r.IntN(3), few(r, 2), r.IntN(2) == 0
		o.Again = r.IntN(2) == 0
		if r.IntN(4) == 0 {
			o.Ms = []int{1, 20, 300, 6000}[r.IntN(4)]
		}
		if r.IntN(20) == 0 {
			o.Size = 30_000
		}
	case Poison, PoisonOp:
		o.N, o.Kind = 1+r.IntN(3), r.IntN(3)
	case Output:
		o.N, o.Kind = 1+r.IntN(5), r.IntN(2)*r.IntN(5)
		if r.IntN(3) == 0 {
			o.Size = 30_000
		}
	case PutArtifact:
		o.N, o.Kind = few(r, 2), r.IntN(2)
	case Ask, Answer:
		o.N = few(r, 2)
	case Remove:
		o.Kind = r.IntN(2)
	case Subscribe:
		o.Kind, o.N = r.IntN(2), few(r, 2)
	case Collect:
		o.Kind = r.IntN(3)
	case Keep:
		o.Session, o.Thread = 0, few(r, 2)
	case Fsck:
		o.Kind = r.IntN(2)
	case Sleep:
		o.Ms = []int{50, 1000, 9000, 12_000, 30_000}[r.IntN(5)]
	case Retain:
		o.Ms = []int{1, 5000}[r.IntN(2)]
	case Refuse, DropAsk, DropTell:
		o.N, o.Kind, o.Ms = r.IntN(40), r.IntN(3), r.IntN(2)
	case Crash:
		o.Kind = r.IntN(2)
	}
	if o.Do == Ask {
		o.Ms = 20_000
	}
	return o
}

// few is a small number, and most of the time the smallest.
func few(r *rand.Rand, n int) int {
	if r.IntN(3) > 0 {
		return 0
	}
	return r.IntN(n)
}

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
	for range 1 + r.IntN(3) {
		ops = append(ops, Op{Do: Collect, Kind: 1}, Op{Do: Settle})
	}
	return append(ops, Op{Do: Undelete})
}

// death is a scene: a persister dies right behind something that it has to do, or cannot reach the server in it,
// and another one has to find out how far it came.
func (p *Program) death(r *rand.Rand) []Op {
	p.BatchMax, p.Free = 1+r.IntN(3), false
	something := []Verb{Publish, Publish, Async, Delete, Remove, Rename, Fork, End, Poison, PoisonOp, Output, Ask}
	var ops []Op
	for range 1 + r.IntN(3) {
		many := p.op(r, Publish)
		many.N, many.Split, many.Ms, many.Session, many.Thread = 3+r.IntN(4), r.IntN(3) == 0, 0, 0, 0
		ops = append(ops, many)
		if r.IntN(2) == 0 {
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
		for i := range p.Persisters {
			ops = append(ops, Op{Do: KillOne, Who: i})
		}
		p.Persisters++ // those that are started have numbers of their own
		ops = append(ops, Op{Do: StartOne})
	}
	p.Persisters = 1
	return ops
}
