package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// spool is the whole of Spool: publishers with connections of their own, and one persister.
type spool struct {
	conn       *natsio.Conn
	persister  *service.Persister
	running    errgroup.Group
	stop       context.CancelFunc
	conns      []*natsio.Conn
	publishing []*client.Publisher
	size       int   // entries in one publish
	next       []int // entries so far, of each publisher
	run        int   // entries of a session in a row
}

const spoolPublishers = 4

func openSpool(ctx context.Context, r *rig) (pipeline, error) {
	s, err := newSpool(ctx, r, spoolPublishers)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newSpool(ctx context.Context, r *rig, publishers int) (*spool, error) {
	return newSpoolOf(ctx, r, publishers, persist.Config{})
}

// newSpoolOf is newSpool with a persister of other bounds.
func newSpoolOf(ctx context.Context, r *rig, publishers int, cfg persist.Config) (*spool, error) {
	conn, err := r.spool(ctx)
	if err != nil {
		return nil, err
	}
	s := &spool{
		conn: conn, persister: service.NewPersister(conn, service.PersisterConfig{Config: cfg}, slog.New(slog.DiscardHandler)),
		size: r.batch, run: 1, next: make([]int, publishers),
	}
	pctx, stop := context.WithCancel(ctx)
	s.stop = stop
	s.running.Go(func() error { return s.persister.Run(pctx) })
	for range publishers {
		c, err := r.spool(ctx)
		if err != nil {
			s.close()
			return nil, err
		}
		s.conns = append(s.conns, c)
		s.publishing = append(s.publishing, client.New(c).Publisher(client.PublisherConfig{Host: "bench"}))
	}
	return s, nil
}

func (s *spool) publishers() int { return len(s.publishing) }
func (s *spool) batch() int      { return s.size }

func (s *spool) publish(ctx context.Context, by int, ss []*session, n int) error {
	entries := make([]client.Entry, n)
	for i := range entries {
		from := ss[s.next[by]/s.run%len(ss)]
		s.next[by]++
		entries[i] = client.Entry{Thread: from.thread, Dialect: dialectName, Body: from.next()}
	}
	return s.publishing[by].Publish(ctx, entries...)
}

// done counts entries whose head is durable and whose item is stored: the persister counts an item after both, and an entry
// makes one.
func (s *spool) done() int64 { return s.persister.Stats().Items }

func (s *spool) verify(ctx context.Context, n int64) error {
	st := s.persister.Stats()
	var err error
	if st.Entries != n || st.Items != n || st.Dead != 0 || st.Unknown != 0 {
		err = fmt.Errorf("of %d entries the persister appended %d, dropped %d, did not know %d, and published %d items",
			n, st.Entries, st.Dead, st.Unknown, st.Items)
	}
	js := s.conn.JetStream()
	err = errors.Join(err, count(ctx, js, events.ItemsStream, n)) // entries share events
	ts, e := client.New(s.conn).Threads(ctx, "")
	if e != nil {
		return errors.Join(err, e)
	}
	var entries, items int64
	for _, t := range ts {
		entries, items = entries+t.Head.Entries, items+t.Head.N
	}
	if entries != n || items != n {
		err = errors.Join(err, fmt.Errorf("%d heads count %d entries and %d items, want %d", len(ts), entries, items, n))
	}
	return err
}

func (s *spool) close() {
	s.stop()
	_ = s.running.Wait() // an error has shown as entries that were not done
	for _, c := range s.conns {
		c.Close()
	}
	s.conn.Close()
}
