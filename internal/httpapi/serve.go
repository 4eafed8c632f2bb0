package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"spool/internal/natsio"
	"spool/pkg/client"
)

// For is the API on a connection. token may be empty; log may be nil.
func For(conn *natsio.Conn, token string, log *slog.Logger) http.Handler {
	return New(Config{Publisher: conn, Inbox: conn, Client: client.New(conn).Serving(), Token: token, Log: log, Ready: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return conn.Verify(ctx)
	}})
}

// Server is an HTTP server with limits on everything a client can hold up, but for the length of a stream.
func Server(h http.Handler, addr string) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// ErrListen is wrapped by the refusal of an address.
var ErrListen = errors.New("refused to listen")

// Listen opens an address: one of this machine, or any other when there is a token (DESIGN 11).
func Listen(addr, token string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrListen, addr, err)
	}
	if token == "" && !loopback(host) {
		return nil, fmt.Errorf("%w: %q is reached from other machines and there is no token: use 127.0.0.1, or give a token file", ErrListen, addr)
	}
	return net.Listen("tcp", addr)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// minToken is the shortest token that is taken, in bytes.
const minToken = 16

// ReadToken reads a token from a file; white space around it does not count.
func ReadToken(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token file %s: want one word of at least %d characters; make one with: openssl rand -hex 32", file, minToken)
	}
	return token, nil
}

// drainTime is how long requests may go on after the end of the server's context.
const drainTime = 10 * time.Second

// Serve serves until ctx ends. Then streams stop reading and answer for what they have read, other requests finish, and
// connections close.
func Serve(ctx context.Context, l net.Listener, srv *http.Server) error {
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
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
