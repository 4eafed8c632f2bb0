package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams of the pipelines without Spool.
const (
	inStream    = "BENCH_IN"
	inPrefix    = "bench.in."
	itemsStream = "BENCH_ITEMS"
	itemPrefix  = "bench.item."
)

// raw publishes envelopes and does nothing with them.
type raw struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	sent atomic.Int64
}

func openRaw(ctx context.Context, r *rig) (pipeline, error) {
	p, err := newRaw(ctx, r)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func newRaw(ctx context.Context, r *rig) (*raw, error) {
	nc, js, err := r.connect()
	if err != nil {
		return nil, err
	}
	if err := r.stream(ctx, js, inStream, inPrefix+">"); err != nil {
		nc.Close()
		return nil, err
	}
	return &raw{nc: nc, js: js}, nil
}

func (p *raw) publishers() int { return 1 }
func (p *raw) batch() int      { return 100 }

func (p *raw) publish(ctx context.Context, _ int, ss []*session, n int) error {
	for range n {
		s := ss[p.sent.Load()%int64(len(ss))]
		if err := publishAsync(p.js, inPrefix+s.thread.Session, s.event()); err != nil {
			return err
		}
		p.sent.Add(1)
	}
	return ctx.Err()
}

// publishAsync publishes within the library's window. A message that is refused later is missed by verify.
func publishAsync(js jetstream.JetStream, subject string, data []byte) error {
	if _, err := js.PublishAsync(subject, data, jetstream.WithStallWait(30*time.Second)); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}

func (p *raw) done() int64 { return p.sent.Load() - int64(p.js.PublishAsyncPending()) }

func (p *raw) verify(ctx context.Context, n int64) error { return count(ctx, p.js, inStream, n) }

func (p *raw) close() { p.nc.Close() }
