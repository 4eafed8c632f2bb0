package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"spool/internal/access"
	"spool/internal/apply"
	"spool/internal/ingest"
	"spool/internal/quota"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// pace makes what a request stores take of the quotas. One entry beyond them is refused; a stream waits as long as it
// does for room, and is then refused at the line that it has come to.
func (a *api) pace(r *http.Request, cfg *ingest.Config) {
	if a.cfg.Quotas == nil {
		return
	}
	patience := a.cfg.Patience
	if mediaType(r) != typeNDJSON {
		patience = 0
	}
	most := a.cfg.Quotas.Batch()
	cfg.BatchLines, cfg.BatchBytes = int(min(most.Entries, 1000)), int(min(most.Bytes, 4<<20))
	token := access.From(r.Context()).Name
	cfg.Admit = func(ctx context.Context, evs []*events.Event) (back func(), err error) {
		uses := make([]quota.Use, len(evs))
		for i, e := range evs {
			uses[i] = quota.Use{Session: e.Thread.Session, User: cmp.Or(events.UserFrom(ctx), e.User), Token: token, Entries: 1,
				Bytes: int64(len(e.Body))}
			if e.Ref != nil {
				uses[i].Bytes = e.Ref.Size
			}
		}
		return func() { a.cfg.Quotas.Give(uses...) }, a.cfg.Quotas.Wait(ctx, patience, uses...)
	}
}

// hasRoom refuses an entry that would bring its session a thread, or a producer, beyond what it may have by what was
// applied so far. Of what is not yet, and after an error of the store, the persister judges.
func (a *api) hasRoom(ctx context.Context, e *events.Event) error {
	most := a.cfg.Limits
	name := e.Thread.String() + " " + e.Producer
	if a.cfg.Client == nil || !a.doubts.near(sessions.Info{}) && !a.doubts.about(ctx, e.Thread.Session) ||
		a.roomy.is(e.Thread.Session) || a.roomy.is(name) {
		return nil
	}
	info, err := a.cfg.Client.Internal().SessionInfo(ctx, e.Thread.Session)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	noThread := most.Threads > 0 && info.Threads >= most.Threads
	noProducer := most.Producers > 0 && info.Producers >= most.Producers
	if !noThread && !noProducer {
		if (most.Threads < 0 || 2*info.Threads < most.Threads) && (most.Producers < 0 || 2*info.Producers < most.Producers) {
			a.roomy.note(e.Thread.Session)
		}
		return nil
	}
	head, err := a.cfg.Client.Thread(e.Thread).Head(ctx)
	if errors.Is(err, threads.ErrNoThread) && noThread {
		return &apply.BeyondError{Quota: "threads", Limit: most.Threads}
	}
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		return nil
	}
	if noProducer && head.Counts(e.Producer, e.Epoch, e.Seq) {
		return &apply.BeyondError{Quota: "producers", Limit: most.Producers}
	}
	a.roomy.note(name)
	return nil
}

// charge refuses a request of whoever is beyond a quota, before its body is read, but for a stream, which waits. One that
// does not take of them by itself costs an entry and the bytes of its body: at once, or, if it is not said how many they
// are, or so many are said as perhaps never come, as they are read, and then the reading waits.
func (a *api) charge(r *http.Request, session string, byItself bool) error {
	if a.cfg.Quotas == nil || byItself && mediaType(r) == typeNDJSON {
		return nil
	}
	if session != "" { // a quota remembers names: of any length, if we let it
		if err := events.CheckToken("session", session); err != nil {
			return err
		}
	}
	use := quota.Use{Session: session, User: cmp.Or(events.UserFrom(r.Context()), r.URL.Query().Get("user")),
		Token: access.From(r.Context()).Name}
	if !byItself {
		use.Entries = 1
	}
	known := r.ContentLength >= 0 && r.ContentLength <= maxBody
	if known && !byItself {
		use.Bytes = r.ContentLength
	}
	err := a.cfg.Quotas.Wait(r.Context(), 0, use)
	if err == nil && !byItself && !known {
		r.Body = &metered{r.Body, r.Context(), a.cfg.Quotas, use}
	}
	return err
}

// metered is a body that is read no faster than the quotas let it.
type metered struct {
	io.ReadCloser
	ctx    context.Context
	quotas *quota.Limiter
	use    quota.Use
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.use.Entries, m.use.Bytes = 0, int64(n)
	if late := m.quotas.Wait(m.ctx, math.MaxInt64, m.use); late != nil {
		return n, late
	}
	return n, err
}
