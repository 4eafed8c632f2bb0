package gc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/apply"
	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// TestSoak lets eight writers append, fork, end and remove threads and refer to nodes that they remember, while collectors and
// persisters run and are killed, and then checks everything that is there. SPOOL_GC_SOAK is how long, 15s by default; where that is
// not enough to have tried everything, up to six times as long.
func TestSoak(t *testing.T) {
	length := 15 * time.Second
	if text := os.Getenv("SPOOL_GC_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &soak{rig: newRig(t)}
	ctx, stop := context.WithTimeout(t.Context(), 6*length)
	defer stop()
	go func() {
		for begun := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if time.Since(begun) >= length && s.tried() {
				stop()
			}
		}
	}()
	all, end := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	others.Go(func() { s.persisters(all, rand.New(rand.NewPCG(seed, 1))) })
	others.Go(func() { s.collectors(all, 400*time.Millisecond, rand.New(rand.NewPCG(seed, 2))) })
	others.Go(func() { s.collectors(all, 4*time.Second, rand.New(rand.NewPCG(seed, 3))) })
	for i := range 8 {
		writers.Go(func() { s.write(ctx, i, rand.New(rand.NewPCG(seed, uint64(10+i)))) })
	}
	writers.Wait()
	s.calm.Store(true)
	s.settle()
	end()
	others.Wait()
	s.finish()
}

type soak struct {
	*rig
	cycles, kills, condemned, repacked, spared, refused atomic.Int64
	buried, deaths, forks, removals, refs, missing      atomic.Int64

	calm atomic.Bool // nobody is killed any more
}

// persisters runs one persister after the other; each dies somewhere.
func (s *soak) persisters(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		ctx, cancel := context.WithCancel(ctx)
		var mu sync.Mutex
		deps := persistnats.Deps(s.conn, 5, 1<<20)
		deps.At = func(step persist.Step) error {
			if step == persist.StepFence { // on any machine the next commits are of several threads, and their packs shared
				time.Sleep(20 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			if !s.calm.Load() && r.IntN(150) == 0 {
				s.deaths.Add(1)
				return errKilled
			}
			return nil
		}
		p := persist.New(deps, persist.Config{Lane: 5, BatchEvents: 40, HeadBytes: 30 << 10})
		var stops []func()
		for part := range events.Partitions {
			stop, err := s.conn.Events().Consume(ctx, part, nil, func(d natsio.Delivery) {
				p.Deliver(ctx, persist.Message{Subject: d.Subject, Data: d.Data, Seq: d.Seq, Partition: part, Term: d.Term, Ack: d.Ack,
					Working: d.Working})
			})
			if err != nil {
				if ctx.Err() == nil {
					s.t.Error(err)
				}
				break
			}
			stops = append(stops, stop.Stop)
		}
		if err := p.Run(ctx); err != nil && !errors.Is(err, errKilled) {
			s.t.Errorf("persister: %v", err)
		}
		cancel()
		for _, stop := range stops {
			stop()
		}
	}
}

// collectors runs cycle after cycle with pauses in between, in which another one can get to its end; every other one is killed somewhere.
func (s *soak) collectors(ctx context.Context, pause time.Duration, r *rand.Rand) {
	for ctx.Err() == nil {
		cfg := brave()
		cfg.Lane, cfg.Small, cfg.Merge, cfg.InboxAge = 7, 1<<20, 3, time.Hour
		die := r.IntN(2) == 0
		c := s.collector(cfg, func(gc.Step) error {
			if die && r.IntN(20) == 0 {
				s.kills.Add(1)
				return errKilled
			}
			return nil
		})
		begun := time.Now()
		p, err := c.Plan(ctx)
		if err == nil {
			var d gc.Done
			d, err = c.Apply(ctx, p)
			s.condemned.Add(int64(d.Condemned))
			s.repacked.Add(int64(d.Repacked))
			s.spared.Add(int64(d.Spared))
			s.buried.Add(int64(d.Buried))
		}
		s.cycles.Add(1)
		switch {
		case err == nil, errors.Is(err, errKilled), ctx.Err() != nil:
		case errors.Is(err, gc.ErrStale), errors.Is(err, gc.ErrBrake):
			s.refused.Add(1)
		default:
			s.t.Errorf("cycle: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(pause/4+time.Duration(r.Int64N(int64(pause)))*3/4, 2*time.Since(begun))):
		}
	}
}

// write does what agents and people do, in sessions of its own.
func (s *soak) write(ctx context.Context, who int, r *rand.Rand) {
	names := func() events.Thread {
		return events.Thread{Session: fmt.Sprintf("w%d-%d", who, r.IntN(12)), Name: events.MainThread}
	}
	p := s.Publisher(client.PublisherConfig{Producer: fmt.Sprint("writer", who)})
	seq := uint64(0)
	var known []casstore.Located // nodes of threads, many of which are gone
	for n := 0; ctx.Err() == nil; n++ {
		t := names()
		switch k := r.IntN(20); {
		case k < 14:
			var es []client.Entry
			for range 1 + r.IntN(6) {
				seq++
				body := entry(fmt.Sprint("e", seq), strings.Repeat("words ", r.IntN(200)))
				if r.IntN(4) == 0 {
					body = image(fmt.Sprint("i", seq), byte(r.IntN(20)))
				}
				es = append(es, client.Entry{Thread: t, Dialect: "omp", Body: body, Seq: seq})
			}
			s.ok(ctx, must.Err(p.Publish(ctx, es...)))
		case k == 14:
			if h, err := s.Thread(t).Head(ctx); err == nil {
				known = append(known, h.Head())
			}
			if len(known) == 0 {
				continue
			}
			seq++
			to := known[r.IntN(len(known))]
			step := fmt.Appendf(nil, `{"id":"r%d","role":"coder","content":"see there","refs":[%q]}`, seq, to)
			_, err := p.Publish(ctx, client.Entry{Thread: events.Thread{Session: t.Session, Name: "steps"}, Dialect: "step", Body: step, Seq: seq})
			switch {
			case errors.Is(err, client.ErrMissingRef):
				s.missing.Add(1)
			case err == nil:
				s.refs.Add(1)
			default:
				s.ok(ctx, err)
			}
		case k < 17:
			to := events.Thread{Session: t.Session, Name: fmt.Sprint("fork", n)}
			if r.IntN(2) == 0 {
				to.Session = fmt.Sprintf("w%d-%d", who, r.IntN(12))
			}
			if s.Thread(to).Fork(ctx, events.Fork{Session: t.Session, Thread: t.Name}) == nil {
				s.forks.Add(1)
			}
		default:
			s.removeOne(ctx, who, r)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.IntN(8)) * time.Millisecond):
		}
	}
}

