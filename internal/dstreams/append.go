package dstreams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/dialect/raw"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// inMemory is how many bytes of an append wait in memory; what is longer goes to the inbox as it comes. maxJSON is the longest
// append of JSON: it is held in memory, to be checked.
const (
	inMemory = 1 << 20
	maxJSON  = 8 << 20
)

// payload is the body of a request.
type payload struct {
	bytes []byte
	ref   *events.BodyRef // in the place of bytes
	free  func()          // gives back its share of memory
}

func (p payload) empty() bool { return p.ref == nil && len(p.bytes) == 0 }

// bodyTime is how long a client may take to send an append.
const bodyTime = 5 * time.Minute

// payload reads the body. The caller frees it.
func (h *Handler) payload(w http.ResponseWriter, r *http.Request) (p payload, err error) {
	p.free = func() {}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return p, nil
	}
	most, room := h.cfg.MaxAppend, int64(inMemory)
	if isJSON(r.Header.Get("Content-Type")) {
		most, room = min(most, maxJSON), min(most, maxJSON)
	}
	if r.ContentLength > most {
		return p, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("body of %d bytes: at most %d at a time", r.ContentLength, most))
	}
	if r.ContentLength >= 0 {
		room = min(room, r.ContentLength)
	}
	ctx := r.Context()
	if err := h.acquire(ctx, room); err != nil {
		return p, err
	}
	p.free = func() { h.release(ctx, room) }
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	body := http.MaxBytesReader(w, r.Body, most)
	p.bytes, err = io.ReadAll(io.LimitReader(body, room))
	if err == nil && (r.ContentLength < 0 || r.ContentLength > room) {
		var next [1]byte
		var n int
		if n, err = io.ReadFull(body, next[:]); n > 0 {
			return p, h.checkIn(r.Context(), &p, io.MultiReader(bytes.NewReader(p.bytes), bytes.NewReader(next[:]), body))
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	return p, cutOff(err)
}

func (h *Handler) checkIn(ctx context.Context, p *payload, body io.Reader) error {
	ref, err := h.cfg.Inbox.CheckIn(ctx, body)
	p.bytes, p.ref = nil, &ref
	return cutOff(err)
}

// cutOff says that a body which cannot be read to its end is the client's mistake.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(http.StatusBadRequest, "the body ended early")
	}
	return err
}

// appending is what a POST asks for.
type appending struct {
	contentType string
	seq         string // Stream-Seq
	closes      bool
	payload

	producer   string // empty: none
	epoch, num int64

	own  uint64 // the handler's own sequence; the one above it is its too
	sent bool   // it was published, perhaps without an answer

	// What came of it, once done is closed.
	done   chan struct{}
	err    error
	fresh  bool // false: it was there before
	next   offset
	closed bool
	last   threads.Producer // what is known of its producer
}

// maxSeq is the longest Stream-Seq, in bytes.
const maxSeq = 256

func parseAppend(hdr http.Header) (a appending, err error) {
	a.contentType, a.seq, a.closes = hdr.Get("Content-Type"), hdr.Get(hdrSeq), isTrue(hdr.Get(hdrClosed))
	if len(a.seq) > maxSeq {
		return a, refuse(http.StatusBadRequest, fmt.Sprintf("%s of %d bytes: at most %d", hdrSeq, len(a.seq), maxSeq))
	}
	id, epoch, num := hdr.Values(hdrProducer), hdr.Get(hdrEpoch), hdr.Get(hdrProdSeq)
	if len(id) == 0 && epoch == "" && num == "" {
		return a, nil
	}
	if len(id) != 1 || id[0] == "" || len(id[0]) > maxProducer || epoch == "" || num == "" {
		return a, refuse(http.StatusBadRequest, fmt.Sprintf("%s, %s and %s go together, and the first has 1 to %d bytes",
			hdrProducer, hdrEpoch, hdrProdSeq, maxProducer))
	}
	a.producer = id[0]
	if a.epoch, err = number(hdrEpoch, epoch); err != nil {
		return a, err
	}
	a.num, err = number(hdrProdSeq, num)
	return a, err
}

// maxProducer leaves room for the stream's id beside a producer's, in bytes.
const maxProducer = 200

func isTrue(s string) bool { return strings.EqualFold(s, "true") }

