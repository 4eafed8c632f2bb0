package natsio

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"spool/internal/record"
	"spool/internal/retry"
)

// Patient is for whoever reads for minutes and would begin anew: what is read under it, but nothing that is written, waits for a server that
// pauses, for sixty times the time of a request (Config.Timeout) without getting further, and says so in the log.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

type patientKey struct{}

// patience is how readings wait for a server that does not answer them.
type patience struct {
	most     time.Duration
	log      *slog.Logger
	answered *atomic.Bool // something: a server that never did is no server that pauses
}

// patience is that of what is read under a context.
func (d *denials) patience(ctx context.Context) patience {
	p := patience{log: d.log, answered: &d.answered}
	if ctx.Value(patientKey{}) != nil {
		p.most = 60 * d.timeout
	}
	return p
}

// read reads, and where that fails for a passing reason again from where it came to, until it got no further for so long. further reports
// whether it did. What takes long is logged.
func (p patience) read(ctx context.Context, what string, read func() (further bool, err error)) error {
	var failed error
	moved := time.Now()
	err := retry.Do(ctx, retry.Tell(p.log, what), func() error {
		further, err := read()
		if further {
			moved = time.Now()
		}
		if err == nil {
			p.answered.Store(true)
		}
		if err != nil && record.Again(err) && (time.Since(moved) >= p.most || !p.answered.Load()) {
			failed = err
			return nil
		}
		return err
	})
	return cmp.Or(err, failed)
}

// once is read for one question.
func (p patience) once(ctx context.Context, what string, ask func() error) error {
	return p.read(ctx, what, func() (bool, error) { return false, ask() })
}
