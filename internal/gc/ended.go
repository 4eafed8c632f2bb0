package gc

import (
	"context"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/events"
)

// Ended is what a plan forgets of outputs that have ended. A record of an output leaves a marker when it is removed, and the server
// keeps a subject in memory for each (docs/adr/0031).
type Ended struct {
	// UpTo is the last of the sequences that any cycle has forgotten. No output is open at or below it: what is there all the same, a
	// server that was killed brought back.
	UpTo uint64   `json:"up_to,omitempty"`
	Seqs []uint64 `json:"seqs,omitempty"` // of the records that go, rising
}

// mostEnded is how many of them a cycle forgets; the next one goes on.
const mostEnded = 2_000_000

// brief is the records of what soon ends.
type brief struct {
	open      []uint64
	removed   []marked
	forgotten uint64 // Ended.UpTo of the cycles before
}

type marked struct {
	seq uint64
	age time.Duration
}

func (b *brief) take(r record.Stamped) {
	if r.Exists() {
		b.open = append(b.open, r.Seq)
	} else {
		b.removed = append(b.removed, marked{r.Seq, r.Age})
	}
}

// plan finds the records that go: those of which all that came before go too, so that one number tells what is open from what came back.
// A record that was written again while they were read was taken at both places; the first of them is nobody's any more.
func (b *brief) plan(fence uint64, least time.Duration) Ended {
	stays := fence
	var seqs []uint64
	for _, seq := range b.open {
		if seq <= b.forgotten {
			seqs = append(seqs, seq)
		} else {
			stays = min(stays, seq)
		}
	}
	for _, m := range b.removed {
		if m.age < least {
			stays = min(stays, m.seq)
		}
	}
	for _, m := range b.removed {
		if m.seq < stays {
			seqs = append(seqs, m.seq)
		}
	}
	slices.Sort(seqs)
	seqs = seqs[:min(len(seqs), mostEnded)]
	if len(seqs) == 0 {
		return Ended{}
	}
	return Ended{max(seqs[len(seqs)-1], b.forgotten), seqs}
}

// forgetEnded says up to where outputs have ended, and then forgets that they have: what a crash between leaves goes with the next cycle.
func (r *run) forgetEnded(ctx context.Context) error {
	p := r.plan.Ended
	if len(p.Seqs) == 0 {
		return nil
	}
	if err := r.At(StepForget); err != nil {
		return err
	}
	for again := true; again; {
		now, err := r.now(ctx, []string{events.EndedKey})
		if err != nil {
			return err
		}
		if record.Ended(now[0]) >= p.UpTo {
			break
		}
		put := record.Put{Key: events.EndedKey, Value: record.EncodeEnded(p.UpTo), Expect: now[0].Seq}
		if _, again, err = r.commit(ctx, []record.Put{put}); err != nil {
			return err
		}
	}
	return r.unmark(ctx, p.Seqs)
}
