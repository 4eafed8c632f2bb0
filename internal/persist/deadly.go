package persist

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// A panic over an event is an error (isolate.go), but a process can die over one so that nobody recovers: memory or stack
// are used up. The event would come again, to the next process, for ever. It is found by what processes leave in a record
// of the partition (record.Tried), which nobody writes while all is well:
//
//	another process left something open   all of that is noted, and goes on as ever
//	that died too                         a part of it at a time; of few sequences each event alone: nothing else is
//	                                      under way in the process. Each is noted before a byte of it is read
//	diedAlone died over one alone         it is a dead letter, by the way of any other: what was applied is a repeat
//	two more did over its letter          nothing of it is read any more, nor of its thread
//
// Processes die for other reasons too, and nobody can tell who killed one that left no word. What is innocent is
// through within moments of its trial; so the trial of an event over which one died alone begins at a time of its
// own (Config.TrialPause), while the process serves the other partitions: whoever kills processes again and again,
// or because they stand still when they begin, does not meet it. Who is through with what it tried alone takes its note
// back, before anything else is under way, and so does who ends in order: whatever it dies over then, in whatever
// partition, was not that. Who wakes up behind another one takes itself off the list of those that died.
const (
	diedAlone  = 3
	diedUnread = diedAlone + 2

	fewSequences = 64 // so many are tried one by one, else in parts
	triedParts   = 32
)

// deadly finds events over which processes die.
type deadly struct {
	p    *Persister
	life record.Life
	room *semaphore.Weighted // a share for each delivery; all of it: nothing else is under way
	of   [events.Partitions]tried
}

const allShares = 1 << 20

// tried is what is known of a partition. Only Deliver of that partition writes it.
type tried struct {
	partition  int
	term, link uint64
	until      uint64 // up to that sequence others died over something; 0: nothing is known
	part       uint64 // of it, how many sequences are tried at a time
	noted      uint64 // the last one of the part that is noted

	turn *semaphore.Weighted // of who writes the record

	mu  sync.Mutex
	rec record.Tried
	rev uint64
}

func (of *tried) set(rec record.Tried, rev uint64) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.rec, of.rev = rec, rev
}

func (of *tried) now() record.Tried {
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.rec
}

func newDeadly(p *Persister) *deadly {
	y := &deadly{p: p, room: semaphore.NewWeighted(allShares)}
	_, _ = rand.Read(y.life[:])
	for i := range y.of {
		y.of[i].partition, y.of[i].turn = i, semaphore.NewWeighted(1)
	}
	return y
}

// suspects reports whether a message is to be tried alone. An error: ctx ended.
func (y *deadly) suspects(ctx context.Context, m *Message) (alone bool, err error) {
	of := &y.of[m.Partition]
	if of.term != m.Term || of.link != m.Link {
		if err := y.begin(ctx, of, m); err != nil {
			return false, err
		}
	}
	switch {
	case of.until == 0 || m.Seq <= of.noted:
		return false, nil
	case m.Seq <= of.until && of.part == 1: // what is before an event over which somebody died alone was through then; its ack was late
		rec := of.now()
		return !(rec.Alone && m.Seq < rec.Lo), nil
	}
	if err := y.enterAlone(ctx); err != nil {
		return false, err
	}
	defer y.leaveAlone()
	if of.noted = min(m.Seq+of.part-1, of.until); m.Seq > of.until { // who dies from now on did not die over what was tried
		of.until, of.noted = 0, max(m.Seq, m.Open)
	}
	return false, y.note(ctx, of, record.Tried{Lo: m.Seq, Hi: of.noted})
}

// begin finds out what others left of a partition, when a term of it begins.
func (y *deadly) begin(ctx context.Context, of *tried, m *Message) error {
	of.term, of.link, of.until = m.Term, m.Link, 0
	if m.Open < m.Seq {
		return nil
	}
	rec, rev, err := y.read(ctx, of.partition)
	if err != nil {
		return err
	}
	left := rec.Hi >= m.Seq && rec.Lo <= m.Open // else that is through
	died := rec.Life != y.life && rec.Life != (record.Life{})
	rec.FoundBy(y.life)
	of.set(rec, rev)
	if !left || !died && !rec.Alone {
		return y.note(ctx, of, record.Tried{Lo: m.Seq, Hi: m.Open})
	}
	of.until, of.part, of.noted = rec.Hi, 1, 0
	if n := rec.Hi - rec.Lo; n >= fewSequences {
		of.part = n / triedParts
	}
	y.p.Log.Warn("persisters died over what they had in hand: it is tried in parts, or one by one",
		"partition", of.partition, "from", rec.Lo, "to", rec.Hi, "alone", of.part == 1)
	return nil
}

// enterAlone waits until nothing else is under way in the process.
func (y *deadly) enterAlone(ctx context.Context) error {
	if err := y.room.Acquire(ctx, allShares); err != nil {
		return err
	}
	err := y.p.space.acquire(ctx, origin{}, y.p.cfg.QueueBytes)
	if err != nil {
		y.room.Release(allShares)
	}
	return err
}

// leaveAlone ends that.
func (y *deadly) leaveAlone() {
	y.p.space.free(origin{}, y.p.cfg.QueueBytes)
	y.room.Release(allShares)
}

