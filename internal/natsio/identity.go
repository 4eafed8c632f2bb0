package natsio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

// Every stream of a store says in its configuration which store it is of. A purge leaves that, and a stream that comes
// from another store, or from another account, says something else.

// metaStore is the member of a stream's metadata that names its store.
const metaStore = "spool-store"

// What else the record bucket says of its store.
const (
	metaFormat  = "spool-format"  // which versions may write it: those that know this number
	metaRestore = "spool-restore" // what is being restored into it; it goes when that has ended
)

// storeFormat is the format that this version writes, and the latest that it knows. It is one more than before where an
// earlier version would misread what this one writes, collect what it counts on, or lose it when it writes a record
// again. The first persister of this version raises the number of its store (mark); nothing lowers it.
//
//	1  the first number
//	2  heads say what their producers left out, and where their threads began: version 1 drops both with its next commit
const storeFormat = 2

// formatOf is the format that a record bucket says of its store; 0: it was made before there was a number.
func formatOf(cfg jetstream.StreamConfig) (int, error) {
	f := cfg.Metadata[metaFormat]
	if f == "" {
		return 0, nil
	}
	return strconv.Atoi(f)
}

// unusable is why a store is not to be written, by its record bucket; nil if it is.
func (c *Conn) unusable(cfg jetstream.StreamConfig) error {
	if n, err := formatOf(cfg); err != nil || n > storeFormat {
		at, _ := c.Server()
		return fmt.Errorf("%w: %s at %s has format %s, which a later version of Spool wrote; this version writes format %d and would damage it: "+
			"start the version that wrote it, or a later one. To go back, restore a backup from before the upgrade into an empty store",
			ErrTopology, cfg.Name, at, cfg.Metadata[metaFormat], storeFormat)
	}
	if r := cfg.Metadata[metaRestore]; r != "" {
		return fmt.Errorf("%w: the restore %q into this store has not ended: wait for it; if it died, remove the streams, "+
			"or the data directory, and restore again", ErrTopology, r)
	}
	return nil
}

// look is when, and over which connection, a store was found usable.
type look struct {
	link uint64
	at   time.Time
}

// lookEvery is for how long a store that was found usable counts as usable: a later version may start on it at any time.
const lookEvery = 5 * time.Second

// Usable is an ErrTopology where a store is not to be written. Whoever writes records, or removes what is stored,
// asks before; the server is asked once for each connection, and again once lookEvery is over. Who may not ask it is
// not told.
func Usable(ctx context.Context, c *Conn) error {
	now := look{c.nc.Stats().Reconnects, time.Now()}
	if was := c.looked.Load(); was != nil && was.link == now.link && now.at.Sub(was.at) < lookEvery {
		return nil
	}
	s, err := c.js.Stream(ctx, events.RecordsStream)
	switch err = WrapErr(err); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case errors.Is(err, record.ErrDenied):
		c.looked.Store(&now)
		return nil
	case err != nil:
		return fmt.Errorf("look which format the store has: %w", err)
	}
	if err := c.unusable(s.CachedInfo().Config); err != nil {
		return err
	}
	c.sealed.Store(sealOf(s.CachedInfo().Config)) // it may be another store than that of the connection before
	c.looked.Store(&now)
	return nil
}

// StoreIDOf is the store that the record bucket says it is of; empty where nobody has marked it.
func StoreIDOf(ctx context.Context, c *Conn) (string, error) {
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return "", fmt.Errorf("look which store it is: %w", WrapErr(err))
	}
	return StoreOf(s.CachedInfo().Config), nil
}

// checkStore refuses another store than the one that was here, or none. Where only some of its streams are gone, checkGone names them.
func (c *Conn) checkStore(ctx context.Context, was string) error {
	if was == "" {
		return nil
	}
	now, err := StoreIDOf(ctx, c)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: store %s was here, and the server does not find its %s. Nothing was written, since a new store in its "+
			"place would pass for the truth; see \"A stream that is gone\" in docs/operations.md", ErrGone, was, events.RecordsStream)
	case err != nil:
		return err
	case now != "" && now != was:
		return fmt.Errorf("%w: store %s was here, and this is store %s; nothing was written. See \"A stream that is gone\" in docs/operations.md",
			ErrTopology, was, now)
	}
	return nil
}

// End says that a restore is whole, so that the store is used. It asks for as long as the server gives no answer.
func (re Restore) End(ctx context.Context) error {
	return retry.Do(ctx, retry.Tell(re.c.log, "the end of the restore"), func() error {
		s, err := re.c.js.Stream(ctx, events.RecordsStream)
		if err != nil {
			return fmt.Errorf("end the restore: %w", WrapErr(err))
		}
		cfg := s.CachedInfo().Config
		if cfg.Metadata[metaRestore] == "" { // it was said, and the answer was lost
			return nil
		}
		cfg.Metadata = maps.Clone(cfg.Metadata)
		delete(cfg.Metadata, metaRestore)
		if _, err := re.c.js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("end the restore: %w", WrapErr(err))
		}
		return nil
	})
}

// Own reports whether the store is made by a restore of that name, and not by another one at the same time.
func (re Restore) Own(ctx context.Context, name string) (own bool, err error) {
	err = retry.Do(ctx, retry.Tell(re.c.log, "the streams"), func() error {
		s, err := re.c.js.Stream(ctx, events.RecordsStream)
		if err != nil {
			return fmt.Errorf("look whose restore it is: %w", WrapErr(err))
		}
		own = s.CachedInfo().Config.Metadata[metaRestore] == name
		return nil
	})
	return own, err
}

// StoreOf is the store that a stream says it is of; empty when nobody has marked it.
func StoreOf(cfg jetstream.StreamConfig) string { return cfg.Metadata[metaStore] }

// identity is the mark of streams that are made now, or that have none: what another stream of the store says, else a new one.
func (c *Conn) identity(ctx context.Context, all []jetstream.StreamConfig) (map[string]string, error) {
	for _, cfg := range all {
		s, err := c.js.Stream(ctx, cfg.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, WrapErr(err))
		}
		if id := StoreOf(s.CachedInfo().Config); id != "" {
			return map[string]string{metaStore: id}, nil
		}
	}
	return map[string]string{metaStore: rand.Text()}, nil
}

// mark makes a stream that has no mark say which store it is of, and raises the format of a store that an earlier version
// wrote; it returns the stream's configuration. A mark that is there stays, whatever it says: to compare is package scrub's.
// Who may not change streams leaves the mark to those who may, and may not write before the format is raised.
func (c *Conn) mark(ctx context.Context, cfg jetstream.StreamConfig, id map[string]string) (jetstream.StreamConfig,
	error) {
	format, err := formatOf(cfg)
	raise := cfg.Name == events.RecordsStream && err == nil && format < storeFormat
	if StoreOf(cfg) != "" && !raise || id[metaStore] == "" {
		return cfg, nil
	}
	marked := cfg
	marked.Metadata = maps.Clone(id)
	delete(marked.Metadata, metaSealed)  // it has records without a check
	delete(marked.Metadata, metaRestore) // no restore made it
	maps.Copy(marked.Metadata, cfg.Metadata)
	if raise {
		marked.Metadata[metaFormat] = strconv.Itoa(storeFormat)
	}
	s, err := c.js.UpdateStream(ctx, marked)
	if err = WrapErr(err); !raise && (errors.Is(err, record.ErrDenied) || errors.Is(err, record.ErrUnknown)) {
		return cfg, nil
	}
	if err != nil {
		return cfg, fmt.Errorf("stream %s: mark it as one of this store: %w", cfg.Name, err)
	}
	return s.CachedInfo().Config, nil
}
