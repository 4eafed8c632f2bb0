package memjs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// drive makes things happen until the work is done: what choose says of what is ready, or time when nothing is.
func drive(t *testing.T, s *memjs.Server, work func(), choose func([]memjs.Action) (memjs.Action, memjs.Fault)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	for {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		ready := s.Ready()
		if len(ready) == 0 {
			s.Rest(time.Second)
			continue
		}
		if a, f := choose(ready); !s.Do(a, f) {
			t.Fatalf("Do(%v) = false, want that what is ready can be done", a)
		}
	}
}

func first(ready []memjs.Action) (memjs.Action, memjs.Fault) { return ready[0], memjs.Fault{} }

func connect(t *testing.T, p nats.InProcessConnProvider) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc := must.Get(nats.Connect("", nats.InProcessServer(p), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond)))(t)
	js := must.Get(jetstream.New(nc))(t)
	return nc, js
}

// TestProductInVirtualTime: Spool's own client publishes, is given what it published, and given it again when it does
// not acknowledge, in a bubble.
func TestProductInVirtualTime(t *testing.T) {
	memjs.Bubble(t, func(t *testing.T) {
		s := memjs.New(memjs.Config{})
		defer s.Close()
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s}))(t)
		defer c.Close()
		must.Do(t, c.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
		th := events.Thread{Session: "s", Name: events.MainThread}
		var evs []*events.Event
		for seq := uint64(1); seq <= 20; seq++ {
			evs = append(evs, &events.Event{Thread: th, Kind: events.KindEntry, Dialect: "raw", Producer: "p",
				Epoch: 1, Seq: seq, Body: make([]byte, 40_000)})
		}
		must.Do(t, c.Events().PublishEvents(t.Context(), evs))
		partition := must.Get(c.Events().NewestEvent(t.Context(), th))(t).Partition
		got := make(chan natsio.Delivery, 100)
		stop := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
		first, begin := <-got, time.Now()
		for range 19 {
			<-got
		}
		again := <-got
		if wait := time.Since(begin); first.Seq != again.Seq || wait < 20*time.Second || wait > 21*time.Second {
			t.Errorf("event %d came first, and %d again after %v; want the first again after 20 s", first.Seq,
				again.Seq, wait)
		}
		stop()
	})
}

// TestDrivenRunsAreRepeated: the same choices lead to the same actions.
func TestDrivenRunsAreRepeated(t *testing.T) {
	run := func(seed int64) (trace []string) {
		memjs.Bubble(t, func(t *testing.T) {
			s := memjs.New(memjs.Config{Manual: true})
			defer s.Close()
			rnd := rand.New(rand.NewSource(seed))
			work := func() {
				nc, js := connect(t, s.Process("a"))
				defer nc.Close()
				other, _ := connect(t, s.Process("b"))
				defer other.Close()
				if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S",
					Subjects: []string{"s.*"}}); err != nil {
					t.Error(err)
				}
				if _, err := other.Subscribe("s.*", func(*nats.Msg) {}); err != nil {
					t.Error(err)
				}
				for i := range 5 {
					if _, err := js.Publish(t.Context(), fmt.Sprint("s.", i), nil); err != nil {
						t.Error(err)
					}
				}
			}
			drive(t, s, work, func(ready []memjs.Action) (memjs.Action, memjs.Fault) {
				a := ready[rnd.Intn(len(ready))]
				if strings.HasPrefix(a.Subject, "_INBOX") {
					a.Subject = "_INBOX"
				}
				trace = append(trace, a.String())
				return ready[slices.IndexFunc(ready, func(r memjs.Action) bool {
					return r.Conn == a.Conn &&
						r.Kind == a.Kind && r.N == a.N
				})], memjs.Fault{}
			})
		})
		return trace
	}
	one := run(1)
	if diff := cmp.Diff(one, run(1)); diff != "" {
		t.Errorf("two runs with the same choices differ:\n%s", diff)
	}
	if len(one) < 10 || cmp.Diff(one, run(2)) == "" {
		t.Errorf("a run has %d actions and is that of other choices, too; want it to depend on the choices", len(one))
	}
}

