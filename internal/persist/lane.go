package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// lane merges the events of all partitions of a process into commits: few and full ones, because an atomic batch costs the
// same whatever its size. Its stages are connected by unbuffered channels, so a batch grows while the one before it
// is being committed, and is small when there is little to do.
type lane struct {
	p     *Persister
	heads *headCache // stage 1 only

	outputs outputCache // stage 1 only

	reader threads.Reader // stage 1 only
	room   apply.Room     // of the change that is made next; stage 1 only

	deciding *staged      // the event that is being applied; stage 1 only
	beside   [2][]*staged // of its batch, what is put aside and what comes next; stage 1 only

	refusals map[int]*refusals // by partition; stage 1 only
	rereads  rereads           // stage 1 only

	lookedBack bool // EVENTS was read for the event that was applied last; stage 1 only

	users users // stage 1 only

	fence record.Fence // behind which the packs in memory were read; stage 1 only

	prepared  chan *commit
	sealed    chan *commit
	committed chan *commit

	// epoch counts refused commits: what was prepared in an earlier epoch stands on heads that never came to be. Stage 2
	// raises it; stage 1 follows with a flush.
	epoch   atomic.Uint64
	current uint64    // epoch that stage 1 works in; stage 1 only
	back    []*staged // events of refused commits, in order; stage 2 only

	link uint64 // connection over which the heads in memory were read; stage 1 only

	unacked map[int]*delivery // of each partition, up to where all are published, if its ack waits; stage 3 only
	acked   time.Time
	emptied []emptied // stage 3 only
	purges  sync.WaitGroup
	purged  chan struct{} // holds a token when one of them has ended

	left leftovers // of stage 3

	mu       sync.Mutex
	inFlight int                       // prepared and not through stage 2
	idle     chan struct{}             // closed when inFlight falls to zero
	untold   int                       // through stage 2 and not through stage 3
	told     chan struct{}             // closed when untold falls to zero
	latched  map[events.Thread]latched // threads that take no events
	lost     map[string]error          // outputs whose artifact could not be stored, by key, and why
}

func newLane(p *Persister) *lane {
	l := &lane{
		p: p, reader: p.patientReader(), heads: newHeadCache(p.cfg.HeadBytes, &p.stats.heads),
		purged:   make(chan struct{}, 1),
		prepared: make(chan *commit), sealed: make(chan *commit), committed: make(chan *commit, 1), idle: make(chan struct{}),
		told:     make(chan struct{}),
		refusals: map[int]*refusals{}, latched: map[events.Thread]latched{}, unacked: map[int]*delivery{},
		left: leftovers{queue: make(chan leftover, mostLeftovers), of: map[string]int{}},
		lost: map[string]error{}, outputs: outputCache{limit: p.cfg.OutputBytes},
	}
	l.outputs.clear()
	return l
}

// run works until ctx ends. Stages 2 and 3 finish what they have in hand with a context of their own.
func (l *lane) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	drain, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, func() { fail(nil) }) })
	defer stop()

	stage := func(work func() error) {
		g.Go(func() error {
			err := work()
			if err != nil && !errors.Is(err, context.Canceled) {
				fail(err) // what is in hand can not go through it
			}
			return err
		})
	}
	stage(func() error { defer close(l.prepared); return l.prepareLoop(ctx) })
	stage(func() error { defer close(l.sealed); return l.sealLoop(drain) })
	stage(func() error { defer close(l.committed); return l.commitLoop(drain) })
	stage(func() error { defer close(l.left.queue); return l.publishLoop(drain) })
	stage(func() error { return l.discardLoop(drain) })
	err := g.Wait()
	// The group's error is of the stage that returned first: often one that was only told to stop.
	if cause := context.Cause(drain); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// drainTime is how long a stop waits for the commits in hand.
const drainTime = 10 * time.Second

// prepareLoop is stage 1.
func (l *lane) prepareLoop(ctx context.Context) error {
	for {
		if now := l.epoch.Load(); now != l.current {
			if err := l.flush(ctx); err != nil {
				return err
			}
			l.current = now
		}
		if err := l.gather(ctx); err != nil {
			return err
		}
		batch := l.p.queue.take(l.limit())
		if len(batch) == 0 {
			if err := l.untilUnparked(ctx); err != nil {
				return err
			}
			continue
		}
		if now := l.p.Link(); now != l.link {
			// What came over the new connection must not be held against heads that the store may have forgotten: it would
			// seem to be applied, and be acked. What came over an earlier one comes again, behind what was forgotten.
			l.p.queue.unshift(batch)
			if err := l.flush(ctx); err != nil {
				return err
			}
			l.p.queue.anew(now)
			l.link = now
			continue
		}
		if batch = l.dropPast(ctx, batch); len(batch) == 0 {
			continue
		}
		c, rest, err := l.prepareBatch(ctx, batch, l.current)
		if errors.Is(err, errEpoch) {
			l.p.queue.unshift(batch)
			continue
		}
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			l.p.queue.unshift(rest)
		}
		if len(c.events) > 0 {
			if err := l.send(ctx, c); err != nil {
				return err
			}
		}
	}
}

