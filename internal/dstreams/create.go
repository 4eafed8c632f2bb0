package dstreams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/dialect/raw"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// creating is what a PUT asks for.
type creating struct {
	contentType string // empty: the source's, or typeBytes
	expiry
	closed bool
	payload

	fork   bool
	source events.Thread
	at     string // offset; empty: the source's tail
	sub    int64
}

func (h *Handler) parseCreate(hdr http.Header) (c creating, err error) {
	c.contentType, c.closed = hdr.Get("Content-Type"), isTrue(hdr.Get(hdrClosed))
	if c.contentType != "" {
		if err := checkType(c.contentType); err != nil {
			return c, err
		}
	}
	if c.expiry, err = parseExpiry(hdr); err != nil {
		return c, err
	}
	from, sub := hdr.Get(hdrForked), hdr.Get(hdrForkSub)
	c.at, c.fork = hdr.Get(hdrForkOffset), from != ""
	if !c.fork {
		if c.at != "" || sub != "" {
			return c, refuse(http.StatusBadRequest, hdrForkOffset+" and "+hdrForkSub+" mean nothing without "+hdrForked)
		}
		return c, nil
	}
	if c.source, err = SourceAt(h.cfg.Prefix, from); err != nil {
		return c, err
	}
	if sub != "" {
		if c.sub, err = number(hdrForkSub, sub); err != nil {
			return c, err
		}
	}
	if c.at != "" {
		at, err := parseOffset(c.at)
		c.at = at.String()
		return c, err
	}
	return c, nil
}

// matches tells whether a stream is as the request wants to make it.
func (c *creating) matches(v *view) bool {
	if !v.recorded() {
		return !c.fork && !c.given() && !c.closed && isJSON(cmp.Or(c.contentType, typeJSON))
	}
	if c.fork {
		f := v.From
		if f == nil || f.thread() != c.source || c.at != "" && c.at != f.Offset || c.sub != f.Sub {
			return false
		}
	}
	inherits := c.fork || v.From != nil
	return (inherits && c.contentType == "" || sameType(cmp.Or(c.contentType, typeBytes), v.Type)) &&
		(inherits && !c.given() || c.expiry.matches(&v.stream)) && (!c.closed || v.completed || v.Pending)
}

