package client_test

import (
	"context"
	"errors"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// TestLeftByAnother: who renames or removes a thread is told when another operation came first, or took the session away behind.
func TestLeftByAnother(t *testing.T) {
	rename := func(to string) func(context.Context, *client.Client, events.Thread) error {
		return func(ctx context.Context, c *client.Client, th events.Thread) error {
			return c.Thread(th).Rename(ctx, to)
		}
	}
	remove := func(ctx context.Context, c *client.Client, th events.Thread) error { return c.Thread(th).Remove(ctx) }
	del := func(ctx context.Context, c *client.Client, th events.Thread) error {
		_, err := c.Session(th.Session).Delete(ctx, client.Deletion{})
		return err
	}
	for name, ops := range map[string][]func(context.Context, *client.Client, events.Thread) error{
		"removed twice": {remove, remove}, "renamed twice": {rename("a"), rename("b")}, "removed, then renamed": {remove, rename("a")},
		"renamed, then removed": {rename("a"), remove}, "removed, then deleted": {remove, del}, "renamed, then deleted": {rename("a"), del},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := natstest.Conn(t)
			c := client.New(conn)
			ctx := limited(t)
			th := thread("s")
			publishApplied(ctx, t, conn, th)
			told := make([]chan error, len(ops))
			for i, op := range ops { // each decides before anything has happened
				told[i] = make(chan error, 1)
				go func() { told[i] <- op(ctx, c, th) }()
				for n, want := uint64(0), uint64(i+2); n < want; {
					n = must.Get(conn.Events().NewestEvent(ctx, th))(t).Seq
				}
			}
			stop := must.Get(persister(conn))(t)
			defer stop()
			first, second := <-told[0], <-told[1]
			if first != nil && !errors.Is(first, client.ErrRemoved) {
				t.Errorf("the first one is told %v", first)
			}
			var was *client.Renamed
			if second != nil && !errors.Is(second, client.ErrRefused) && !errors.As(second, &was) && !errors.Is(second, threads.ErrNoThread) {
				t.Errorf("the second one is told %v", second)
			}
		})
	}
}
