package client_test

import (
	"context"
	"errors"
	"testing"

	"spool/internal/family"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/sleep"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Work that does not get back what it gave away while it waited is told that, whatever it found: neither does it go on, nor is a persister
// said to be behind.
func TestWhatIsNotGivenBack(t *testing.T) {
	conn := natstest.Conn(t)
	c, taken := client.New(conn), family.Unavailable.New("another one has it")
	for name, ask := range map[string]func(context.Context) error{
		"settled": func(ctx context.Context) error { return c.Thread(thread("settled")).Settled(ctx) },
		"session": func(ctx context.Context) error { return c.Session("session").Await(ctx) },
		"head":    func(ctx context.Context) error { _, err := c.Thread(thread("head")).AwaitHead(ctx); return err },
	} {
		must.Do(t, conn.Events().PublishEvents(t.Context(), []*events.Event{say("p", 1, thread(name))}))
		ctx := sleep.WithAside(t.Context(), func(wait func() error) error {
			stop := must.Get(persister(conn))(t)
			defer stop()
			must.Do(t, wait())
			return taken
		})
		if err := ask(ctx); !errors.Is(err, taken) || errors.Is(err, client.ErrBehind) {
			t.Errorf("%s: %v, want %v alone", name, err, taken)
		}
	}
}
