package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"

	"spool/internal/family"
	"spool/internal/mapped"
	"spool/internal/record"
	"spool/pkg/events"
)

// Config says where the NATS system is and who we are there. The zero value connects to 127.0.0.1:4222. Names and
// precedence are those of the nats CLI: what is set here wins over the context, which wins over the defaults.
type Config struct {
	URL      string        // nats://host:port[,…]; empty: the context's, else nats://127.0.0.1:4222
	Context  string        // a context saved with "nats context"; empty: none
	Creds    string        // credentials file
	NKey     string        // nkey seed file
	User     string        // user name
	Password string        // password
	Token    string        // token
	TLSCert  string        // client certificate file
	TLSKey   string        // client key file
	TLSCA    string        // CA bundle file
	Inbox    string        // prefix of the subjects where answers come; empty: _INBOX. A user that may not see those of others has its own
	Domain   string        // JetStream domain
	Scope    events.Scope  // of events that have no other; "": none. An ingest user needs one (docs/permissions.md)
	Timeout  time.Duration // of one request, and of connecting; 0 = 5 s
	Name     string        // connection name shown by the server; empty: "spool"

	// Offline is a directory where pkg/client keeps what it cannot publish, until a server takes it; empty: none. With it no
	// server needs to be there when a program begins. OfflineBytes is the most that it may hold; 0 = 1 GiB.
	Offline      string
	OfflineBytes int64

	// InProcess connects to a server in this process without a socket and ignores the addresses above.
	InProcess nats.InProcessConnProvider
	Logger    *slog.Logger
}

// Conn is a connection to JetStream. It is safe for concurrent use.
type Conn struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	denied  denials
	timeout time.Duration
	pipe    *pipe
	streams *streams
	events  sender
	items   sender
	dead    deadBox

	announced announcements
	moves     moves
	asked     sync.Map                  // by name: MessagesOf
	names     atomic.Int64              // of records, that Records.Keys was told of last
	sealed    atomic.Pointer[knownSeal] // of the record bucket; nil: not asked yet
	told      seldom                    // of a foreign record
	terms     atomic.Uint64             // that were begun: Delivery.Term
	looked    atomic.Pointer[look]      // when the store was found usable last
	unserved  sync.Map                  // by partition: unserved
	secret    []byte                    // of this user, see userSecret; nil: everybody is let in
	scope     events.Scope

	toldUnserved seldom

	log *slog.Logger
}

// Dial connects, and goes on reconnecting for as long as the Conn is open. The first connection must succeed, unless there is
// a directory for what is published offline.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{
		timeout: cfg.Timeout, scope: cfg.Scope, log: log, dead: deadBox{turn: newTurn()},
	}
	nc, err := connect(cfg, log, &c.denied)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", unconnected{err})
	}
	c.nc = nc
	if c.secret, err = userSecret(nc); err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if c.timeout <= 0 {
		c.timeout = 5 * time.Second
	}
	c.denied.timeout, c.denied.log = c.timeout, log
	var js jetstream.JetStream
	if cfg.Domain != "" {
		js, err = jetstream.NewWithDomain(nc, cfg.Domain, jetstream.WithDefaultTimeout(c.timeout))
	} else {
		js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(c.timeout))
	}
	c.js = api{js, &c.denied}
	if err == nil {
		c.pipe, err = newPipe(nc, &c.denied)
	}
	if err == nil {
		c.streams, err = newStreams(nc, &c.denied, c.pipe.bytes)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return c, ctx.Err()
}

func connect(cfg Config, log *slog.Logger, denied *denials) (*nats.Conn, error) {
	opts := cfg.options(log, denied)
	if cfg.InProcess != nil {
		return nats.Connect("", append(opts, nats.InProcessServer(cfg.InProcess))...)
	}
	if cfg.Context == "" {
		server := cmp.Or(cfg.URL, nats.DefaultURL)
		if err := CheckURL(server); err != nil {
			return nil, err
		}
		nc, err := nats.Connect(server, opts...)
		return nc, located(err, server)
	}
	if cfg.URL != "" {
		return nil, errors.New("a server is given by NATS_URL or --nats, and a context by NATS_CONTEXT or --context: use one of them")
	}
	nc, _, err := natscontext.Connect(cfg.Context, opts...)
	return nc, located(err, "the server of context "+cfg.Context)
}

