package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// mood is what a program is mostly about: what its agents and operators tend to do, and what tends to go wrong. A
// schedule in which everything happens rarely has two things happen in the one order that matters; so a program
// has one mood or two.
type mood struct {
	name  string
	often int          // how often, beside others; what costs five times as much is a sixth as often: more is met in as much time
	verbs map[Verb]int // weights
	scene scene
}

// scene is a situation that chance would rarely make: the operations that lead to it.
type scene func(*Program, *rand.Rand) []Op

var failover = mood{name: "failover", often: 6, verbs: map[Verb]int{Publish: 30, Async: 5, FreezeOne: 8, ThawOne: 8, KillOne: 4,
	StopOne: 6, StartOne: 4, CutOne: 3, Sleep: 10, Settle: 4}}

var moods = []mood{
	failover,
	{name: "lost answers", often: 6, verbs: map[Verb]int{Publish: 30, Async: 10, Echo: 8, Refuse: 10, DropAsk: 8, DropTell: 12, CutAgent: 8,
		CutOne: 4, Sleep: 6}},
	{name: "threads", often: 6, verbs: map[Verb]int{Publish: 30, Refer: 4, Fork: 8, Rename: 6, Remove: 8, End: 6, Settle: 4, Subscribe: 2}},
	{name: "deletion", often: 6, verbs: map[Verb]int{Publish: 30, Delete: 8, Remove: 4, Async: 4, Subscribe: 4, Settle: 5, KillOne: 2,
		StartOne: 2}},
	{name: "poison", often: 6, verbs: map[Verb]int{Publish: 15, Poison: 12, PoisonOp: 8, End: 2, KillOne: 2, StartOne: 2}},
	{name: "outputs", often: 4, verbs: map[Verb]int{Publish: 8, Output: 14, End: 5, FreezeOne: 3, ThawOne: 3, Remove: 4, Rename: 3, Sleep: 6,
		KillOne: 2, StartOne: 2, Settle: 2}},
	{name: "offline", often: 6, verbs: map[Verb]int{Publish: 30, Echo: 4, Away: 8, Back: 8, Die: 8, Sleep: 8, Settle: 2}},
	{name: "garbage", often: 6, verbs: map[Verb]int{Publish: 30, Collect: 12, Keep: 6, Undelete: 5, Remove: 6, Delete: 3, Read: 10,
		Fork: 4, Settle: 8, Sleep: 4, Fsck: 1}},
	{name: "people", often: 6, verbs: map[Verb]int{Publish: 6, Ask: 8, Answer: 14, Remove: 2, KillOne: 2, StartOne: 2, Sleep: 4}},
	{name: "runs", often: 3, verbs: map[Verb]int{Publish: 6, Sign: 16, End: 2, Remove: 1, FreezeOne: 2, ThawOne: 2, KillOne: 2, StartOne: 2,
		Sleep: 3, Settle: 2}},
	{name: "artifacts", often: 6, verbs: map[Verb]int{PutArtifact: 20, Publish: 6, Delete: 2, DropTell: 5, Refuse: 5, Sleep: 2}},
	{name: "readers", often: 6, verbs: map[Verb]int{Publish: 25, Subscribe: 8, Unsubscribe: 3, Remove: 4, Delete: 3, KillOne: 3,
		StartOne: 3, Settle: 3}},
	{name: "retention", often: 6, verbs: map[Verb]int{Publish: 25, Retain: 10, Sleep: 10, Settle: 4}},
	{name: "out of order", often: 6, verbs: map[Verb]int{Publish: 15, Skip: 12, Reuse: 10, Remove: 2, Rename: 2, Delete: 1, End: 1, BackUp: 1,
		KillOne: 3, StartOne: 3, Settle: 3}},
	{name: "deaths", often: 6, verbs: map[Verb]int{Publish: 30, Async: 6, Die: 10, FreezeAgent: 3, ThawAgent: 3, DropTell: 4,
		Settle: 2}},
	{name: "faults", often: 6, verbs: map[Verb]int{Publish: 30, Async: 8, Echo: 3, Fork: 2, Remove: 2, Output: 2, Read: 6, Collect: 3,
		Refuse: 10, DropAsk: 8, DropTell: 8, Late: 8, DieAt: 6, Stale: 5, Slow: 4, KillStep: 6, PauseStep: 6, Sleep: 4, Subscribe: 2}},
	{name: "backups", often: 3, verbs: map[Verb]int{Publish: 30, Async: 6, BackUp: 8, Fork: 3, End: 2, Remove: 3, Delete: 2,
		Output: 2, Poison: 2, Collect: 4, FreezeOne: 3, ThawOne: 3, KillOne: 2, StartOne: 2, Slow: 2, Settle: 5, Ask: 1}},
	{name: "history", often: 6, verbs: map[Verb]int{Publish: 30, Index: 10, Fork: 2, Remove: 3, Delete: 3, Rename: 2, End: 1,
		KillOne: 2, StartOne: 2, Sleep: 5, Settle: 4}},
	{name: "crashes", often: 6, verbs: map[Verb]int{Publish: 30, Crash: 4, Sleep: 8, Settle: 4, KillOne: 2, StartOne: 2}},

	{name: "failback", often: 3, scene: (*Program).failback},
	{name: "death", often: 4, scene: (*Program).death},
	{name: "undelete", often: 2, scene: (*Program).undelete},
	{name: "refused", often: 3, scene: (*Program).refused},
	{name: "answers", often: 4, scene: (*Program).answers},
	{name: "replaced", often: 4, scene: (*Program).replacement},
	{name: "sweep", often: 1, scene: (*Program).sweep},
	{name: "successor", often: 4, scene: (*Program).successor},
	{name: "slow reader", often: 4, scene: (*Program).slowReader},
	{name: "commits", often: 6, scene: (*Program).lostCommits},
	{name: "taken up", often: 2, scene: (*Program).takenUp},
	{name: "full", often: 1, scene: (*Program).full},
	{name: "taken back", often: 1, scene: (*Program).takenBack},
	{name: "short life", often: 2, scene: (*Program).shortLife},
	{name: "remembered", often: 2, scene: (*Program).remembered},
	{name: "late ack", often: 4, scene: (*Program).lateAck},
	{name: "late removal", often: 4, scene: (*Program).lateRemoval},
	{name: "killed again", often: 5, scene: (*Program).killedAgain},
	{name: "own queue", often: 4, scene: (*Program).ownQueue},
	{name: "letters kept", often: 2, scene: (*Program).lettersKept},
	{name: "deleted inside", often: 3, scene: (*Program).deletedInside},
	{name: "deleted between", often: 4, scene: (*Program).deletedBetween},
	{name: "lost events", often: 4, scene: (*Program).lostEvents},
	{name: "unread", often: 3, scene: (*Program).unread},
	{name: "one id", often: 6, scene: (*Program).oneID},
	{name: "refused first", often: 6, scene: (*Program).refusedFirst},
	{name: "old reader", often: 1, scene: (*Program).oldReader},
	// More often than others that cost as much: what it is about shows in one of some three hundred programs of it.
	{name: "name again", often: 12, scene: (*Program).nameAgain},
	{name: "begun later", often: 4, scene: (*Program).begunLater},
	{name: "gave up", often: 3, scene: (*Program).gaveUp},
	{name: "removed meanwhile", often: 2, scene: (*Program).removedMeanwhile},
	{name: "claimed", often: 3, scene: (*Program).claimed},
	{name: "sent again", often: 4, scene: (*Program).sentAgain},
	{name: "late refusal", often: 3, scene: (*Program).lateRefusal},
	{name: "renamed untold", often: 2, scene: (*Program).renamedUntold},
	{name: "refers", often: 3, scene: (*Program).refers},
	{name: "open", often: 2, scene: (*Program).openMeanwhile},
	{name: "purged", often: 2, scene: (*Program).purged},
}

