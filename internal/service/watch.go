package service

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/scrub"
	"spool/internal/sleep"
)

// watch looks whether streams went back: beside a persister, and before it takes anything over a connection. At a start, over a new
// connection, and after such a find it looks whether heads resolve. It never fails: what cannot be looked at now is looked at again,
// and nobody's work waits for it for longer than watchTime.
type watch struct {
	sys   natsadmin.System
	store *natsio.Store
	log   *slog.Logger
	marks atomic.Pointer[scrub.Marks]

	mu    sync.Mutex
	begun uint64 // connections over which begin has looked
	found int    // rewinds that were known at the last look
	news  bool   // there are more of them than the last run knew
}

// What one look may take, and the last one, where the server may be gone.
const (
	watchTime = 20 * time.Second
	endTime   = 2 * time.Second
)

// reused is persist.Deps.Reused.
func (w *watch) reused(seq uint64, stored int64) bool {
	m := w.marks.Load()
	return m != nil && m.Reused(seq, stored)
}

// waits tells of a try to consume a partition that failed.
func (w *watch) waits(err error, wait time.Duration) {
	w.log.Warn("trying again to consume", "error", err, "wait", wait.Round(time.Millisecond))
}

// begin looks before anything is consumed over a connection: what the server forgot is to come before what follows it. A cluster
// forgets nothing so (ADR 21), and may have no leader for a while: there it looks at the start alone.
func (w *watch) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.sys.Link() + 1; w.begun == 0 || w.begun != n && w.sys.Incarnation() != "" {
		w.begun = n
		w.look(ctx)
	}
}

func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	m, err := scrub.Look(ctx, w.sys, w.sys, w.log)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("look whether streams went back", "error", err)
		}
		return
	}
	w.news = w.news || w.marks.Load() != nil && len(m.Rewinds) > w.found
	w.found = len(m.Rewinds)
	w.marks.Store(&m)
}

// again looks, and reports whether a stream was found to have gone back since it was called last.
func (w *watch) again(ctx context.Context) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(ctx)
	news, w.news = w.news, false
	return news
}

// run looks again and again, until ctx ends. Beside it stock is taken: of a million heads that takes long, and marks are taken meanwhile.
func (w *watch) run(ctx context.Context) {
	t := time.NewTicker(scrub.MarksEvery)
	defer t.Stop()
	link, asked := w.sys.Link(), make(chan time.Time, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case after := <-asked:
				w.stock(ctx, after)
			}
		}
	})
	ask := func(after time.Time) {
		select {
		case was := <-asked: // it waits for one that goes on
			if was.After(after) {
				after = was
			}
		default:
		}
		asked <- after
	}
	ask(time.Now().Add(-scrub.HeadsAgain))
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		news, now := w.again(ctx), w.sys.Link()
		switch {
		case news:
			ask(time.Now())
		case now != link:
			ask(time.Now().Add(-scrub.HeadsAgain))
		}
		link = now
	}
}

// end takes the marks of a stop: what is applied by then need not be applied again when the server is started anew, and a dead letter
// that was removed meanwhile does not come back. Where the process is killed, it does if its event came since the last marks.
func (w *watch) end(ctx context.Context) {
	if w.sys.Incarnation() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(ctx)
}

// stock takes stock of losses: those that stand are logged, and a look at the heads that began after a time serves.
func (w *watch) stock(ctx context.Context, after time.Time) {
	w.lost(ctx)
	w.heads(ctx, after)
}

// lost logs what stands of losses.
func (w *watch) lost(ctx context.Context) {
	all, err := scrub.Alarms(ctx, w.sys)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("look for alarms", "error", err)
	}
	for _, a := range all {
		w.log.Error("alarm", "kind", a.Kind, "found", a.Found, "detail", a.Detail, "do", a.Do)
	}
}

func (w *watch) heads(ctx context.Context, after time.Time) {
	if _, err := scrub.Heads(ctx, w.sys, w.sys, w.store, w.sys.ServerID(), after, w.log); err != nil && ctx.Err() == nil {
		w.log.Warn("look at what the heads lead to", "error", err)
	}
}

// ScrubEvery scrubs every so often, until ctx ends: when the last pass that ended is that old, whoever made it. Of several
// processes one does, because the others see its progress.
func ScrubEvery(ctx context.Context, conn *natsio.Conn, every time.Duration, rate int64, log *slog.Logger) {
	ctx, sys := natsio.Patient(ctx), natsadmin.Of(conn)
	for wait := time.Duration(0); ; {
		if !sleep.For(ctx, wait) {
			return
		}
		wait = min(every, time.Minute)
		st, err := scrub.ReadState(ctx, sys)
		if err == nil && time.Since(time.Unix(0, st.Last.Began)) < every {
			continue
		}
		var p scrub.Pass
		if err == nil {
			p, err = scrub.Scrub(ctx, sys, scrub.Config{Rate: rate})
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
