package share_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/internal/share"
)

// hall is where the persisters of a test hear each other, and the server that gives partitions to them.
type hall struct {
	t    *testing.T
	mu   sync.Mutex
	hear map[string]chan said               // by persister
	deaf map[string]bool                    // those that nothing reaches, and that reach nobody
	held map[int]map[string]context.Context // by partition, who consumes it, until when
	slow time.Duration                      // how long what is said takes

	tells   bool            // the server knows who is gone
	may     map[string]bool // nil: each may hear where it is asked for, and ask; else those
	orphans int             // partitions that were begun as those of one who died
	stuck   map[string]bool // those that cannot begin a partition
	late    map[string]bool // those that begin one some seconds after they were told not to
	max     int             // how many consumed one at the same time, at most
}

func newHall(t *testing.T) *hall {
	return &hall{t: t, hear: map[string]chan said{}, deaf: map[string]bool{}, held: map[int]map[string]context.Context{},
		stuck: map[string]bool{}, late: map[string]bool{}}
}

// said is what arrives at a time.
type said struct {
	text []byte
	at   time.Time
}

// seat is a persister's.
type seat struct {
	*hall
	id   string
	mute bool
}

func (s seat) Alone(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		return false, record.ErrDenied
	}
	return len(s.hear) == 0, nil
}

func (s seat) Say(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf[s.id] {
		return nil
	}
	for id, c := range s.hear {
		if !s.deaf[id] {
			c <- said{b, time.Now().Add(s.slow)}
		}
	}
	return nil
}

func (s seat) Hear(_ string, f func([]byte)) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan said, 1000)
	s.hear[s.id] = c
	go func() {
		for b := range c {
			time.Sleep(time.Until(b.at))
			f(b.text)
		}
	}()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hear, s.id)
		close(c)
	}, nil
}

// Gone is known of none but those that ended or died: one that is deaf is cut off.
func (s seat) Gone(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.may != nil && !s.may[s.id] {
		return false, record.ErrDenied
	}
	return s.tells && (s.hear[id] == nil || s.may != nil && !s.may[id]), nil
}

func (seat) Connected() bool { return true }

// persister is one of a test.
type persister struct {
	*share.Share
	id     string
	cancel func()
	ended  chan struct{}
	h      *hall
}

// taken is a partition that is consumed.
type taken struct{ drop func() }

func (p taken) Leave(context.Context) { time.Sleep(100 * time.Millisecond); p.drop() }
func (p taken) Stop()                 { p.drop() }

var partitions = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