// Generate makes the program of a seed. One in forty is large.
func Generate(seed uint64) Program { return generate(seed, moods) }

// GenerateOf makes the program of a seed that is about some things alone, by their names, separated by commas.
func GenerateOf(seed uint64, about string) (Program, error) {
	var some []mood
	for _, name := range strings.Split(about, ",") {
		i := slices.IndexFunc(moods, func(m mood) bool { return m.name == name })
		if i < 0 {
			return Program{}, fmt.Errorf("no programs are about %q", name)
		}
		some = append(some, moods[i])
	}
	return generate(seed, some), nil
}

func generate(seed uint64, moods []mood) Program {
	r := rand.New(rand.NewPCG(seed, 7))
	p := Program{Seed: seed, Persisters: 1 + r.IntN(2), Agents: 1 + r.IntN(3), Free: r.IntN(3) == 0,
		BatchMax: []int{0, 1, 2, 3}[r.IntN(4)]}
	if r.IntN(8) == 0 {
		p.Payload = 64 << 10
	}
	if r.IntN(10) == 0 {
		p.ItemsAge = 5000
	}
	n := 1 + r.IntN(1+r.IntN(7)) // most are short, and meet as much in as much time
	if r.IntN(40) == 0 {
		n, p.Agents = 9+r.IntN(1+r.IntN(36)), 2+r.IntN(4)
	}
	one, two := among(r, moods), among(r, moods)
	if r.IntN(3) > 0 {
		two = one
	}
	p.Offline = one.name == "offline" || two.name == "offline"
	for i, m := range []mood{one, two} {
		again := i == 1 && one.name == two.name // a second time costs as much, and seldom meets more
		if m.scene != nil && r.IntN(8) > 0 && (!again || r.IntN(8) == 0) {
			p.Ops = append(p.Ops, m.scene(&p, r)...)
		}
	}
	for len(p.Ops) < n {
		m := one
		if r.IntN(2) == 0 {
			m = two
		}
		if len(m.verbs) == 0 {
			m = failover
		}
		p.Ops = append(p.Ops, p.op(r, m.pick(r)))
	}
	if !p.Free && r.IntN(4) == 0 {
		p.disturb(r)
	}
	p.sensible()
	return p
}

