package share

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Peers is where persisters hear each other. Nothing is kept of what is said, and all of it may be lost.
type Peers interface {
	// Alone reports whether nobody hears what is said there, as far as that is known. An error: this persister may not say anything.
	Alone(ctx context.Context) (bool, error)
	Say(b []byte) error
	Hear(f func(b []byte)) (stop func(), err error) // f is called for one at a time, also with what oneself said
	Connected() bool
}

// Partition is one that is consumed.
type Partition struct {
	// Leave gives it to another persister: what came of it is through and acknowledged first, or within some seconds is not.
	Leave func(context.Context)
	Stop  func() // ends it at once
}

// Config says what is divided.
type Config struct {
	ID         string // this persister's, unlike any other's
	Peers      Peers
	Partitions []int
	Begin      func(ctx context.Context, partition int) (Partition, error) // it tries again until ctx ends; an error is for good
	Log        *slog.Logger
}

// Beat is what a persister says.
type Beat struct {
	ID    string `json:"id"`
	Holds []int  `json:"holds,omitempty"` // partitions that it consumes, or begins to
	Young bool   `json:"young,omitempty"` // it has only just begun
	Hello bool   `json:"hello,omitempty"` // the others are to say theirs
	Bye   bool   `json:"bye,omitempty"`   // it ends
}

const (
	every = time.Second
	lease = 6 * time.Second // below what a server waits before it gives a partition of one who is silent to another

	// How long a persister that is not alone waits at its start for what the others hold.
	firstLook = 300 * time.Millisecond

	// For so long one is young, and given nothing where others are not: who dies again and again at its beginning would hold up what it
	// is given for a lease each time.
	youth = 3 * time.Second
)

// Share is a persister's part of the partitions.
type Share struct {
	cfg   Config
	began time.Time
	mute  bool // it may not speak to the others
	beats chan Beat
	ready chan struct{} // a partition was begun or left

	mu     sync.Mutex
	others map[string]*other
	mine   map[int]*held
}

// other is another persister.
type other struct {
	holds []int
	young bool
	heard time.Time
}

// held is a partition of this persister.
type held struct {
	Partition
	began, leaves bool
}

// New makes a share of which nothing is held yet.
func New(cfg Config) *Share {
	return &Share{cfg: cfg, beats: make(chan Beat, 64), ready: make(chan struct{}, 1), others: map[string]*other{}, mine: map[int]*held{}}
}

// Run consumes this persister's part until ctx ends, then stops all of it. An error is one of Begin. Bye is for when what was
// consumed is through.
func (s *Share) Run(ctx context.Context) error {
	s.began = time.Now()
	alone, err := s.cfg.Peers.Alone(ctx)
	g, ctx := errgroup.WithContext(ctx)
	stop := func() {}
	if err == nil {
		stop, err = s.cfg.Peers.Hear(func(b []byte) {
			var beat Beat
			if json.Unmarshal(b, &beat) != nil || beat.ID == "" || beat.ID == s.cfg.ID {
				return
			}
			select {
			case s.beats <- beat:
			case <-ctx.Done():
			}
		})
	}
	if err != nil {
		s.cfg.Log.Warn("this persister does not hear the others: it takes every partition that the server gives it", "error", err)
		alone, s.mute, stop = true, true, func() {}
	}
	defer stop()
	g.Go(func() error { s.run(ctx, g, alone); return nil })
	err = g.Wait()
	var wg sync.WaitGroup
	for _, h := range s.mine {
		if h.Stop != nil {
			wg.Go(h.Stop)
		}
	}
	wg.Wait()
	return err
}

// Bye tells the others that this persister has ended: they need not wait for its lease.
func (s *Share) Bye() { s.say(Beat{Bye: true}) }

// Holds is how many partitions are this persister's now.
func (s *Share) Holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mine)
}

func (s *Share) say(b Beat) {
	if s.mute {
		return
	}
	b.ID, b.Young = s.cfg.ID, s.young()
	text, err := json.Marshal(b)
	if err == nil {
		err = s.cfg.Peers.Say(text)
	}
	if err != nil {
		s.cfg.Log.Debug("the other persisters are not told", "error", err)
	}
}

func (s *Share) young() bool { return time.Since(s.began) < youth }

// tell says what is held.
func (s *Share) tell(hello bool) {
	s.mu.Lock()
	holds := slices.Sorted(maps.Keys(s.mine))
	s.mu.Unlock()
	s.say(Beat{Holds: holds, Hello: hello})
}

func (s *Share) run(ctx context.Context, g *errgroup.Group, alone bool) {
	s.tell(true)
	look := time.NewTimer(firstLook)
	if alone {
		look.Reset(0)
	}
	defer look.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	looked, last := false, time.Now()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			looked = true
		case b := <-s.beats:
			changed = s.hear(b)
		case <-s.ready:
			changed = true
		case now := <-tick.C:
			// Who stood still, or heard nobody because the server was gone, knows nothing of others either.
			s.expire(now, now.Sub(last) > 3*every || !s.cfg.Peers.Connected())
			last = now
			changed = true
		}
		if looked {
			changed = s.plan(ctx, g) || changed
		}
		if changed {
			s.tell(false)
		}
	}
}

// hear notes what another one says, and reports whether it is to be answered.
func (s *Share) hear(b Beat) (answer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Bye {
		delete(s.others, b.ID)
		return false
	}
	s.others[b.ID] = &other{b.Holds, b.Young, time.Now()}
	return b.Hello
}

// expire forgets those that were not heard of for the lease; renewed: it begins anew for all.
func (s *Share) expire(now time.Time, renewed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.others {
		if renewed {
			o.heard = now
		}
		if now.Sub(o.heard) >= lease {
			s.cfg.Log.Warn("another persister is not heard of: its partitions are taken", "persister", id)
			delete(s.others, id)
		}
	}
}

// plan begins and leaves partitions, and reports whether it does.
func (s *Share) plan(ctx context.Context, g *errgroup.Group) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[int]bool{}
	all, grown := []string{s.cfg.ID}, []string(nil)
	if !s.young() {
		grown = append(grown, s.cfg.ID)
	}
	for id, o := range s.others {
		all = append(all, id)
		if !o.young {
			grown = append(grown, id)
		}
		for _, p := range o.holds {
			taken[p] = true
		}
	}
	if len(grown) > 0 {
		all = grown
	}
	of := owned(s.cfg.Partitions, all)
	for _, p := range s.cfg.Partitions {
		own, h := of[p] == s.cfg.ID, s.mine[p]
		switch {
		case own && h == nil && !taken[p]:
			h = &held{}
			s.mine[p] = h
			changed = true
			g.Go(func() error { return s.begin(ctx, p, h) })
		case !own && h != nil && h.began && !h.leaves:
			h.leaves = true
			g.Go(func() error { s.leave(ctx, p, h); return nil })
		}
	}
	return changed
}

func (s *Share) begin(ctx context.Context, p int, h *held) error {
	of, err := s.cfg.Begin(ctx, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	h.Partition, h.began = of, true
	s.mu.Unlock()
	s.passed()
	return nil
}

func (s *Share) leave(ctx context.Context, p int, h *held) {
	h.Leave(ctx)
	s.mu.Lock()
	delete(s.mine, p)
	s.mu.Unlock()
	s.passed()
}

// passed says that a partition was begun or left.
func (s *Share) passed() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
