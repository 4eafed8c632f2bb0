package subscriptions

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"spool/internal/dstreams"
	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/webhook"
)

// Types of subscriptions.
const (
	byWebhook = "webhook"
	byPull    = "pull-wake"
)

// Offsets of a stream of which nothing is acked, and the form of all others. Offsets sort as text.
const unread = "-1"

var offsets = regexp.MustCompile(`^\d{16}_\d{16}$`)

const (
	mostLinks    = 5000 // streams of a subscription
	mostName     = 256  // bytes of an id, and of a description
	defaultLease = 30_000
)

// config is what a subscription is made with, as its PUT says it.
type config struct {
	Type        string   `json:"type"`
	Pattern     string   `json:"pattern,omitempty"`
	Streams     []string `json:"streams,omitempty"`
	URL         string   `json:"url,omitempty"`
	WakeStream  string   `json:"wake_stream,omitempty"`
	Lease       int64    `json:"lease_ttl_ms"`
	Description string   `json:"description,omitempty"`
}

// subscription is the value of its record, JSON (docs/format.md). Times are Unix milliseconds.
type subscription struct {
	V          int              `json:"v"`
	ID         string           `json:"id"`
	Config     config           `json:"config"`
	Base       string           `json:"base"` // where whoever made it found this server
	Created    int64            `json:"created"`
	Links      map[string]*link `json:"links,omitempty"`
	Generation int64            `json:"generation"` // of the newest wake
	Wake       *wake            `json:"wake,omitempty"`
	Failed     int              `json:"failed,omitempty"` // deliveries, one after the other
	Next       int64            `json:"next,omitempty"`   // not before is the next

	rev uint64
}

// link is a stream of a subscription.
type link struct {
	Explicit bool   `json:"explicit,omitempty"`
	Glob     bool   `json:"glob,omitempty"`
	Acked    string `json:"acked"`
	Stream   string `json:"stream,omitempty"` // the id of the one that Acked is of

	tail dstreams.Tail
}

// wake is one that is under way: it is to be told of, or somebody works at it.
type wake struct {
	ID     string            `json:"id"`
	Told   bool              `json:"told,omitempty"`   // the wake stream has it
	Holder string            `json:"holder,omitempty"` // the worker that claimed it
	Until  int64             `json:"until,omitempty"`  // the lease
	Token  string            `json:"token,omitempty"`  // SHA-256 of the one that the holder has
	Tails  map[string]string `json:"tails,omitempty"`  // what a webhook that says done has done

	secret string // the token itself, of whoever made it
}

const recordVersion = 1

