package dstreams

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spool/pkg/events"
)

// reading is what a GET asks for.
type reading struct {
	from   offset
	now    bool // from the end
	live   string
	cursor string
	wait   time.Duration // of a long poll
}

const (
	livePoll = "long-poll"
	liveSSE  = "sse"
)

// maxWait is the longest that a long poll waits.
const maxWait = time.Minute

func (h *Handler) parseRead(q url.Values) (r reading, err error) {
	r.live, r.cursor, r.wait = q.Get("live"), q.Get("cursor"), h.cfg.LongPoll
	if r.live != "" && r.live != livePoll && r.live != liveSSE {
		return r, refuse(http.StatusBadRequest, fmt.Sprintf("live=%.50q: use %s or %s", r.live, livePoll, liveSSE))
	}
	if s := q.Get("timeout"); s != "" {
		n, err := number("timeout", s)
		if err != nil {
			return r, err
		}
		r.wait = min(time.Duration(min(n, maxTTL))*time.Second, maxWait)
	}
	given := q["offset"]
	switch {
	case len(given) > 1:
		return r, refuse(http.StatusBadRequest, "offset: give one")
	case len(given) == 0 && r.live != "":
		return r, refuse(http.StatusBadRequest, "live="+r.live+" needs an offset: "+fromStart+" or "+fromNow+", or one that the stream gave")
	case len(given) == 0:
	case given[0] == fromNow:
		r.now = true
	default:
		r.from, err = parseOffset(given[0])
	}
	return r, err
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	what, err := h.parseRead(r.URL.Query())
	if err != nil {
		return err
	}
	s := h.take(t)
	defer h.drop(s)
	v, err := h.find(r.Context(), t, s)
	if err != nil {
		return err
	}
	h.touch(r.Context(), t, &v)
	// What agents wrote is never run as a page of this server.
	w.Header().Set("Content-Disposition", "attachment")
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	if what.now {
		what.from = v.tail()
	}
	switch what.live {
	case livePoll:
		return h.poll(w, r, t, s, what)
	case liveSSE:
		return h.sse(w, r, t, s, what)
	}
	if what.now {
		c := v.end()
		h.send(w, &v, &c)
		return nil
	}
	read := func(ctx context.Context, v *view, from offset, most int64) (chunk, error) {
		return h.chunk(ctx, s, v, from, most)
	}
	return h.with(r.Context(), read, &v, what.from, func(c chunk) error {
		if tag := h.tag(w, &v, what.from, &c); has(r, tag) {
			h.mark(w, &c)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		h.send(w, &v, &c)
		return nil
	})
}

// tag names what an answer holds, and says how long it may be kept.
func (h *Handler) tag(w http.ResponseWriter, v *view, from offset, c *chunk) string {
	closed := ""
	if c.done {
		closed = ":closed"
	}
	tag := fmt.Sprintf(`"%s:%s:%s%s"`, v.identity(), from, c.next, closed)
	w.Header().Set("ETag", tag)
	cache := "private, no-cache"
	if !c.tail || c.done { // it will never change
		cache = "private, max-age=60, stale-while-revalidate=300"
	}
	w.Header().Set("Cache-Control", cache)
	return tag
}

// has tells whether the client has what a tag names.
func has(r *http.Request, tag string) bool {
	for _, line := range r.Header.Values("If-None-Match") {
		for _, had := range strings.Split(line, ",") {
			if had = strings.TrimPrefix(strings.TrimSpace(had), "W/"); had == tag || had == "*" {
				return true
			}
		}
	}
	return false
}

// mark writes where a chunk ends into an answer.
func (h *Handler) mark(w http.ResponseWriter, c *chunk) {
	place(w.Header(), c.next, c.done)
	if c.tail {
		w.Header().Set(hdrUpToDate, "true")
	}
}

// send answers with a chunk.
func (h *Handler) send(w http.ResponseWriter, v *view, c *chunk) {
	w.Header().Set("Content-Type", v.contentType())
	h.mark(w, c)
	body := c.body
	if isJSON(v.contentType()) {
		body = c.array()
	}
	w.Header().Set("Content-Length", itoa(int64(len(body))))
	_, _ = w.Write(body) // a client that is gone
}

// poll answers as soon as there is something behind an offset, or the stream is closed, or the time is over.
func (h *Handler) poll(w http.ResponseWriter, r *http.Request, t events.Thread, s *state, what reading) error {
	f, err := h.follow(r.Context(), t, s)
	if err != nil {
		return err
	}
	defer h.unfollow(f)
	over := time.NewTimer(what.wait)
	defer over.Stop()
	for {
		v, moved := f.now()
		if err := h.exists(t, &v); err != nil {
			return err
		}
		var end chunk
		sent := false
		err := h.with(r.Context(), f.chunk, &v, what.from, func(c chunk) error {
			end = c
			if sent = len(c.body) > 0; sent {
				h.tag(w, &v, what.from, &c)
				w.Header().Set(hdrCursor, nextCursor(what.cursor, time.Now()))
				h.send(w, &v, &c)
			}
			return nil
		})
		if err != nil || sent {
			return err
		}
		what.from = end.next
		if !end.tail {
			continue
		}
		if !end.done {
			select {
			case <-moved:
				continue
			case <-over.C:
			case <-r.Context().Done():
				return r.Context().Err()
			}
		}
		h.mark(w, &end)
		w.Header().Set(hdrCursor, nextCursor(what.cursor, time.Now()))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// head tells where a stream ends. It is no use that puts off the end of its TTL.
func (h *Handler) head(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	s := h.take(t)
	defer h.drop(s)
	v, err := h.find(r.Context(), t, s)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", v.contentType())
	if v.TTL != nil {
		w.Header().Set(hdrTTL, itoa(*v.TTL))
	}
	if v.Expires != 0 {
		w.Header().Set(hdrExpires, time.UnixMilli(v.Expires).UTC().Format(time.RFC3339Nano))
	}
	place(w.Header(), v.tail(), v.completed)
	w.WriteHeader(http.StatusOK)
	return nil
}
