package interchange

import (
	"context"
	"fmt"

	"spool/internal/natsio"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// newestLetter is the number of the newest dead letter; 0: there is none, or it is not to be known.
func newestLetter(ctx context.Context, conn *natsio.Conn) uint64 {
	s, err := conn.Streams().LeaderStream(ctx, events.DeadStream)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

// Collided finds the files of an import whose lines met those of another import that said something else at the same moment: both publish as
// one producer, a line has its place in the file for its sequence, and each place of the thread has what came to it first. The other is a dead
// letter. Such a file fails, for the thread is neither; the next import finds that, and gives each what it says. Wait for the import first:
// what no persister came to is not looked for. The error is that of who cannot read dead letters.
func Collided(ctx context.Context, conn *natsio.Conn, res *transcript.Result) error {
	cl := client.New(conn)
	for i := range res.Files {
		f := &res.Files[i]
		if f.Err != nil || f.Published == 0 || cl.Settled(ctx, f.ID()) != nil {
			continue
		}
		if newestLetter(ctx, conn) <= res.Letters {
			continue
		}
		letters, err := cl.DeadLetters(ctx, f.Session)
		if err != nil {
			return err
		}
		for _, d := range letters {
			e, unread := events.Open(d.Subject, d.Data)
			if d.At <= res.Letters || d.Thread != f.ID() || unread == nil && e.Producer != f.Last.Producer {
				continue
			}
			f.Err = fmt.Errorf("%s: another import wrote something else to %s at the same time, and the thread is neither: import it again (dead letter %d)",
				f.File, f.ID(), d.At)
			f.Error = f.Err.Error()
			res.Failed++
			break
		}
	}
	return nil
}
