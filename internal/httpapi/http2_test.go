package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// Kinds and flags of frames (RFC 9113, 6).
const (
	kindData, kindHeaders, kindReset, kindSettings     = 0, 1, 3, 4
	kindPing, kindGoAway, kindWindow, kindContinuation = 6, 7, 8, 9

	endStream, endHeaders = 1, 4
)

// frames is a client of HTTP/2 that sends what it likes.
type frames struct {
	t testing.TB
	*tls.Conn
	in *bufio.Reader
}

type frame struct {
	kind    byte
	stream  uint32
	payload []byte
}

// speak opens a connection. Settings are pairs of an id and a value.
func speak(t testing.TB, addr string, settings ...uint32) *frames {
	t.Helper()
	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))(t)
	t.Cleanup(func() { _ = c.NetConn().Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	f := &frames{t, c, bufio.NewReader(c)}
	must.Get(io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))(t)
	var payload []byte
	for i := 0; i+1 < len(settings); i += 2 {
		payload = binary.BigEndian.AppendUint16(payload, uint16(settings[i]))
		payload = binary.BigEndian.AppendUint32(payload, settings[i+1])
	}
	_ = f.send(kindSettings, 0, 0, payload)
	return f
}

func (f *frames) send(kind, flags byte, stream uint32, payload []byte) error {
	n := len(payload)
	b := append(make([]byte, 0, 9+n), byte(n>>16), byte(n>>8), byte(n), kind, flags)
	_, err := f.Write(append(binary.BigEndian.AppendUint32(b, stream), payload...))
	return err
}

// next is the next frame; an error is the end of the connection.
func (f *frames) next() (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return frame{}, err
	}
	got := frame{head[3], binary.BigEndian.Uint32(head[5:]), make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))}
	_, err := io.ReadFull(f.in, got.payload)
	return got, err
}

// ends reports whether the server ends the connection, or says that it will.
func (f *frames) ends() bool {
	for {
		got, err := f.next()
		if err != nil {
			return !strings.Contains(err.Error(), "timeout")
		}
		if got.kind == kindGoAway {
			return true
		}
	}
}

// packed is a list of headers, none of which the table of HPACK has (RFC 7541, 6.2.2).
func packed(pairs ...string) (block []byte) {
	for i, text := range pairs {
		if i%2 == 0 {
			block = append(block, 0)
		}
		n := len(text)
		if n < 127 {
			block = append(block, byte(n))
		} else {
			block = append(block, 127)
			for n -= 127; n >= 128; n >>= 7 {
				block = append(block, byte(n)|128)
			}
			block = append(block, byte(n))
		}
		block = append(block, text...)
	}
	return block
}

func asked(method, path, token string, more ...string) []byte {
	return packed(append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path,
		"authorization", "Bearer " + token, "content-type", "application/json"}, more...)...)
}

func served(t testing.TB, h http.Handler, change ...func(*http.Server)) (addr string, other *http.Client) {
	t.Helper()
	cert, key := natstest.Certificate(t, t.TempDir(), 1)
	other = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}}
	return serveOn(t, h, httpapi.Config{Cert: cert, Key: key}, change...), other
}

// A connection of HTTP/2 that floods, stalls or lies is ended, runs no more handlers than it may, and holds up no other.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	var running, most, bombs atomic.Int64
	addr, other := served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Bomb") != "" {
			bombs.Add(1)
		}
		if r.URL.Path != "/wait" {
			return
		}
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-r.Context().Done()
	}), func(srv *http.Server) { srv.IdleTimeout = time.Second })
	wait := asked("GET", "/wait", "")
	flood := func(f *frames, n int, do func(i int) error) {
		go func() {
			for i := range n {
				if do(i) != nil {
					return
				}
			}
		}()
		if !f.ends() {
			t.Error("the connection goes on")
		}
	}
	for name, attack := range map[string]func(t *testing.T, f *frames){
		"rapid reset": func(t *testing.T, f *frames) {
			flood(f, 100_000, func(i int) error {
				id := uint32(2*i + 1)
				_ = f.send(kindHeaders, endHeaders|endStream, id, wait)
				return f.send(kindReset, 0, id, []byte{0, 0, 0, 8})
			})
		},
		"many streams": func(t *testing.T, f *frames) {
			for i := range uint32(200) {
				_ = f.send(kindHeaders, endHeaders|endStream, 2*i+1, wait)
			}
			for refused := 0; refused < 200-128; refused++ {
				for got := (frame{}); got.kind != kindReset; {
					var err error
					if got, err = f.next(); err != nil {
						t.Fatalf("after %d refused streams: %v", refused, err)
					}
				}
			}
		},
		"continuations": func(t *testing.T, f *frames) {
			_ = f.send(kindHeaders, endStream, 1, wait)
			flood(f, 1000, func(int) error {
				return f.send(kindContinuation, 0, 1, packed("x-bomb", strings.Repeat("x", 16000)))
			})
		},
		"empty continuations": func(t *testing.T, f *frames) {
			_ = f.send(kindHeaders, endStream, 1, wait)
			flood(f, 10_000_000, func(int) error { return f.send(kindContinuation, 0, 1, nil) })
		},
		"headers that never end": func(t *testing.T, f *frames) {
			_ = f.send(kindHeaders, endStream, 1, wait)
			if !f.ends() {
				t.Error("the connection stays open")
			}
		},
		"a table's bomb": func(t *testing.T, f *frames) {
			block := append(wait[:len(wait):len(wait)], 0x40) // into the table
			block = append(block, packed("x-bomb", strings.Repeat("x", 3000))[1:]...)
			for range 12_000 { // 36 MB
				block = append(block, 0x80|62)
			}
			_ = f.send(kindHeaders, endHeaders|endStream, 1, block)
			for got, err := f.next(); err == nil && got.kind != kindGoAway; got, err = f.next() {
				if got.kind == kindHeaders && got.payload[0] == 0x88 {
					t.Error("it is answered with 200")
				}
				if got.kind == kindHeaders {
					return // with 431
				}
			}
		},
		"pings without reading": func(t *testing.T, f *frames) {
			for range 3_000_000 {
				if f.send(kindPing, 0, 0, make([]byte, 8)) != nil {
					return
				}
			}
			t.Error("the connection goes on")
		},
		"settings without reading": func(t *testing.T, f *frames) {
			for range 3_000_000 {
				if f.send(kindSettings, 0, 0, nil) != nil {
					return
				}
			}
			t.Error("the connection goes on")
		},
		"window beyond its bound": func(t *testing.T, f *frames) {
			flood(f, 2, func(int) error { return f.send(kindWindow, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, speak(t, addr))
			if res, err := other.Get("https://" + addr + "/healthz"); err != nil || res.StatusCode != 200 {
				t.Errorf("another client = %v, %v", res, err)
			}
		})
	}
	if got := most.Load(); got > 2*128 {
		t.Errorf("%d handlers ran at a time, want at most 128 of each of two connections", got)
	}
	if bombs.Load() > 0 {
		t.Error("headers beyond the bound reached a handler")
	}
}

