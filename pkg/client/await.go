package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// ErrRemoved: what is waited for is not there, because its thread or its session was removed behind it, or since it was never published.
var ErrRemoved = family.Conflict.New("it was removed with its thread or session, or never published")

// waited is an event that somebody waits for, or several of one thread: all that its producer published to it from a sequence on.
type waited struct {
	thread     events.Thread
	producer   string
	epoch      uint64
	first, seq uint64
	stored     bool // SPOOL_EVENTS has taken it, for certain
}

// Await returns when a thread has taken an event of a producer, or a later one, under whatever name it has now. It asks again and again,
// at growing intervals: up to a quarter of a second, or a twentieth of the time that it has waited; of a server that does not answer, too,
// until ctx ends. *Renamed: it had not taken it before it was renamed, and takes nothing under this name. ErrRefused: the event is a dead
// letter, or another one that was published under its sequence is; who may not read dead letters, or asks once it is removed, is not told.
func (t ThreadHandle) Await(ctx context.Context, producer string, epoch, seq uint64) error {
	return t.c.taken(ctx, waited{t.Thread, producer, epoch, seq, seq, false})
}

// AwaitStored is ThreadHandle.Await for an event that SPOOL_EVENTS has, for certain. ErrRemoved: its thread or session was removed
// behind it.
func (i Internal) AwaitStored(ctx context.Context, e *events.Event) error {
	return i.c.taken(ctx, waited{e.Thread, e.Producer, e.Epoch, e.Seq, e.Seq, i.c.offline == nil})
}

// taken is await for an event that may be refused.
func (c *Client) taken(ctx context.Context, w waited) error {
	if err := c.await(ctx, w); err != nil {
		return err
	}
	return c.unrefused(ctx, w)
}

// awaitStored returns when a thread has taken an event that SPOOL_EVENTS has, and applied or refused it. ErrRemoved: it has been
// removed since, so that no look will find it.
func (c *Client) awaitStored(ctx context.Context, t events.Thread, producer string, epoch, seq uint64) error {
	return c.await(ctx, waited{t, producer, epoch, seq, seq, c.offline == nil})
}

// ErrBehind: what was published before is not applied yet, and what is read lacks it.
var ErrBehind = family.Unavailable.New("what was published to it is not all applied yet; is a persister running?")

// mostAwaited is how long AwaitHead, and whoever reads a thread whole, waits for a persister.
const mostAwaited = 5 * time.Second

// AwaitHead is Thread for whoever needs one: where there is none of that name, but something was published to it that no
// persister has come to, it waits for that, five seconds at most. So who has published may ask at once for what came of it.
func (t ThreadHandle) AwaitHead(ctx context.Context) (threads.Head, error) {
	if head, err := t.Head(ctx); !isNone(err) {
		return head, err
	}
	return t.c.reaching(ctx, t.Thread, func(_ natsio.Newest, _ threads.Head, err error) bool { return !isNone(err) })
}

// caughtUp is Thread with all that was published to it before, once a persister has come to that. ErrBehind, beside the head: none has
// within five seconds. Who may not ask what was published is given what there is.
func (c *Client) caughtUp(ctx context.Context, t events.Thread) (threads.Head, error) {
	return c.reaching(ctx, t, func(newest natsio.Newest, head threads.Head, err error) bool {
		e := newest.Last // a commit may take only the first ones of its message; and where it repeats one, the thread has it before its time
		return err != nil && !isNone(err) || head.Applied > newest.Seq ||
			head.Applied == newest.Seq && head.Duplicate(e.Producer, e.Epoch, e.Seq)
	})
}

// Settled returns when persisters are done with what was published to a thread before: it is in the thread, or a dead letter.
// ErrBehind: they are not within five seconds.
func (t ThreadHandle) Settled(ctx context.Context) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return t.c.awaiting(ctx, t.Thread, func() error { return nil }, func(natsio.Newest, error) bool { return false })
}