// untilUnparked waits where all that is in the queue waits for something that is parked.
func (l *lane) untilUnparked(ctx context.Context) error {
	if l.p.queue.len() == 0 || l.epoch.Load() != l.current {
		return nil
	}
	select {
	case <-l.p.queue.some:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather returns when there is something to take: at once when nothing is being committed, else when there is enough for
// preparing it meanwhile to pay. A small batch that is prepared early only waits, and what comes behind it waits for two
// commits.
func (l *lane) gather(ctx context.Context) error {
	for {
		n := l.p.queue.len()
		l.mu.Lock()
		idle, busy := l.idle, l.inFlight > 0
		l.mu.Unlock()
		if n > 0 && (!busy || n >= l.p.cfg.BatchEvents/4) {
			return nil
		}
		if n == 0 {
			idle = nil
		}
		select {
		case <-idle:
		case <-l.p.queue.some:
			if l.epoch.Load() != l.current {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dropPast drops from a batch what came over an earlier connection, or in an earlier term of its partition. It can be queued long
// after that one ended: whoever delivered it had to wait for room.
//
// What is dropped is not lost. An event of an earlier term that nobody has acknowledged comes again in the later one, in its place and in
// another window; one that somebody has acknowledged was dealt with. Applied here, it would be held against a head that another
// process has moved on from, and its repetition, which is behind it in the queue, against what it left.
func (l *lane) dropPast(ctx context.Context, batch []*staged) []*staged {
	return slices.DeleteFunc(batch, func(s *staged) bool {
		past := s.msg.Link != l.link || l.p.queue.ended(s)
		if past {
			if s.uploads() {
				l.p.drop(ctx, s)
			}
			l.p.release(s)
		}
		return past
	})
}

// limit says how much makes a batch.
func (l *lane) limit() func(*staged) bool {
	events, bytes, blobs, most := 0, 0, 0, l.p.cfg.BatchEvents
	return func(s *staged) bool {
		if s.trial.most > 0 {
			most = min(most, s.trial.most)
		}
		if events > 0 && (events >= most || bytes+s.bytes > l.p.cfg.BatchBytes || blobs+len(s.event.Blobs) > maxBlobs) {
			return false
		}
		events, bytes, blobs = events+1, bytes+s.bytes, blobs+len(s.event.Blobs)
		return true
	}
}

// prepareBatch prepares a commit again and again until the outside lets it.
func (l *lane) prepareBatch(ctx context.Context, batch []*staged, epoch uint64) (c *commit, rest []*staged, err error) {
	for {
		err = l.p.retry(ctx, "prepare", func() error {
			c, rest, err = l.prepare(ctx, batch, epoch)
			return err
		})
		if err == nil {
			l.keepRefusals(c)
		}
		if !errors.Is(err, errStale) {
			return c, rest, err
		}
		l.p.stats.refused.Add(1)
		l.p.Log.Info("a batch is prepared again", "events", len(batch), "error", err)
	}
}

func (l *lane) send(ctx context.Context, c *commit) error {
	l.mu.Lock()
	l.inFlight++
	l.mu.Unlock()
	select {
	case l.prepared <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush follows a refused commit, or a connection that was lost: everything prepared is through or thrown away, its events are
// back in the queue, and heads will be read anew.
func (l *lane) flush(ctx context.Context) error {
	l.heads.clear()
	l.outputs.clear()
	clear(l.refusals)
	l.rereads, l.users = rereads{}, users{}
	marker := &commit{flush: make(chan struct{})}
	if err := l.send(ctx, marker); err != nil {
		return err
	}
	select {
	case <-marker.flush:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until every prepared commit is through stage 2, so that the store can be asked for what it holds.
// errEpoch: one of them was refused.
func (l *lane) settle(ctx context.Context, epoch uint64) error {
	l.mu.Lock()
	idle, busy := l.idle, l.inFlight > 0
	l.mu.Unlock()
	if busy {
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if l.epoch.Load() != epoch {
		return errEpoch
	}
	return nil
}

// tell waits until all that is committed is told: items are stored under the names that their threads had.
func (l *lane) tell(ctx context.Context) error {
	l.mu.Lock()
	told, busy := l.told, l.untold > 0
	l.mu.Unlock()
	if !busy {
		return nil
	}
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lane) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight--; l.inFlight == 0 {
		close(l.idle)
		l.idle = make(chan struct{})
	}
}

// sealLoop compresses, between stage 1 and stage 2, while the commit before is under way.
func (l *lane) sealLoop(ctx context.Context) error {
	for c := range l.prepared {
		if c.flush == nil && c.epoch == l.epoch.Load() {
			c.failed = l.seal(c)
		}
		select {
		case l.sealed <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// commitLoop is stage 2.
func (l *lane) commitLoop(ctx context.Context) error {
	for c := range l.sealed {
		switch {
		case c.flush != nil:
			l.p.queue.unshift(l.back)
			l.back = nil
			close(c.flush)
		case c.epoch != l.epoch.Load():
			l.back = append(l.back, c.events...)
		default:
			if err := l.commitOrRefuse(ctx, c); err != nil {
				return err
			}
		}
		for _, t := range c.threads {
			t.pending.Add(-1)
		}
		c.outputsThrough()
		l.done()
	}
	return nil
}

func (l *lane) commitOrRefuse(ctx context.Context, c *commit) error {
	start := time.Now()
	err := l.p.retry(ctx, "commit", func() error {
		if l.p.Link() != c.link {
			return fmt.Errorf("%w: the connection over which its heads were read is gone", record.ErrConflict)
		}
		if c.failed != nil {
			return c.failed
		}
		return l.p.commit(ctx, c)
	})
	if never(err) {
		if err = l.isolate(ctx, c, err); err == nil {
			return nil
		}
	}
	if errors.Is(err, record.ErrConflict) {
		l.p.Log.Info("commit refused, preparing it again", "events", len(c.events), "error", err)
		l.giveBack(c)
		return nil
	}
	if err != nil {
		return err
	}
	l.p.Committed(Committed{len(c.events), time.Since(start)})
	l.mu.Lock()
	l.untold++
	l.mu.Unlock()
	select {
	case l.committed <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveBack has stage 1 prepare a refused commit again, and what was prepared on top of it.
func (l *lane) giveBack(c *commit) {
	l.p.stats.refused.Add(1)
	l.epoch.Add(1)
	l.back = append(l.back, c.events...)
	l.p.queue.wake()
}

// publishLoop is stage 3.
func (l *lane) publishLoop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		_ = l.ackAll(ctx)
		defer time.AfterFunc(purgeTime, cancel).Stop()
		l.purges.Wait()
		_ = l.endEmptied()
		cancel()
	}()
	for {
		var due <-chan time.Time
		if len(l.unacked)+len(l.emptied) > 0 {
			due = time.After(ackEvery)
		}
		var err error
		select {
		case c, more := <-l.committed:
			if !more {
				return nil
			}
			if err := l.p.publish(ctx, c); err != nil {
				return err
			}
			l.mu.Lock()
			if l.untold--; l.untold == 0 {
				close(l.told)
				l.told = make(chan struct{})
			}
			l.mu.Unlock()
		case <-due:
			err = l.ackAll(ctx)
		case <-l.purged:
			err = l.ackAll(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// purgeTime is how long a stop waits for the purges that are under way.
const purgeTime = time.Second

// retry repeats op while it fails for a passing reason, and says so once in a while. A permission that was taken away can be
// given back while the persister runs, and a stream that is gone restored; what waits for it is acked: it waits.
func (p *Persister) retry(ctx context.Context, what string, op func() error) error {
	var logged time.Duration
	return retry.Do(ctx, func(err error, wait time.Duration) {
		if logged == 0 || wait >= time.Second {
			level := slog.LevelWarn
			if needsHelp(err) {
				level = slog.LevelError
			}
			p.Log.Log(ctx, level, "retrying", "step", what, "wait", wait, "error", err)
			logged = wait
		}
	}, func() error {
		err := op()
		if needsHelp(err) {
			err = fmt.Errorf("%w: %w", record.ErrUnknown, err)
		}
		return err
	})
}

// needsHelp reports whether an error passes when somebody does something about it.
func needsHelp(err error) bool {
	return errors.Is(err, record.ErrDenied) || errors.Is(err, record.ErrNoStream)
}