// among chooses a mood by how often it is to be.
func among(r *rand.Rand, moods []mood) mood {
	sum := 0
	for _, m := range moods {
		sum += m.often
	}
	at := r.IntN(sum)
	i := slices.IndexFunc(moods, func(m mood) bool { at -= m.often; return at < 0 })
	return moods[i]
}

// sensible mends what no user may do, as two live processes with one producer in one epoch, and what nobody ends.
func (p *Program) sensible() {
	if p.Offline { // a full EVENTS would leave events on the disk for ever
		p.EventsBytes = 0
	}
	replaces := p.wants(Replace)
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.ofAgent() && o.As%2 == 0 && replaces {
			o.As = min(o.As, 1)
		}
		o.Unseen = o.Do == Poison && o.Kind == 2 && o.N == 3
	}
}

// disturb puts a fault or two somewhere into a program, most of them on what somebody reads.
func (p *Program) disturb(r *rand.Rand) {
	for range 1 + r.IntN(2) {
		o := p.op(r, []Verb{Refuse, Refuse, DropAsk, DropTell, Late, Late, Stale}[r.IntN(7)])
		if o.Do != Stale && r.IntN(3) > 0 {
			o.On, o.N = readClasses[r.IntN(len(readClasses))], r.IntN(12)
		}
		p.Ops = slices.Insert(p.Ops, r.IntN(len(p.Ops)+1), o)
	}
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
	Publish, Async, Echo, Poison, PoisonOp, Skip, Reuse, Fork, Rename, Remove, End, Delete, Output, Sign, Ask, Answer,
	PutArtifact, Refer, Subscribe, Unsubscribe, Read,
	Die, FreezeAgent, ThawAgent, Collect, Keep, Undelete, Retain, Fsck, BackUp, Index, StartOne, StopOne, KillOne,
	FreezeOne, ThawOne, CutOne, CutAgent,
	Crash, Sleep, Settle, Refuse, DropAsk, DropTell, Away, Back,
	Late, DieAt, Stale, Slow, KillStep, PauseStep, Replace,
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
		p.publishes(r, &o)
		if v == Async && r.IntN(3) == 0 {
			o.Kind, o.N = 2, 6+r.IntN(10)
		}
	case Echo:
		p.publishes(r, &o)
		o.N = 2 + r.IntN(3)
	case Poison, PoisonOp:
		o.N, o.Kind = 1+r.IntN(3), r.IntN(3)
	case Skip, Reuse:
		o.N, o.Again, o.Kind = []int{0, 50, 500, 5000}[r.IntN(4)], r.IntN(2) == 0, r.IntN(6)
		o.Split = v == Reuse && r.IntN(2) == 0
	case Output:
		o.N, o.Kind, o.Again = 1+r.IntN(5), r.IntN(2)*r.IntN(5), r.IntN(4) == 0
		if r.IntN(3) == 0 {
			o.Size = 30_000
		}
	case Refer:
		o.N = []int{0, 300, 3000}[r.IntN(3)]
	case Sign:
		o.Session, o.Thread, o.N, o.Kind = 0, r.IntN(2), few(r, 2), r.IntN(4)
	case PutArtifact:
		o.N, o.Kind = few(r, 2), r.IntN(2)
	case Ask, Answer:
		o.N, o.Kind = few(r, 2), few(r, 3)
	case Remove, Rename:
		o.Kind = r.IntN(3)
		if o.Again = r.IntN(3) == 0; o.Again {
			o.N = []int{0, 50, 500, 5000}[r.IntN(4)]
		}
	case Subscribe:
		o.Kind, o.N = r.IntN(2), few(r, 2)
		if r.IntN(3) == 0 {
			o.Ms = []int{1, 40, 300}[r.IntN(3)]
		}
	case Collect:
		o.Kind = r.IntN(3)
	case Keep:
		o.Session, o.Thread = 0, few(r, 2)
	case Fsck:
		o.Kind = r.IntN(2)
	case Sleep:
		o.Ms = []int{50, 1000, 9000, 12_000, 30_000}[r.IntN(5)]
	case Index:
		o.Ms = []int{0, 0, 50, 3000}[r.IntN(4)]
	case Retain:
		o.Ms = []int{1, 5000}[r.IntN(2)]
	case Refuse, DropAsk, DropTell, Late, DieAt:
		p.misfortune(r, &o)
	case KillStep, PauseStep:
		o.On, o.N, o.Ms = steps[r.IntN(len(steps))], r.IntN(4), []int{1, 300, 3000, 12_000}[r.IntN(4)]
	case Stale:
		o.N = 1 + r.IntN(30)
	case Slow:
		o.Kind, o.N = 1+r.IntN(3), []int{0, 5, 20, 60}[r.IntN(4)]
	case Crash:
		o.Kind = r.IntN(2)
	}
	if o.Do == Ask {
		o.Ms = 20_000
	}
	return o
}

