package dstreams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/semaphore"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Config of the handler. Client and the roles are required and are of one NATS system (On).
type Config struct {
	Client  *client.Client
	Records natsio.Records
	Events  natsio.Events
	Inbox   natsio.Inbox

	Prefix    string        // of the paths of streams; "" = Prefix
	MaxAppend int64         // bytes of an append; 0 = 64 MiB. One of JSON is held in memory and has at most 8 MiB
	Memory    int64         // bytes of appends and answers in memory at a time, unless WithRoom says; 0 = 64 MiB, at least 16 MiB
	LongPoll  time.Duration // how long a long poll waits that does not say timeout=SECONDS; 0 = 3 s
	SSE       time.Duration // after which time an event stream ends, and the client asks again; 0 = 60 s
	Patience  time.Duration // how long a busy server or persister is waited for before the client is told; 0 = 10 s
	Log       *slog.Logger
}

// Prefix is what the paths of streams begin with.
const Prefix = "/v1/stream/"

// On is the least configuration of a handler on a connection.
func On(conn *natsio.Conn, log *slog.Logger) Config {
	return Config{Client: client.New(conn), Records: conn.Records(), Events: conn.Events(), Inbox: conn.Inbox(), Log: log}
}

// Room bounds what requests have in memory. Take waits until there is room for n bytes more, or says why there is none; Give gives
// some back. A stream keeps nothing while it waits.
type Room interface {
	Take(ctx context.Context, n, keeps int) error
	Give(n int)
}

type roomKey struct{}

// WithRoom has a request take memory from a room that its caller shares out, and not from that of the handler.
func WithRoom(ctx context.Context, room Room) context.Context {
	return context.WithValue(ctx, roomKey{}, room)
}

func (h *Handler) acquire(ctx context.Context, n int64) error {
	if room, ok := ctx.Value(roomKey{}).(Room); ok {
		return room.Take(ctx, int(n), 0)
	}
	return h.room.Acquire(ctx, n)
}

func (h *Handler) release(ctx context.Context, n int64) {
	if room, ok := ctx.Value(roomKey{}).(Room); ok {
		room.Give(int(n))
		return
	}
	h.room.Release(n)
}

// Handler serves streams. Safe for concurrent use.
type Handler struct {
	cfg    Config
	room   *semaphore.Weighted // share of Memory
	writer string              // producer of what is appended without one
	seq    atomic.Uint64       // of the writer's newest event
	lane   int                 // of commits
	out    outbox

	mu        sync.Mutex
	states    map[events.Thread]*state
	followers map[events.Thread]*follower
}

// New makes the handler. Run keeps its streams clean.
func New(cfg Config) *Handler {
	cfg.Prefix = cmp.Or(cfg.Prefix, Prefix)
	cfg.MaxAppend = cmp.Or(cfg.MaxAppend, 64<<20)
	cfg.Memory = max(cmp.Or(cfg.Memory, 64<<20), 2*maxJSON)
	cfg.LongPoll = cmp.Or(cfg.LongPoll, 3*time.Second)
	cfg.SSE = cmp.Or(cfg.SSE, time.Minute)
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{
		cfg: cfg, room: semaphore.NewWeighted(cfg.Memory), writer: threads.Ephemeral + ulid.Make().String(),
		lane: rand.IntN(events.Lanes), out: outbox{events: cfg.Events},
		states: map[events.Thread]*state{}, followers: map[events.Thread]*follower{},
	}
}

// The protocol's headers.
const (
	hdrNext     = "Stream-Next-Offset"
	hdrUpToDate = "Stream-Up-To-Date"
	hdrCursor   = "Stream-Cursor"
	hdrClosed   = "Stream-Closed"
	hdrSeq      = "Stream-Seq"
	hdrTTL      = "Stream-TTL"
	hdrExpires  = "Stream-Expires-At"
	hdrEncoding = "Stream-SSE-Data-Encoding"

	hdrForked     = "Stream-Forked-From"
	hdrForkOffset = "Stream-Fork-Offset"
	hdrForkSub    = "Stream-Fork-Sub-Offset"

	hdrProducer = "Producer-Id"
	hdrEpoch    = "Producer-Epoch"
	hdrProdSeq  = "Producer-Seq"
	hdrExpected = "Producer-Expected-Seq"
	hdrReceived = "Producer-Received-Seq"
)

const methods = "GET, HEAD, PUT, POST, DELETE, OPTIONS"

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hdr := w.Header()
	hdr.Set("X-Content-Type-Options", "nosniff")
	hdr.Set("Cross-Origin-Resource-Policy", "same-origin")
	hdr.Set("Cache-Control", "no-store")
	if err := h.serve(w, r); err != nil {
		h.fail(w, r, err)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions { // no origin is allowed to read: a page of the server's own needs no permission
		w.Header().Set("Access-Control-Allow-Methods", methods)
		w.Header().Set("Access-Control-Allow-Headers", strings.Join([]string{
			"Authorization", "Content-Type", "If-None-Match", hdrSeq, hdrTTL, hdrExpires, hdrClosed, hdrForked, hdrForkOffset, hdrForkSub,
			hdrProducer, hdrEpoch, hdrProdSeq,
		}, ", "))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	t, err := ThreadAt(h.cfg.Prefix, r.URL.Path)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return h.get(w, r, t)
	case http.MethodHead:
		return h.head(w, r, t)
	case http.MethodPut:
		return h.put(w, r, t)
	case http.MethodPost:
		return h.post(w, r, t)
	case http.MethodDelete:
		return h.delete(w, r, t)
	}
	w.Header().Set("Allow", methods)
	return refuse(http.StatusMethodNotAllowed, r.Method+": use "+methods)
}

// refusal is an answer that is an error.
type refusal struct {
	status int
	text   string
	header http.Header
}

func (r *refusal) Error() string { return r.text }

// refuse makes a refusal; pairs are headers.
func refuse(status int, text string, pairs ...string) error {
	r := &refusal{status: status, text: text, header: http.Header{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		r.header.Set(pairs[i], pairs[i+1])
	}
	return r
}

func noStream(t events.Thread) error {
	return refuse(http.StatusNotFound, fmt.Sprintf("there is no stream %s: make it with PUT", nameOf(t)))
}

func goneStream(t events.Thread) error {
	return refuse(http.StatusGone, fmt.Sprintf("stream %s was deleted; forks of it go on", nameOf(t)))
}

// fail answers with what an error means to the client.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var no *refusal
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &no):
		status = no.status
		maps.Copy(w.Header(), no.header)
	case errors.Is(err, record.ErrBusy):
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // who listens still, as one whose token was taken away, is told nothing: a status would say that it is done
	case errors.As(err, &long):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("%w: %d bytes at most", err, long.Limit)
	case errors.Is(err, client.ErrBusyThread):
		status = http.StatusConflict
	case record.Temporary(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, record.ErrConflict):
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	default:
		h.cfg.Log.ErrorContext(r.Context(), "serve a stream", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	w.Header().Del("ETag")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // a client that is gone
}

// place writes where a stream ends into an answer.
func place(hdr http.Header, next offset, closed bool) {
	hdr.Set(hdrNext, next.String())
	if closed {
		hdr.Set(hdrClosed, "true")
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
