package share

import (
	"context"
	"encoding/json"
	"errors"
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
	// Hear calls f for one at a time, also with what oneself said. Until stop, this persister is there.
	Hear(id string, f func(b []byte)) (stop func(), err error)
	// Gone reports whether a persister hears no more. An error: that is not known.
	Gone(ctx context.Context, id string) (bool, error)
	Connected() bool
}

// Partition is one that is consumed.
type Partition interface {
	// Leave gives it to another persister: what came of it is through and acknowledged first, or within some seconds is not.
	Leave(ctx context.Context)
	Stop() // ends it at once
}

// Config says what is divided.
type Config struct {
	ID         string // this persister's, unlike any other's
	Peers      Peers
	Partitions []int
	// Begin tries again until ctx ends; another error is for good. orphan: the persister died that had it last.
	Begin func(ctx context.Context, partition int, orphan bool) (Partition, error)
	Log   *slog.Logger
}

// Beat is what a persister says.
type Beat struct {
	ID    string `json:"id"`
	Holds []int  `json:"holds,omitempty"` // partitions that it consumes, or begins to
	Unfit bool   `json:"unfit,omitempty"` // it is given nothing where others are that are fit
	Hello bool   `json:"hello,omitempty"` // the others are to say theirs
	Bye   bool   `json:"bye,omitempty"`   // it ends
	There bool   `json:"there,omitempty"` // when it is silent, whether it is there can be asked (Peers.Gone)
}

const (
	every = time.Second
	lease = 6 * time.Second // below what a server waits before it gives a partition of one who is silent to another

	// Who is not heard of for so long has missed a beat: whether it is there is asked.
	late = every + every/2

	// How long a persister that is not alone waits at its start for what the others hold, if it hears of one; else for the lease.
	firstLook = 2 * every

	// For so long one is young, and unfit: who dies again and again at its beginning would hold up what it is given for a lease each
	// time. So would who cannot begin what it is given, within a lease: it is unfit for a while, and then tries again.
	youth    = 3 * time.Second
	recovery = time.Minute
)

// Share is a persister's part of the partitions.
type Share struct {
	cfg   Config
	began time.Time
	mute  bool // it may not speak to the others
	there bool // they can ask whether it is there
	beats chan Beat
	ready chan struct{} // a partition was begun or left
	stop  func()        // ends what it hears by: then it is gone for the others

	mu     sync.Mutex
	others map[string]*other
	orphan map[int]bool // partitions of those that are gone, until somebody says that they are its own
	mine   map[int]*held
	fit    time.Time // from when on it is fit
}

// other is another persister.
type other struct {
	holds []int
	unfit bool
	there bool
	asked bool // whether it is there
	heard time.Time
}

// held is a partition of this persister.
type held struct {
	Partition // nil: it is being begun
	since     time.Time
	giveUp    func() // ends its begin, or frees what that took
	leaves    bool
}

// New makes a share of which nothing is held yet.
func New(cfg Config) *Share {
	return &Share{cfg: cfg, beats: make(chan Beat, 64), ready: make(chan struct{}, 1), others: map[string]*other{}, orphan: map[int]bool{},
		mine: map[int]*held{}, stop: func() {}}
}

