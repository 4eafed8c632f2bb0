package dstreams

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"spool/pkg/events"
)

// heartbeat is how often an event stream says that it lives, and counts as a use of the stream.
const heartbeat = 15 * time.Second

// control is what follows each event with data, and comes alone where there is none.
type control struct {
	Next     string `json:"streamNextOffset"`
	Cursor   string `json:"streamCursor,omitempty"` // not when it is closed: there is nothing to come back for
	UpToDate bool   `json:"upToDate,omitempty"`
	Closed   bool   `json:"streamClosed,omitempty"`
}

// sse streams from an offset until the stream is closed or removed, the client is gone, or the time is over, in which case the
// client asks again.
func (h *Handler) sse(w http.ResponseWriter, r *http.Request, t events.Thread, s *state, what reading) error {
	ctx := r.Context()
	f, err := h.follow(ctx, t, s)
	if err != nil {
		return err
	}
	defer h.unfollow(f)
	over, beat := time.NewTimer(h.cfg.SSE), time.NewTicker(heartbeat)
	defer over.Stop()
	defer beat.Stop()
	for begun := false; ; begun = true {
		v, moved := f.now()
		c, err := h.piece(w, r, f, &v, &what, begun)
		if err != nil && !begun {
			return err
		}
		if err != nil || c.done {
			return nil
		}
		for wait := c.tail; wait; {
			select {
			case <-moved:
				wait = false
			case <-beat.C:
				h.touch(ctx, t, &v)
				if err := push(w, []byte(":\n\n")); err != nil {
					return nil
				}
			case <-over.C:
				return nil
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// piece writes what a stream has behind the offset, which moves on.
func (h *Handler) piece(w http.ResponseWriter, r *http.Request, f *follower, v *view, what *reading, begun bool) (end chunk, err error) {
	if err := h.exists(f.thread, v); err != nil {
		return end, err
	}
	err = h.with(r.Context(), f.chunk, v, what.from, func(c chunk) error {
		end = c
		end.body = nil
		if !begun {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-cache")
			if !isText(v.contentType()) {
				w.Header().Set(hdrEncoding, "base64")
			}
		}
		if begun && len(c.body) == 0 && c.next == what.from && !c.done {
			return nil // it moved, and not for a reader
		}
		what.from = c.next
		follows := control{Next: c.next.String(), UpToDate: c.tail, Closed: c.done}
		if !c.done {
			follows.Cursor = nextCursor(what.cursor, time.Now())
		}
		text, err := json.Marshal(follows)
		if err != nil {
			return err
		}
		out := appendData(nil, v, &c)
		return push(w, append(append(append(out, "event: control\ndata:"...), text...), "\n\n"...))
	})
	return end, err
}

// appendData is the event of a chunk's data, if it has any.
func appendData(out []byte, v *view, c *chunk) []byte {
	if len(c.body) == 0 {
		return out
	}
	body := c.body
	switch {
	case isJSON(v.contentType()):
		body = c.array()
	case !isText(v.contentType()):
		body = base64.StdEncoding.AppendEncode(nil, body)
	}
	out = append(out, "event: data\n"...)
	for len(body) > 0 || body != nil {
		line, rest := cutLine(body)
		out = append(out, "data:"...)
		if len(line) > 0 && line[0] == ' ' {
			out = append(out, ' ') // a reader takes one away
		}
		out, body = append(append(out, line...), '\n'), rest
	}
	return append(out, '\n')
}

// cutLine cuts a line off, at any of the ends of line that a reader of events knows; rest is nil behind the last one.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil
	}
	line, rest = b[:i], b[i+1:]
	if b[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest[:len(rest):len(rest)]
}

// push writes a piece of an event stream, and gets it out.
func push(w http.ResponseWriter, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