func (h *hall) start(id string, mute bool) *persister {
	ctx, cancel := context.WithCancel(context.Background())
	p := &persister{id: id, cancel: cancel, ended: make(chan struct{}), h: h}
	take := func(of context.Context, part int, yes bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.held[part] == nil {
			h.held[part] = map[string]context.Context{}
		}
		delete(h.held[part], id)
		if yes {
			h.held[part][id] = of
		}
		h.max = max(h.max, len(h.held[part]))
	}
	p.Share = share.New(share.Config{
		ID: id, Peers: seat{h, id, mute}, Partitions: partitions, Log: slog.New(slog.DiscardHandler),
		Begin: func(ctx context.Context, part int, orphan bool) (share.Partition, error) {
			h.mu.Lock()
			if orphan {
				h.orphans++
			}
			h.mu.Unlock()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			h.mu.Lock()
			isStuck := h.stuck[id]
			h.mu.Unlock()
			if h.isLate(id) {
				for ctx.Err() == nil && h.isLate(id) {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(3 * time.Second)
			}
			if isStuck {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			take(ctx, part, true)
			return taken{func() { take(ctx, part, false) }}, nil
		},
	})
	go func() {
		defer close(p.ended)
		if err := p.Run(ctx); err != nil {
			h.t.Error(err)
		}
	}()
	return p
}

func (h *hall) isLate(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late[id]
}

// stop ends a persister in order.
func (p *persister) stop() {
	p.cancel()
	<-p.ended
	p.Bye()
}

// kill ends one without a word.
func (p *persister) kill() {
	p.h.mu.Lock()
	p.h.deaf[p.id] = true
	p.h.mu.Unlock()
	p.cancel()
	<-p.ended
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	close(p.h.hear[p.id]) // the server closes what it subscribed to
	delete(p.h.hear, p.id)
}

// divided checks that each partition is held by one of these, and by each as many as by the others, or one more.
func (h *hall) divided(when string, among ...*persister) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[string]int{}
	for _, part := range partitions {
		if len(h.held[part]) != 1 {
			h.t.Errorf("%s: partition %d is held by %v, want one", when, part, h.held[part])
		}
		for id, of := range h.held[part] {
			if n[id]++; of.Err() != nil {
				h.t.Errorf("%s: %s holds partition %d, and has ended what it consumes it with", when, id, part)
			}
		}
	}
	for _, p := range among {
		if least := len(partitions) / len(among); n[p.id] < least || n[p.id] > least+1 {
			h.t.Errorf("%s: %s holds %d of %d partitions, want %d or one more", when, p.id, n[p.id], len(partitions), least)
		}
	}
}

// TestShares has persisters come, end in order, die, and come at the same moment.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		a := h.start("a", false)
		time.Sleep(100 * time.Millisecond)
		h.divided("one alone, at once", a)
		time.Sleep(10 * time.Second)

		b := h.start("b", false)
		time.Sleep(2 * time.Second)
		h.divided("while the second is young", a)
		time.Sleep(3 * time.Second)
		h.divided("two", a, b)
		c, d := h.start("c", false), h.start("d", false)
		time.Sleep(5 * time.Second)
		h.divided("four", a, b, c, d)
		if h.max != 1 {
			t.Errorf("%d consumed a partition at the same time, want that it is left before it is begun", h.max)
		}

		b.stop()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Second)
		h.divided("one ended", a, c, d)
		a.kill()
		time.Sleep(5 * time.Second)
		if n := c.Holds() + d.Holds(); n == len(partitions) {
			t.Error("the partitions of one that died are taken before its lease is over")
		}
		time.Sleep(3 * time.Second)
		h.divided("one died", c, d)
		c.stop()
		d.stop()

		e, f := h.start("e", false), h.start("f", false)
		time.Sleep(3 * time.Second)
		h.divided("two at the same moment", e, f)
		e.stop()
		f.stop()
	})
}

// TestGone has one die of whom the server knows it, and one be cut off, of whom it does not: for that one its lease counts.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.tells = true
		a, b, c := h.start("a", false), h.start("b", false), h.start("c", false)
		time.Sleep(10 * time.Second)
		h.divided("three", a, b, c)
		had := a.Holds()
		a.kill()
		time.Sleep(3 * time.Second)
		h.divided("one died", b, c)
		must.Same(t, h.orphans, had, "%d were begun as those of one who died, want the %d that it had")

		h.mu.Lock()
		h.deaf["b"] = true
		h.mu.Unlock()
		time.Sleep(4 * time.Second)
		must.Same(t, c.Holds(), len(partitions)/2, "%d are held by the one that is left, while the other one may be there, want %d")
		time.Sleep(5 * time.Second)
		must.Same(t, c.Holds(), len(partitions), "%d are held by the one that is left, want all of %d")
		b.kill()
		c.stop()
	})
}

// TestMayNotHear has one miss a beat that may not hear where it is asked for, as a user of an earlier version: it is not taken for gone.
func TestMayNotHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.tells, h.may = true, map[string]bool{"a": true}
		a, b := h.start("a", false), h.start("b", false)
		time.Sleep(10 * time.Second)
		h.divided("two", a, b)
		for _, deaf := range []bool{true, false} {
			h.mu.Lock()
			h.deaf["b"] = deaf
			h.mu.Unlock()
			time.Sleep(3 * time.Second)
		}
		must.Same(t, h.orphans, 0, "%d were begun as those of one who died, want %d")
		must.Same(t, h.max, 1, "%d consumed a partition at the same time, want %d")
		a.stop()
		b.stop()
	})
}

// TestEndsSlowly has one end whose last commits take longer than it may be silent: it is there until it says goodbye.
func TestEndsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.tells = true
		a, b := h.start("a", false), h.start("b", false)
		time.Sleep(10 * time.Second)
		h.divided("two", a, b)
		a.cancel()
		<-a.ended
		time.Sleep(4 * time.Second)
		must.Same(t, b.Holds(), len(partitions)/2, "%d are held by the other one while the last commits of this one are under way, want %d")
		a.Bye()
		time.Sleep(time.Second)
		h.divided("one has ended", b)
		b.stop()
	})
}