// schemes are those of URLs of NATS servers, which may have none.
var schemes = []string{"nats", "tls", "ws", "wss"}

// CheckURL refuses what is no URL of a NATS server, or of several joined by commas.
func CheckURL(servers string) error {
	for _, server := range serversOf(servers) {
		if scheme, _, has := strings.Cut(server, "://"); has && !slices.Contains(schemes, strings.ToLower(scheme)) {
			return fmt.Errorf("%s is no NATS server: its URL begins with nats://, tls://, ws:// or wss://, and NATS has a port of its own, "+
				"as in nats://127.0.0.1:4222", server)
		}
	}
	return nil
}

// ofUser is what a URL says of its user: all that is secret in it.
var ofUser = regexp.MustCompile(`^(\w+://)?.*@`)

// serversOf are the servers that a list names, without what it says of their users.
func serversOf(urls string) []string {
	return mapped.List(strings.Split(urls, ","), func(url string) string { return ofUser.ReplaceAllString(strings.TrimSpace(url), "$1") })
}

// ErrNoServer: nothing listens where a server was looked for.
var ErrNoServer = nats.ErrNoServers

// located is err with the servers that were asked, when none of them answered or let us in, or they cannot be asked. What a URL says of
// its user stays out.
func located(err error, urls string) error {
	refused, silent, wrong := lockedOut(err), errors.Is(err, os.ErrDeadlineExceeded), (*url.Error)(nil)
	switch {
	case errors.As(err, &wrong):
		err = wrong.Err // without the URL, which has a password
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: the server speaks no TLS: name it with nats://, and without certificates", err)
	case !refused && !silent && !errors.Is(err, ErrNoServer) && !errors.As(err, new(*net.OpError)):
		return err
	}
	servers := strings.Join(serversOf(urls), ", ")
	if refused {
		return fmt.Errorf("%w: %s refused the credentials (%w): give those of a user that it knows, by --nkey, --creds, "+
			"--user or --context; spool auth env writes them for a user of spool auth",
			record.ErrDenied, servers, err)
	}
	if silent {
		return fmt.Errorf("%w: is it a NATS server that listens at %s? --nats or NATS_URL names another", err, servers)
	}
	return fmt.Errorf("%w: is one running at %s? --nats or NATS_URL names another", err, servers)
}

// unconnected is why there is no connection, in the family by which a program decides whether it tries again.
type unconnected struct{ error }

func (u unconnected) Unwrap() error { return u.error }

func (u unconnected) Is(target error) bool {
	if errors.Is(u.error, record.ErrDenied) {
		return false
	}
	later := slices.ContainsFunc([]error{
		ErrNoServer, os.ErrDeadlineExceeded, io.EOF, nats.ErrTimeout, nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded,
	}, func(e error) bool { return errors.Is(u.error, e) }) || errors.As(u.error, new(*net.OpError))
	return later && target == family.Unavailable || !later && target == family.Invalid
}

// lockedOut reports whether the server knows no user of these credentials, or none any more.
func lockedOut(err error) bool {
	return slices.ContainsFunc([]error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	}, func(e error) bool { return errors.Is(err, e) })
}

// shutOut counts how often in a row a server refused the credentials of a connection that it had accepted before.
type shutOut struct{ tries atomic.Int64 }

// first counts, and reports whether it is the first time.
func (s *shutOut) first() bool { return s.tries.Add(1) == 1 }

// A server that is away is looked for four times a second; one that lets nobody in is asked more and more rarely: it has to check.
const (
	awayEvery = 250 * time.Millisecond
	shutMost  = 10 * time.Second
)

// delay is the pause between two tries to connect again, with so much chance that a fleet does not come at once.
func (s *shutOut) delay(int) time.Duration {
	wait := min(awayEvery<<min(s.tries.Load(), 8), shutMost)
	return wait + rand.N(wait/2)
}

// pingEvery: a server whose machine is gone closes no connection. It is noticed when the third ping in a row gets no answer, and
// with the 2 minutes that are nats.go's own that takes 6.
const pingEvery = 20 * time.Second

