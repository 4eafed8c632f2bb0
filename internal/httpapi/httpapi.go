// Package httpapi takes entries over HTTP, for agents that have no Spool client, and gives artifacts, logs and prompts.
//
//	POST /v1/sessions/{session}/threads/{thread}/entries?dialect=D[&user=U]
//	    application/json       one entry, as the agent wrote it     202 {"ok":true,"seq":N}
//	    application/x-ndjson   an entry a line                      200, a line of JSON for each
//	POST /v1/events[?user=U]
//	    application/x-ndjson   an envelope a line (ingest.Config.Envelopes)
//	GET  /v1/sessions/{session}/artifacts                      the artifacts of a session, a JSON object a line
//	POST /v1/sessions/{session}/artifacts[?tool=T&filename=F&agent=A&run=R&tool_call=C&summary=S&category=K]
//	                                                           201: the body is an artifact; agent without tool: that agent's output
//	GET  /v1/artifacts/{id}                                    the bytes of an artifact; ranges, ETag
//	GET  /v1/sessions/{session}/threads/{thread}/logs/thread.log[?offset=N&limit=N]
//	                                                           a thread's items as they were before any cut
//	GET  /v1/read?url=U[&session=S][&offset=N&limit=N]         what an address leads to, by lines
//	GET  /v1/prompts[?session=S]                               prompts that wait, a JSON object a line
//	GET  /v1/sessions/{session}/threads/{thread}/prompts/{id}  one prompt
//	POST /v1/sessions/{session}/threads/{thread}/prompts/{id}/answer   {"answer":…,"by":…}
//	                                                           200, or 409 when it is settled; with the resolution
//	GET  /healthz              the process runs
//	GET  /readyz               entries can be stored
//
// An answer of 202, or "ok":true, means durable. A client that wants to repeat a request after any error without storing
// anything twice says who it is: Spool-Producer, a name of its own, and Spool-Seq, the sequence of the first line, which grows
// from request to request (Spool-Epoch, optional, fences an older incarnation). It has one request in flight at a time.
//
// The answer to a stream comes while the stream is sent: a client reads it as it goes on, or keeps its streams short.
package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spool/internal/ingest"
	"spool/internal/record"
	"spool/pkg/client"
)

// Config of the API. Publisher is required.
type Config struct {
	Publisher ingest.Publisher
	Ready     func(ctx context.Context) error // why entries cannot be stored now; nil = always ready
	Client    *client.Client                  // what is read; nil = nothing is. It should be Serving

	// Token is what requests must carry as "Authorization: Bearer"; empty: none, and then only requests that name this
	// machine as their host are answered, so that no web page reaches the API by a name of its own.
	Token    string
	Inbox    ingest.Inbox  // takes entries that are too large for memory; nil: those are refused
	MaxBody  int64         // bytes of an entry, in an envelope at most 64 MiB; 0 = 64 MiB, with Inbox 4 GiB
	Requests int           // that store entries at a time, each with an entry or a batch in memory, and that read; 0 = 64
	Patience time.Duration // how long a busy or full server is tried before the client is told; 0 = 5 s
	Log      *slog.Logger
}

// bodyInMemory is the longest entry that is held in memory, in bytes.
const bodyInMemory = 64 << 20

// api is the handler's state.
type api struct {
	cfg       Config
	token     [sha256.Size]byte
	room      chan struct{} // of requests that store
	readers   chan struct{} // of requests that read
	producers producers
}

// New makes the handler.
func New(cfg Config) http.Handler {
	if cfg.Inbox != nil {
		cfg.MaxBody = cmp.Or(cfg.MaxBody, 4<<30)
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, bodyInMemory)
	cfg.Requests = cmp.Or(cfg.Requests, 64)
	cfg.Patience = cmp.Or(cfg.Patience, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)), room: make(chan struct{}, cfg.Requests), readers: make(chan struct{}, cfg.Requests)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, okay{OK: true}) })
	mux.HandleFunc("GET /readyz", a.ready)
	mux.Handle("/v1/sessions/{session}/threads/{thread}/entries", a.storing(a.entries))
	mux.Handle("/v1/events", a.storing(a.events))
	if cfg.Client != nil {
		a.read(mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "nothing at "+r.URL.Path+": POST to /v1/events or /v1/sessions/{session}/threads/{thread}/entries")
	})
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "requests of web pages of other origins are refused")
	}))
	return a.guard(cross.Handler(mux))
}

// guard is what holds for every request.
func (a *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if a.cfg.Token == "" && !loopbackHost(r.Host) {
			refuse(w, http.StatusForbidden, "without a token only requests to localhost or 127.0.0.1 are answered")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return loopback(strings.Trim(host, "[]"))
}

// storing guards a handler that stores entries: method, token, room.
func (a *api) storing(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, http.StatusMethodNotAllowed, r.Method+": use POST")
			return
		}
		if !a.admit(w, r, a.room) {
			return
		}
		defer func() { <-a.room }()
		next(w, r)
	})
}

// admit checks the token and takes a place in room; the caller gives it back.
func (a *api) admit(w http.ResponseWriter, r *http.Request, room chan struct{}) bool {
	if !a.authorized(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "wrong or missing token: send it as Authorization: Bearer TOKEN")
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too many requests at a time: try again")
		return false
	}
}

func (a *api) authorized(r *http.Request) bool {
	if a.cfg.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Ready != nil {
		if err := a.cfg.Ready(r.Context()); err != nil {
			refuse(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
	}
	answer(w, http.StatusOK, okay{OK: true})
}

type okay struct {
	OK  bool   `json:"ok"`
	Seq uint64 `json:"seq,omitempty"`
}

type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone
}

func refuse(w http.ResponseWriter, status int, text string) { answer(w, status, failure{text}) }

// fail answers with what an error means to the client.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, after := verdict(err)
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	if status == http.StatusInternalServerError {
		a.cfg.Log.ErrorContext(r.Context(), "store entries", "path", r.URL.Path, "error", err)
	}
	refuse(w, status, err.Error())
}

// verdict is the status of an error, and after how many seconds to try again.
func verdict(err error) (status, after int) {
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long), errors.Is(err, ingest.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, 0
	case errors.Is(err, ingest.ErrEntry):
		return http.StatusBadRequest, 0
	case errors.Is(err, record.ErrBusy):
		return http.StatusTooManyRequests, 1
	case errors.Is(err, record.ErrFull):
		return http.StatusServiceUnavailable, 5
	case errors.Is(err, record.ErrUnknown), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, 1
	}
	return http.StatusInternalServerError, 0
}