// post appends, closes, or both at once.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	ctx := r.Context()
	a, err := parseAppend(r.Header)
	if err != nil {
		return err
	}
	s := h.take(t)
	defer h.drop(s)
	if r.ContentLength < 0 || r.ContentLength > inMemory { // not worth reading for a stream that is not there
		if err := h.open(ctx, t, s); err != nil {
			return err
		}
	}
	if a.payload, err = h.payload(w, r); err != nil {
		a.free()
		return err
	}
	defer a.free()
	if err := h.together(ctx, t, s, &a); err != nil {
		return err
	}
	place(w.Header(), a.next, a.closed)
	status := http.StatusNoContent
	if a.producer != "" {
		w.Header().Set(hdrEpoch, itoa(int64(a.last.Epoch)))
		w.Header().Set(hdrProdSeq, itoa(int64(a.last.Seq)-1))
		if a.fresh && !a.empty() {
			status = http.StatusOK
		}
	}
	w.WriteHeader(status)
	return nil
}

// together does an append, or lets another request do it: whoever gets the stream's lock does all that wait for it, and stores
// them as one.
func (h *Handler) together(ctx context.Context, t events.Thread, s *state, a *appending) error {
	a.done = make(chan struct{})
	s.await(a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		s.leave(a)
		return ctx.Err()
	case s.sem <- struct{}{}:
	}
	defer s.unlock()
	for {
		select {
		case <-a.done:
			return a.err
		default:
		}
		list := s.next()
		h.append(context.WithoutCancel(ctx), t, s, list) // the others' clients are still there
		for _, a := range list {
			close(a.done)
		}
	}
}

// open makes sure that a stream can be appended to, as far as its records tell.
func (h *Handler) open(ctx context.Context, t events.Thread, s *state) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return h.opened(ctx, t, s)
}

// opened is open under the lock.
func (h *Handler) opened(ctx context.Context, t events.Thread, s *state) error {
	if !s.known {
		if err := h.load(ctx, t, s); err != nil {
			return err
		}
	}
	v := &s.view
	if v.expired(time.Now()) { // unless another process has used it
		if err := h.load(ctx, t, s); err != nil {
			return err
		}
	}
	if v.expired(time.Now()) {
		if err := h.remove(ctx, t, s); err != nil {
			return err
		}
		if err := h.load(ctx, t, s); err != nil {
			return err
		}
	}
	err := h.exists(t, v)
	if err == nil && !v.recorded() {
		err = refuse(http.StatusMethodNotAllowed, fmt.Sprintf("%s is a thread of %s entries: it is read here, and written by its agent", t,
			v.head.Dialect),
			"Allow", "GET, HEAD, OPTIONS")
	}
	if err != nil {
		s.known = false
	}
	return err
}

// tries is how often an append is decided anew when others write at the same time.
const tries = 16

// append does what requests ask for, in their order. What it says of a stream that was known from before is confirmed by
// SPOOL_EVENTS, which takes nothing that was decided by an older state; where nothing is to be stored, the state is loaded anew.
func (h *Handler) append(ctx context.Context, t events.Thread, s *state, list []*appending) {
	err := fmt.Errorf("%w: too many others append to %s", record.ErrBusy, nameOf(t))
	for range tries {
		loaded := !s.known
		if e := h.opened(ctx, t, s); e != nil {
			err = e
			break
		}
		var evs []*events.Event
		for _, a := range list {
			evs = append(evs, h.settleOne(ctx, t, s, a)...)
		}
		switch {
		case len(evs) > 0:
			h.touch(ctx, t, &s.view)
			if err = h.publish(ctx, s, evs...); err == nil {
				return
			}
		case loaded:
			return
		default:
			s.known = false
			continue
		}
		if !errors.Is(err, record.ErrConflict) {
			break
		}
	}
	for _, a := range list {
		a.err = err
	}
}

// settleOne decides one request and brings the state up to it.
func (h *Handler) settleOne(ctx context.Context, t events.Thread, s *state, a *appending) []*events.Event {
	if a.own == 0 {
		a.own = h.seq.Add(2) - 1 // under the lock: in each thread they grow
	}
	evs, err := h.decide(ctx, t, s, a)
	a.err, a.fresh = err, a.sent && err == nil // what was sent and not answered was stored
	if len(evs) > 0 {
		a.fresh, a.sent = true, true
		s.extend(evs...)
		if a.seq != "" {
			s.tag = a.seq
		}
	}
	a.next, a.closed, a.last = offset{entries: s.entries}, s.closed, s.producers[s.producerName(a.producer)]
	return evs
}

// identify is who appends, and as what. Sequences of events begin at 1, those of the protocol at 0.
func (h *Handler) identify(s *state, a *appending) (producer string, epoch, seq uint64) {
	if a.producer == "" {
		return h.writer, 0, a.own
	}
	return s.producerName(a.producer), uint64(a.epoch), uint64(a.num) + 1
}

