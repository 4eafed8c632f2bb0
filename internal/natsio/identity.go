package natsio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
)

// Every stream of a store says in its configuration which store it is of. A purge leaves that, and a stream that comes
// from another store, or from another account, says something else.

// metaStore is the member of a stream's metadata that names its store.
const metaStore = "spool-store"

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

// mark makes a stream that has no mark say which store it is of, and returns its configuration. A mark that is there
// stays, whatever it says: to compare is package scrub's. Who may not change streams leaves that to those who may.
func (c *Conn) mark(ctx context.Context, cfg jetstream.StreamConfig, id map[string]string) (jetstream.StreamConfig,
	error) {
	if StoreOf(cfg) != "" || id[metaStore] == "" {
		return cfg, nil
	}
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	maps.Copy(cfg.Metadata, id)
	s, err := c.js.UpdateStream(ctx, cfg)
	if err = WrapErr(err); errors.Is(err, record.ErrDenied) || errors.Is(err, record.ErrUnknown) {
		delete(cfg.Metadata, metaStore)
		return cfg, nil
	}
	if err != nil {
		return cfg, fmt.Errorf("stream %s: mark it as one of this store: %w", cfg.Name, err)
	}
	return s.CachedInfo().Config, nil
}
