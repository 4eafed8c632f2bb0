package dstreams

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// view is a stream as the records have it.
type view struct {
	stream    // of no id: there is no record
	rev       uint64
	begun     bool         // there is a thread
	head      threads.Head // of the thread
	moved     uint64       // of the head's record, also where it is in the history now
	completed bool
}

func (v *view) recorded() bool { return v.ID != "" }

// readable tells whether there is something to read under the name.
func (v *view) readable() bool { return v.begun && !v.Pending && !v.Gone }

// lost tells whether a stream has no thread: it is not applied yet, or was removed or renamed by somebody else.
func (v *view) lost() bool { return v.recorded() && !v.Pending && !v.Gone && !v.begun }

// tail is the offset behind the last entry. The end that closes a stream is none.
func (v *view) tail() offset {
	n := v.head.Entries
	if v.recorded() && v.completed && n > 0 {
		n--
	}
	return offset{entries: n}
}

func (v *view) contentType() string {
	if v.recorded() {
		return v.Type
	}
	return typeJSON
}

// identity is what tells the stream from others that have had its name.
func (v *view) identity() string {
	if v.recorded() || !v.begun {
		return v.ID
	}
	sum := v.head.Start.Ref.Sum()
	return hex.EncodeToString(sum[:16])
}

// look reads a stream's records.
func (h *Handler) look(ctx context.Context, t events.Thread) (v view, err error) {
	rs, err := h.cfg.Records.Records(ctx, events.StreamKey(t), events.HeadKey(t))
	if err != nil {
		return v, err
	}
	if v.rev = rs[0].Seq; rs[0].Exists() {
		if v.stream, err = decodeStream(rs[0].Value); err != nil {
			return v, fmt.Errorf("%s: %w", rs[0].Key, err)
		}
	}
	return v, h.takeHead(ctx, t, &v, rs[1])
}

// takeHead reads the head from its record or, when the thread has ended, from the history.
func (h *Handler) takeHead(ctx context.Context, t events.Thread, v *view, r record.Record) error {
	v.moved = r.Seq
	if r.Removed() {
		rs, err := h.cfg.Records.Records(ctx, events.HistoryOf(t))
		if err != nil {
			return err
		}
		r = rs[0]
	}
	if !r.Exists() {
		v.begun, v.head, v.completed = false, threads.Head{}, false
		return nil
	}
	head, err := threads.DecodeHead(r.Value)
	if err == nil {
		head, err = h.cfg.Client.Reader().Recall(ctx, head)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	v.begun, v.head, v.completed = true, head, head.Status == threads.StatusCompleted
	return nil
}

// settle is look, once the thread has applied the event at that sequence in EVENTS, or it is among the dead letters.
func (h *Handler) settle(ctx context.Context, t events.Thread, seq uint64) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Patience)
	defer cancel()
	err = natsio.Settle(ctx, h.cfg.Events, t, natsio.UpTo(h.cfg.Events, t, seq), func(done bool) (enough bool, err error) {
		v, err = h.look(ctx, t)
		return done || v.head.Applied >= seq, err
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %s has not taken in what was appended yet; is a persister running?", record.ErrBusy, t)
	}
	return v, err
}

// settled is settle for the newest event that there is.
func (h *Handler) settled(ctx context.Context, t events.Thread) (view, error) {
	newest, err := h.cfg.Events.NewestEvent(ctx, t)
	if err != nil {
		return view{}, err
	}
	return h.settle(ctx, t, newest.Seq)
}

// find is what requests of an existing stream begin with: 404 or 410, or the stream as it is after everything that this
// process has published to it. One whose time is over is removed.
func (h *Handler) find(ctx context.Context, t events.Thread, s *state) (view, error) {
	published := s.published.Load()
	v, err := h.settle(ctx, t, published)
	if err == nil && v.lost() {
		s.published.CompareAndSwap(published, 0)
		v, err = h.settled(ctx, t)
	}
	if err != nil {
		return v, err
	}
	if v.expired(time.Now()) {
		if err := s.lock(ctx); err != nil {
			return v, err
		}
		defer s.unlock()
		if err := h.remove(ctx, t, s); err != nil {
			return v, err
		}
		if v, err = h.look(ctx, t); err != nil {
			return v, err
		}
	}
	return v, h.exists(t, &v)
}

// exists is the refusal of a stream that cannot be read.
func (h *Handler) exists(t events.Thread, v *view) error {
	switch {
	case v.readable():
		return nil
	case v.Gone && v.Forks > 0:
		return goneStream(t)
	case v.lost():
		return refuse(http.StatusNotFound, fmt.Sprintf("stream %s lost its thread %s, which was removed or renamed: make it anew with PUT",
			nameOf(t), t))
	}
	return noStream(t)
}
