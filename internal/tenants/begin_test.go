package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/tenants"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Of several who begin a session as the user of the HTTP side one does.
func TestNewSessionAsIngest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{
		URL: s.url(), NKey: s.seeds["acme/ingest"], Inbox: tenants.User{Name: "ingest"}.Inbox(), Scope: events.Everywhere,
	}))(t)
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const callers = 8
	c, told, began := client.New(conn), make(chan error, callers), 0
	for i := range callers {
		go func() { told <- c.Session("fresh").New(ctx, fmt.Sprintf("/w%d", i), "") }()
	}
	for range callers {
		if err := <-told; err == nil {
			began++
		} else if !errors.Is(err, client.ErrThreadExists) {
			t.Errorf("NewSession = %v", err)
		}
	}
	var out strings.Builder
	must.Get(s.acme.Thread(events.Thread{Session: "fresh", Name: events.MainThread}).Export(ctx, &out))(t)
	if n := strings.Count(out.String(), `"type":"session"`); began != 1 || n != 1 {
		t.Errorf("%d of %d began it, and it has %d headers, want 1 and 1", began, callers, n)
	}
}
