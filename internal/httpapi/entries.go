package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"spool/internal/access"
	"spool/internal/ingest"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// The headers that identify what a request stores.
const (
	headerProducer = "Spool-Producer"
	headerEpoch    = "Spool-Epoch"
	headerSeq      = "Spool-Seq"
)

// How long a client may take: to send one entry; to send the next piece of a body that has begun; to read a piece of an answer.
const (
	entryTime  = 5 * time.Minute
	pieceTime  = time.Minute
	answerTime = 30 * time.Second
)

func (a *api) entries(w http.ResponseWriter, r *http.Request) error {
	cfg := ingest.Config{
		Thread:  events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")},
		Dialect: r.URL.Query().Get("dialect"),
	}
	switch mediaType(r) {
	case typeJSON:
		return a.store(w, r, cfg, a.one, a.again)
	case typeNDJSON:
		return a.store(w, r, cfg, a.stream, a.lent)
	}
	return a.wrongType(r, typeJSON+" for one entry or "+typeNDJSON+" for an entry a line")
}

func (a *api) events(w http.ResponseWriter, r *http.Request) error {
	if mediaType(r) != typeNDJSON {
		return a.wrongType(r, typeNDJSON)
	}
	if g := access.From(r.Context()); !g.Everything() {
		return fmt.Errorf("%w: %s is for some sessions only: POST to /v1/sessions/{session}/threads/{thread}/entries", errForbidden, g.Name)
	}
	return a.store(w, r, ingest.Config{Envelopes: true}, a.stream, a.lent)
}

func (a *api) wrongType(r *http.Request, want string) error {
	return fmt.Errorf("%w: Content-Type %.100q: use %s", errMedia, r.Header.Get("Content-Type"), want)
}

// storer stores what a request sends, and answers. It returns the sequence after the last one it used, and why nothing, or not all,
// is known to be stored.
type storer func(http.ResponseWriter, *http.Request, ingest.Config) (next uint64, err error)

// store finds out as whom a request stores, and lets it. A request that does not say it is unnamed's.
func (a *api) store(
	w http.ResponseWriter, r *http.Request, cfg ingest.Config,
	do storer, unnamed func(http.ResponseWriter, *http.Request, ingest.Config, storer),
) error {
	cfg.Trace = events.TraceParent(r.Header.Get(events.HeaderTrace))
	cfg.User, cfg.Inbox, cfg.MaxBody, cfg.Patience = r.URL.Query().Get("user"), a.cfg.Inbox, a.cfg.MaxBody, a.cfg.Patience
	if cfg.Envelopes {
		cfg.MaxBody = min(cfg.MaxBody, bodyInMemory)
	}
	memory := a.hold(w, r, a.memory)
	defer memory.close()
	cfg.Room = memory
	a.pace(r, &cfg)
	cfg.Check, cfg.HasRoom, cfg.Takes = a.mayStore, a.hasRoom, a.takes
	named, err := identity(r, &cfg)
	if err != nil {
		return err
	}
	if named {
		_, _ = do(w, r, cfg) // it has answered
		return nil
	}
	unnamed(w, r, cfg, do)
	return nil
}

// lent stores lines under an identity of this process.
func (a *api) lent(w http.ResponseWriter, r *http.Request, cfg ingest.Config, do storer) {
	p := a.producers.take()
	cfg.Producer, cfg.Start = p.id, p.next
	next, _ := do(w, r, cfg)
	p.next = max(p.next, next)
	a.producers.give(p)
}

// again stores one entry under an identity of this process; where its client was not told what became of an equal request, under
// that one's: it is sent again.
func (a *api) again(w http.ResponseWriter, r *http.Request, cfg ingest.Config, do storer) {
	var key [sha256.Size]byte
	begun := false
	cfg.Identify = func(ctx context.Context, sum [sha256.Size]byte) (string, uint64, error) {
		key = sha256.Sum256(fmt.Appendf(nil, "%s %q %q %q %x", cfg.Thread, cfg.Dialect, cfg.User, access.From(ctx).Name, sum))
		at, err := a.attempts.take(ctx, key, time.Now())
		if err != nil {
			return "", 0, err
		}
		begun = true
		return at.by.id, at.seq, nil
	}
	err := errors.New("the request is cut off")
	defer func() {
		if begun {
			status, after := verdict(err)
			told := err == nil || status < http.StatusInternalServerError && after == 0
			a.attempts.end(key, told && r.Context().Err() == nil, time.Now())
		}
	}()
	_, err = do(w, r, cfg)
}

// mayStore refuses what a persister would send to the dead letters: a step that refers to what is not stored, and an item
// that settles a prompt for who may not, or in another one's name, or that asks one under the id of another question.
func (a *api) mayStore(ctx context.Context, e *events.Event, read dialect.Entry) error {
	if a.cfg.Client != nil {
		shown := read
		shown.Refs = told(access.From(ctx), read.Refs)
		err := a.cfg.Client.Internal().CheckEntry(ctx, e, shown)
		if errors.Is(err, client.ErrMissingRef) || errors.Is(err, client.ErrPromptTaken) {
			return err
		} // after another error the persister looks
	}
	for _, it := range read.Items {
		if e.Dialect != "item" || it.Type != events.TypePendingPromptResolved {
			continue
		}
		p, _ := events.ParsePrompt(it)
		if err := events.ScopeFrom(ctx).CheckSettles(p.ID); err != nil {
			return fmt.Errorf("%w: %w", errForbidden, err)
		}
		user, by := events.UserFrom(ctx), events.ParseResolution(it).By
		if by != "" && user != "" && by != user {
			return fmt.Errorf("%w: prompt %q: settled by %q, and the token is that of %s", errForbidden, p.ID, by, user)
		}
	}
	return nil
}

