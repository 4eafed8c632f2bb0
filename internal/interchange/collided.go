package interchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// unknownLetters is the number of the newest dead letter of whoever may not know it: none is newer.
const unknownLetters = math.MaxUint64

// newestLetter is the number of the newest dead letter; 0: there is none. It asks until it is answered, or ctx ends.
func newestLetter(ctx context.Context, conn *natsio.Conn, notify func(error, time.Duration)) uint64 {
	newest := uint64(unknownLetters)
	err := retry.Do(ctx, notify, func() error {
		s, err := conn.Streams().LeaderStream(ctx, events.DeadStream)
		if err == nil {
			newest = s.CachedInfo().State.LastSeq
		}
		return natsio.WrapErr(err)
	})
	if errors.Is(err, record.ErrNotFound) {
		return 0
	}
	return newest
}

// settledAtOnce is how many threads are asked at a time whether persisters are done with them: each answer is a few round trips.
const settledAtOnce = 16

// Collided finds the files of an import of which a line was refused, and says why. Where that is because another import said
// something else at the same moment, the thread is neither: both publish as one producer, a line has its place in the file for
// its sequence, and each place of the thread has what came to it first. The next import finds that, and gives each what it
// says. Wait for the import first: what no persister came to is not looked for. The error is that of who cannot read dead
// letters.
func Collided(ctx context.Context, conn *natsio.Conn, res *transcript.Result) error {
	cl := client.New(conn)
	settled := make([]bool, len(res.Files))
	var some errgroup.Group
	some.SetLimit(settledAtOnce)
	for i, f := range res.Files {
		if f.Err == nil && f.Published > 0 {
			some.Go(func() error { settled[i] = cl.Thread(f.ID()).Settled(ctx) == nil; return nil })
		}
	}
	_ = some.Wait()
	if newest := newestLetter(ctx, conn, nil); newest <= res.Letters || newest == unknownLetters {
		return nil
	}
	for i := range res.Files {
		f := &res.Files[i]
		if !settled[i] {
			continue
		}
		letters, err := cl.Session(f.Session).DeadLetters(ctx)
		if err != nil {
			return err
		}
		for _, d := range letters {
			if d.At <= res.Letters || d.Thread != f.ID() {
				continue
			}
			its, err := isOf(ctx, cl, d, f.Last.Producer)
			if err != nil {
				return err
			}
			collides := strings.Contains(d.Reason, apply.ErrReused.Error()) || strings.Contains(d.Reason, apply.ErrLate.Error())
			if !its || f.Err != nil && !collides {
				continue
			}
			f.Err = fmt.Errorf("%s: %s refused a line of it: %s (dead letter %d)", f.File, f.ID(), d.Reason, d.At)
			if collides {
				f.Err = fmt.Errorf("%s: another import wrote something else to %s at the same time, and the thread is neither: "+
					"import it again (dead letter %d)",
					f.File, f.ID(), d.At)
				break
			}
		}
		if f.Err != nil {
			f.Error = f.Err.Error()
			res.Failed++
		}
	}
	return nil
}

// isOf tells whether a dead letter is of a producer. Of one whose bytes are gone, or cannot be read, nobody can tell.
func isOf(ctx context.Context, cl *client.Client, d client.DeadLetter, producer string) (bool, error) {
	r, err := cl.Admin().OpenDeadLetter(ctx, d)
	if err == nil {
		d.Data, err = io.ReadAll(r)
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return false, err
	}
	e, bad := events.Open(d.Subject, d.Data)
	return err == nil && bad == nil && e.Producer == producer, nil
}
