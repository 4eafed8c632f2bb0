package service

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"spool/internal/natsio"
	"spool/internal/scrub"
)

// watch looks, beside a persister, whether streams went back, and at a start and after such a find whether heads resolve. It
// never fails: what cannot be looked at now is looked at again, and nobody's work waits for it.
type watch struct {
	conn  *natsio.Conn
	log   *slog.Logger
	marks atomic.Pointer[scrub.Marks]
	found int // rewinds that were known at the last look; run only, once it runs
}

const watchTime = 20 * time.Second // for one look

// reused is persist.Deps.Reused.
func (w *watch) reused(seq uint64, stored int64) bool {
	m := w.marks.Load()
	return m != nil && m.Reused(seq, stored)
}

// look compares streams with their marks. again reports that one went back since the last look.
func (w *watch) look(ctx context.Context) (again bool) {
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	m, err := scrub.Look(ctx, w.conn, w.conn, w.log)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("look whether streams went back", "error", err)
		}
		return false
	}
	again = w.marks.Load() != nil && len(m.Rewinds) > w.found
	w.found = len(m.Rewinds)
	w.marks.Store(&m)
	return again
}

// run looks again and again, until ctx ends.
func (w *watch) run(ctx context.Context) {
	w.lost(ctx)
	w.heads(ctx, time.Now().Add(-scrub.HeadsAgain))
	t := time.NewTicker(scrub.MarksEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if w.look(ctx) {
			w.lost(ctx)
			w.heads(ctx, time.Now())
		}
	}
}

// lost logs what stands of losses.
func (w *watch) lost(ctx context.Context) {
	all, err := scrub.Alarms(ctx, w.conn)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("look for alarms", "error", err)
	}
	for _, a := range all {
		w.log.Error("alarm", "kind", a.Kind, "found", a.Found, "detail", a.Detail, "do", a.Do)
	}
}

func (w *watch) heads(ctx context.Context, after time.Time) {
	if _, err := scrub.Heads(ctx, w.conn, w.conn, w.conn.Store(0), w.conn.ServerID(), after, w.log); err != nil && ctx.Err() == nil {
		w.log.Warn("look at what the heads lead to", "error", err)
	}
}

// ScrubEvery scrubs every so often, until ctx ends: when the last pass that ended is that old, whoever made it. Of several
// processes one does, because the others see its progress.
func ScrubEvery(ctx context.Context, conn *natsio.Conn, every time.Duration, rate int64, log *slog.Logger) {
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(every, time.Minute)
		st, err := scrub.ReadState(ctx, conn)
		if err == nil && time.Since(time.Unix(0, st.Last.Began)) < every {
			continue
		}
		var p scrub.Pass
		if err == nil {
			p, err = scrub.Scrub(ctx, conn, scrub.Config{Rate: rate})
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("scrub", "error", err)
		case p.Found > 0:
			log.Error("scrub found what is not as it was stored", "found", p.Found, "bytes", p.Bytes, "first", p.Findings[0])
		default:
			log.Info("scrubbed", "bytes", p.Bytes, "seconds", time.Duration(p.Ended-p.Began).Seconds())
		}
	}
}