// decide makes the events of an append, by what the stream is now; none when it is done already.
func (h *Handler) decide(ctx context.Context, t events.Thread, s *state, a *appending) ([]*events.Event, error) {
	if a.empty() && !a.closes {
		return nil, refuse(http.StatusBadRequest, "the body is empty: there is nothing to append")
	}
	producer, epoch, seq := h.identify(s, a)
	if (a.producer != "" || a.sent) && s.saw(producer, epoch, seq) {
		if now := s.producers[producer].Epoch; epoch < now {
			return nil, refuse(http.StatusForbidden, fmt.Sprintf("%s: a later one, %d, has taken over", hdrEpoch, now), hdrEpoch, itoa(int64(now)))
		}
		return nil, nil
	}
	if s.closed {
		if a.empty() && a.producer == "" {
			return nil, nil
		}
		return nil, refuse(http.StatusConflict, fmt.Sprintf("stream %s is closed", nameOf(t)), hdrClosed, "true", hdrNext,
			offset{entries: s.entries}.String())
	}
	if err := s.inOrder(a); err != nil {
		return nil, err
	}
	if !a.empty() {
		if err := s.fits(a); err != nil {
			return nil, err
		}
	}
	base := events.Event{Thread: t, Producer: producer, Epoch: epoch, Seq: seq, Time: time.Now().UnixMilli()}
	var evs []*events.Event
	if !a.empty() {
		e, err := h.entry(ctx, s, a, base)
		if err != nil {
			return nil, err
		}
		evs = append(evs, e)
	}
	if a.closes {
		end := base
		if len(evs) > 0 { // a producer's number is one event's, and its last
			end.Producer, end.Epoch, end.Seq = h.writer, 0, a.own+1
		}
		end.Kind, end.Body = events.KindControl, events.Control{Op: events.OpEnd, End: &events.End{}}.Encode()
		evs = append(evs, &end)
	}
	return evs, nil
}

// inOrder holds an append against what its producer, and the writer of Stream-Seq, appended before.
func (s *state) inOrder(a *appending) error {
	if a.producer != "" {
		last, had := s.producers[s.producerName(a.producer)]
		if !had || uint64(a.epoch) > last.Epoch {
			if had && a.num != 0 {
				return refuse(http.StatusBadRequest, fmt.Sprintf("%s %d: a new epoch begins with 0", hdrProdSeq, a.num))
			}
			last.Seq = 0
		}
		if uint64(a.num) > last.Seq {
			return refuse(http.StatusConflict, fmt.Sprintf("%s %d: %d is next", hdrProdSeq, a.num, last.Seq), hdrExpected,
				itoa(int64(last.Seq)), hdrReceived, itoa(a.num))
		}
	}
	if a.seq != "" && a.seq <= s.tag {
		return refuse(http.StatusConflict, fmt.Sprintf("%s %.50q is not above the last one, %.50q", hdrSeq, a.seq, s.tag))
	}
	return nil
}

// fits holds an append against the stream's content type.
func (s *state) fits(a *appending) error {
	if a.contentType == "" {
		return refuse(http.StatusBadRequest, "Content-Type is missing: the stream's is "+s.view.Type)
	}
	if err := checkType(a.contentType); err != nil {
		return err
	}
	if !sameType(a.contentType, s.view.Type) {
		return refuse(http.StatusConflict, fmt.Sprintf("Content-Type %s: the stream's is %s", a.contentType, s.view.Type))
	}
	if !isJSON(s.view.Type) {
		return nil
	}
	if n, err := messages(a.bytes); err != nil || n == 0 {
		return refuse(http.StatusBadRequest, fmt.Sprintf("the body must be JSON, and an array have something in it: %v", err))
	}
	return nil
}

// messages counts the messages of an append of JSON: the elements of an array, or one.
func messages(body []byte) (n int, err error) {
	if err := jsonscan.Valid(body); err != nil {
		return 0, err
	}
	if jsonscan.KindOf(body) != jsonscan.KindArray {
		return 1, nil
	}
	err = jsonscan.Array(body, func([]byte) bool { n++; return true })
	return n, err
}

// entry is the event of the bytes of an append. Once Stream-Seq was used in a stream, all its entries have the newest.
func (h *Handler) entry(ctx context.Context, s *state, a *appending, e events.Event) (*events.Event, error) {
	e.Kind, e.Dialect, e.Body, e.Ref = events.KindEntry, raw.Dialect{}.Name(), a.bytes, a.ref
	tag := s.tag
	if a.seq != "" {
		tag = a.seq
	}
	if tag == "" {
		return &e, nil
	}
	e.Dialect = raw.TaggedName
	if a.ref == nil {
		e.Body = raw.Tag(tag, a.bytes)
		return &e, nil
	}
	body, err := h.cfg.Inbox.OpenBody(ctx, *a.ref)
	if err != nil {
		return nil, err
	}
	ref, err := h.cfg.Inbox.CheckIn(ctx, io.MultiReader(bytes.NewReader(raw.Tag(tag, nil)), body))
	e.Ref = &ref
	return &e, err
}
