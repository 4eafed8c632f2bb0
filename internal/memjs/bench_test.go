package memjs_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
)

func BenchmarkConnect(b *testing.B) {
	s := memjs.New(memjs.Config{})
	defer s.Close()
	for b.Loop() {
		nc := must.Get(nats.Connect("", nats.InProcessServer(s)))(b)
		nc.Close()
	}
}

// BenchmarkPublish is a publish and its ack through nats.go, one at a time.
func BenchmarkPublish(b *testing.B) {
	s := memjs.New(memjs.Config{})
	defer s.Close()
	nc := must.Get(nats.Connect("", nats.InProcessServer(s)))(b)
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"},
			MaxMsgs: 1000})
	}
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	for b.Loop() {
		must.Get(nc.Request("s", data, nats.DefaultTimeout))(b)
	}
}

// BenchmarkServerAlone is the server's share: the protocol's bytes in, a publish stored, the ack's bytes out.
func BenchmarkServerAlone(b *testing.B) {
	s := memjs.New(memjs.Config{})
	defer s.Close()
	nc := must.Get(nats.Connect("", nats.InProcessServer(s)))(b)
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"},
			MaxMsgs: 1000})
	}
	if err != nil {
		b.Fatal(err)
	}
	conn := must.Get(s.InProcessConn())(b)
	defer conn.Close()
	buf := make([]byte, 4096)
	ask := func(text []byte) {
		_, err := conn.Write(text)
		if err == nil {
			_, err = conn.Read(buf)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	ask([]byte("CONNECT {}\r\nSUB r 1\r\n"))
	pub := append(append([]byte("PUB s r 200\r\n"), make([]byte, 200)...), "\r\n"...)
	for b.Loop() {
		ask(pub)
	}
}

// BenchmarkEnsure makes Spool's streams and consumers on a new server.
func BenchmarkEnsure(b *testing.B) {
	for b.Loop() {
		s := memjs.New(memjs.Config{})
		c, err := natsio.Dial(context.Background(), natsio.Config{InProcess: s})
		if err == nil {
			err = c.Ensure(context.Background(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30})
		}
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
		s.Close()
	}
}