func (s *subscription) encode() []byte {
	s.V = recordVersion
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

func decode(r record.Record) (s *subscription, err error) {
	s = &subscription{rev: r.Seq}
	if err = jsonscan.Decode(r.Value, s); err == nil && s.V != recordVersion {
		err = fmt.Errorf("version %d; this program knows %d", s.V, recordVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", record.ErrValue, r.Key, err)
	}
	if s.Links == nil {
		s.Links = map[string]*link{}
	}
	return s, nil
}

// check reads the configuration of a request; private: webhooks of this machine or network are taken.
func (c *config) check(private bool) error {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	for i, name := range c.Streams {
		c.Streams[i] = strings.Trim(name, "/")
		if _, err := dstreams.ThreadOf(c.Streams[i]); err != nil {
			return bad("streams: %v", err)
		}
	}
	slices.Sort(c.Streams)
	c.Streams = slices.Compact(c.Streams)
	c.Pattern, c.WakeStream = strings.Trim(c.Pattern, "/"), strings.Trim(c.WakeStream, "/")
	switch {
	case c.Type != byWebhook && c.Type != byPull:
		return bad(`type %.50q: use "webhook" or "pull-wake"`, c.Type)
	case c.Pattern == "" && len(c.Streams) == 0:
		return bad("give a pattern, or streams")
	case len(c.Streams) > mostLinks:
		return bad("%d streams: at most %d", len(c.Streams), mostLinks)
	case len(c.Pattern) > mostName || len(c.Description) > mostName:
		return bad("pattern and description have at most %d bytes each", mostName)
	case c.Lease < 1000 || c.Lease > 600_000:
		return bad("lease_ttl_ms %d: want 1,000 to 600,000", c.Lease)
	case c.Type == byWebhook:
		return checkURL(c.URL, private)
	case c.WakeStream == "":
		return bad("pull-wake needs a wake_stream")
	}
	if _, err := dstreams.ThreadOf(c.WakeStream); err != nil {
		return bad("wake_stream: %v", err)
	}
	return nil
}

// checkURL refuses what is plainly no address for a webhook; what a name leads to is looked at when it is dialled.
func checkURL(address string, private bool) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return no(http.StatusBadRequest, "WEBHOOK_URL_REJECTED", "webhook.url %.200q is no address", address)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
	switch {
	case u.Scheme == "http" && !loopback, u.Scheme != "http" && u.Scheme != "https":
		return no(http.StatusBadRequest, "WEBHOOK_URL_REJECTED", "webhook.url must be https://; http:// is for this machine alone")
	case !private && (loopback || err == nil && !webhook.Public(ip)):
		return no(http.StatusBadRequest, "WEBHOOK_URL_REJECTED",
			"webhook.url is of this machine or network: the server's flag --private-webhooks allows it")
	}
	return nil
}

// same reports whether two configurations are one.
func (c config) same(d config) bool {
	streams := slices.Equal(c.Streams, d.Streams)
	c.Streams, d.Streams = nil, nil
	a, _ := json.Marshal(c) // texts and numbers
	b, _ := json.Marshal(d)
	return streams && string(a) == string(b)
}

// wants reports whether the pattern matches a stream: * is a segment of its name, ** any number of them.
func (s *subscription) wants(name string) bool {
	return s.Config.Pattern != "" && name != s.Config.WakeStream && matches(strings.Split(s.Config.Pattern, "/"), strings.Split(name, "/"))
}

func matches(pattern, name []string) bool {
	for len(pattern) > 0 && pattern[0] != "**" {
		if len(name) == 0 || pattern[0] != "*" && pattern[0] != name[0] {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	if len(pattern) == 0 {
		return len(name) == 0
	}
	for len(pattern) > 1 && pattern[1] == "**" { // else each would be tried with each
		pattern = pattern[1:]
	}
	for i := range len(name) + 1 {
		if matches(pattern[1:], name[i:]) {
			return true
		}
	}
	return false
}

// link links a stream; false: there are too many.
func (s *subscription) link(name string, explicit bool, acked string, stream string) bool {
	l := s.Links[name]
	if l == nil {
		if len(s.Links) >= mostLinks {
			return false
		}
		l = &link{Acked: acked, Stream: stream}
		s.Links[name] = l
	}
	l.Explicit, l.Glob = l.Explicit || explicit, l.Glob || !explicit
	return true
}

// names are those of the streams, in order.
func (s *subscription) names() []string { return slices.Sorted(maps.Keys(s.Links)) }

// pending is a stream that has more than is acked; the links have their tails.
func (s *subscription) pending() (name string, ok bool) {
	for _, name := range s.names() {
		if s.Links[name].pending() {
			return name, true
		}
	}
	return "", false
}

func (l *link) pending() bool {
	return l.tail.ID != "" && l.tail.Offset > l.Acked && l.tail.Offset != dstreams.None.Offset
}

// see takes where a stream ends; true: the link is another one now, or none is left.
func (s *subscription) see(name string, tail dstreams.Tail) (changed bool) {
	l := s.Links[name]
	switch l.tail = tail; {
	case tail.ID == l.Stream:
		return false
	case tail.ID == "" && !l.Explicit:
		delete(s.Links, name)
	default: // another stream has the name, or none
		l.Acked, l.Stream = unread, tail.ID
	}
	return true
}

// begin begins a wake.
func (s *subscription) begin(now time.Time) {
	s.Generation++
	s.Wake = &wake{ID: "w_" + secret(), Tails: map[string]string{}}
	for name, l := range s.Links {
		if l.tail.ID != "" {
			s.Wake.Tails[name] = l.tail.Offset
		}
	}
	if s.Config.Type == byWebhook {
		s.lease("", now)
	}
}

// lease gives the wake to a worker.
func (s *subscription) lease(holder string, now time.Time) {
	s.Wake.Holder, s.Wake.secret = holder, secret()
	s.Wake.Token = digest(s.Wake.secret)
	s.Wake.Until = now.UnixMilli() + s.Config.Lease
}

// over reports whether the lease of the wake is.
func (s *subscription) over(now time.Time) bool {
	return s.Wake.Until != 0 && now.UnixMilli() >= s.Wake.Until
}

func secret() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// work is what a worker says of a wake.
type work struct {
	Wake       string `json:"wake_id"`
	Generation int64  `json:"generation"`
	Acks       []ack  `json:"acks"`
	Done       bool   `json:"done"`
}

type ack struct {
	Stream string `json:"stream"`
	Path   string `json:"path"`
	Offset string `json:"offset"`
}

// fence refuses who does not have the wake that is under way. A token of an earlier wake is not known any more, and not told from a
// wrong one.
func (s *subscription) fence(token string, w work, now time.Time) error {
	if token == "" {
		return no(http.StatusUnauthorized, "TOKEN_INVALID", "send the token of the wake as Authorization: Bearer TOKEN")
	}
	if s.Wake == nil || s.Wake.Token == "" || s.Wake.Token != digest(token) ||
		w.Generation != s.Generation || w.Wake != s.Wake.ID || s.over(now) {
		return no(http.StatusConflict, "FENCED", "this wake is not under way any more")
	}
	return nil
}

// take takes acks, all or none. The links have their tails.
func (s *subscription) take(acks []ack) error {
	for _, a := range acks {
		l := s.Links[a.name()]
		switch {
		case l == nil:
			return no(http.StatusConflict, "INVALID_OFFSET", "%.200q is no stream of this subscription", a.name())
		case !offsets.MatchString(a.Offset), a.Offset < l.Acked, a.Offset > l.tail.Offset:
			return no(http.StatusConflict, "INVALID_OFFSET", "offset %.50q of %.200q: it is from %s, which is acked, to %s, where the stream ends",
				a.Offset, a.name(), l.Acked, l.tail.Offset)
		}
	}
	for _, a := range acks {
		s.Links[a.name()].Acked = a.Offset
	}
	return nil
}

func (a ack) name() string {
	if a.Stream == "" {
		return strings.Trim(a.Path, "/")
	}
	return strings.Trim(a.Stream, "/")
}

// refusal is an answer that is an error.
type refusal struct {
	status     int
	code, text string

	holder     string // of the lease, to who wants it
	generation int64
}

func (r *refusal) Error() string { return r.text }

func no(status int, code, format string, args ...any) error {
	return &refusal{status: status, code: code, text: fmt.Sprintf(format, args...)}
}

func bad(format string, args ...any) error {
	return no(http.StatusBadRequest, "INVALID_REQUEST", format, args...)
}

// isCode reports whether an error is a refusal of a code.
func isCode(err error, code string) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}
