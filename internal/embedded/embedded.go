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

// Server is a running server. It is an in-process connection provider for natsio.Config.
type Server struct {
	*server.Server
	lock *os.File
	cert *reload.Certificate
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
	opts, cert, err := cfg.options()
	if err != nil {
		return nil, err
	}
	held, err := lock(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := cfg.encrypt(opts); err != nil {
		_ = held.Close()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		_ = held.Close()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	r, done := &reading{streams: map[string]bool{}}, make(chan struct{})
	s.SetLogger(r, false, false)
	go r.tell(cmp.Or(cfg.Log, slog.Default()), done)
	s.Start() // reads every stream first
	close(done)
	s.SetLogger(nil, false, false)
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		_ = held.Close()
		return nil, fmt.Errorf("%w within %v: is %s in use by another process, or its disk full?", ErrStart, startTimeout, cfg.Listen)
	}
	return &Server{Server: s, lock: held, cert: cert}, nil
}

func (cfg Config) options() (_ *server.Options, cert *reload.Certificate, err error) {
	opts := &server.Options{
		ServerName: "spool", JetStream: true, StoreDir: filepath.Join(cfg.Dir, "jetstream"), NoSigs: true, NoLog: true,
		DontListen: cfg.Listen == "", SyncAlways: cfg.Sync == 0, SyncInterval: cfg.Sync, JetStreamMaxStore: cfg.MaxStore,
	}
	if cfg.Auth != "" {
		if err := cfg.authenticate(opts); err != nil {
			return nil, nil, err
		}
	}
	if cfg.Listen == "" {
		return opts, cert, nil
	}
	if cfg.TLS != (TLS{}) {
		if cert, err = cfg.TLS.apply(opts); err != nil {
			return nil, nil, err
		}
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	if !loopback(host) && cfg.Auth == "" {
		return nil, nil, fmt.Errorf("listen address %q is not loopback, and the embedded server lets everybody in: use 127.0.0.1, or make credentials with spool auth init and give them with --auth, or run your own NATS with authentication and name it with --nats URL", cfg.Listen)
	}
	opts.Host = host
	if opts.Port, err = strconv.Atoi(port); err != nil {
		return nil, nil, fmt.Errorf("listen address %q: port: %w", cfg.Listen, err)
	}
	opts.Port = cmp.Or(opts.Port, server.RANDOM_PORT)
	return opts, cert, nil
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
	s.Shutdown()
	s.WaitForShutdown()
	_ = s.lock.Close()
}

// streamShare of the disk limit is what EVENTS and ITEMS each may take, and most of what they need.
const (
	streamShare = 4
	streamMost  = 4 << 30
)

// StreamBytes is how large a stream may be made on this server's disk.
func (s *Server) StreamBytes() int64 {
	limit := int64(streamMost)
	if cfg := s.JetStreamConfig(); cfg != nil && cfg.MaxStore > 0 {
		limit = min(limit, cfg.MaxStore/streamShare)
	}
	return limit
}