// publishes says what a publish is: how many entries, of whom, how patient, how large.
func (p *Program) publishes(r *rand.Rand, o *Op) {
	o.N, o.As, o.Kind, o.Split = 1+few(r, 6), r.IntN(3), few(r, 2), r.IntN(2) == 0
	o.Again = r.IntN(2) == 0
	if r.IntN(4) == 0 {
		o.Ms = []int{1, 20, 300, 6000}[r.IntN(4)]
	}
	if r.IntN(20) == 0 {
		o.Size = 30_000
	}
	if p.Payload > 0 && r.IntN(5) == 0 {
		o.Size = 60_000 // its body goes to the inbox
	}
	if r.IntN(6) == 0 {
		o.Image = 1 + r.IntN(2)
	}
}

// steps are those at which somebody dies or waits: of a persister, and of a collector.
var steps = []string{
	"upload", "fence", "bulk", "commit", "commit", "letters", "items", "items", "ack", "ack", "discard", "remove", "free",
	"purge", "done",
	"gc read", "gc second fence", "gc mark", "gc bury", "gc condemn", "gc upload", "gc repack", "gc reclaim", "gc forget",
}

// misfortune says which messages a fault is for: any, or those of a class, a few from now, one or several.
func (p *Program) misfortune(r *rand.Rand, o *Op) {
	o.N, o.Kind, o.Ms = r.IntN(40), r.IntN(3), r.IntN(2)
	if o.Do == Late {
		o.Ms = []int{300, 3000, 6000, 12_000, 25_000}[r.IntN(5)]
	}
	if o.Do == Refuse {
		o.Ms = r.IntN(3)
	}
	switch r.IntN(4) {
	case 0:
		return
	case 1:
		o.On, o.Kind = readClasses[r.IntN(len(readClasses))], []int{1, 2, 2, 2, 3, 4}[r.IntN(6)]
	default:
		o.On = writeClasses[r.IntN(len(writeClasses))]
		o.Kind = 2
		if o.On == "event" {
			o.Kind = 1
		}
	}
	o.N, o.Times = r.IntN(8), []int{1, 1, 2, 5}[r.IntN(4)]
	if o.Kind >= 3 { // see slowWait
		o.Times = 1
		if o.Do == Late {
			o.Ms = min(o.Ms, 3000)
		}
	}
}

// few is a small number, and most of the time the smallest.
func few(r *rand.Rand, n int) int {
	if r.IntN(3) > 0 {
		return 0
	}
	return r.IntN(n)
}
