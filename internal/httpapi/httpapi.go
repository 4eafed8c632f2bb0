// Package httpapi is Spool over HTTP: entries and outputs in, sessions, threads and items out, live or from the past.
//
// The table in routes.go is the API: the handlers, what a request may be, what it needs and the OpenAPI document are all taken
// from it. docs/http.md says it to people.
//
//	request ── guard: host, origin ── route: method, token, scope, session, room ── handler ── pkg/client ── NATS
//	                                                                    └─ streams ── hub: one feed for each filter, many readers
//
// An answer of 202, or "ok":true, means durable. A client that wants to repeat a request after any error without storing
// anything twice says who it is: Spool-Producer, a name of its own, and Spool-Seq, the sequence of the first line, which grows
// from request to request (Spool-Epoch, optional, fences an older incarnation). It has one request in flight at a time.
//
// The answer to a stream of entries comes while the stream is sent: a client reads it as it goes on, or keeps its streams short.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/access"
	"spool/internal/apply"
	"spool/internal/claudestore"
	"spool/internal/family"
	"spool/internal/ingest"
	"spool/internal/mapped"
	"spool/internal/mcp"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/quota"
	"spool/internal/record"
	"spool/internal/view"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Config of the API. Publisher is required.
type Config struct {
	Publisher ingest.Publisher
	Ready     func(ctx context.Context) error // why entries cannot be stored now; nil = always ready
	Client    *client.Client                  // what is read; nil = nothing is. It should be Serving
	History   string                          // file of the prompt history; empty: there is none

	Page    http.Handler // what people see, at / and all that is not the API's; nil = nothing is there
	Streams http.Handler // Durable Streams, at /v1/stream/; nil = none
	Metrics http.Handler // at /metrics; nil = none

	Subscriptions http.Handler // to Durable Streams; nil = none

	MCPAnswers bool   // agents answer prompts at /mcp, too, with a token that has the scope for it
	Version    string // of this program

	// Tokens are what requests must carry as "Authorization: Bearer"; nil: none, and then only requests that name this machine
	// as their host are answered, so that no web page reaches the API by a name of its own.
	Tokens    *access.Tokens
	Cert, Key string   // PEM files of a certificate, and its key, that Listen shows; none: no TLS
	Origins   []string // origins of web pages that may use the API, as in https://example.com; none: only its own page

	Inbox    ingest.Inbox   // takes entries that are too large for memory; nil: those are refused
	MaxBody  int64          // bytes of an entry, in an envelope at most 64 MiB; 0 = 64 MiB, with Inbox 4 GiB
	Requests int            // that read at a time, or store an artifact; 0 = 64
	Writers  int            // requests that store anything else at a time; 0 = 512
	Pipes    int            // streams of lines at a time; 0 = 1,024
	Outputs  int            // that stream an output at a time; 0 = 256
	Readers  int            // event streams at a time; 0 = 4,096
	Memory   int64          // bytes of entries that are being received or stored, and as many of Durable Streams; 0 = 128 MiB
	Idle     time.Duration  // how long a stream of lines may be silent between two of them; 0 = 10 min
	Answer   time.Duration  // how long a client may take for a piece of an answer, or to send a body that nobody reads; 0 = 30 s
	Patience time.Duration  // how long a busy or full server is tried before the client is told; 0 = 5 s
	Look     time.Duration  // how long a thread may take entries here before its head is looked at again; 0 = 10 s
	Quotas   *quota.Limiter // of sessions, users and tokens; nil: none
	Limits   apply.Limits   // what a session may have, as its persisters have it
	Log      *slog.Logger

	claude  *claudestore.Store
	newest  func(context.Context) (uint64, error) // sequence of the newest item that is stored; nil: nobody knows
	records *natsio.Records                       // that Client reads; nil: each entry looks for itself
	stores  *stores                               // whether the server stores; nil: nobody knows
}

// bodyInMemory is the longest entry that is held in memory, in bytes.
const bodyInMemory = 64 << 20

// api is the handler's state.
type api struct {
	cfg       Config
	lanes     [lanes]*places // of requests, by what they take
	memory    *places        // bytes of bodies
	streams   *places        // bytes of Durable Streams
	producers producers
	attempts  attempts // of requests that store one entry and say no producer
	doubts    *doubts
	roomy     recently[string]        // sessions with ample room, or a thread and its producer
	takers    recently[events.Thread] // threads that take entries
	unlooked  recently[events.Thread] // threads whose heads nobody looks at before the next look is due
	looks     chan struct{}           // looks behind entries that are under way
	hub       *hub
	views     *view.Reader
	tools     http.Handler // of agents: the Model Context Protocol
	document  []byte       // OpenAPI
}

