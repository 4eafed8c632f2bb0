// Package embedded runs a JetStream server in this process, on a data directory: what `spool up` and `spool demo` use when
// no outside NATS system is named, and what the tests run against.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/reload"
)

// Config of the server. The zero value is not usable: Dir must be set.
type Config struct {
	Dir    string // where JetStream keeps its files
	Listen string // host:port; empty: no socket, in-process connections only. Port 0 picks a free one
	// Sync is when written data is forced to disk: 0 = with every acked write ("always"), so that a power cut loses nothing
	// that was acked; otherwise every so often, and a power cut may lose that much (DESIGN 8).
	Sync time.Duration
	// MaxStore bounds the disk, in bytes; 0 = three quarters of what is free.
	MaxStore int64

	// Auth is a nats-server configuration file with accounts and users; what else is in it is not read. Empty: everybody is let
	// in, and Listen must be loopback.
	Auth string
	TLS  TLS

	// KeyFile holds the secret that what is stored is encrypted with; empty: it is not. See encrypt.go.
	KeyFile string
	Cipher  string // "chacha" or "aes"; empty: chacha

	Log *slog.Logger // is told when a start takes long; nil: slog.Default()
}

// TLS is what clients that come by a socket are shown. The zero value: no encryption.
type TLS struct {
	Cert, Key string // files
	CA        string // file; with it clients must show a certificate that it signed
}

// Server is a running server. It is an in-process connection provider for natsio.Config. All methods but Stop are safe
// for concurrent use.
type Server struct {
	cfg  Config // with the port and the room that the first start chose
	cert *reload.Certificate
	lock *os.File
	now  atomic.Pointer[server.Server] // nil: it is being started again
}

// errStarting: nobody is served for a moment.
var errStarting = errors.New("the NATS server is being started again")

// InProcessConn implements nats.InProcessConnProvider, with the server of now.
func (s *Server) InProcessConn() (net.Conn, error) {
	now := s.now.Load()
	if now == nil {
		return nil, errStarting
	}
	return now.InProcessConn()
}

// ClientURL is where clients reach the server by a socket.
func (s *Server) ClientURL() string {
	scheme := "nats"
	if s.cert != nil {
		scheme = "tls"
	}
	return scheme + "://" + s.cfg.Listen
}

// Follow takes the certificate anew when its files change, until ctx ends.
func (s *Server) Follow(ctx context.Context, log *slog.Logger) {
	if s.cert != nil {
		s.cert.Follow(ctx, log)
	}
}

// ErrStart is wrapped when the server does not come up.
var ErrStart = errors.New("embedded NATS server did not start")

const startTimeout = 20 * time.Second

// Start brings the server up and returns when it takes connections.
func Start(cfg Config) (*Server, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Server{cfg: cfg}
	opts, err := s.options()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ownDirectory(cfg.Dir), ofCluster(cfg.Dir)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := cfg.free(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if s.lock, err = lock(cfg.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := s.start(opts); err != nil {
		_ = s.lock.Close()
		return nil, err
	}
	now := s.now.Load()
	if addr, ok := now.Addr().(*net.TCPAddr); ok {
		host, _, _ := net.SplitHostPort(cfg.Listen)
		s.cfg.Listen = net.JoinHostPort(host, strconv.Itoa(addr.Port))
	}
	s.cfg.MaxStore = now.JetStreamConfig().MaxStore
	return s, nil
}

// start runs a server on the directory, which is locked.
func (s *Server) start(opts *server.Options) error {
	if err := s.cfg.encrypt(opts); err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	now, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	r, done := &reading{streams: map[string]bool{}}, make(chan struct{})
	now.SetLogger(r, false, false)
	go r.tell(s.cfg.Log, done)
	now.Start() // reads every stream first
	close(done)
	now.SetLogger(nil, false, false)
	if !now.ReadyForConnections(startTimeout) || !now.JetStreamEnabled() {
		now.Shutdown()
		now.WaitForShutdown()
		return fmt.Errorf("%w within %v: is %s in use by another process, or the disk full?", ErrStart, startTimeout, s.cfg.Listen)
	}
	s.now.Store(now)
	return nil
}

// options reads what the files say of now, but for the certificate: who follows its files has it as it is.
func (s *Server) options() (_ *server.Options, err error) {
	cfg := s.cfg
	opts := &server.Options{
		ServerName: "spool", JetStream: true, StoreDir: filepath.Join(cfg.Dir, storeFolder), NoSigs: true, NoLog: true,
		DontListen: cfg.Listen == "", SyncAlways: cfg.Sync == 0, SyncInterval: cfg.Sync, JetStreamMaxStore: cfg.MaxStore,
	}
	if cfg.Auth != "" {
		if err := cfg.authenticate(opts); err != nil {
			return nil, err
		}
	}
	if cfg.Listen == "" {
		return opts, nil
	}
	if cfg.TLS != (TLS{}) {
		if s.cert, err = cfg.TLS.apply(opts, s.cert); err != nil {
			return nil, err
		}
	}
	host, port, err := cfg.address()
	if err != nil {
		return nil, err
	}
	opts.Host, opts.Port = host, cmp.Or(port, server.RANDOM_PORT)
	return opts, nil
}

// CheckListen says what is wrong with the address to listen at.
func (cfg Config) CheckListen() error {
	if cfg.Listen == "" {
		return nil
	}
	_, _, err := cfg.address()
	return err
}

func (cfg Config) address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	if !loopback(host) && cfg.Auth == "" {
		return "", 0, fmt.Errorf("listen address %q is not loopback, and the embedded server lets everybody in: use 127.0.0.1, "+
			"or make credentials with spool auth init and give them with --auth, or run your own NATS with authentication and name it with "+
			"--nats URL", cfg.Listen)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: the port is a number up to 65535", cfg.Listen)
	}
	return host, port, nil
}

// free reports that nobody else listens at the address: the server would try again and again, and say nothing.
func (cfg Config) free() error {
	if cfg.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	return l.Close()
}

// loopback reports whether a host name or address reaches this machine only.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Stop ends the server and waits until its files are closed.
func (s *Server) Stop() {
	s.shutdown()
	_ = s.lock.Close()
}

func (s *Server) shutdown() {
	if now := s.now.Swap(nil); now != nil {
		now.Shutdown()
		now.WaitForShutdown()
	}
}

// streamShare of the disk limit is what EVENTS and ITEMS each may take, and most of what they need.
const (
	streamShare = 4
	streamMost  = 4 << 30
)

// StreamBytes is how large a stream may be made on this server's disk.
func (s *Server) StreamBytes() int64 {
	limit := int64(streamMost)
	if s.cfg.MaxStore > 0 {
		limit = min(limit, s.cfg.MaxStore/streamShare)
	}
	return limit
}
