package persist

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// prepare turns a batch into a commit. What is not taken is rest. After an error the batch's sessions are read again,
// but for errEpoch, which a flush follows.
func (l *lane) prepare(ctx context.Context, batch []*staged, epoch uint64) (c *commit, rest []*staged, err error) {
	c = &commit{
		epoch: epoch, now: time.Now(), link: l.link, quick: len(batch) >= l.p.cfg.BatchEvents/4,
		byKey: map[events.Thread]*touched{}, infos: map[*session][]byte{}, numbers: map[*counter][]byte{},
		records: map[string]record.Put{},
	}
	if _, err := rand.Read(c.id[:]); err != nil {
		return nil, nil, err
	}
	// Step 0: the fence, before a byte is uploaded.
	if err := l.p.At(StepFence); err != nil {
		return nil, nil, err
	}
	if c.fence, err = l.p.Records.Fence(ctx, l.p.cfg.Lane); err != nil {
		return nil, nil, err
	}
	l.announce(c.fence)
	l.forgetPacks(c.fence)
	batch, rest = l.split(batch)
	if err := l.forgetPast(ctx, batch, epoch); err != nil {
		return nil, nil, err
	}
	l.liftDue()
	if err := l.load(ctx, batch); err != nil {
		return nil, nil, err
	}
	if err := l.countSessions(ctx, batch, epoch); err != nil {
		return nil, nil, err
	}
	if err := l.learnRefusals(ctx, c, batch); err != nil {
		return nil, nil, err
	}
	if err := l.p.renew(ctx, batch, c.fence); err != nil {
		return nil, nil, err
	}
	if err := l.loadOutputs(ctx, batch, epoch); err != nil {
		return nil, nil, err
	}
	untaken, err := l.applyAll(ctx, c, batch)
	if err == nil {
		err = l.verify(ctx, c)
	}
	if err == nil {
		err = l.finish(ctx, c)
	}
	if err != nil && !errors.Is(err, errEpoch) {
		err = cmp.Or(l.forgetBatch(ctx, batch, epoch), err)
	}
	if err != nil {
		return nil, nil, err
	}
	return c, append(untaken, rest...), nil
}

// How long the events of a session, and those of all, may take in a batch beyond slow times their estimate: the rest is
// for the next one, and others come before it. On a busy machine all events take long, and small commits would make it
// busier.
const (
	sessionTime = 50 * time.Millisecond
	batchTime   = 150 * time.Millisecond
	slow        = 16
)

// usage is what events took, and what they were to take by estimate.
type usage struct {
	time, work time.Duration
	from       origin // of the latest
}

func (u usage) exceeds(limit time.Duration) bool { return u.time > limit+slow*u.work }

func (u *usage) add(more usage) { u.time, u.work = u.time+more.time, u.work+more.work }

// applyAll applies the events of a batch, as far as they fit into one commit. Where an event is for the next one, so
// are those behind it in its session, and no others.
func (l *lane) applyAll(ctx context.Context, c *commit, batch []*staged) (untaken []*staged, err error) {
	aside, spent := map[string]bool{}, map[string]usage{}
	now, id := time.Now(), ""  // until when, and for whom, time was counted
	var all, since, here usage // of the batch, since then, and of that session
	count := func() {
		before := now
		now = time.Now()
		since.time = now.Sub(before)
		all.add(since)
		here.add(since)
		if since = (usage{}); here.exceeds(sessionTime) {
			aside[id] = true
		}
	}
	for i, s := range batch {
		if of := s.event.Thread.Session; of != id || i%countEvery == 0 || l.lookedBack {
			l.lookedBack = false
			count()
			spent[id] = here
			id, here = of, spent[of]
		}
		here.from = s.from
		if len(aside) > 0 && aside[id] {
			untaken = append(untaken, s)
			continue
		}
		if len(c.events) > 0 && (c.messages() > record.MaxCommit-mostOfEvent || all.exceeds(batchTime)) {
			untaken = append(untaken, batch[i:]...)
			break
		}
		l.deciding, l.beside = s, [...][]*staged{untaken, batch[i+1:]}
		err := l.applySafely(ctx, c, s)
		since.work += s.work()
		if errors.Is(err, errBarrier) || errors.Is(err, apply.ErrNextCommit) {
			aside[id] = true
			untaken = append(untaken, s)
			continue
		}
		if err != nil {
			return nil, err
		}
		c.events = append(c.events, s)
		if c.ends {
			untaken = append(untaken, batch[i+1:]...)
			break
		}
	}
	count()
	spent[id] = here
	for _, u := range spent {
		l.p.queue.charge(u.from, u.time-u.work)
	}
	return untaken, nil
}

// countEvery is after how many events of a session the time is counted that they took, if none of them had EVENTS read.
const countEvery = 4

// announce lets the store make ready while the batch is prepared. While another commit is under way it would only be in
// its way: both are made ready by the same hand.
func (l *lane) announce(f record.Fence) {
	l.mu.Lock()
	busy := l.inFlight > 0
	l.mu.Unlock()
	if !busy {
		l.p.Records.WillCommit(f)
	}
}

// split keeps a batch within maxBatchThreads, for which an output counts as a thread, and apply.MaxOutputs. An event
// that is on trial is a batch of its own.
func (l *lane) split(batch []*staged) (now, later []*staged) {
	seen, outputs := map[events.Thread]bool{}, map[string]bool{}
	for i, s := range batch {
		output := ""
		if s.event.Kind == events.KindChunk {
			output = s.outputKey()
		}
		if s.trial.alone() && i > 0 {
			return batch[:i], batch[i:]
		}
		if i > 0 && batch[0].trial.alone() {
			return batch[:1], batch[1:]
		}
		full := len(seen)+len(outputs) >= maxBatchThreads
		if s.known && (full && !seen[s.event.Thread] || output != "" && !outputs[output] && (full || len(outputs) == apply.MaxOutputs)) {
			return batch[:i], batch[i:]
		}
		seen[s.event.Thread] = true
		if output != "" {
			outputs[output] = true
		}
	}
	return batch, nil
}

// finish writes what the commit will leave of each thread it touches. errStale: one of them does not fit into its
// record, and takes no events any more.
func (l *lane) finish(ctx context.Context, c *commit) error {
	for _, t := range c.threads {
		t.Head.Batch = c.id
		t.Head.Sent = max(t.Head.Sent, t.sent.Load())
		t.Head.Memory = t.Memory.Encode()
		t.value, t.last = t.Head.Encode(), t.Head.N
		t.bytes = len(t.value)
		l.heads.count(t.thread)
		if t.leaves != nil {
			t.leave()
		} else if _, _, past := events.ParseHistoryKey(t.thread.record); t.Head.Status == threads.StatusCompleted && !past {
			t.removes = t.thread.record
			t.thread.record = events.HistoryKey(t.Head.Ended(), t.key)
		}
		t.record = t.thread.record
	}
	for s := range c.infos {
		s.value, s.Stored = s.Info.Encode(), true
		c.infos[s] = s.value
	}
	c.finishOutputs()
	if err := l.latchTooLarge(ctx, c); err != nil {
		return err
	}
	for _, t := range c.threads {
		t.pending.Add(1)
	}
	c.outputsPending()
	return nil
}
