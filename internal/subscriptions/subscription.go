package subscriptions

import (
	"cmp"
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
	"spool/pkg/events"
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
	mostURL      = 4096
	mostElse     = 16 << 10 // bytes of a record without links
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
	Generation int64            `json:"generation"`      // of the newest wake
	Store      string           `json:"store,omitempty"` // which Seen is of; "": it has seen nothing yet
	Seen       uint64           `json:"seen,omitempty"`  // sequence of records: of what moved up to it all streams were linked that it is to
	Wake       *wake            `json:"wake,omitempty"`
	Failed     int              `json:"failed,omitempty"` // deliveries, one after the other
	Next       int64            `json:"next,omitempty"`   // not before is the next

	rev  uint64
	most int // bytes of the record
	full int // bytes that the links may come to; 0: nobody counted
}

// link is a stream of a subscription.
type link struct {
	Explicit bool   `json:"explicit,omitempty"`
	Glob     bool   `json:"glob,omitempty"`
	Acked    string `json:"acked"`
	Stream   string `json:"stream,omitempty"` // the id of the one that Acked is of
	Anew     bool   `json:"anew,omitempty"`   // it is another one than the worker of the wake was told of

	tail dstreams.Tail
}

// wake is one that is under way: it is to be told of, or somebody works at it.
type wake struct {
	ID     string            `json:"id"`
	Told   string            `json:"told,omitempty"`   // the id of the wake stream that has it
	Holder string            `json:"holder,omitempty"` // the worker that claimed it
	Until  int64             `json:"until,omitempty"`  // the lease
	Token  string            `json:"token,omitempty"`  // SHA-256 of the one that the holder has
	Tails  map[string]string `json:"tails,omitempty"`  // of what is pending: what a webhook that says done has done

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

func decode(r record.Record, most int) (s *subscription, err error) {
	s = &subscription{rev: r.Seq, most: most}
	switch err = jsonscan.Decode(r.Value, s); {
	case err != nil:
	case s.V != recordVersion:
		err = fmt.Errorf("version %d; this program knows %d", s.V, recordVersion)
	case events.SubscriptionKey(s.ID) != r.Key:
		err = fmt.Errorf("it is of subscription %.200q", s.ID)
	case slices.Contains(slices.Collect(maps.Values(s.Links)), nil):
		err = errors.New("a link is null")
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
	var err error
	if c.WakeStream != "" {
		if c.WakeStream, err = dstreams.Spelt(c.WakeStream); err != nil {
			return bad("wake_stream: %v", err)
		}
	}
	if c.Streams, err = c.spelt(c.Streams); err != nil {
		return err
	}
	c.Pattern = strings.Trim(c.Pattern, "/")
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
	case len(c.URL) > mostURL:
		return bad("webhook.url has at most %d bytes", mostURL)
	case c.Type == byWebhook:
		return checkURL(c.URL, private)
	case c.WakeStream == "":
		return bad("pull-wake needs a wake_stream")
	}
	return nil
}

// spelt are the names of streams that are to be linked, each once, and spelt as links are.
func (c *config) spelt(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		name, err := dstreams.Spelt(name)
		if err != nil {
			return nil, bad("streams: %v", err)
		}
		if name == c.WakeStream {
			return nil, bad("streams: %.200q is the wake_stream: each wake would be work for the next", name)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
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
	case !private && webhook.IsPrivate(u.Hostname()):
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

// ways are the segments of a stream's name, in whatever way it is spelt.
func ways(name string) [][]string {
	segments := strings.Split(name, "/")
	long := append(slices.Clip(segments), events.MainThread)
	if spelt, err := dstreams.Spelt(strings.Join(long, "/")); err == nil && spelt == name {
		return [][]string{segments, long}
	}
	return [][]string{segments}
}

// lacks reports whether a stream, of which those are the ways, is to be linked since the pattern matches it: * is a segment of its name,
// ** any number of them.
func (s *subscription) lacks(name string, ways [][]string) bool {
	if l := s.Links[name]; name == "" || l != nil && l.Glob || s.Config.Pattern == "" || name == s.Config.WakeStream {
		return false
	}
	pattern := strings.Split(s.Config.Pattern, "/")
	return slices.ContainsFunc(ways, func(way []string) bool { return matches(pattern, way) })
}

// matches tries no more than each segment of one with each of the other: where it does not go on, the last ** takes one more.
func matches(pattern, name []string) bool {
	p, n, last, taken := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			last, taken = p, n
			p++
		case p < len(pattern) && (pattern[p] == "*" || pattern[p] == name[n]):
			p, n = p+1, n+1
		case last >= 0:
			taken++
			p, n = last+1, taken
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

// room is what a link to a stream may come to in the record, in bytes: its name there, in the tails and in the configuration, the texts
// beside it, two offsets and an id.
func room(name string) int {
	b, _ := json.Marshal(name) // a text
	return 3*len(b) + 256
}

// link links a stream; false: there are too many, or the record could come to have no room for them.
func (s *subscription) link(name string, explicit bool, acked string, stream string) bool {
	l := s.Links[name]
	if l == nil {
		if s.full == 0 {
			for name := range s.Links {
				s.full += room(name)
			}
		}
		if s.full += room(name); len(s.Links) >= mostLinks || s.full > s.most-mostElse {
			s.full -= room(name)
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

// pending reports whether a stream has more than is acked; the links have their tails.
func (s *subscription) pending() bool {
	for _, l := range s.Links {
		if l.pending() {
			return true
		}
	}
	return false
}

func (l *link) pending() bool {
	return l.tail.ID != "" && l.tail.Offset > l.Acked && l.tail.Offset != dstreams.None.Offset
}

// see takes where a stream ends; true: the link is another one now, or none is left.
func (s *subscription) see(name string, tail dstreams.Tail) (changed bool) {
	l := s.Links[name]
	switch l.tail = tail; {
	case tail.ID == "" && !tail.Pending && !l.Explicit && s.Wake == nil:
		delete(s.Links, name)
	case tail.ID == l.Stream:
		if !tail.Closed || l.Explicit || l.pending() || s.Wake != nil || tail.Rev > s.Seen {
			return false
		}
		delete(s.Links, name) // nothing comes any more, and who watches has seen that
	default: // another stream has the name, or none
		l.Anew = l.Anew || l.Stream != "" && s.Wake != nil
		l.Acked, l.Stream = unread, tail.ID
	}
	return true
}

// begin begins a wake.
func (s *subscription) begin(now time.Time) {
	s.Generation++
	s.Wake = &wake{ID: "w_" + secret()}
	s.snap()
	if s.Config.Type == byWebhook {
		s.lease("", now)
	}
}

// snap notes what the worker of the wake is told of. The links have their tails.
func (s *subscription) snap() {
	s.Wake.Tails = map[string]string{}
	for name, l := range s.Links {
		if l.Anew = false; l.pending() {
			s.Wake.Tails[name] = l.tail.Offset
		}
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

// take takes acks, all or none. The links have their tails. One of a stream that is gone, or is another one, since the worker was told of
// it counts for nothing.
func (s *subscription) take(acks []ack) error {
	acks = slices.DeleteFunc(slices.Clone(acks), func(a ack) bool {
		l := s.Links[a.name()]
		return l == nil && s.Wake.Tails[a.name()] != "" || l != nil && l.Anew
	})
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
	name, _ := dstreams.Spelt(cmp.Or(a.Stream, a.Path)) // what is none is not linked
	return name
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
