package dstreams

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/events"
)

// stream is the value of a stream's record, JSON (docs/format.md, "Stream record").
type stream struct {
	V    int    `json:"v"`
	ID   string `json:"id"` // a new one for each stream, also under a name that was used before
	Type string `json:"type"`

	Created int64 `json:"created"` // Unix milliseconds, as all times here
	// Touched is when the stream was read or written last, or up to an eighth of TTL before.
	Touched int64  `json:"touched,omitempty"`
	TTL     *int64 `json:"ttl,omitempty"`     // seconds from the last use
	Expires int64  `json:"expires,omitempty"` // whatever its use

	Pending bool    `json:"pending,omitempty"` // it is being made
	Gone    bool    `json:"gone,omitempty"`    // it was deleted, and forks hold its place
	Forks   int     `json:"forks,omitempty"`   // how many there are
	From    *origin `json:"from,omitempty"`
}

// origin is where a fork leaves its source.
type origin struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	ID      string `json:"id,omitempty"` // of the stream; empty: of a thread that is none
	Offset  string `json:"offset"`
	Sub     int64  `json:"sub,omitempty"` // bytes or messages of the next append
}

func (o origin) thread() events.Thread { return events.Thread{Session: o.Session, Name: o.Thread} }

const recordVersion = 1

func (s *stream) encode() []byte {
	s.V = recordVersion
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

func decodeStream(b []byte) (s stream, err error) {
	if err = jsonscan.Decode(b, &s); err == nil && s.V != recordVersion {
		err = fmt.Errorf("version %d; this program knows %d", s.V, recordVersion)
	}
	if err != nil {
		err = fmt.Errorf("%w: stream: %w", record.ErrValue, err)
	}
	return s, err
}

// expired tells whether its time is over. A stream in use never is, and one that is not lives up to an eighth longer than its TTL.
func (s *stream) expired(now time.Time) bool {
	ms := now.UnixMilli()
	return s.Expires != 0 && ms >= s.Expires || s.TTL != nil && ms >= s.Touched+s.slack()+*s.TTL*1000
}

// slack is by how much Touched may be behind the last use, in milliseconds.
func (s *stream) slack() int64 {
	if s.TTL == nil {
		return 0
	}
	return *s.TTL * 1000 / 8
}

const (
	typeJSON  = "application/json"
	typeBytes = "application/octet-stream"
)

func checkType(contentType string) error {
	if _, _, err := mime.ParseMediaType(contentType); err != nil {
		return refuse(http.StatusBadRequest, fmt.Sprintf("Content-Type %.100q is none: %v", contentType, err))
	}
	return nil
}

// sameType compares content types; parameters do not count.
func sameType(a, b string) bool {
	s, _, _ := strings.Cut(a, ";")
	t, _, _ := strings.Cut(b, ";")
	return strings.EqualFold(strings.TrimSpace(s), strings.TrimSpace(t))
}

func isJSON(contentType string) bool { return sameType(contentType, typeJSON) }

// isText tells whether a stream's bytes can stand in server-sent events as they are.
func isText(contentType string) bool {
	return isJSON(contentType) || strings.HasPrefix(strings.ToLower(contentType), "text/")
}

// expiry is what a request says about the end of a stream.
type expiry struct {
	ttl     *int64
	expires int64
}

func parseExpiry(h http.Header) (e expiry, err error) {
	ttl, at := h.Get(hdrTTL), h.Get(hdrExpires)
	if ttl != "" && at != "" {
		return e, refuse(http.StatusBadRequest, hdrTTL+" and "+hdrExpires+": give one of them")
	}
	if ttl != "" {
		n, err := number(hdrTTL, ttl)
		if err != nil {
			return e, err
		}
		n = min(n, maxTTL)
		e.ttl = &n
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return e, refuse(http.StatusBadRequest, fmt.Sprintf("%s %.50q: want a time like 2026-01-02T15:04:05Z", hdrExpires, at))
		}
		e.expires = t.UnixMilli()
	}
	return e, nil
}

// maxTTL keeps sums of times within their range, in seconds: a hundred years.
const maxTTL = 100 * 365 * 24 * 3600

func (e expiry) given() bool { return e.ttl != nil || e.expires != 0 }

func (e expiry) matches(s *stream) bool {
	return e.expires == s.Expires && cmp.Compare(seconds(e.ttl), seconds(s.TTL)) == 0
}

func seconds(ttl *int64) int64 {
	if ttl == nil {
		return -1
	}
	return *ttl
}
