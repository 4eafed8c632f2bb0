package natsio_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestAlone: a persister knows at once whether another one hears it, and which one does no more.
func TestAlone(t *testing.T) {
	server := natstest.Server(t)
	a, b := natsio.PeersOf(natstest.Dial(t, server)), natsio.PeersOf(natstest.Dial(t, server))
	for range 200 {
		if !must.Get(a.Alone(t.Context()))(t) {
			t.Fatal("somebody listens, though nobody does")
		}
	}
	heard := make(chan string, 1)
	gone := func(p natsio.Peers, id string) bool {
		is, err := p.Gone(t.Context(), id)
		return is && err == nil
	}
	if !gone(a, "b") || gone(a, "b.>") || gone(a, "") {
		t.Error("Gone(one who is not there) = false, or true of what is no id")
	}
	stop := must.Get(b.Hear("b", func(said []byte) {
		if len(said) > 0 {
			heard <- string(said)
		}
	}))(t)
	for must.Get(a.Alone(t.Context()))(t) { // until the subscription has arrived
	}
	must.Do(t, a.Say([]byte("hello")))
	must.Same(t, <-heard, "hello", "heard %q, want %q")
	if gone(a, "b") || gone(b, "b") {
		t.Error("Gone(one who hears) = true")
	}
	stop()
	must.Until(t, "it is gone", func() bool { return gone(a, "b") })
}

// TestMayNotAsk: of a persister that may neither hear nor ask where one is asked for, nobody says that it is gone but who may ask; it knows
// by itself that it may not.
func TestMayNotAsk(t *testing.T) {
	not := &server.SubjectPermission{Deny: []string{events.PersisterSubjects}}
	s := must.Get(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "new", Password: "new"}, {Username: "old", Password: "old",
			Permissions: &server.Permissions{Publish: not, Subscribe: not}}}}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("no server")
	}
	dial := func(user string) natsio.Peers {
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: s.ClientURL(), User: user, Password: user}))(t)
		t.Cleanup(c.Close)
		return natsio.PeersOf(c)
	}
	a, b := dial("new"), dial("old")
	must.Get(b.Hear("b", func([]byte) {}))(t)
	_, err := b.Gone(t.Context(), "b")
	must.Is(t, err, record.ErrDenied, "who may not asks of itself")
	if gone, err := a.Gone(t.Context(), "b"); !gone || err != nil {
		t.Errorf("Gone(one who may not hear) = %v, %v: the server knows of nobody there", gone, err)
	}
}
