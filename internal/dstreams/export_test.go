package dstreams

import (
	"context"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

// What tests need that are not of this package: internal/service imports it.
type (
	Stream = stream
	Offset = offset
)

const (
	ChunkBytes = chunkBytes
	MaxJSON    = maxJSON
	MarkEvery  = markEvery
)

func At(entries, bytes int64) Offset { return offset{entries, bytes} }

// Change changes the record of a stream.
func (h *Handler) Change(ctx context.Context, name string, change func(*Stream)) error {
	t, err := threadOf(name)
	if err != nil {
		return err
	}
	v, err := h.look(ctx, t)
	if err != nil {
		return err
	}
	change(&v.stream)
	_, err = h.write(ctx, t, v.stream, v.rev)
	return err
}

// Settle waits until what anybody published to a thread is applied.
func (h *Handler) Settle(ctx context.Context, t events.Thread) error {
	_, err := h.settled(ctx, t)
	return err
}

func (h *Handler) Sweep(ctx context.Context, now time.Time) error { return h.sweep(ctx, now) }

func (h *Handler) Client() *client.Client { return h.cfg.Client }

// Waiting is how many readers wait for a stream that is watched.
func (h *Handler) Waiting(t events.Thread) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.followers[t]; f != nil {
		select {
		case <-f.ready:
			return f.users
		default:
		}
	}
	return 0
}

// Marks is how many places of a stream are known.
func (h *Handler) Marks(t events.Thread) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.states[t].places.marks)
}