// TestFaults: what each failure of a publish leaves, and what its publisher is told.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  memjs.Fault
		stored int
		want   error
	}{
		{"none", memjs.Fault{}, 1, nil},
		{"busy", memjs.Busy, 0, &jetstream.APIError{Code: 503, ErrorCode: 10008}},
		{"silence", memjs.Fault{Failure: memjs.Refuse}, 0, context.DeadlineExceeded},
		{"no responders", memjs.Fault{Failure: memjs.NoResponders}, 0, jetstream.ErrNoStreamResponse},
		{"request lost", memjs.Fault{Failure: memjs.DropRequest}, 0, context.DeadlineExceeded},
		{"answer lost", memjs.Fault{Failure: memjs.DropAnswer}, 1, context.DeadlineExceeded},
		{"cut before", memjs.Fault{Failure: memjs.CutBefore}, 0, context.DeadlineExceeded},
		{"cut after", memjs.Fault{Failure: memjs.CutAfter}, 1, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			memjs.Bubble(t, func(t *testing.T) {
				s := memjs.New(memjs.Config{Manual: true})
				defer s.Close()
				work := func() {
					nc, js := connect(t, s)
					defer nc.Close()
					if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S",
						Subjects: []string{"s"}}); err != nil {
						t.Error(err)
					}
					_, err := js.Publish(t.Context(), "s", nil, jetstream.WithRetryAttempts(0))
					var api, want *jetstream.APIError
					if errors.As(c.want, &want) {
						if !errors.As(err, &api) || api.Code != want.Code || api.ErrorCode != want.ErrorCode {
							t.Errorf("Publish = %v, want %v", err, c.want)
						}
					} else if !errors.Is(err, c.want) {
						t.Errorf("Publish = %v, want %v", err, c.want)
					}
				}
				drive(t, s, work, func(ready []memjs.Action) (memjs.Action, memjs.Fault) {
					if a := ready[0]; a.Kind == memjs.In && a.Stream == "S" && a.Subject == "s" {
						return a, c.fault
					}
					return first(ready)
				})
				must.Same(t, len(s.Messages("S")), c.stored, "%d messages are stored, want %d")
			})
		})
	}
}

// TestFrozen: a frozen process is given nothing and nothing is taken of it, and nothing of it is lost.
func TestFrozen(t *testing.T) {
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprint("manual=", manual), func(t *testing.T) {
			memjs.Bubble(t, func(t *testing.T) {
				s := memjs.New(memjs.Config{Manual: manual})
				defer s.Close()
				drive(t, s, func() {
					a, _ := connect(t, s.Process("a"))
					defer a.Close()
					b, _ := connect(t, s.Process("b"))
					defer b.Close()
					got := make(chan string, 10)
					for _, nc := range []*nats.Conn{a, b} {
						if _, err := nc.Subscribe("x", func(m *nats.Msg) { got <- string(m.Data) }); err != nil {
							t.Error(err)
						}
						_ = nc.Flush()
					}
					s.Freeze("a")
					_ = a.Publish("x", []byte("of the frozen one"))
					_ = b.Publish("x", []byte("of the other"))
					_ = b.Flush()
					time.Sleep(time.Second)
					if len(got) != 1 {
						t.Errorf("%d messages came while a process was frozen, want the other's own", len(got))
					}
					s.Thaw("a")
					time.Sleep(time.Second)
					must.Same(t, len(got), 4, "%d messages came, want all %d once the process goes on")
				}, first)
			})
		})
	}
}

// TestCrash: what is stored and what a consumer acknowledged stays, and a client reconnects to another server id.
func TestCrash(t *testing.T) {
	memjs.Bubble(t, func(t *testing.T) {
		s := memjs.New(memjs.Config{})
		defer s.Close()
		nc, js := connect(t, s)
		defer nc.Close()
		st := must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}))(t)
		for range 4 {
			must.Get(js.Publish(t.Context(), "s", nil))(t)
		}
		cons := must.Get(st.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "D",
			AckPolicy: jetstream.AckAllPolicy}))(t)
		for i := range 3 {
			m := must.Get(cons.Next())(t)
			if i < 2 {
				must.Do(t, m.DoubleAck(t.Context()))
			}
		}
		id := nc.ConnectedServerId()
		s.Crash()
		for nc.ConnectedServerId() == id || !nc.IsConnected() {
			time.Sleep(time.Second)
		}
		info := must.Get(cons.Info(t.Context()))(t)
		if info.AckFloor.Stream != 2 || info.NumAckPending != 1 || info.NumPending != 1 {
			t.Errorf("after a crash the consumer is %+v, %d unacknowledged, %d to come; want its floor at 2, 1, 1",
				info.AckFloor, info.NumAckPending, info.NumPending)
		}
	})
}

// TestStale: a direct read may not see the last changes, the next one sees them, and nothing is changed.
func TestStale(t *testing.T) {
	memjs.Bubble(t, func(t *testing.T) {
		behind := 0
		s := memjs.New(memjs.Config{Stale: func(r memjs.Read) int {
			if r.Kind != "direct" {
				return 0
			}
			return behind
		}})
		defer s.Close()
		nc, js := connect(t, s)
		defer nc.Close()
		st := must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"},
			MaxMsgsPerSubject: 1, AllowDirect: true}))(t)
		for i := range 3 {
			must.Get(js.Publish(t.Context(), "s.a", fmt.Append(nil, i)))(t)
		}
		for writes, want := range []string{"2", "1", "0"} {
			behind = writes
			m, err := st.GetLastMsgForSubject(t.Context(), "s.a")
			if err != nil || string(m.Data) != want {
				t.Errorf("a copy that is %d writes behind answers %v, %v, want %s", writes, m, err, want)
			}
		}
		behind = 5
		if _, err := st.GetLastMsgForSubject(t.Context(), "s.a"); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("a copy that knows nothing answers %v, want ErrMsgNotFound", err)
		}
		if got := s.Messages("S"); len(got) != 1 || got[0].Seq != 3 || string(got[0].Data) != "2" {
			t.Errorf("the stream holds %+v after it was read, want what it held", got)
		}
	})
}