func (cfg Config) options(log *slog.Logger, denied *denials) []nats.Option {
	name, shut := cmp.Or(cfg.Name, "spool"), &shutOut{}
	opts := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery),
		// Credentials that are refused are asked with again: they are being changed, or who says so has lost its own store. nats.go
		// closes the connection for good when that happens twice.
		nats.IgnoreAuthErrorAbort(), nats.CustomReconnectDelay(shut.delay),
		nats.PermissionErrOnSubscribe(true),
		nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			subject, level := "", slog.LevelWarn
			if sub != nil {
				subject = sub.Subject
			}
			switch {
			case lockedOut(err) && shut.first():
				level = slog.LevelError
			case lockedOut(err), denied.complaint(nc, err):
				level = slog.LevelDebug
			}
			log.Log(context.Background(), level, "nats error", "subject", subject, "error", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			denied.lost()
			if err != nil {
				log.Warn("nats disconnected", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			denied.hear()
			shut.tries.Store(0)
			log.Info("nats reconnected", "url", nc.ConnectedUrlRedacted())
		}),
	}
	if cfg.Timeout > 0 {
		opts = append(opts, nats.Timeout(cfg.Timeout))
	}
	if cfg.Offline != "" {
		opts = append(opts, nats.RetryOnFailedConnect(true))
	}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	if cfg.NKey != "" {
		if o, err := nats.NkeyOptionFromSeed(cfg.NKey); err == nil {
			opts = append(opts, o)
		} else {
			opts = append(opts, func(*nats.Options) error { return err })
		}
	}
	if cfg.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(cfg.Inbox))
	}
	if cfg.User != "" {
		opts = append(opts, nats.UserInfo(cfg.User, cfg.Password))
	}
	if cfg.Token != "" {
		opts = append(opts, nats.Token(cfg.Token))
	}
	if cfg.TLSCert != "" || cfg.TLSKey != "" {
		opts = append(opts, nats.ClientCert(cfg.TLSCert, cfg.TLSKey))
	}
	if cfg.TLSCA != "" {
		opts = append(opts, nats.RootCAs(cfg.TLSCA))
	}
	return opts
}

// Close ends the connection at once. What was acked stays; what was not is unknown.
func (c *Conn) Close() {
	c.moves.close()
	c.nc.Close()
}

// begun is an error until the first connection stands: before, nobody knows what a server takes.
func (c *Conn) begun() error {
	if c.MaxPayload() == 0 {
		return fmt.Errorf("%w: no server was reached yet", record.ErrBusy)
	}
	return nil
}

// MaxPayload is the largest message the server takes, in bytes; 0 until the first connection stands.
func (c *Conn) MaxPayload() int { return int(c.nc.MaxPayload()) }

// MaxRecord is how many bytes the value of a record can have.
func (recs Records) MaxRecord() int { return recs.c.MaxPayload() - recordRoom }

// recordRoom is what a record's message leaves below max_payload for its headers.
const recordRoom = 4096

// Connected reports whether the connection stands right now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Server describes the server that the connection stands to.
func (c *Conn) Server() (url, version string) {
	return c.nc.ConnectedUrlRedacted(), c.nc.ConnectedServerVersion()
}

// clustered reports whether the server that the connection stands to is one of a cluster.
func (c *Conn) clustered() bool { return c.nc.ConnectedClusterName() != "" }

// RTT is the time of one round trip to the server.
func (c *Conn) RTT() (time.Duration, error) { return c.nc.RTT() }

// JetStream is nats.go's own view of the connection, for measuring Spool against it and for tests that play another client.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Timeout is how long a request may take.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Log is where what goes wrong beside a call is told.
func (c *Conn) Log() *slog.Logger { return c.log }

// toldFor is how long lies between two lines in the log about one thing.
const toldFor = time.Minute

// seldom says when something may be logged again.
type seldom struct{ last atomic.Int64 }

func (s *seldom) now() bool {
	last := s.last.Load()
	return time.Since(time.Unix(last, 0)) > toldFor && s.last.CompareAndSwap(last, time.Now().Unix())
}
