package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spool/internal/history"
	"spool/internal/jsonscan"
	"spool/pkg/client"
	"spool/pkg/events"
)

// onThread is a route whose path names a thread.
func onThread(
	do func(a *api, w http.ResponseWriter, r *http.Request, t events.Thread) error,
) func(a *api, w http.ResponseWriter, r *http.Request) error {
	return func(a *api, w http.ResponseWriter, r *http.Request) error {
		t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
		if err := t.Validate(); err != nil {
			return err
		}
		return do(a, w, r, t)
	}
}

// taking is a route that takes an object.
func taking[T any](
	do func(a *api, w http.ResponseWriter, r *http.Request, in T) error,
) func(*api, http.ResponseWriter, *http.Request) error {
	return func(a *api, w http.ResponseWriter, r *http.Request) error {
		var in T
		if err := read(w, r, &in); err != nil {
			return err
		}
		return do(a, w, r, in)
	}
}

// takingOnThread is a route whose path names a thread, and that takes an object.
func takingOnThread[T any](
	do func(a *api, w http.ResponseWriter, r *http.Request, t events.Thread, in T) error,
) func(*api, http.ResponseWriter, *http.Request) error {
	return onThread(func(a *api, w http.ResponseWriter, r *http.Request, t events.Thread) error {
		return taking(func(a *api, w http.ResponseWriter, r *http.Request, in T) error { return do(a, w, r, t, in) })(a, w, r)
	})
}

func sessionOf(r *http.Request) (string, error) {
	session := r.PathValue("session")
	return session, events.CheckToken("session", session)
}

// orBegin adds to the error that there is no such session how to begin it.
func orBegin(session string, err error) error {
	if errors.Is(err, client.ErrSessionNotFound) && !errors.Is(err, client.ErrBehind) {
		return fmt.Errorf("%w with POST /v1/sessions/%s", err, session)
	}
	return err
}

// asked is the session that the query names; "" for none.
func asked(r *http.Request) (string, error) {
	session := r.URL.Query().Get("session")
	if session == "" {
		return "", nil
	}
	return session, events.CheckToken("session", session)
}

func number(r *http.Request, name string) (n int64, given bool, err error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, false, nil
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
		return 0, true, fmt.Errorf("%w: %s=%.50q: want a whole number", ErrRequest, name, text)
	}
	return n, true, nil
}

// leaseOf is the lease that a request's lease_ms says; 0: it says none.
func leaseOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > events.MaxLease {
		return 0, fmt.Errorf("%w: lease_ms=%d: use at most %d, which is seven days", ErrRequest, ms, int64(events.MaxLease))
	}
	return events.Millis(ms), nil
}

// How many one answer holds at most.
const (
	mostItems   = 1000 // of a page, which ends before that behind the item that reaches pageBytes
	mostListed  = 1000 // sessions or threads
	mostMatches = 500  // of a search in a thread
	mostFound   = history.MaxLimit
)

// limit reads how many are asked for at most: more than one answer holds, or none, is refused, as on a command line.
func limit(r *http.Request, usual, most int64) (int64, error) { return upTo(r, "limit", usual, most) }

// upTo reads a number from 1 to most; usual where none is given.
func upTo(r *http.Request, name string, usual, most int64) (int64, error) {
	n, given, err := number(r, name)
	if err == nil && given && (n < 1 || n > most) {
		err = fmt.Errorf("%w: %s=%d: use 1 to %d", ErrRequest, name, n, most)
	}
	return cmp.Or(n, usual), err
}

// directory refuses one that is not absolute: it would be of nobody's machine.
func directory(cwd string) error {
	if cwd == "" || strings.ContainsAny(cwd[:1], `/\`) || len(cwd) > 1 && cwd[1] == ':' { // its length is checked behind this
		return nil
	}
	return fmt.Errorf("%w: cwd: the directory %.80q is not absolute", ErrRequest, cwd)
}

// revision reads which revision an event stream of heads goes on after; 0 for none.
func revision(r *http.Request) (uint64, error) {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: Last-Event-ID %.100q is none of this stream", ErrRequest, id)
	}
	return n, nil
}

// since reads from which time on an event stream of items begins; the zero Position is now.
func since(r *http.Request) (client.Position, error) {
	text := r.URL.Query().Get("since")
	switch text {
	case "":
		return client.Position{}, nil
	case "all":
		return client.Position{All: true}, nil
	}
	at, err := before(text)
	if err != nil {
		return client.Position{}, fmt.Errorf("since: %w, or all", err)
	}
	return client.Position{Since: at}, nil
}

// before reads a time, or how long ago it was.
func before(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = fmt.Errorf("%w: %.50q: want a time like 2026-11-20T10:00:00Z, or a duration like 1h", ErrRequest, text)
	}
	return at, err
}

func mediaType(r *http.Request) string {
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return t
}

// wantsLines reports whether a list is asked for as a JSON object a line.
func wantsLines(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), typeNDJSON) }

// maxBody is the largest body of a request that changes something, in bytes.
const maxBody = 1 << 20

func read(w http.ResponseWriter, r *http.Request, v any) error {
	if t := mediaType(r); t != typeJSON {
		return fmt.Errorf("%w: Content-Type %.100q: use %s", errMedia, r.Header.Get("Content-Type"), typeJSON)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTime))
	if err := jsonscan.DecodeExactly(http.MaxBytesReader(w, r.Body, maxBody), v); err != nil {
		return fmt.Errorf("%w: body: %w", ErrRequest, err)
	}
	return nil
}

// list answers with items under a name and where to go on, or with one of them a line.
func list[T any](w http.ResponseWriter, r *http.Request, name string, items []T, next string) error {
	if items == nil {
		items = []T{}
	}
	if !wantsLines(r) {
		out := map[string]any{name: items}
		if next != "" {
			out["next"] = next
		}
		answer(w, http.StatusOK, out)
		return nil
	}
	w.Header().Set("Content-Type", typeNDJSON)
	if next != "" {
		w.Header().Set("Link", `<?after=`+next+`>; rel="next"`)
	}
	for _, it := range items {
		if _, err := w.Write(append(encode(it), '\n')); err != nil {
			return begunError{err}
		}
	}
	return nil
}