// Run consumes this persister's part until ctx ends, then stops all of it. An error is one of Begin. Bye is for when what was
// consumed is through.
func (s *Share) Run(ctx context.Context) error {
	s.began, s.fit = time.Now(), time.Now().Add(youth)
	alone, err := s.cfg.Peers.Alone(ctx)
	outer := ctx
	g, ctx := errgroup.WithContext(ctx)
	if err == nil {
		s.stop, err = s.cfg.Peers.Hear(s.cfg.ID, func(b []byte) {
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
		alone, s.mute, s.stop = true, true, func() {}
	}
	if !s.mute {
		gone, err := s.cfg.Peers.Gone(ctx, s.cfg.ID)
		s.there = !gone && err == nil // a user of an earlier version may not hear there, nor ask
	}
	g.Go(func() error { s.run(ctx, g, alone); return nil })
	err = g.Wait()
	var wg sync.WaitGroup
	for _, h := range s.mine {
		if h.Partition != nil {
			wg.Go(h.Stop)
		}
	}
	wg.Wait()
	if outer.Err() != nil && errors.Is(err, outer.Err()) {
		return nil // it was told to stop while it still began
	}
	return err
}

// Bye tells the others that this persister has ended: they need not wait for its lease. Until then it is there for them, though it says
// nothing any more: what it was given may not be through.
func (s *Share) Bye() {
	s.say(Beat{Bye: true})
	s.stop()
}

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
	s.mu.Lock()
	b.ID, b.Unfit, b.There = s.cfg.ID, time.Now().Before(s.fit), s.there
	s.mu.Unlock()
	text, err := json.Marshal(b)
	if err == nil {
		err = s.cfg.Peers.Say(text)
	}
	if err != nil {
		s.cfg.Log.Debug("the other persisters are not told", "error", err)
	}
}

// tell says what is held.
func (s *Share) tell(hello bool) {
	s.mu.Lock()
	holds := slices.Sorted(maps.Keys(s.mine))
	s.mu.Unlock()
	s.say(Beat{Holds: holds, Hello: hello})
}

func (s *Share) run(ctx context.Context, g *errgroup.Group, alone bool) {
	s.tell(true)
	if s.mute {
		s.plan(ctx, g)
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	looked, last := alone, time.Now()
	if alone && s.plan(ctx, g) {
		s.tell(false)
	}
	for {
		changed := false
		select {
		case <-ctx.Done():
			return
		case b := <-s.beats:
			changed = s.hear(b)
		case <-s.ready:
			changed = true
		case now := <-tick.C:
			// Who stood still, or heard nobody because the server was gone, knows nothing of others either.
			s.expire(now, now.Sub(last) > 3*every || !s.cfg.Peers.Connected())
			s.ask(ctx, g, now)
			last = now
			looked = looked || s.looked(now)
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
	for _, p := range b.Holds {
		delete(s.orphan, p)
	}
	s.others[b.ID] = &other{holds: b.Holds, unfit: b.Unfit, there: b.There, heard: time.Now()}
	return b.Hello
}

// ask asks whether those are there that have missed a beat: of who died, the server knows it at once.
func (s *Share) ask(ctx context.Context, g *errgroup.Group, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.others {
		if !o.there || o.asked || now.Sub(o.heard) < late {
			continue
		}
		o.asked = true
		g.Go(func() error {
			gone, err := s.cfg.Peers.Gone(ctx, id)
			s.mu.Lock()
			o.asked = false
			gone = gone && err == nil && s.others[id] == o
			if gone {
				delete(s.others, id)
				for _, p := range o.holds {
					s.orphan[p] = true
				}
			}
			s.mu.Unlock()
			if gone {
				s.cfg.Log.Warn("another persister is gone: its partitions are taken", "persister", id)
				s.passed()
			}
			return nil
		})
	}
}

// looked reports whether it is known what the others hold: all of them say it within a second.
func (s *Share) looked(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := now.Sub(s.began)
	return waited >= lease || waited >= firstLook && len(s.others) > 0
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
	now := time.Now()
	for _, h := range s.mine {
		if h.Partition == nil && now.Sub(h.since) >= lease && now.After(s.fit) {
			s.cfg.Log.Warn("partitions cannot be begun: others are to take them", "since", h.since)
			s.fit = now.Add(recovery)
		}
	}
	taken := map[int]bool{}
	all, fit := []string{s.cfg.ID}, []string(nil)
	if !now.Before(s.fit) {
		fit = append(fit, s.cfg.ID)
	}
	for id, o := range s.others {
		all = append(all, id)
		if !o.unfit {
			fit = append(fit, id)
		}
		for _, p := range o.holds {
			taken[p] = true
		}
	}
	if len(fit) > 0 {
		all = fit
	}
	of := owned(s.cfg.Partitions, all)
	for _, p := range s.cfg.Partitions {
		own, h := of[p] == s.cfg.ID, s.mine[p]
		switch {
		case own && h == nil && !taken[p]:
			ctx, giveUp := context.WithCancel(ctx)
			h = &held{since: now, giveUp: giveUp}
			s.mine[p] = h
			changed = true
			orphan := s.orphan[p]
			delete(s.orphan, p)
			g.Go(func() error { return s.begin(ctx, p, orphan, h) })
		case !own && h != nil && !h.leaves && h.Partition == nil:
			h.leaves = true
			h.giveUp()
		case !own && h != nil && !h.leaves:
			h.leaves = true
			g.Go(func() error { s.leave(ctx, p, h); return nil })
		}
	}
	return changed
}

func (s *Share) begin(ctx context.Context, p int, orphan bool, h *held) error {
	of, err := s.cfg.Begin(ctx, p, orphan)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.passed()
	if !h.leaves {
		if err == nil {
			h.Partition = of
		}
		return err
	}
	if err == nil { // what it was begun with has ended: it could do nothing, also if it is this persister's again by now
		s.mu.Unlock()
		of.Stop()
		s.mu.Lock()
	}
	delete(s.mine, p)
	return nil
}

func (s *Share) leave(ctx context.Context, p int, h *held) {
	h.Leave(ctx)
	h.giveUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mine, p)
	s.passed()
}

// passed says that a partition was begun or left.
func (s *Share) passed() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