// TestStuck has a persister that says it is there and cannot begin a partition: the others have all of them, and when it can again its
// part is its own.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.stuck["a"] = true
		a := h.start("a", false)
		time.Sleep(100 * time.Millisecond)
		b := h.start("b", false)
		time.Sleep(20 * time.Second)
		h.divided("one is stuck", b)
		time.Sleep(5 * time.Minute)
		h.mu.Lock()
		h.stuck["a"] = false
		h.mu.Unlock()
		time.Sleep(2 * time.Minute)
		h.divided("and is not any more", a, b)
		a.stop()
		b.stop()
	})
}

// TestBegunTooLate has a persister begin what it was told to give up, when that is its own again: it is begun once more.
func TestBegunTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.late["a"] = true
		a := h.start("a", false)
		time.Sleep(100 * time.Millisecond) // a is alone, and begins all
		b := h.start("b", false)
		time.Sleep(time.Second) // a is told to give up a half
		h.mu.Lock()
		h.late["a"] = false
		h.mu.Unlock()
		b.stop()
		time.Sleep(20 * time.Second)
		h.divided("the other one has gone", a)
		a.stop()
	})
}

// TestLateAnswers has those that are there answer late: the one that comes begins nothing that they hold.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.slow = 700 * time.Millisecond
		a := h.start("a", false)
		time.Sleep(10 * time.Second)
		b := h.start("b", false)
		time.Sleep(20 * time.Second)
		h.divided("two", a, b)
		must.Same(t, h.max, 1, "%d consumed a partition at the same time, want %d")
		a.stop()
		b.stop()
		time.Sleep(time.Minute) // what is said still arrives
	})
}

// TestMute has a persister that may not speak to the others take everything, as one of an earlier version does.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		a := h.start("a", true)
		b := h.start("b", false)
		time.Sleep(10 * time.Second)
		if a.Holds() != len(partitions) || b.Holds() != len(partitions) {
			t.Errorf("hold %d and %d, want all of %d", a.Holds(), b.Holds(), len(partitions))
		}
		a.stop()
		b.stop()
	})
}

// TestSilence has a persister be cut off from the others and hear them again.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		a, b := h.start("a", false), h.start("b", false)
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		h.deaf["b"] = true
		h.mu.Unlock()
		time.Sleep(10 * time.Second)
		if a.Holds() != len(partitions) || b.Holds() != len(partitions) {
			t.Errorf("cut off from each other they hold %d and %d, want all of %d", a.Holds(), b.Holds(), len(partitions))
		}
		h.mu.Lock()
		h.deaf["b"] = false
		h.mu.Unlock()
		time.Sleep(3 * time.Second)
		h.divided("they hear each other again", a, b)
		a.stop()
		b.stop()
	})
}

// TestAnyOrder has persisters come, end and die in any order: some seconds after the last of it all partitions are divided.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			h := newHall(t)
			var there []*persister
			for i := range 2 + r.IntN(12) {
				switch n := r.IntN(4); {
				case n < 2 || len(there) == 0:
					there = append(there, h.start(fmt.Sprintf("p%d", i), false))
				default:
					one := r.IntN(len(there))
					if n == 2 {
						there[one].stop()
					} else {
						there[one].kill()
					}
					there = slices.Delete(there, one, one+1)
				}
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			}
			time.Sleep(15 * time.Second)
			if len(there) > 0 {
				h.divided(fmt.Sprintf("seed %d", seed), there...)
			}
			for _, p := range there {
				p.stop()
			}
		})
	}
}

// TestFewChangeHands counts how many partitions another persister costs those that are there.
func TestFewChangeHands(t *testing.T) {
	for n := 1; n < 8; n++ {
		moved := 0
		const tries = 100
		for try := range tries {
			var ids []string
			for i := range n + 1 {
				ids = append(ids, fmt.Sprintf("%d-%d", try, i))
			}
			before, after := share.Owned(partitions, ids[:n]), share.Owned(partitions, ids)
			for _, p := range partitions {
				if before[p] != after[p] {
					moved++
				}
			}
		}
		least := float64(len(partitions)) / float64(n+1)
		t.Logf("%d and one more: %.1f of %d partitions change hands, %.1f at least", n, float64(moved)/tries, len(partitions), least)
		if float64(moved)/tries > 3*least {
			t.Errorf("%d and one more: %.1f partitions change hands", n, float64(moved)/tries)
		}
	}
}
