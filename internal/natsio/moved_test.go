package natsio_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// far is a connection that is some milliseconds away in either direction.
type far struct {
	net.Conn
	out chan sent
}

type sent struct {
	at time.Time
	b  []byte
}

const away = 10 * time.Millisecond

func (c *far) Write(b []byte) (int, error) {
	c.out <- sent{time.Now().Add(2 * away), append([]byte(nil), b...)} // both ways at once
	return len(b), nil
}

type farServer struct{ natstest.Running }

func (s *farServer) InProcessConn() (net.Conn, error) {
	c, err := s.Running.InProcessConn()
	if err != nil {
		return nil, err
	}
	f := &far{c, make(chan sent, 1<<16)}
	go func() {
		for m := range f.out {
			time.Sleep(time.Until(m.at))
			if _, err := c.Write(m.b); err != nil {
				return
			}
		}
	}()
	return f, nil
}

// Who reads what moved meanwhile comes to an end, also over a network of 20 ms beside a persister that commits 250 times a second.
func TestMovedEnds(t *testing.T) {
	s := natstest.Server(t)
	near := natstest.Dial(t, s)
	must.Do(t, near.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	js := near.JetStream()
	const subjects = 20_000
	for i := range subjects {
		must.Get(js.PublishAsync(events.RecordSubject(fmt.Sprintf("thread.s%d.main", i)), []byte("x")))(t)
		if i%1000 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	c := natstest.Dial(t, &farServer{s})
	back := must.Get(natsio.ReadBackward(t.Context(), c.Records(), 256, natsio.Gap{}, 0, func(string) bool { return false }))(t)
	stop, busy := make(chan struct{}), sync.WaitGroup{}
	written := 0
	busy.Go(func() {
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				written++
				_, _ = js.PublishAsync(events.RecordSubject(fmt.Sprintf("thread.s%d.main", written%500)), []byte("y"))
			}
		}
	})
	time.Sleep(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := back.Moved(ctx)
	close(stop)
	busy.Wait()
	must.Do(t, err)
}

// What is written while the last of what moved is read has moved, too.
func TestMovedToTheEnd(t *testing.T) {
	c := natstest.Conn(t)
	put := func(key string) {
		must.Get(c.Records().Write(t.Context(), record.Put{Key: key, Value: []byte("1"), Expect: record.Any}))(t)
	}
	put("counter.a")
	put("counter.b")
	written := false
	back := must.Get(natsio.ReadBackward(t.Context(), c.Records(), 256, natsio.Gap{}, 0, func(key string) bool {
		if key == "counter.c" && !written {
			written = true
			put("counter.b")
		}
		return true
	}))(t)
	put("counter.c")
	var keys []string
	for _, r := range must.Get(back.Moved(t.Context()))(t) {
		keys = append(keys, r.Key)
	}
	must.SameAll(t, keys, []string{"counter.b", "counter.c"}, "moved are %v, want %v")
}
