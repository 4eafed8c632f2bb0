package sim

import (
	"context"
	"math/rand/v2"

	"spool/internal/gc"
)

type records = gc.Records

// waits is the record bucket as a collector of a schedule sees it: it may stand still once its fences are moved, too,
// before it reads on.
type waits struct {
	records
	at func(gc.Step) error
}

func (w waits) Fences(ctx context.Context) (uint64, error) {
	first, err := w.records.Fences(ctx)
	if err == nil {
		err = w.at("fence moved")
	}
	return first, err
}

// garbage is what several scenes begin with: a thread with an image is removed, and nothing reaches the image any more.
func (p *Program) garbage(r *rand.Rand, image int) []Op {
	first := p.some(r, 0, 1)
	first.Image = image
	ops := []Op{first, {Do: Settle}}
	if r.IntN(2) == 0 {
		ops = append(ops, p.some(r, 2, 0), Op{Do: Settle})
	}
	return append(ops, Op{Do: Remove, Kind: 1, Thread: 1}, Op{Do: Settle})
}

// claimed is a scene: a collector works while large bodies wait in the inbox for persisters that stand still.
func (p *Program) claimed(r *rand.Rand) []Op {
	p.Payload, p.Free = 64<<10, r.IntN(3) > 0
	large := p.some(r, 0, few(r, 2))
	large.Size, large.Image = 60_000, 0
	ops := []Op{{Do: FreezeOne}, {Do: FreezeOne, Who: 1}, large, {Do: Sleep, Ms: 50 + r.IntN(1000)}}
	if r.IntN(2) == 0 {
		ops = append([]Op{p.some(r, 0, 0), {Do: Settle}}, ops...)
	}
	return append(ops, Op{Do: Collect, Kind: r.IntN(2) * 2}, Op{Do: Sleep, Ms: r.IntN(2000)}, Op{Do: ThawOne}, Op{Do: ThawOne, Who: 1})
}

// openMeanwhile is a scene: while an output is open others end, and collectors forget that they have.
func (p *Program) openMeanwhile(r *rand.Rand) []Op {
	p.Agents = max(p.Agents, 2)
	output := func(who, pieces, kind int) Op {
		o := p.op(r, Output)
		o.Who, o.N, o.Kind, o.Ms = who, pieces, kind, 0
		return o
	}
	ops := []Op{output(0, 3+r.IntN(2), 1)}
	for range 2 + r.IntN(3) {
		if r.IntN(3) > 0 {
			ops = append(ops, output(1, 1+r.IntN(2), 0))
		}
		ops = append(ops, Op{Do: Sleep, Ms: 500 + r.IntN(4000)}, Op{Do: Collect, Kind: 2})
	}
	if r.IntN(3) == 0 {
		ops = append(ops, Op{Do: KillOne}, Op{Do: StartOne})
	}
	return append(ops, output(1, 1, 0))
}

// takenBack is a scene: a collector stands still between its plan and its deeds, and what is garbage in the plan is
// taken up.
func (p *Program) takenBack(r *rand.Rand) []Op {
	image := 1 + r.IntN(2)
	ops := p.garbage(r, image)
	again := p.some(r, []int{0, 2}[r.IntN(2)], []int{0, 2}[r.IntN(2)])
	again.Image = image
	step := []string{"gc mark", "gc mark", "gc bury", "gc condemn", "gc repack", "gc reclaim",
		"gc second fence"}[r.IntN(7)]
	collect := Op{Do: Collect, Kind: []int{0, 0, 1, 2}[r.IntN(4)]}
	ops = append(ops, Op{Do: PauseStep, On: step, Ms: 2000 + r.IntN(3000)}, collect,
		Op{Do: Sleep, Ms: 50 + r.IntN(500)}, again)
	if r.IntN(3) == 0 {
		ops = append(ops, p.some(r, 0, 3))
	}
	ops = append(ops, Op{Do: Settle, Ms: 5000}, collect)
	return append(ops, Op{Do: Read, Session: again.Session, Thread: again.Thread})
}

// shortLife is a scene: while a collector stands still behind its second fence, an image comes and its thread goes
// again; the image is taken up while the collector stands still once more, before its deeds.
func (p *Program) shortLife(r *rand.Rand) []Op {
	image := 1 + r.IntN(2)
	ops := []Op{p.some(r, 0, 0), {Do: Settle}}
	first, again := p.some(r, 0, 1), p.some(r, []int{0, 2}[r.IntN(2)], 0)
	first.Image, again.Image = image, image
	return append(ops,
		Op{Do: PauseStep, On: "gc fence moved", N: 1, Ms: 4000 + r.IntN(2000)},
		Op{Do: PauseStep, On: []string{"gc mark", "gc condemn"}[r.IntN(2)], Ms: 2000 + r.IntN(3000)},
		Op{Do: Collect}, Op{Do: Sleep, Ms: 50 + r.IntN(300)}, first, Op{Do: Settle},
		Op{Do: Remove, Kind: 1, Thread: 1}, Op{Do: Sleep, Ms: 4000}, again, Op{Do: Settle, Ms: 3000}, Op{Do: Collect})
}

// refers is a scene: an agent knows a node of a thread that is removed, and names it in a step while a collector stands still
// with a plan in which the node is garbage.
func (p *Program) refers(r *rand.Rand) []Op {
	p.Agents = max(p.Agents, 2)
	ops := []Op{p.some(r, 0, 1), p.some(r, 2, 0), {Do: Settle}}
	step := []string{"gc mark", "gc mark", "gc bury", "gc condemn", "gc repack"}[r.IntN(5)]
	ops = append(ops, Op{Do: PauseStep, On: step, Ms: 4000 + r.IntN(3000)},
		Op{Do: Refer, Who: 1, Thread: 1, ToSess: []int{0, 2}[r.IntN(2)], N: 2500 + r.IntN(3000)},
		Op{Do: Sleep, Ms: 50 + r.IntN(300)}, Op{Do: Remove, Kind: 1, Thread: 1}, Op{Do: Sleep, Ms: 1000},
		Op{Do: Collect, Kind: []int{0, 0, 1, 2}[r.IntN(4)]})
	return append(ops, Op{Do: Settle}, Op{Do: Collect})
}
