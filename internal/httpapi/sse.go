package httpapi

import (
	"bytes"
	"net/http"
)

// retryAfter is what a browser waits before it connects again, in milliseconds.
const retryAfter = "2000"

// sse writes an event stream. Events are gathered until flush.
type sse struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
	buf bytes.Buffer
}

// startSSE begins an event stream: from here on there is no other answer.
func startSSE(w http.ResponseWriter) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s := &sse{w: w, ctl: http.NewResponseController(w)}
	s.buf.WriteString("retry: " + retryAfter + "\n\n")
	return s
}

// gathered is from how many bytes on what was gathered is sent at once.
const gathered = 64 << 10

// send adds an event. data has no newline: JSON on one line.
func (s *sse) send(event, id string, data []byte) error {
	s.buf.WriteString("event: ")
	s.buf.WriteString(event)
	if id != "" {
		s.buf.WriteString("\nid: ")
		s.buf.WriteString(id)
	}
	s.buf.WriteString("\ndata: ")
	s.buf.Write(data)
	s.buf.WriteString("\n\n")
	if s.buf.Len() < gathered {
		return nil
	}
	return s.flush()
}

// beat shows that the stream lives.
func (s *sse) beat() error {
	s.buf.WriteString(":\n\n")
	return s.flush()
}

// flush sends what was gathered. A reader that does not take it in time (patient) is let go: it comes again and goes on.
func (s *sse) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	s.buf.Reset()
	if s.buf.Cap() > 4*gathered {
		s.buf = bytes.Buffer{}
	}
	return s.ctl.Flush()
}
