package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spool/internal/access"
	"spool/internal/claudestore"
	"spool/internal/ingest"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/reload"
	"spool/internal/scrub"
	"spool/pkg/client"
	"spool/pkg/events"
)

// For is the API on a connection. Of cfg it sets what the connection gives: Publisher, Inbox, Client and Ready.
func For(conn *natsio.Conn, cfg Config) http.Handler {
	cfg.Publisher, cfg.Inbox, cfg.Client = conn.Events(), conn.Inbox(), client.New(conn).Internal().Serving()
	cfg.claude = claudestore.On(conn, cfg.Client)
	records := conn.Records()
	cfg.records = &records
	cfg.newest = func(ctx context.Context) (uint64, error) {
		seqs, err := conn.Streams().LastSeqs(ctx, events.ItemsStream)
		return seqs[events.ItemsStream], err
	}
	stores := &stores{server: natsadmin.New(conn)}
	cfg.Publisher, cfg.stores = telling{cfg.Publisher, stores}, stores
	cfg.Ready = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		if err := ready(ctx, conn); err != nil {
			return err
		}
		return stores.ask(ctx)
	}
	return New(cfg)
}

// readyTime is how long an answer to whether the process is ready may take.
const readyTime = 5 * time.Second

const (
	storesAgain = 10 * time.Second // how long it is believed that the server stores
	stopsAgain  = time.Second      // and that it does not
	tellsAgain  = 30 * time.Second // how long a publish without an answer counts, where nothing else can be found out
)

// stores asks now and then whether the server stores. Who asks meanwhile is told what the last answer was.
type stores struct {
	server interface{ Stores(context.Context) error }

	mu   sync.Mutex
	at   time.Time // of last; zero: ask
	last error

	denied bool // we may not find out: what publishes find counts
	failed atomic.Pointer[failedPublish]
}

// failedPublish is the last publish, if it had no answer.
type failedPublish struct {
	at  time.Time
	err error
}

// telling tells what publishes find.
type telling struct {
	ingest.Publisher
	stores *stores
}

func (t telling) PublishEvents(ctx context.Context, evs []*events.Event) error {
	err := t.Publisher.PublishEvents(ctx, evs)
	switch {
	case err == nil:
		t.stores.failed.Store(nil)
	case errors.Is(err, record.ErrUnknown) && !errors.Is(ctx.Err(), context.Canceled):
		t.stores.failed.Store(&failedPublish{time.Now(), err})
	}
	return err
}

// ask is why the server takes no writes, if it takes none.
func (s *stores) ask(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failed.Load()
	again := storesAgain
	if s.last != nil {
		again = stopsAgain
	}
	switch {
	case s.denied && failed != nil && time.Since(failed.at) < tellsAgain:
		return fmt.Errorf("%w: %v", natsadmin.ErrStopped, failed.err)
	case s.denied:
		return nil
	case time.Since(s.at) < again && (s.last != nil || failed == nil || failed.at.Before(s.at)):
		return s.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTime/2) // the answer is for others, too
	defer cancel()
	err := s.server.Stores(ctx)
	if errors.Is(err, record.ErrDenied) {
		s.denied, err = true, nil
	}
	s.last, s.at = err, time.Now()
	return err
}

// why adds to the error of a publish that had no answer what is known of its cause.
func (s *stores) why(ctx context.Context, err error) error {
	if s == nil || !errors.Is(err, record.ErrUnknown) || ctx.Err() != nil {
		return err
	}
	if why := s.ask(ctx); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// mostLag is how many events may wait for their persister before the process counts as not ready.
const mostLag = 1_000_000

// ready is why entries could not be stored and read: a stream is missing, not as it should be, or not what it was, or
// nobody takes them in.
func ready(ctx context.Context, conn *natsio.Conn) error {
	if err := conn.Verify(ctx); err != nil {
		return err
	}
	if err := scrub.NotReady(ctx, conn.Records()); err != nil {
		return err
	}
	b, err := conn.Events().Backlog(ctx)
	if err != nil {
		return err
	}
	if lag := b.Pending + b.Unacked; lag > mostLag {
		return fmt.Errorf("%d events wait for a persister, more than %d: is one running?", lag, mostLag)
	}
	return nil
}

// Server is an HTTP server with limits on everything a client can hold up, but for the length of a stream. A connection
// of HTTP/2, which there is with TLS only, has at most as many requests at a time as Server says; the others wait.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 128, WriteByteTimeout: answerTime, SendPingTimeout: time.Minute, PingTimeout: answerTime,
		},
	}
}

// ErrListen is wrapped by the refusal of an address.
var ErrListen = errors.New("refused to listen")

// Listener is an open address, with whom it lets in how.
type Listener struct {
	net.Listener
	tokens *access.Tokens
	cert   *reload.Certificate // nil: no TLS
	log    *slog.Logger
}

// URL is the address as clients write it.
func (l *Listener) URL() string {
	if l.cert != nil {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// CheckListen says what is wrong with an address to listen at, whatever listens there.
func CheckListen(addr string, tokens *access.Tokens) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrListen, addr, err)
	}
	if !tokens.Required() && !loopback(host) {
		return fmt.Errorf("%w: %q is reached from other machines and there is no token: use 127.0.0.1, or give a token file", ErrListen, addr)
	}
	return nil
}

// Listen opens an address: one of this machine, or any other when there are tokens (DESIGN 11). Of cfg it takes Tokens,
// Cert, Key and Log.
func Listen(addr string, cfg Config) (*Listener, error) {
	err := CheckListen(addr, cfg.Tokens)
	if err != nil {
		return nil, err
	}
	l := &Listener{tokens: cfg.Tokens, log: cfg.Log}
	if l.cert, err = reload.OpenCertificate(cfg.Cert, cfg.Key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	if l.Listener, err = net.Listen("tcp", addr); err != nil || l.cert == nil {
		return l, err
	}
	shown := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	l.cert.Serve(shown)
	l.Listener = tls.NewListener(l.Listener, shown)
	return l, nil
}

// follow takes tokens and certificate anew when their files change, until ctx ends.
func (l *Listener) follow(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() { l.tokens.Follow(ctx, l.log) })
	if l.cert != nil {
		following.Go(func() { l.cert.Follow(ctx, l.log) })
	}
	following.Wait()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// CheckOrigins refuses what is no origin of a web page.
func CheckOrigins(origins []string) error {
	var errs []error
	cross := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := cross.AddTrustedOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("origin %q: want it as in https://example.com: %w", origin, err))
		}
	}
	return errors.Join(errs...)
}

// drainTime is how long requests may go on after the end of the server's context.
const drainTime = 10 * time.Second

// Serve serves until ctx ends. Then streams stop reading and answer for what they have read, other requests finish, and
// connections close.
func Serve(ctx context.Context, l *Listener, srv *http.Server) error {
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	if l.log != nil {
		srv.ErrorLog = slog.NewLogLogger(l.log.Handler(), slog.LevelWarn)
	}
	following, stop := context.WithCancel(ctx)
	var doors sync.WaitGroup
	doors.Go(func() { l.follow(following) })
	defer doors.Wait()
	defer stop()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-done
	return err
}
