package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/embedded"
	"spool/internal/natsio"
)

// rig is a server on a directory of its own.
type rig struct {
	srv   *embedded.Server
	dir   string
	tcp   bool
	batch int
	limit int64 // bytes that a stream may hold
}

// bytesPerSecond is more than a stream can take in: a part must not meet a limit.
const bytesPerSecond = 512 << 20

func startRig(cfg Config, sync time.Duration) (*rig, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "spool-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, tcp: cfg.TCP, batch: cfg.Batch, limit: int64(cfg.Seconds+4) * bytesPerSecond}
	listen := ""
	if cfg.TCP {
		listen = "127.0.0.1:0"
	}
	if r.srv, err = embedded.Start(embedded.Config{Dir: dir, Listen: listen, Sync: sync, MaxStore: 8 * r.limit}); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// stop ends the server and removes what it stored. A directory that stays behind is under the temporary directory.
func (r *rig) stop() {
	r.srv.Stop()
	_ = os.RemoveAll(r.dir)
}

// connect is a plain client. Its window of unacknowledged messages is below what the server queues for a stream.
func (r *rig) connect() (*nats.Conn, jetstream.JetStream, error) {
	url, opts := "", []nats.Option{nats.InProcessServer(r.srv)}
	if r.tcp {
		url, opts = r.srv.ClientURL(), nil
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithDefaultTimeout(30*time.Second))
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// maxPending bounds the window of a plain client to 16 MiB of entries.
const maxPending = 16 << 20 / entryBytes

// spool is a connection of Spool, with its streams in place.
func (r *rig) spool(ctx context.Context) (*natsio.Conn, error) {
	cfg := natsio.Config{Timeout: 30 * time.Second}
	if r.tcp {
		cfg.URL = r.srv.ClientURL()
	} else {
		cfg.InProcess = r.srv
	}
	c, err := natsio.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.Ensure(ctx, natsio.Limits{EventsBytes: r.limit, ItemsBytes: r.limit}); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// stream creates a stream of the pipelines without Spool.
func (r *rig) stream(ctx context.Context, js jetstream.JetStream, name, subjects string) error {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{subjects}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxBytes: r.limit,
	})
	return err
}

// count checks how many messages a stream holds, and that it never dropped one.
func count(ctx context.Context, js jetstream.JetStream, stream string, want int64) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	st := s.CachedInfo().State
	if st.Msgs != uint64(want) || st.LastSeq != uint64(want) {
		return fmt.Errorf("stream %s holds %d messages, the last is number %d, want %d", stream, st.Msgs, st.LastSeq, want)
	}
	return nil
}