// Unapplied is what a producer has published to a thread and no persister may have come to yet, in the order in which it
// is stored: all that head, which was read before, lacks, and perhaps some that it has. Who may not ask what was published is told nothing.
func (i Internal) Unapplied(ctx context.Context, t events.Thread, head threads.Head, producer string,
	epoch uint64) ([]events.Linked, error) {
	newest, err := i.c.events.NewestEvent(ctx, t)
	from := head.Applied // a commit may take only the first ones of its message
	switch {
	case errors.Is(err, record.ErrDenied), err == nil && (newest.Seq == 0 || newest.Seq < from):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch done, err := i.c.events.Done(ctx, newest); {
	case done, errors.Is(err, record.ErrDenied):
		return nil, nil
	case err != nil && !errors.Is(err, record.ErrNotFound): // no persister was ever there
		return nil, err
	}
	if left, err := apply.ReadLeft(ctx, i.c.records, t); err != nil {
		return nil, err
	} else if left != nil { // what an earlier thread of the name had
		from = max(from, left.Head.Applied+1)
	}
	past, err := i.c.events.Past(ctx, t, producer, epoch, from, newest.Seq+1, 0)
	if errors.Is(err, record.ErrDenied) {
		return nil, nil
	}
	return past.Links, err
}

// isNone tells that there is no thread, and that none has taken its name away.
func isNone(err error) bool {
	return errors.Is(err, threads.ErrNoThread) && !errors.As(err, new(*Renamed))
}

// Await returns when there is something of a session: a thread, an artifact, a run or an output. Where there is nothing, but
// something was published to it that no persister has come to, it waits for that, five seconds at most. ErrSessionNotFound: there is none
// of that name.
func (s SessionHandle) Await(ctx context.Context) error {
	if err := events.CheckToken("session", s.ID); err != nil {
		return err
	}
	return s.reaching(ctx, ErrSessionNotFound, func() error {
		if rs, err := s.c.records.Records(ctx, events.SessionKey(s.ID)); err == nil && rs[0].Exists() { // as nearly all have
			return nil
		}
		_, _, err := s.c.carrier(ctx, s.ID)
		return err
	})
}

// reaching looks for something of a session until look finds it, which says none where it is not there, or persisters are done with what
// was published to the session before.
func (s SessionHandle) reaching(ctx context.Context, none error, look func() error) error {
	found := look()
	if !errors.Is(found, none) {
		return found
	}
	again := func() error {
		found = look()
		return found
	}
	every := events.Thread{Session: s.ID, Name: events.EveryThread}
	err := s.c.awaiting(ctx, every, again, func(_ natsio.Newest, err error) bool { return !errors.Is(err, none) })
	if errors.Is(err, ErrBehind) && !errors.Is(found, none) {
		return found
	}
	return err
}

// reaching looks at a thread until that is enough, or persisters are done with the newest message that it had before. Whoever does not
// answer says neither.
func (c *Client) reaching(
	ctx context.Context, t events.Thread, enough func(natsio.Newest, threads.Head, error) bool,
) (head threads.Head, err error) {
	look := func() (err error) {
		head, err = c.Thread(t).Head(ctx)
		return err
	}
	err = c.awaiting(ctx, t, look, func(newest natsio.Newest, err error) bool { return enough(newest, head, err) })
	return head, err
}

// awaiting is reaching for any look at a thread, or with EveryThread at a session.
func (c *Client) awaiting(ctx context.Context, t events.Thread, look func() error, enough func(natsio.Newest, error) bool) error {
	short, cancel := context.WithTimeout(ctx, mostAwaited)
	defer cancel()
	var newest natsio.Newest
	err := c.Flush(short) // what this client has on its disk was published before, too
	if err == nil {
		err = retry.Do(short, nil, func() (err error) {
			newest, err = c.events.NewestEvent(short, t)
			return err
		})
	}
	found := look() // behind the question: an event is acked behind its commit
	passed := func(ctx context.Context) bool {
		done, err := c.events.Done(ctx, newest)
		return done || errors.Is(err, record.ErrDenied)
	}
	switch {
	case errors.Is(err, record.ErrDenied), err == nil && enough(newest, found):
		return found
	case err == nil && passed(short):
		return look()
	case err == nil:
		if lost := sleep.Aside(ctx, func() error {
			err = natsio.Settle(short, c.events, t, passed, func(done bool) (bool, error) {
				found = look()
				return done || enough(newest, found), nil
			})
			return nil
		}); lost != nil { // it may not go on, whatever was found
			return lost
		}
	}
	switch {
	case err == nil:
		return found
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errors.Join(found, fmt.Errorf("%s: %w", t, ErrBehind))
}

func (c *Client) await(ctx context.Context, w waited) error {
	var unknown error // why the last look that was not cut short saw nothing
	begun, look := time.Now(), time.Second
	passed := natsio.UpTo(c.events, w.thread, 0)
	waits := natsio.Wait(c.events, w.thread)
	defer waits.End()
	for {
		applied, err := c.applied(ctx, w)
		if ctx.Err() == nil {
			unknown = err
		}
		if applied || unknown != nil && !record.Again(unknown) {
			return err
		}
		if unknown == nil && time.Since(begun) >= look {
			// A name that an event failed to take says nothing of it, nor does a thread that may have no other producer.
			if err := c.refusal(ctx, w); errors.Is(err, ErrRefused) {
				return err
			}
			if w.stored {
				if err := c.removal(ctx, w); err != nil {
					return err
				}
			} else {
				passed(ctx) // says nothing of the event, but in the log where no persister runs
			}
			look *= 2
		}
		switch _, err := waits.Next(ctx); {
		case err != nil && unknown != nil:
			return fmt.Errorf("%s: whether it has taken in what was published is not known: %w: %w", w.thread, unknown, err)
		case err != nil:
			return fmt.Errorf("%s has not taken in what was published yet; is a persister running? %w", w.thread, err)
		}
	}
}

// mostRenames is how far a thread is followed for what it took under an earlier name.
const mostRenames = 8

// applied reports whether the thread has taken an event, under whatever name it has now. *Renamed: it has not, and takes none any more.
func (c *Client) applied(ctx context.Context, w waited) (bool, error) {
	t, renamed, was := w.thread, error(nil), (*Renamed)(nil)
	for range mostRenames {
		head, err := c.Thread(t).Head(ctx)
		switch {
		case errors.As(err, &was):
			t, renamed = was.To, cmp.Or(renamed, err)
			continue
		case err != nil && !errors.Is(err, threads.ErrNoThread):
			return false, err
		case head.Duplicate(w.producer, w.epoch, w.seq):
			return true, nil
		}
		break
	}
	return false, renamed
}

// removal is an ErrRemoved when persisters are done with all that was published to the thread, and it does not know the
// event: it was applied, or skipped, before its thread or session was removed. nil also when that cannot be found out now.
func (c *Client) removal(ctx context.Context, w waited) error {
	newest, err := c.events.NewestEvent(ctx, w.thread)
	if err != nil {
		return nil //nolint:nilerr // the caller asks again
	}
	if done, err := c.events.Done(ctx, newest); err != nil || !done {
		return nil //nolint:nilerr // the caller asks again
	}
	if err := c.refusal(ctx, w); errors.Is(err, ErrRefused) {
		return err
	} else if err != nil {
		return nil //nolint:nilerr // the caller asks again
	}
	applied, err := c.applied(ctx, w) // an event is acked behind its commit
	if applied || err != nil {
		return nil //nolint:nilerr // the caller asks again
	}
	return fmt.Errorf("%w: what was published to %s", ErrRemoved, w.thread)
}

// unrefused is an ErrRefused with the reason where a thread refused an event that it notes: it notes those too. The commit that refuses one
// says so in a record, until its dead letter is out: so the record is read before the letters. nil also for whoever may read neither.
func (c *Client) unrefused(ctx context.Context, w waited) error {
	err := retry.Do(ctx, nil, func() error {
		var refused events.Event
		reason, found, err := c.dead.Owed(ctx, w.thread, func(e events.Event) bool {
			refused = e
			return w.is(e)
		})
		if found {
			return fmt.Errorf("%w: %s, seq %d of %s: %s", ErrRefused, w.thread, refused.Seq, w.producer, reason)
		}
		if err != nil && !errors.Is(err, record.ErrDenied) {
			return err
		}
		return c.refusal(ctx, w)
	})
	if err != nil && !errors.Is(err, ErrRefused) {
		return fmt.Errorf("%s: whether it refused what it took in is not known: %w", w.thread, err)
	}
	return err
}

// is reports whether that is the event, or one of the events.
func (w waited) is(e events.Event) bool {
	return e.Thread == w.thread && e.Producer == w.producer && e.Epoch == w.epoch && w.first <= e.Seq && e.Seq <= w.seq
}

// refusal is the reason of an event's dead letter, as an ErrRefused; nil if it has none, or to who may not read letters. Any other error
// says nothing of the event.
func (c *Client) refusal(ctx context.Context, w waited) error {
	var refused error
	err := c.dead.EachLetter(ctx, w.thread, func(d DeadLetter) error {
		if refused != nil {
			return nil
		}
		raw, err := c.letterBytes(ctx, d)
		if errors.Is(err, record.ErrNotFound) { // nobody can tell any more whose it is
			return nil
		}
		if err != nil {
			return err
		}
		if e, err := events.Open(d.Subject, raw); err == nil && w.is(e) {
			refused = fmt.Errorf("%w: %s, seq %d of %s: %s (dead letter %d)", ErrRefused, w.thread, e.Seq, w.producer, d.Reason, d.At)
		}
		return nil
	})
	if refused != nil || errors.Is(err, record.ErrDenied) {
		return refused
	}
	return err
}
