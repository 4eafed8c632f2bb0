package natsio_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// Who waits for an answer that was lost with its connection is told once there is another one, not when its time is over; who reads
// messages reads on.
func TestAnswerLostWithItsConnection(t *testing.T) {
	t.Parallel()
	w := &wire{InProcessConnProvider: natstest.Server(t)}
	const patience = time.Minute
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: w, Timeout: patience}))(t)
	t.Cleanup(conn.Close)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{}))
	main := events.Thread{Session: "lost", Name: events.MainThread}
	reading, read := make(chan struct{}), make(chan error, 1)
	go func() {
		err := errors.New("the end")
		for _, e := range conn.Items().Follow(t.Context(), []string{events.ItemFilter("lost", "", "")}, natsio.Position{All: true}, func() { close(reading) }) {
			err = e
			break
		}
		read <- err
	}()
	<-reading
	for name, ask := range map[string]func(context.Context) error{ // by what is in the subject
		events.EventSubject(main, events.KindEntry): func(ctx context.Context) error {
			return conn.Events().PublishEvents(ctx, []*events.Event{{Kind: events.KindEntry, Dialect: "raw", Thread: main, Producer: "p", Seq: 1, Body: []byte("x")}})
		},
		events.RecordSubject("label.lost"): func(ctx context.Context) error {
			_, err := conn.Records().Write(ctx, record.Put{Key: "label.lost", Value: []byte("x"), Expect: record.Any})
			return err
		},
		"$JS.API.STREAM.INFO." + events.EventsStream: func(ctx context.Context) error {
			_, err := conn.JetStream().Stream(ctx, events.EventsStream)
			return err
		},
	} {
		must.Is(t, ask(t.Context()), nil, "%s while the wire is whole", name)
		w.mute()
		done, began := make(chan error, 1), time.Now()
		go func() { done <- ask(t.Context()) }()
		must.Until(t, name+" is on its way", func() bool { return w.heardOf(name) })
		w.cut()
		err := <-done
		if took := time.Since(began); !errors.Is(err, record.ErrUnknown) || took > patience/2 {
			t.Errorf("%s: %v after %v, want %v long before %v", name, err, took, record.ErrUnknown, patience)
		}
		must.Poll(func() error { return ask(t.Context()) })
	}
	must.Do(t, conn.Items().PublishItems(t.Context(), []events.Posted{{Subject: events.ItemSubject(main, "text", ""), Data: []byte(`{"n":1}`)}}))
	select {
	case err := <-read:
		must.Is(t, err, nil, "the reader")
	case <-time.After(patience):
		t.Error("the reader is not told of an item")
	}
}

// wire stands between a client and a server.
type wire struct {
	nats.InProcessConnProvider

	mu    sync.Mutex
	conns []net.Conn
	muted bool
	said  []byte // by clients since it is muted
}

// InProcessConn implements nats.InProcessConnProvider.
func (w *wire) InProcessConn() (net.Conn, error) {
	c, err := w.InProcessConnProvider.InProcessConn()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.conns, w.muted = append(w.conns, c), false
	}
	return &heard{c, w}, err
}

// mute loses what the server says, until a client comes again.
func (w *wire) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.muted, w.said = true, nil
}

// heardOf reports whether a client has said something since what the server says is lost.
func (w *wire) heardOf(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.said, []byte(what))
}

// cut closes what is open.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

type heard struct {
	net.Conn
	wire *wire
}

func (h *heard) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	h.wire.mu.Lock()
	defer h.wire.mu.Unlock()
	if h.wire.muted {
		h.wire.said = append(h.wire.said, b[:n]...)
	}
	return n, err
}

func (h *heard) Read(b []byte) (int, error) {
	for {
		n, err := h.Conn.Read(b)
		h.wire.mu.Lock()
		muted := h.wire.muted
		h.wire.mu.Unlock()
		if !muted || err != nil {
			return n, err
		}
	}
}
