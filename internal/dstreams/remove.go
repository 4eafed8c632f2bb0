package dstreams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// delete removes a stream. While there are forks of it, its name stays taken.
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	s := h.take(t)
	defer h.drop(s)
	if err := s.lock(r.Context()); err != nil {
		return err
	}
	defer s.unlock()
	if err := h.opened(r.Context(), t, s); err != nil && !s.view.lost() {
		return err
	}
	if err := h.remove(r.Context(), t, s); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// remove takes a stream away, or goes on where somebody stopped. The caller has the lock; the state is unknown afterwards.
func (h *Handler) remove(ctx context.Context, t events.Thread, s *state) error {
	s.known = false
	for range tries {
		v, err := h.look(ctx, t)
		if err != nil || !v.recorded() {
			return err
		}
		if v.Gone {
			return h.clear(ctx, t, s)
		}
		// Step 1: the record says that it is gone. A crash from here on leaves a stream that reads as gone; whoever comes
		// next, or sweep, goes on.
		v.Gone = true
		if _, err := h.write(ctx, t, v.stream, v.rev); err != nil && !errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: too many others change %s", record.ErrBusy, nameOf(t))
}

// clear takes away what there is of a stream that is gone: its thread and, unless forks hold the name, its record. The source
// of a fork may be the next.
func (h *Handler) clear(ctx context.Context, t events.Thread, s *state) error {
	for try := 0; try < tries; try++ {
		v, err := h.settled(ctx, t)
		if err != nil || !v.Gone {
			return err
		}
		// Step 2: the thread.
		if v.begun {
			if err := h.cfg.Client.Thread(t).Remove(ctx); err != nil && !errors.Is(err, threads.ErrNoThread) {
				return err
			}
		}
		s.published.Store(0)
		if v.Forks > 0 {
			return nil
		}
		puts := []record.Put{{Key: events.StreamKey(t), Expect: v.rev}}
		var source *events.Thread
		if v.From != nil && v.From.ID != "" {
			at := v.From.thread()
			from, err := h.look(ctx, at)
			if err != nil {
				return err
			}
			if from.ID == v.From.ID {
				from.Forks = max(from.Forks-1, 0)
				puts = append(puts, record.Put{Key: events.StreamKey(at), Value: from.encode(), Expect: from.rev})
				source = &at
			}
		}
		// Step 3: the record, and the source's count with it.
		switch err := h.commit(ctx, puts...); {
		case errors.Is(err, record.ErrConflict):
			continue
		case err != nil || source == nil:
			return err
		}
		s = h.take(*source)
		defer h.drop(s)
		t, try = *source, 0
	}
	return fmt.Errorf("%w: too many others change %s", record.ErrBusy, nameOf(t))
}

const (
	sweepEvery = time.Minute
	// abandoned is after which time a stream that is still being made is taken for one that nobody makes any more.
	abandoned = time.Hour
)

// Run removes the streams whose time is over, and what others did not finish, until ctx ends.
func (h *Handler) Run(ctx context.Context) error {
	for range sleep.Every(ctx, sweepEvery) {
		if err := h.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			h.cfg.Log.Warn("remove expired streams", "error", err)
		}
	}
	return nil
}

func (h *Handler) sweep(ctx context.Context, now time.Time) error {
	rs, err := h.cfg.Records.List(ctx, events.StreamKeys)
	if err != nil {
		return err
	}
	for _, r := range rs {
		rec, err := decodeStream(r.Value)
		t, ok := events.ParseStreamKey(r.Key)
		if err != nil || !ok {
			h.cfg.Log.Warn("unreadable record of a stream", "record", r.Key, "error", err)
			continue
		}
		left := rec.Gone && rec.Forks == 0 || rec.Pending && now.UnixMilli()-rec.Created > abandoned.Milliseconds()
		if !left && !rec.expired(now) {
			continue
		}
		if err := h.sweepOne(ctx, t, left); err != nil {
			return fmt.Errorf("%s: %w", nameOf(t), err)
		}
	}
	return nil
}

// sweepOne removes a stream unless it was used since it was listed.
func (h *Handler) sweepOne(ctx context.Context, t events.Thread, left bool) error {
	s := h.take(t)
	defer h.drop(s)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	v, err := h.look(ctx, t)
	if err != nil || v.Gone && v.Forks > 0 || !left && !v.expired(time.Now()) {
		return err
	}
	return h.remove(ctx, t, s)
}