// put creates a stream, or finds that it is there as asked.
func (h *Handler) put(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	c, err := h.parseCreate(r.Header)
	if err != nil {
		return err
	}
	if c.payload, err = h.payload(w, r); err != nil {
		c.free()
		return err
	}
	defer c.free()
	s := h.take(t)
	defer h.drop(s)
	if err := s.lock(r.Context()); err != nil {
		return err
	}
	defer s.unlock()
	made, err := h.create(r.Context(), t, s, &c)
	if err != nil {
		return err
	}
	v := &s.view
	w.Header().Set("Content-Type", v.contentType())
	place(w.Header(), offset{entries: s.entries}, s.closed)
	status := http.StatusOK
	if made {
		w.Header().Set("Location", h.location(r))
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	return nil
}

func (h *Handler) location(r *http.Request) string {
	u := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}

// create leaves the state known.
func (h *Handler) create(ctx context.Context, t events.Thread, s *state, c *creating) (made bool, err error) {
	for range tries {
		if err := h.load(ctx, t, s); err != nil {
			return false, err
		}
		v := &s.view
		if v.recorded() && (v.Gone && v.Forks == 0 || v.expired(time.Now()) || v.lost() || v.Pending && !c.matches(v)) {
			if err := h.remove(ctx, t, s); err != nil {
				return false, err
			}
			if err := h.load(ctx, t, s); err != nil {
				return false, err
			}
		}
		switch {
		case v.Gone:
			return false, conflict(t, "was deleted, and forks of it go on: its name is free when they are gone")
		case v.readable() && c.matches(v):
			return false, nil
		case v.readable():
			return false, conflict(t, "exists, and is not what this request would make")
		}
		err := h.make(ctx, t, s, c)
		if err == nil || !errors.Is(err, record.ErrConflict) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("%w: too many others change %s", record.ErrBusy, nameOf(t))
}

func conflict(t events.Thread, what string) error {
	return refuse(http.StatusConflict, fmt.Sprintf("stream %s %s", nameOf(t), what))
}

// make makes a stream, or goes on with one that was not finished. record.ErrConflict: somebody else did something; look again.
func (h *Handler) make(ctx context.Context, t events.Thread, s *state, c *creating) error {
	rec, rev, began := s.view.stream, s.view.rev, s.view.recorded()
	now := time.Now().UnixMilli()
	if !began {
		if err := h.free(ctx, t); err != nil {
			return err
		}
		rec = stream{ID: ulid.Make().String(), Pending: true, Created: now}
	}
	rec.Type, rec.TTL, rec.Expires, rec.Touched = cmp.Or(c.contentType, typeBytes), c.ttl, c.expires, now
	var src *source
	if c.fork {
		var err error
		if src, err = h.source(ctx, t, &rec, c); err != nil {
			return err
		}
	}
	first, err := h.beginning(t, &rec, c, src)
	if err != nil {
		return err
	}
	// Step 1: the record, and the source's count. A crash leaves a stream that is pending, and does not exist.
	puts := []record.Put{{Key: events.StreamKey(t), Value: rec.encode(), Expect: rev}}
	if src != nil && src.recorded() && !began {
		counted := src.stream
		counted.Forks++
		puts = append(puts, record.Put{Key: events.StreamKey(c.source), Value: counted.encode(), Expect: src.rev})
	}
	if err := h.commit(ctx, puts...); err != nil {
		return err
	}
	// Step 2: the thread. What an earlier request did of it is known by its producer.
	if src != nil && src.at.entries > 0 {
		from := events.Fork{Session: c.source.Session, Thread: c.source.Name, Index: src.at.entries}
		if err := h.cfg.Client.Thread(t).Fork(ctx, from); err != nil && !errors.Is(err, client.ErrThreadExists) {
			return err
		}
	}
	if err := h.load(ctx, t, s); err != nil {
		return err
	}
	if s.view.ID != rec.ID {
		return record.ErrConflict
	}
	if src != nil {
		s.tag = "" // the source's
	}
	if len(first) > 0 && !s.saw(first[0].Producer, 0, first[0].Seq) {
		s.extend(first...)
		if err := h.publish(ctx, s, first...); err != nil {
			return err
		}
	}
	// Step 3: the stream exists.
	rec.Pending = false
	rev, err = h.write(ctx, t, rec, s.view.rev)
	if err != nil {
		s.known = false
		return err
	}
	s.view.stream, s.view.rev, s.view.begun = rec, rev, true
	return nil
}

// free refuses a name that leads to another thread.
func (h *Handler) free(ctx context.Context, t events.Thread) error {
	rs, err := h.cfg.Records.Records(ctx, events.LeftKey(t))
	if err != nil || !rs[0].Exists() {
		return err
	}
	left, err := record.DecodeLeft(rs[0].Value)
	if err == nil && left.To != "" {
		err = conflict(t, fmt.Sprintf("was thread %s, which was renamed: it is %s now", t, left.To))
	}
	return err
}

// beginning is what a new stream's thread begins with, in one batch: its start, unless it is forked, what it has of the append
// in which it leaves its source, the request's body, its end.
func (h *Handler) beginning(t events.Thread, rec *stream, c *creating, src *source) ([]*events.Event, error) {
	var evs []*events.Event
	add := func(kind events.Kind, dialect string, body []byte, ref *events.BodyRef) {
		evs = append(evs, &events.Event{
			Kind: kind, Dialect: dialect, Thread: t, Producer: threads.Ephemeral + rec.ID, Seq: uint64(len(evs)) + 1,
			Time: rec.Touched, Body: body, Ref: ref,
		})
	}
	control := func(op events.Control) { add(events.KindControl, "", op.Encode(), nil) }
	if src == nil || src.at.entries == 0 {
		control(events.Control{Op: events.OpStart, Start: &events.Start{Name: "stream"}})
	}
	if src != nil && len(src.slice) > 0 {
		add(events.KindEntry, raw.Dialect{}.Name(), src.slice, nil)
	}
	empty := c.empty()
	if !empty && isJSON(rec.Type) {
		n, err := messages(c.bytes)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, fmt.Sprintf("the body must be JSON: %v", err))
		}
		empty = n == 0
	}
	if !empty {
		add(events.KindEntry, raw.Dialect{}.Name(), c.bytes, c.ref)
	}
	if c.closed {
		control(events.Control{Op: events.OpEnd, End: &events.End{}})
	}
	return evs, nil
}

