package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Scenes in which something is sent again, or is refused late.

// sentAgain is a scene: what was published to a thread comes again when that has left its name, or its session was deleted. Perhaps it was
// refused when it came first, because its thread had another name.
func (p *Program) sentAgain(r *rand.Rand) []Op {
	p.Agents = max(p.Agents, 2)
	var ops []Op
	refused := r.IntN(3) == 0
	if refused {
		ops = []Op{p.some(r, 0, 0), {Do: Rename, To: 2}, {Do: Settle}}
	}
	first := in(p.op(r, []Verb{Skip, Reuse}[r.IntN(2)]), 0, 0)
	first.Who, first.N, first.Kind = 1, 1000+r.IntN(4000), 1+r.IntN(4)
	leaves := Op{Do: []Verb{Rename, Rename, Remove, Delete}[r.IntN(4)], Kind: 1, To: 1 + r.IntN(2)}
	if refused {
		leaves.Do = Delete
	}
	if leaves.Do == Delete {
		leaves.Kind, leaves.N = r.IntN(3), r.IntN(2)*1000
	}
	ops = append(ops, first, Op{Do: Sleep, Ms: 100 + r.IntN(1500)}, leaves)
	if r.IntN(3) == 0 {
		ops = append(ops, p.some(r, 0, 0))
	}
	if r.IntN(3) == 0 {
		ops = append(ops, Op{Do: KillOne}, Op{Do: StartOne})
	}
	return append(ops, Op{Do: Settle})
}

// lateRefusal is a scene: a persister stands still with a commit that refuses a fork, or takes it, and another one, which has the
// partition by then, finds that the source of the fork came, or went.
func (p *Program) lateRefusal(r *rand.Rand) []Op {
	p.Persisters, p.Agents, p.Free = 2, max(p.Agents, 2), false
	late := Op{Do: Late, On: "commit", Kind: 2, N: r.IntN(4), Ms: 12_000 + r.IntN(13_000)}
	fork, source := Op{Do: Fork, Session: 1, To: 1, Kind: 1}, p.some(r, 1, 0)
	source.Who = 1
	ops := []Op{late, fork, {Do: Sleep, Ms: r.IntN(2000)}, source}
	if r.IntN(2) == 0 {
		ops = []Op{source, {Do: Settle}, late, fork, {Do: Sleep, Ms: r.IntN(2000)}, {Do: Delete, Session: 1, Who: 1}}
	}
	return append(ops, Op{Do: Sleep, Ms: 15_000 + r.IntN(15_000)}, in(p.some(r, 0, 0), 0, few(r, 2)))
}

// refusalsKept checks that nothing is kept of why events were refused whose session was deleted since: reasons quote them.
func (j *judgement) refusalsKept(ctx context.Context, conn *natsio.Conn) error {
	of := map[uint64]uint64{}
	for session, at := range j.emptied {
		of[record.SessionMark(session)] = at
	}
	for _, part := range usedPartitions {
		rs, err := conn.Records().Records(ctx, events.RefusedKey(part))
		if err != nil {
			return err
		}
		if !rs[0].Exists() {
			continue
		}
		rec, err := record.DecodeRefused(rs[0].Value)
		if err != nil {
			return fmt.Errorf("%s: %w", rs[0].Key, err)
		}
		for _, e := range rec.Events {
			if e.Seq < of[e.Session] {
				j.fail("%s tells why the event at %d was refused, whose session was deleted at %d: %s", rs[0].Key, e.Seq, of[e.Session],
					e.Reason)
			}
		}
	}
	return nil
}
