package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/events"
)

// Of two requests that each wait for memory which the other one has, one goes on.
func TestTwoThatWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind, path, begin, end, token string
		size                                int
	}{
		{"lines", "application/x-ndjson", "/v1/events", `{"session":"s","dialect":"raw","body":"`, "\"}\n", "", 6 << 20},
		{"entries", "application/json", linesPath, `"`, `"`, "", 6 << 20},
		{"lines of a token of several", "application/x-ndjson", linesPath, `"`, "\"\n", writer, 3 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := httpapi.Config{Publisher: &sink{}, Memory: 8 << 20, Patience: 2 * time.Second}
			if c.token != "" {
				cfg.Tokens = tokens(t)
			}
			url := start(t, cfg)
			for round := range 4 {
				var both, halves sync.WaitGroup
				var stored atomic.Int64
				halves.Add(2)
				for range 2 {
					conn := dial(t, url, c.path, c.kind, c.token, "")
					both.Go(func() {
						res, err := http.ReadResponse(bufio.NewReader(conn), nil)
						if err != nil { // it was cut off in the middle
							return
						}
						body, _ := io.ReadAll(res.Body)
						if res.StatusCode < 300 && bytes.Contains(body, []byte(`"ok":true`)) {
							stored.Add(1)
						}
					})
					both.Go(func() {
						half := strings.Repeat("x", c.size/2)
						_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(c.begin+half), c.begin+half)
						halves.Done()
						halves.Wait()
						_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(half+c.end), half+c.end)
					})
				}
				both.Wait()
				if stored.Load() == 0 {
					t.Errorf("round %d: neither of the two is stored", round)
				}
			}
		})
	}
}

// storing takes 20 ms to store, and counts.
type storing struct{ stored atomic.Int64 }

func (s *storing) PublishEvents(_ context.Context, evs []*events.Event) error {
	time.Sleep(20 * time.Millisecond)
	s.stored.Add(int64(len(evs)))
	return nil
}

// Who asks for one place, or for some memory, has it beside two tokens that hold all of it and always ask for more.
func TestTheOneThatHoldsLeastIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    httpapi.Config
		size   int
		greedy int // requests of a token at a time
	}{
		"places": {httpapi.Config{Writers: 4}, 10, 32},
		"memory": {httpapi.Config{Memory: 8 << 20}, 1 << 20, 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &storing{}
			c.cfg.Publisher, c.cfg.Tokens = out, tokens(t)
			url := start(t, c.cfg)
			body := `"` + strings.Repeat("x", c.size) + `"`
			ctx, stop := context.WithCancel(t.Context())
			post := func(token string) int {
				req := must.Get(http.NewRequestWithContext(ctx, "POST", url+linesPath, strings.NewReader(body)))(t)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer "+token)
				res, err := http.DefaultClient.Do(req)
				if err != nil { // it was cut off in the middle, or has ended
					return 0
				}
				_ = res.Body.Close()
				return res.StatusCode
			}
			var greedy sync.WaitGroup
			for _, token := range []string{writer, narrow} {
				for range c.greedy {
					greedy.Go(func() {
						for ctx.Err() == nil {
							post(token)
						}
					})
				}
			}
			must.Until(t, "the greedy ones", func() bool { return out.stored.Load() > int64(4*c.greedy) })
			for range 10 {
				must.Same(t, post(chief), 202, "one beside the greedy ones = %d, want %d")
			}
			stop()
			greedy.Wait()
		})
	}
}
