package natsio_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// slowRoutes stands before a server's port for routes. What is not the system account's comes late by a delay.
func slowRoutes(t *testing.T, to string, delay time.Duration) (addr string) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			system := new(atomic.Bool)
			go slowly(in, out, delay, system)
			go slowly(out, in, delay, system)
		}
	}()
	return l.Addr().String()
}

// slowly copies what comes from one connection to another. A route says whose it is in its first line.
func slowly(from, to net.Conn, delay time.Duration, system *atomic.Bool) {
	type chunk struct {
		b  []byte
		at time.Time
	}
	late := make(chan chunk, 1<<16)
	go func() {
		defer func() { _ = to.Close() }()
		for c := range late {
			time.Sleep(time.Until(c.at))
			if _, err := to.Write(c.b); err != nil {
				return
			}
		}
	}()
	defer close(late)
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte(`"route_account":"$SYS"`)) {
			system.Store(true)
		}
		c := chunk{bytes.Clone(buf[:n]), time.Now()}
		if !system.Load() {
			c.at = c.at.Add(delay)
		}
		late <- c
	}
}

// TestPullsBeforeTheirServerIsKnown: in a cluster the answer that a consumer stands overtakes the word where its pulls go, and its server
// may have yet to take in what was just written. Who reads gets what is there all the same.
func TestPullsBeforeTheirServerIsKnown(t *testing.T) {
	t.Parallel()
	servers := clusterBehind(t, func(addr string) string { return slowRoutes(t, addr, 150*time.Millisecond) })
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{URL: servers[0].ClientURL()}))(t)
	t.Cleanup(conn.Close)
	must.Eventually(t, "three copies", func() error {
		return conn.Ensure(t.Context(), natsio.Limits{Replicas: 3, EventsBytes: 1 << 20, ItemsBytes: 1 << 20})
	})
	ctx := t.Context()
	for i := range 12 { // of three servers one has the consumer; the client's own is no use here
		for _, policy := range []jetstream.DeliverPolicy{jetstream.DeliverAllPolicy, jetstream.DeliverLastPerSubjectPolicy} {
			last := must.Get(conn.Records().Write(ctx, record.Put{Key: "gc.test", Value: []byte("1"), Expect: record.Any}))(t)
			var read []uint64
			err := conn.Streams().Each(ctx, events.RecordsStream, jetstream.OrderedConsumerConfig{
				FilterSubjects: []string{"$KV.spool.gc.test"}, DeliverPolicy: policy,
			}, func(_ jetstream.Msg, meta *jetstream.MsgMetadata) error {
				read = append(read, meta.Sequence.Stream)
				return nil
			})
			if err != nil || len(read) == 0 || read[len(read)-1] != last {
				t.Fatalf("try %d, policy %d: read %d, %v, want %d at the end", i, policy, read, err, last)
			}
		}
	}
}