// New makes the handler.
func New(cfg Config) http.Handler {
	if cfg.Inbox != nil {
		cfg.MaxBody = cmp.Or(cfg.MaxBody, 4<<30)
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, bodyInMemory)
	cfg.Requests, cfg.Outputs, cfg.Readers = cmp.Or(cfg.Requests, 64), cmp.Or(cfg.Outputs, 256), cmp.Or(cfg.Readers, 4096)
	cfg.Writers, cfg.Pipes = cmp.Or(cfg.Writers, 512), cmp.Or(cfg.Pipes, 1024)
	cfg.Memory, cfg.Idle = cmp.Or(cfg.Memory, 2*bodyInMemory), cmp.Or(cfg.Idle, 10*time.Minute)
	cfg.Patience, cfg.Answer = cmp.Or(cfg.Patience, 5*time.Second), cmp.Or(cfg.Answer, answerTime)
	cfg.Look = cmp.Or(cfg.Look, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	a := &api{cfg: cfg, views: view.NewReader(cfg.Client), hub: newHub(cfg.Client, cfg.Log), doubts: newDoubts(cfg.records, cfg.Limits)}
	a.attempts.producers = &a.producers
	a.unlooked.keep, a.looks = cfg.Look, make(chan struct{}, mostBehind)
	for lane, places := range map[lane]int{
		storing: cfg.Writers, piping: cfg.Pipes, uploading: cfg.Requests, reading: cfg.Requests, sending: cfg.Outputs, following: cfg.Readers,
		waiting: cfg.Readers,
	} {
		a.lanes[lane] = newPlaces(int64(places), cfg.Tokens)
	}
	a.memory, a.streams = newPlaces(cfg.Memory, cfg.Tokens), newPlaces(cfg.Memory, cfg.Tokens)
	if cfg.Client != nil {
		a.tools = mcp.Handler(a.peers())
	}
	a.document = a.describe()
	return a.guard(a.mux())
}

// guard is what holds for every request.
func (a *api) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	for _, origin := range a.cfg.Origins {
		_ = cross.AddTrustedOrigin(origin) // see CheckOrigins; what is no origin is nobody's
	}
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "requests of web pages of other origins are refused")
	}))
	next = cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, end := a.bound(w, r)
		defer end()
		a.harmless(w.Header())
		if !a.cfg.Tokens.Required() && !loopbackHost(r.Host) {
			refuse(w, http.StatusForbidden, "without a token only requests to localhost or 127.0.0.1 are answered")
			return
		}
		if a.shared(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy is what a browser may do with an answer that it shows, whatever is in it: nothing. The page has one of its own.
const policy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// harmless sets the headers that keep a browser from making anything of what agents wrote. Handlers may set others.
func (a *api) harmless(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	if len(a.cfg.Origins) == 0 {
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
	}
}

// allowed are the headers that a page of a trusted origin may send: those of any request, and what routes take.
func allowed() string {
	names := []string{"Authorization", "Content-Type", events.HeaderTrace, "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}
	for _, to := range all() {
		for _, p := range to.query {
			if p.header && !slices.Contains(names, p.name) {
				names = append(names, p.name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// shared tells the browser that a page of a trusted origin may read the answer; done reports that this was all it asked for.
func (a *api) shared(w http.ResponseWriter, r *http.Request) (done bool) {
	if len(a.cfg.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	for _, trusted := range a.cfg.Origins {
		if origin != trusted {
			continue
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, Spool-Missing")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			return false
		}
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
		h.Set("Access-Control-Allow-Headers", allowed())
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	return false
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return loopback(strings.Trim(host, "[]"))
}

// admit finds out who asks and whether that is enough; the request that goes on knows its grant. On false it is answered.
func (a *api) admit(w http.ResponseWriter, r *http.Request, need access.Scope) (*http.Request, bool) {
	ctx, grant := access.With(r.Context(), access.All()), access.All()
	if a.cfg.Tokens.Required() {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		var ok bool
		ctx, grant, ok = a.cfg.Tokens.Admit(r.Context(), strings.TrimSpace(token))
		if !ok || !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) > 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "wrong or missing token: send it as Authorization: Bearer TOKEN")
			return r, false
		}
	}
	if grant.Scopes&need != need {
		refuse(w, http.StatusForbidden, "the token "+grant.Name+" is not for this: it needs the scope "+need.String())
		return r, false
	}
	for _, session := range []string{r.PathValue("session"), r.URL.Query().Get("session")} {
		if session != "" && !grant.Session(session) {
			refuse(w, http.StatusForbidden, "the token "+grant.Name+" is not for this session: it is for those that begin with "+
				strings.Join(grant.Sessions, ", "))
			return r, false
		}
	}
	scope := scopeOf(grant)
	if grant.Scopes&access.Answer == 0 {
		scope = scope.Apart("")
	}
	if scope != "" {
		ctx = events.WithScope(ctx, scope)
	}
	return r.WithContext(events.WithUser(ctx, grant.User)), true
}

// scopeOf is what a persister checks the events of a token by, beside us. No session begins with what is no name.
func scopeOf(grant access.Grant) events.Scope {
	names := mapped.List(grant.Sessions, func(begin string) string { return events.Token(begin) + string(events.Everywhere) })
	return events.Scope(strings.Join(names, ","))
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Ready != nil {
		if err := a.cfg.Ready(r.Context()); err != nil {
			refuse(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return nil
		}
	}
	return a.alive(w, r)
}

func (a *api) alive(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, okay{OK: true})
	return nil
}

type okay struct {
	OK  bool   `json:"ok"`
	Seq uint64 `json:"seq,omitempty"`
}

// failure is a refusal. What is beyond a quota says which one and when to try again, in seconds.
type failure struct {
	Error string `json:"error"`
	Quota string `json:"quota,omitempty"`
	Limit int64  `json:"limit,omitempty"` // a second, or an hour
	After int    `json:"retry_after,omitempty"`
}

func failureOf(err error) failure {
	var beyond *quota.Refused
	var full *apply.BeyondError
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return failure{Error: err.Error() + ": " + strconv.FormatInt(long.Limit, 10) + " bytes at most"}
	case errors.As(err, &beyond):
		return failure{err.Error(), beyond.Quota, beyond.Limit, beyond.Seconds()}
	case errors.As(err, &full):
		return failure{Error: err.Error(), Quota: "session_" + full.Quota, Limit: full.Limit}
	}
	return failure{Error: err.Error()}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a client that is gone
}

func refuse(w http.ResponseWriter, status int, text string) { answer(w, status, failure{Error: text}) }

// begunError: an answer that began with a status of success.
type begunError struct{ error }

func (e begunError) Unwrap() error { return e.error }

// fail answers with what an error means to the client. What has begun is cut off: its client sees that it is incomplete.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	var begun begunError
	if errors.As(err, &begun) {
		if r.Context().Err() == nil && !errors.Is(err, errLent) {
			a.cfg.Log.ErrorContext(r.Context(), "answer is cut off", "path", r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	err = a.why(w, r, err)
	status, after := verdict(err)
	if errors.Is(context.Cause(r.Context()), access.ErrRevoked) {
		status, after, err = http.StatusUnauthorized, 0, access.ErrRevoked
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	if status == http.StatusInternalServerError {
		a.cfg.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
	}
	answer(w, status, failureOf(err))
}

// why is what an error of a request comes of.
func (a *api) why(w http.ResponseWriter, r *http.Request, err error) error {
	if p, ok := w.(*patient); ok && p.cutOff() { // which ends the request's context, too
		return errLent
	}
	return a.cfg.stores.why(r.Context(), err)
}

// ErrRequest is wrapped by errors about what a client asked for.
var ErrRequest = family.Invalid.New("bad request")

// verdict is the status of an error, and after how many seconds to try again.
func verdict(err error) (status, after int) {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	var beyond *quota.Refused
	switch {
	case errors.As(err, &beyond):
		return http.StatusTooManyRequests, beyond.Seconds()
	case is(errPlaces, errLent):
		return http.StatusTooManyRequests, 1
	case errors.As(err, new(*http.MaxBytesError)), is(ingest.ErrTooLarge, errTooLarge):
		return http.StatusRequestEntityTooLarge, 0
	case is(claudestore.ErrSummary):
		return http.StatusPreconditionFailed, 0
	case is(errMedia):
		return http.StatusUnsupportedMediaType, 0
	case is(artifacts.ErrPastEnd):
		return http.StatusRequestedRangeNotSatisfiable, 0
	case is(family.Conflict), errors.As(err, new(*apply.BeyondError)):
		return http.StatusConflict, 0
	case is(family.Denied):
		return http.StatusForbidden, 0
	case is(family.Invalid):
		return http.StatusBadRequest, 0
	case is(record.ErrBusy):
		return http.StatusTooManyRequests, 1
	case is(record.ErrNoStream, record.ErrFull, natsadmin.ErrStopped):
		return http.StatusServiceUnavailable, 5
	case is(family.Unavailable, context.Canceled, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, 1
	case is(casstore.ErrGone):
		return http.StatusGone, 0
	case is(family.NotFound):
		return http.StatusNotFound, 0
	}
	return http.StatusInternalServerError, 0
}

var (
	errNothing   = family.NotFound.New("not found")
	errForbidden = family.Denied.New("not with this token")
	errTooLarge  = errors.New("too large for one answer")
	errMedia     = errors.New("wrong type of body")
)
