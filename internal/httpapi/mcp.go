package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spool/internal/access"
	"spool/internal/mcp"
	"spool/internal/quota"
	"spool/pkg/events"
)

const (
	mostMessage = 64 << 10    // bytes of the body of a request of an agent
	mostBatch   = 16          // messages in it: old versions of the protocol take several
	mostCall    = time.Minute // how long one is served
)

// peers is what agents are shown.
func (a *api) peers() mcp.Config {
	cfg := mcp.Config{Client: a.cfg.Client, Asked: a.prompted, Found: a.found, Version: a.cfg.Version}
	if a.cfg.MCPAnswers {
		cfg.Answerer = "mcp"
	}
	if a.cfg.Quotas != nil {
		cfg.Charge = func(ctx context.Context, session string) error {
			use := quota.Use{Session: session, User: events.UserFrom(ctx), Token: access.From(ctx).Name, Entries: 1}
			return a.cfg.Quotas.Wait(ctx, 0, use)
		}
	}
	return cfg
}

// serveMCP serves a message of the Model Context Protocol, or some. What cannot be answered in time is cut off.
func (a *api) serveMCP(w http.ResponseWriter, r *http.Request) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostMessage))
	if err != nil {
		return fmt.Errorf("%w: body: %w", ErrRequest, err)
	}
	in := json.NewDecoder(bytes.NewReader(b))
	if begin, err := in.Token(); err == nil && begin == json.Delim('[') {
		for n := 0; in.More(); n++ {
			if err := in.Decode(new(json.RawMessage)); err != nil || n == mostBatch {
				return fmt.Errorf("%w: a batch has %d messages at most", ErrRequest, mostBatch)
			}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), mostCall)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(b))
	told := &refusals{ResponseWriter: w}
	a.tools.ServeHTTP(told, r)
	if ctx.Err() != nil {
		return begunError{context.Cause(ctx)}
	}
	if told.status != 0 {
		refuse(w, told.status, string(told.text))
	}
	return nil
}

// refusals keeps what a handler says in plain text why it serves nothing, and lets all else pass.
type refusals struct {
	http.ResponseWriter
	status int
	text   []byte
}

func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *refusals) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusals) Write(b []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(b)
	}
	w.text = append(w.text, bytes.TrimSpace(b)...)
	return len(b), nil
}
