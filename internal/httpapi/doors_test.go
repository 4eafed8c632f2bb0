package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// serveOn runs a handler as the commands do, and returns the address.
func serveOn(t testing.TB, h http.Handler, cfg httpapi.Config, change ...func(*http.Server)) string {
	t.Helper()
	l := must.Get(httpapi.Listen("127.0.0.1:0", cfg))(t)
	srv := httpapi.Server(h)
	for _, do := range change {
		do(srv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- httpapi.Serve(ctx, l, srv) }()
	t.Cleanup(func() {
		_ = srv.Close() // connections that a test left open
		cancel()
		<-served
	})
	return l.Addr().String()
}

func write(t testing.TB, file, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
}

// shown is the serial number of the certificate that a server shows.
func shown(t testing.TB, addr string) int64 {
	t.Helper()
	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}))(t)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// Tokens and certificate change while the server runs: the new ones are in force, the old ones are not, what a revoked
// token has open ends, and a certificate whose key is not there yet, or that is cut, stops nobody.
func TestDoorsChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := natstest.Certificate(t, dir, 1)
	file := filepath.Join(dir, "tokens")
	write(t, file, "old read,write "+reader+"\nother read "+writer+"\n")
	tokens := must.Get(access.ReadFile(file))(t)
	conn, ctx, cl, _ := worldOn(t, httpapi.Config{})
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "hello")
	api := httpapi.For(conn, httpapi.Config{Tokens: tokens})
	addr := serveOn(t, api, httpapi.Config{Tokens: tokens, Cert: cert, Key: key})
	web := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}}
	t.Cleanup(web.CloseIdleConnections)
	ask := func(method, path, token string, body io.Reader) *http.Response {
		req := must.Get(http.NewRequestWithContext(ctx, method, "https://"+addr+path, body))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/x-ndjson")
		res := must.Get(web.Do(req))(t)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	status := func(token string) int { return ask("GET", "/v1/sessions", token, nil).StatusCode }

	const path = "/v1/sessions/s/threads/main"
	revoked, kept := ask("GET", path+"/live", reader, nil), ask("GET", path+"/live", writer, nil)
	if revoked.StatusCode != 200 || kept.StatusCode != 200 || revoked.ProtoMajor != 2 {
		t.Fatalf("event streams = %s, %s, %s, want 200 over HTTP/2", revoked.Status, kept.Status, revoked.Proto)
	}
	lines, pipe := io.Pipe()
	go func() { _, _ = io.WriteString(pipe, `"first"`+"\n") }()
	piped := bufio.NewReader(ask("POST", path+"/entries?dialect=raw", reader, lines).Body)
	if line, err := piped.ReadString('\n'); err != nil || !strings.Contains(line, `"ok":true`) {
		t.Fatalf("line = %q, %v", line, err)
	}

	write(t, file, "new read "+chief+"\nother read "+writer+"\n")
	must.Until(t, "the new token", func() bool { return status(chief) == 200 })
	must.Same(t, status(reader), 401, "the old token = %d, want %d")
	if _, _ = io.ReadAll(revoked.Body); ctx.Err() != nil {
		t.Error("the event stream of the old token does not end")
	}
	go func() { _, _ = io.WriteString(pipe, `"second"`+"\n") }()
	if rest, _ := io.ReadAll(piped); strings.Contains(string(rest), `"ok":true`) {
		t.Errorf("a line of the old token behind the change: %s", rest)
	}
	_ = pipe.Close()
	say(ctx, t, cl, events.Thread{Session: "s", Name: "main"}, "later")
	s := &stream{t: t, in: bufio.NewReader(kept.Body)}
	for e := s.next(); !strings.Contains(e.data, "later"); e = s.next() {
	}

	next, nextKey := natstest.Certificate(t, t.TempDir(), 2)
	whole := must.Get(os.ReadFile(next))(t)
	secret := must.Get(os.ReadFile(nextKey))(t)
	for _, half := range []string{"", string(whole[:len(whole)/2]), string(whole)} {
		write(t, cert, half) // and the old key
		must.Same(t, shown(t, addr), 1, "certificate %d is shown before its key is there, want %d")
	}
	write(t, key, string(secret))
	write(t, cert, string(whole))
	must.Until(t, "the new certificate", func() bool { return shown(t, addr) == 2 })
}