// try waits until nothing else is under way, notes that an event is tried alone, and says how many died over it so.
func (y *deadly) try(ctx context.Context, m *Message, index int) (died int, err error) {
	of := &y.of[m.Partition]
	rec := of.now()
	if rec.Is(m.Seq, index, m.Stored) {
		if !sleep.For(ctx, y.pause(len(rec.Died))) {
			return 0, ctx.Err()
		}
	}
	if err := y.enterAlone(ctx); err != nil {
		return 0, err
	}
	if rec.Alone && rec.Lo == m.Seq && index < rec.Index {
		return 0, nil // those before it in its message were through, too
	}
	if !rec.Is(m.Seq, index, m.Stored) {
		rec = record.Tried{Lo: m.Seq, Hi: m.Seq, Alone: true, Index: index, Stored: m.Stored}
	}
	if err := y.note(ctx, of, rec); err != nil {
		y.leaveAlone()
		return 0, err
	}
	return len(rec.Died), nil
}

// pause is how long the trial of an event waits over which so many died alone: no two processes wait equally long.
// What is only to become a letter waits for nothing.
func (y *deadly) pause(died int) time.Duration {
	if died >= diedAlone {
		return 0
	}
	return time.Duration(died) * y.p.cfg.TrialPause * time.Duration(128+int(y.life[0])) / 256
}

// note writes what is tried next. An error: ctx ended. What cannot be noted is tried all the same.
func (y *deadly) note(ctx context.Context, of *tried, rec record.Tried) error {
	rec.Life = y.life
	err := y.p.retry(ctx, "note what is tried", func() error {
		if err := of.turn.Acquire(ctx, 1); err != nil {
			return err
		}
		defer of.turn.Release(1)
		return y.write(ctx, of, rec)
	})
	if err != nil && ctx.Err() == nil {
		y.p.Log.Warn("what is tried is not noted", "partition", of.partition, "error", err)
		of.until = 0
		return nil
	}
	return err
}

// write writes the record over the one that is known. record.ErrConflict: another process has written it.
func (y *deadly) write(ctx context.Context, of *tried, rec record.Tried) error {
	of.mu.Lock()
	over := of.rev
	of.mu.Unlock()
	for {
		f, err := y.p.Records.Fence(ctx, y.p.cfg.Lane)
		if err != nil {
			return err
		}
		put := record.Put{Key: events.TriedKey(of.partition), Value: rec.Encode(), Expect: over}
		rev, err := y.p.Records.Commit(ctx, f, []record.Put{put})
		if errors.Is(err, record.ErrConflict) {
			rs, e := y.p.Records.Records(ctx, put.Key)
			if e != nil {
				return e
			}
			back := of.now()
			back.Life = record.Life{}
			switch {
			case rs[0].Seq == over: // a collector began
				continue
			case bytes.Equal(rs[0].Value, put.Value): // an answer was lost
				rev, err = rs[0].Seq, nil
			case bytes.Equal(rs[0].Value, back.Encode()): // so was that to who took it back
				over = rs[0].Seq
				continue
			}
		}
		if err == nil {
			of.set(rec, rev)
		}
		return err
	}
}

// read reads the record. One that cannot be read is as none.
func (y *deadly) read(ctx context.Context, partition int) (rec record.Tried, rev uint64, err error) {
	rs, err := y.p.Records.Records(ctx, events.TriedKey(partition))
	if err != nil {
		return rec, 0, err
	}
	if !rs[0].Exists() {
		return rec, rs[0].Seq, nil
	}
	rec, err = record.DecodeTried(rs[0].Value)
	if err != nil {
		y.p.Log.Error("what died persisters had in hand cannot be read", "partition", partition, "error", err)
		rec = record.Tried{}
	}
	return rec, rs[0].Seq, nil
}

// takeBackAll takes the notes back, when the persister ends in order.
func (y *deadly) takeBackAll() {
	var all []int
	for i := range y.of {
		all = append(all, i)
	}
	y.takeBack(all...)
}

// takeBack takes the notes of partitions back, when they are given away in order: nothing died over what they name.
func (y *deadly) takeBack(partitions ...int) {
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTime)
	defer cancel()
	for _, i := range partitions {
		y.takeBackIf(ctx, i, func(rec record.Tried) bool { return rec.Hi > y.p.windows.done(i) })
	}
}

// through takes back the note of an event that was tried alone and is through: its ack may be lost, and it come again.
func (y *deadly) through(s *staged) {
	ctx, cancel := context.WithTimeout(context.Background(), takeBackTime)
	defer cancel()
	y.takeBackIf(ctx, s.msg.Partition, func(rec record.Tried) bool { return rec.Alone && rec.Lo == s.msg.Seq })
}

// takeBackIf takes back the note of a partition that this process left there, if it is such a one.
func (y *deadly) takeBackIf(ctx context.Context, partition int, is func(record.Tried) bool) {
	of := &y.of[partition]
	err := of.turn.Acquire(ctx, 1)
	if err == nil {
		defer of.turn.Release(1)
		rec := of.now()
		if rec.Life != y.life || !is(rec) {
			return
		}
		rec.Life = record.Life{}
		err = y.write(ctx, of, rec)
	}
	if err != nil {
		y.p.Log.Info("what was tried stays noted", "partition", partition, "error", err)
	}
}

// takeBackTime is how long that may take.
const takeBackTime = 2 * time.Second

// verdictOver is the reason of the letter of an event over which so many died alone, nil if it is tried again, and whether
// nothing of it is to be read.
func verdictOver(died int) (why error, unread bool) {
	if died < diedAlone {
		return nil, false
	}
	why = fmt.Errorf("%w: %d persisters died while they tried it alone", apply.ErrPoison, died)
	if unread = died >= diedUnread; unread {
		why = fmt.Errorf("%w; it was not looked at again: if one of them had applied it, its thread has it", why)
	}
	return why, unread
}