// source is the stream that a fork leaves, and where.
type source struct {
	view
	at    offset // whole entries
	slice []byte // what the fork has of the next entry
}

// source finds where a fork leaves its source, and gives the fork what it inherits.
func (h *Handler) source(ctx context.Context, t events.Thread, rec *stream, c *creating) (src *source, err error) {
	if c.source == t {
		return nil, refuse(http.StatusBadRequest, hdrForked+": a stream is no fork of itself")
	}
	v, err := h.settled(ctx, c.source)
	if err != nil {
		return nil, err
	}
	from := h.take(c.source)
	defer h.drop(from)
	switch {
	case v.Gone && v.Forks > 0:
		return nil, conflict(c.source, "was deleted: it cannot be forked")
	case !v.readable() || v.expired(time.Now()):
		return nil, noStream(c.source)
	case c.contentType != "" && !sameType(c.contentType, v.contentType()):
		return nil, refuse(http.StatusConflict, fmt.Sprintf("Content-Type %s: the source's is %s", c.contentType, v.contentType()))
	}
	rec.Type = v.contentType()
	if !c.given() {
		rec.TTL, rec.Expires = v.TTL, v.Expires
	}
	src = &source{view: v, at: v.tail()}
	at := c.at
	if rec.From != nil { // an earlier request began
		at = rec.From.Offset
	}
	if at != "" {
		if src.at, err = parseOffset(at); err != nil {
			return nil, err
		}
	}
	if src.at.after(v.tail()) {
		return nil, refuse(http.StatusBadRequest, fmt.Sprintf("%s %s: the source ends at %s", hdrForkOffset, src.at, v.tail()))
	}
	rec.From = &origin{Session: c.source.Session, Thread: c.source.Name, ID: v.ID, Offset: src.at.String(), Sub: c.sub}
	if c.sub == 0 && src.at.bytes == 0 {
		return src, nil
	}
	src.slice, err = h.slice(ctx, from, &v, src.at, c.sub)
	src.at.bytes = 0
	return src, err
}

// slice is the beginning of the entry behind an offset: what the offset counts of it and, beyond, that many bytes or messages.
func (h *Handler) slice(ctx context.Context, s *state, v *view, at offset, sub int64) ([]byte, error) {
	short := refuse(http.StatusBadRequest, fmt.Sprintf("%s %d: the append behind %s has less", hdrForkSub, sub, at))
	for from := at.entries; from < v.tail().entries; {
		steps, err := h.steps(ctx, s, v, from, 1)
		if err != nil || len(steps) == 0 {
			return nil, cmp.Or(err, short)
		}
		from = steps[0].Entry.Index
		if steps[0].Entry.Dialect == "" { // no entry of anybody's
			continue
		}
		if isJSON(v.contentType()) {
			body, _, err := h.whole(ctx, steps[0], wholeBytes)
			if err != nil {
				return nil, err
			}
			return firstMessages(body, sub, short)
		}
		out := window{left: at.bytes + sub, untag: isTagged(steps[0])}
		if out.left > maxJSON {
			return nil, refuse(http.StatusBadRequest, fmt.Sprintf("a fork takes at most %d bytes of an append", maxJSON))
		}
		if err := h.read(ctx, steps[0], &out); err != nil {
			return nil, err
		}
		if out.left > 0 {
			return nil, short
		}
		return out.b, nil
	}
	return nil, short
}

// firstMessages is an array of so many messages of an append of JSON.
func firstMessages(list []byte, n int64, short error) ([]byte, error) {
	out := []byte{'['}
	err := jsonscan.Array(append(append([]byte{'['}, list...), ']'), func(m []byte) bool {
		if n--; n < 0 {
			return false
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, m...)
		return true
	})
	if err == nil && n > 0 {
		err = short
	}
	return append(out, ']'), err
}
