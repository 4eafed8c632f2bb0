package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/embedded"
	"spool/internal/history"
	"spool/internal/httpapi"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/retry"
	"spool/internal/sleep"
)

// UpConfig is everything in one process.
type UpConfig struct {
	NATS    *NATS  // an outside system, if one is named
	Data    string // data directory of the embedded server
	Listen  string // its address; empty: this process only
	Sync    time.Duration
	Guard   Guard // who is let in to the embedded server, and how its files are kept
	Limits  natsio.Limits
	HTTP    string         // address of the HTTP side; empty: none
	API     httpapi.Config // of the HTTP side: tokens, which are needed beyond loopback, the page, metrics, limits
	Log     *slog.Logger
	Ready   func(*Up) // called once when all of it runs
	Persist PersisterConfig
	History func(*natsio.Conn) (string, error) // file of the prompt history to keep; nil: none
	Webhooks
	GC GC // When empty: none

	ScrubEvery time.Duration // 0: never
	ScrubRate  int64         // bytes a second; 0 = as fast as it goes
}

// Guard says who is let in to an embedded server, who this process is there, and how its files are kept. The zero value:
// everybody on this machine, in plain.
type Guard struct {
	Auth            string // nats-server configuration with accounts
	NKey, Inbox     string // this process's user
	TLS             embedded.TLS
	KeyFile, Cipher string
}

// Up is a running Spool.
type Up struct {
	Conn      *natsio.Conn
	Persister *Persister
	Server    *embedded.Server // nil with an outside system
	NATS      string           // address of the server; empty when in-process only
	HTTP      string           // URL of the HTTP side
}

// RunUp runs Spool until ctx ends, and drains: requests and commits in hand are finished, then the server stops.
func RunUp(ctx context.Context, cfg UpConfig) error {
	up := &Up{}
	conn, err := cfg.connect(ctx, up)
	if err != nil {
		return err
	}
	if up.Server != nil {
		defer up.Server.Stop()
	}
	defer conn.Close()
	up.Conn = conn
	if up.Server != nil && cfg.Guard.Auth == "" { // else the tenant's own limit decides
		cfg.Limits.EventsBytes = cmp.Or(cfg.Limits.EventsBytes, up.Server.StreamBytes())
		cfg.Limits.ItemsBytes = cmp.Or(cfg.Limits.ItemsBytes, up.Server.StreamBytes())
	}
	if err := cfg.ensure(ctx, conn, up.Server != nil); err != nil {
		return err
	}
	reg := Metrics("up")
	if up.Server != nil {
		reg.Disk(up.Server.Free)
	}
	cfg.Persist.Metrics = reg
	up.Persister = NewPersister(conn, cfg.Persist, cfg.Log)
	defer Observed(conn, reg, "persister", "applies events to threads", func() any {
		return struct {
			persist.Stats
			OverRates int64 `json:"over_rates"`
		}{up.Persister.Stats(), cfg.API.Quotas.Refused()}
	}, cfg.Log)()

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { StayLean(ctx); return nil })
	if up.Server != nil {
		g.Go(func() error { up.Server.Follow(ctx, cfg.Log); return nil })
		g.Go(func() error { return up.Server.Keep(ctx) })
	}
	prompts := ""
	if cfg.History != nil {
		if prompts, err = cfg.History(conn); err != nil {
			return err
		}
	}
	if cfg.HTTP != "" {
		side := Side{API: cfg.API, Whole: true, Webhooks: cfg.Webhooks}
		side.API.Log, side.API.Limits, side.API.History = cfg.Log, cfg.Persist.Limits, prompts
		l, err := side.Answer(ctx, g, conn, cfg.HTTP, reg)
		if err != nil {
			return err
		}
		up.HTTP = l.URL()
	} else if prompts != "" {
		g.Go(func() error { return history.Keep(ctx, prompts, conn, cfg.Log) })
	}
	g.Go(func() error { return up.Persister.Run(ctx) })
	g.Go(func() error { return Trim(ctx, conn, cfg.Log) })
	if cfg.ScrubEvery > 0 {
		g.Go(func() error { ScrubEvery(ctx, conn, cfg.ScrubEvery, cfg.ScrubRate, cfg.Log); return nil })
	}
	if cfg.GC.When != "" {
		g.Go(func() error {
			if err := cfg.GC.Run(ctx, conn, cfg.Log); err != nil { // nothing else needs it
				cfg.Log.Error("gc stopped", "error", err)
			}
			return nil
		})
	}
	if cfg.Ready != nil {
		cfg.Ready(up)
	}
	return g.Wait()
}

