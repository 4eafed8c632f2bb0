package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
)

// TestNewSessionOnce: of several who begin a session under one name one does.
func TestNewSessionOnce(t *testing.T) {
	r := newRig(t)
	const callers = 8
	told := make(chan error)
	for i := range callers {
		go func() { told <- r.Session("s").New(t.Context(), fmt.Sprintf("/w%d", i), "") }()
	}
	began := 0
	for range callers {
		if err := <-told; err == nil {
			began++
		} else if !errors.Is(err, client.ErrThreadExists) {
			t.Errorf("NewSession = %v", err)
		}
	}
	var out strings.Builder
	must.Get(r.Thread(thread("s")).Export(t.Context(), &out))(t)
	if n := strings.Count(out.String(), `"type":"session"`); began != 1 || n != 1 {
		t.Errorf("%d of %d began it, and it has %d headers, want 1 and 1", began, callers, n)
	}
}

// TestNewSessionAgainLater: who begins a session while no persister runs, gives up and tries again, begins it once.
func TestNewSessionAgainLater(t *testing.T) {
	conn := natstest.Conn(t)
	c := client.New(conn)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		if err := c.Session("s").New(ctx, "/w", ""); err == nil {
			t.Error("it is there without a persister")
		} else {
			t.Log(err)
		}
		cancel()
	}
	stop := must.Get(persister(conn))(t)
	defer stop()
	var out strings.Builder
	must.Get(c.Thread(thread("s")).Export(t.Context(), &out))(t)
	must.Same(t, strings.Count(out.String(), `"type":"session"`), 1, "it has %d headers, want %d")
}