// takes refuses an entry for a thread that is latched, and for one that has ended or was renamed, unless the thread has
// it.
func (a *api) takes(ctx context.Context, e *events.Event) error {
	if a.cfg.Client == nil || a.takers.is(e.Thread) {
		return nil
	}
	if !a.doubts.about(ctx, e.Thread.String()) {
		a.lookBehind(ctx, e.Thread)
		return nil
	}
	err := a.cfg.Client.Thread(e.Thread).Takes(ctx)
	switch {
	case err == nil:
		a.takers.note(e.Thread)
		return nil
	case errors.Is(err, client.ErrLatched):
		return err
	case !errors.Is(err, client.ErrEnded): // persisters will see
		return nil
	}
	if a.cfg.Client.Internal().Has(ctx, e) {
		return nil
	}
	return err
}

// mostBehind is how many looks behind entries are under way at a time; an entry that finds no place has none.
const mostBehind = 16

// lookBehind looks at a thread's head beside an entry for it, once in a while: no record says that one has become
// unreadable. The entries that come behind such a look are refused with the reason; those before it are dead letters.
func (a *api) lookBehind(ctx context.Context, t events.Thread) {
	if !a.unlooked.due(t) {
		return
	}
	select {
	case a.looks <- struct{}{}:
	default:
		return
	}
	go func(ctx context.Context) {
		defer func() { <-a.looks }()
		if errors.Is(a.cfg.Client.Thread(t).Takes(ctx), client.ErrLatched) {
			a.doubts.note(t.String())
		}
	}(context.WithoutCancel(ctx))
}

// told are the references of which a token may know whether they are stored (docs/security.md, "Not defended").
func told(grant access.Grant, refs []string) []string {
	if grant.Scopes&access.Read == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(refs), func(text string) bool {
		at, err := casstore.ParseLocated(text)
		return !grant.Everything() && (err != nil || at.Ref.Kind() != casstore.KindBlob)
	})
}

// identity reads the idempotency headers.
func identity(r *http.Request, cfg *ingest.Config) (named bool, err error) {
	cfg.Producer = r.Header.Get(headerProducer)
	epoch, seq := r.Header.Get(headerEpoch), r.Header.Get(headerSeq)
	if cfg.Producer == "" {
		if epoch != "" || seq != "" {
			return false, fmt.Errorf("%w: %s and %s mean nothing without %s", ingest.ErrEntry, headerEpoch, headerSeq, headerProducer)
		}
		return false, nil
	}
	if epoch != "" {
		if cfg.Epoch, err = strconv.ParseUint(epoch, 10, 64); err != nil {
			return false, fmt.Errorf("%w: %s %q: want a whole number", ingest.ErrEntry, headerEpoch, epoch)
		}
	}
	if cfg.Start, err = strconv.ParseUint(seq, 10, 63); err != nil || cfg.Start == 0 {
		return false, fmt.Errorf("%w: %s %q: want the sequence of the first line, a whole number from 1, above those that %s has used",
			ingest.ErrEntry, headerSeq, seq, headerProducer)
	}
	return true, nil
}

// one stores the body as one entry.
func (a *api) one(w http.ResponseWriter, r *http.Request, cfg ingest.Config) (next uint64, err error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(entryTime))
	body := early{http.MaxBytesReader(w, r.Body, cfg.MaxBody+1)} // and its newline
	seq, err := ingest.One(r.Context(), body, a.cfg.Publisher, cfg)
	if err != nil {
		a.fail(w, r, err)
		return cfg.Start + 1, err
	}
	answer(w, http.StatusAccepted, okay{OK: true, Seq: seq})
	return seq + 1, nil
}

// early says that a body which cannot be read to its end is the client's mistake.
type early struct{ r io.Reader }

func (e early) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	var long *http.MaxBytesError
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &long) {
		err = fmt.Errorf("%w: the body ended early: %w", ingest.ErrEntry, err)
	}
	return n, err
}

// stream stores the body line by line, and answers with the result of each once it is durable or refused.
func (a *api) stream(w http.ResponseWriter, r *http.Request, cfg ingest.Config) (next uint64, err error) {
	ctl := http.NewResponseController(w)
	_ = ctl.EnableFullDuplex() // the answer begins before the body ends
	in := &timed{in: r.Body, ctl: ctl, time: func() time.Duration {
		if cfg.Room.(*held).holds() {
			return pieceTime
		}
		return a.cfg.Idle
	}}
	cfg.Interrupt = in.Interrupt
	started := false
	enc := json.NewEncoder(w)
	cfg.Results = func(rs []ingest.Result, err error) {
		if err != nil && !started {
			return // the status says it
		}
		if !started {
			started = true
			w.Header().Set("Content-Type", typeNDJSON)
			w.WriteHeader(http.StatusOK)
		}
		for _, res := range rs {
			_ = enc.Encode(res) // a client that is gone ends the request's context
		}
		_ = ctl.Flush()
	}
	sum, err := ingest.Lines(r.Context(), in, a.cfg.Publisher, cfg)
	if err != nil { // net/http must not find the end of the body after us: it would read on beside a read of its own
		cfg.Interrupt()
		_, _ = io.Copy(io.Discard, r.Body) // what has arrived
		w.Header().Set("Connection", "close")
	}
	switch {
	case err != nil && started:
		_ = enc.Encode(failureOf(a.why(w, r, err)))
	case err != nil:
		a.fail(w, r, err)
	case !started:
		w.Header().Set("Content-Type", typeNDJSON)
		w.WriteHeader(http.StatusOK)
	}
	return max(sum.Next, cfg.Start), err
}
