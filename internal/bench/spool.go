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

// transport is what brings entries in: publishers of Spool, with connections that no more than some share.
type transport struct {
	conn       *natsio.Conn // of what takes them
	conns      []*natsio.Conn
	publishing []*client.Publisher
	size       int   // entries in one publish
	next       []int // entries so far, of each publisher
	run        int   // entries of a session in a row
}

// spool is the whole of Spool: publishers, and one persister.
type spool struct {
	*transport
	persister *service.Persister
	running   errgroup.Group
	stop      context.CancelFunc
}

const (
	spoolPublishers = 4
	mostConns       = 16
)

func newTransport(ctx context.Context, r *rig, publishers int) (*transport, error) {
	conn, err := r.spool(ctx)
	if err != nil {
		return nil, err
	}
	t := &transport{conn: conn, size: r.batch, run: 1, next: make([]int, publishers)}
	for range min(publishers, mostConns) {
		c, err := r.spool(ctx)
		if err != nil {
			t.close()
			return nil, err
		}
		t.conns = append(t.conns, c)
	}
	for i := range publishers {
		t.publishing = append(t.publishing, client.New(t.conns[i%len(t.conns)]).Publisher(client.PublisherConfig{Host: "bench"}))
	}
	return t, nil
}

func (t *transport) close() {
	for _, c := range t.conns {
		c.Close()
	}
	t.conn.Close()
}

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
	t, err := newTransport(ctx, r, publishers)
	if err != nil {
		return nil, err
	}
	s := &spool{
		transport: t,
		persister: service.NewPersister(t.conn, service.PersisterConfig{Config: cfg}, slog.New(slog.DiscardHandler)),
	}
	pctx, stop := context.WithCancel(ctx)
	s.stop = stop
	s.running.Go(func() error { return s.persister.Run(pctx) })
	return s, nil
}

func (t *transport) publishers() int { return len(t.publishing) }
func (t *transport) batch() int      { return t.size }

func (t *transport) publish(ctx context.Context, by int, ss []*session, n int) error {
	entries := make([]client.Entry, n)
	for i := range entries {
		from := ss[t.next[by]/t.run%len(ss)]
		t.next[by]++
		entries[i] = client.Entry{Thread: from.thread, Dialect: dialectName, Body: from.next()}
	}
	_, err := t.publishing[by].Publish(ctx, entries...)
	return err
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
	ts, e := client.New(s.conn).EverySession().Threads(ctx)
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
	s.transport.close()
}