// ensure makes the streams, of a data directory only where what it held before is there.
func (cfg UpConfig) ensure(ctx context.Context, conn *natsio.Conn, own bool) error {
	if !own {
		return conn.Ensure(ctx, cfg.Limits)
	}
	known, err := knownStores(cfg.Data)
	if err != nil {
		return err
	}
	cfg.Limits.Store = known[cfg.Guard.Inbox]
	if err := conn.Ensure(ctx, cfg.Limits); err != nil {
		return err
	}
	store := ""
	ask := func() (err error) { store, err = natsio.StoreIDOf(ctx, conn); return err }
	if err := retry.Do(ctx, retry.Tell(conn.Log(), "the streams"), ask); err != nil {
		return err
	}
	return noteStore(cfg.Data, cfg.Guard.Inbox, store)
}

func (cfg UpConfig) connect(ctx context.Context, up *Up) (*natsio.Conn, error) {
	if cfg.NATS != nil && cfg.NATS.Given() {
		conn, err := cfg.NATS.Dial(ctx, "spool up", cfg.Log)
		if errors.Is(err, natsio.ErrNoServer) {
			err = fmt.Errorf("%w; no server is started here, because one is named (env -u NATS_URL -u NATS_CONTEXT spool up starts one)", err)
		}
		if err == nil {
			up.NATS, _ = conn.Server()
		}
		return conn, err
	}
	s, err := embedded.Start(embedded.Config{
		Dir: cfg.Data, Listen: cfg.Listen, Sync: cfg.Sync, Auth: cfg.Guard.Auth, TLS: cfg.Guard.TLS,
		KeyFile: cfg.Guard.KeyFile, Cipher: cfg.Guard.Cipher,
		Log: cfg.Log,
	})
	if err != nil {
		return nil, Taken("--listen", err)
	}
	up.Server = s
	if cfg.Listen != "" {
		up.NATS = s.ClientURL()
	}
	conn, err := natsio.Dial(ctx, natsio.Config{InProcess: s, Name: "spool up", NKey: cfg.Guard.NKey, Inbox: cfg.Guard.Inbox, Logger: cfg.Log})
	if err != nil {
		s.Stop()
	}
	return conn, err
}

// trimEvery is how often a persister looks whether EVENTS wants trimming.
const trimEvery = 10 * time.Second

// Trim keeps EVENTS from filling up with what is applied, until ctx ends.
func Trim(ctx context.Context, conn *natsio.Conn, log *slog.Logger) error {
	admin := natsadmin.New(conn)
	for range sleep.Every(ctx, trimEvery) {
		switch upTo, err := admin.Trim(ctx); {
		case err != nil && ctx.Err() == nil:
			log.Warn("trim EVENTS", "error", err)
		case upTo > 0:
			log.Info("trimmed EVENTS", "up_to", upTo)
		}
	}
	return nil
}

// HistoryFile is where spool up keeps the prompt history of a data directory.
func HistoryFile(data string) string { return filepath.Join(data, "history.db") }

// DataDir is the default data directory: $XDG_DATA_HOME/spool, or ~/.local/share/spool.
func DataDir() (string, error) {
	return xdg("XDG_DATA_HOME", ".local/share", "data in: give --data DIR")
}

// StateDir is where commands keep what they can make again: $XDG_STATE_HOME/spool, or ~/.local/state/spool.
func StateDir() (string, error) {
	return xdg("XDG_STATE_HOME", ".local/state", "state in: set XDG_STATE_HOME")
}

func xdg(env, below, what string) (string, error) {
	if dir := os.Getenv(env); filepath.IsAbs(dir) {
		return filepath.Join(dir, "spool"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", UsageError{Err: fmt.Errorf("no home directory to keep %s: %w", what, err)}
	}
	return filepath.Join(home, below, "spool"), nil
}