// What HTTP/2 has no place for stores nothing: a body that is not as long as it says, headers that would be two in
// HTTP/1.1, two identities.
func TestHTTP2Smuggling(t *testing.T) {
	t.Parallel()
	out := &sink{}
	addr, _ := served(t, httpapi.New(httpapi.Config{Publisher: out, Tokens: tokens(t)}))
	const path = "/v1/sessions/a/threads/main/entries?dialect=raw"
	for name, block := range map[string][]byte{
		"plain":                asked("POST", path, writer),
		"shorter than it says": asked("POST", path, writer, "content-length", "9"),
		"longer than it says":  asked("POST", path, writer, "content-length", "1"),
		"chunked":              asked("POST", path, writer, "transfer-encoding", "chunked"),
		"line end in a value":  asked("POST", path, writer, "x-a", "b\r\ncontent-length: 3"),
		"line end in a name":   asked("POST", path, writer, "x-a: b\r\nx-c", "d"),
		"upper case":           asked("POST", path, writer, "X-A", "b"),
		"pseudo-header behind": asked("POST", path, writer, ":path", "/v1/sessions/b/threads/main/entries?dialect=raw"),
		"two authorities":      asked("POST", path, writer, ":authority", "evil.example"),
		"connection":           asked("POST", path, writer, "connection", "keep-alive"),
		"line end in the path": asked("POST", path+" HTTP/1.1\r\nx: y", writer),
		"no leading slash":     asked("POST", path[1:], writer),
		"two identities":       asked("POST", path, writer, "authorization", "Bearer "+reader),
		"gzip":                 asked("POST", path, writer, "content-encoding", "gzip"),
	} {
		f := speak(t, addr)
		_ = f.send(kindHeaders, endHeaders, 1, block)
		_ = f.send(kindData, endStream, 1, []byte(`"x"`))
		for {
			got, err := f.next()
			if err != nil || got.kind == kindReset || got.kind == kindGoAway {
				break
			}
			if got.kind == kindHeaders && got.stream == 1 {
				break // answered
			}
		}
		_ = f.NetConn().Close()
		stored := out.sessions()
		if (stored == "a") != (name == "plain") {
			t.Errorf("%s: stored in %q", name, stored)
		}
		out.mu.Lock()
		out.evs = nil
		out.mu.Unlock()
	}
}

// A reader that opens no window holds its place no longer than one that takes nothing does; an event stream that has
// nothing to say goes on.
func TestHTTP2Stalls(t *testing.T) {
	t.Parallel()
	conn, ctx, cl, _ := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	say(ctx, t, cl, th, strings.Repeat("x", 100_000))
	const answer = 300 * time.Millisecond
	addr, other := served(t, httpapi.For(conn, httpapi.Config{Requests: 2, Answer: answer}))
	live, err := other.Get("https://" + addr + "/v1/sessions/s/threads/main/live")
	if err != nil || live.StatusCode != 200 || live.ProtoMajor != 2 {
		t.Fatalf("event stream = %v, %v", live, err)
	}
	defer live.Body.Close()
	quiet := time.Now()
	f := speak(t, addr, 4, 0) // no window for any stream
	for i := range uint32(8) {
		_ = f.send(kindHeaders, endHeaders|endStream, 2*i+1, asked("GET", "/v1/sessions/s/threads/main/items/1?full=1", ""))
	}
	must.Until(t, "a place for another client", func() bool {
		res, err := other.Get("https://" + addr + "/v1/sessions/s/threads/main/items?last=1")
		return err == nil && res.StatusCode == 200 && time.Since(quiet) > 4*answer
	})
	say(ctx, t, cl, th, "later")
	s := &stream{t: t, in: bufio.NewReader(live.Body)}
	for e := s.next(); !strings.Contains(e.data, "later"); e = s.next() {
	}
}