func (s *soak) ok(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.t.Errorf("write: %v", err)
	}
}

// removeOne takes some thread of a writer away, whatever is going on in it.
func (s *soak) removeOne(ctx context.Context, who int, r *rand.Rand) {
	all, err := s.conn.Records().List(ctx, fmt.Sprintf("thread.w%d-%d.*", who, r.IntN(12)))
	if err != nil || len(all) == 0 {
		s.ok(ctx, err)
		return
	}
	t, _ := events.ParseHeadKey(all[r.IntN(len(all))].Key)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.Thread(t).Remove(ctx) == nil {
		s.removals.Add(1)
	}
}

// settle waits until everything that was published is applied.
func (s *soak) settle() { must.Do(s.t, faulttest.Settle(s.t.Context(), s.conn)) }

// tried tells whether everything has happened that this is for.
func (s *soak) tried() bool {
	for _, n := range []*atomic.Int64{&s.condemned, &s.repacked, &s.kills, &s.removals, &s.refs} {
		if n.Load() == 0 {
			return false
		}
	}
	return true
}

func (s *soak) finish() {
	s.t.Logf("%d cycles, %d killed, %d refused; %d condemned, %d spared, %d buried in, %d repacked; %d persisters died; %d forks, %d removals, %d refs by hash, %d to what was gone",
		s.cycles.Load(), s.kills.Load(), s.refused.Load(), s.condemned.Load(), s.spared.Load(), s.buried.Load(),
		s.repacked.Load(), s.deaths.Load(),
		s.forks.Load(), s.removals.Load(), s.refs.Load(), s.missing.Load())
	if !s.tried() {
		s.t.Error("the soak did not try what it is for")
	}
	all := s.everything()
	for range 3 {
		s.collect(brave())
		all()
	}
	rep, err := fsck.Check(s.t.Context(), natsadmin.Of(s.conn), fsck.Config{})
	if err != nil || len(rep.Findings) > 0 || rep.Changed > 0 {
		s.t.Errorf("fsck = %+v, %v, want no findings", rep, err)
	} else {
		s.t.Logf("fsck: %d threads, %d states, %d packs, %d blobs, no findings", rep.Threads, rep.States, rep.Packs, rep.Blobs)
	}
	if p, _ := s.collect(brave()); !p.Empty() {
		s.t.Errorf("after all: %+v to do, want nothing", p.Sum(0))
	}
	s.letters()
}

// everything reads each thread that is there.
func (s *soak) everything() func() {
	return func() {
		s.t.Helper()
		list := must.Get(s.conn.Records().List(s.t.Context(), "thread.>"))(s.t)
		for _, rec := range list {
			h, err := threads.DecodeHead(rec.Value)
			if err == nil {
				err = threads.Verify(s.t.Context(), threads.Reader{Packs: s.conn.Store(0)}, h)
			}
			if err == nil {
				err = s.verifyBlobs(h)
			}
			if err != nil {
				s.t.Errorf("%s: %v", rec.Key, err)
			}
		}
		s.t.Logf("%d threads are whole", len(list))
	}
}

// letters looks for events that were not applied because something was missing.
func (s *soak) letters() {
	stream := must.Get(s.conn.JetStream().Stream(s.t.Context(), events.DeadStream))(s.t)
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m := must.Get(stream.GetMsg(s.t.Context(), seq))(s.t)
		reason := m.Header.Get(natsio.HeaderReason)
		if strings.Contains(reason, apply.ErrMissingRef.Error()) { // it was, when the step was published
			continue
		}
		for _, bad := range []string{"gone", "latched", "corrupt", "not found", "neither"} {
			if strings.Contains(reason, bad) {
				s.t.Errorf("dead letter %d: %s", seq, reason)
			}
		}
	}
}
