package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Config of a watch.
type Config struct {
	Roots []string               // directories and files, absolute; one that is not there is waited for
	Match func(path string) bool // whether a file of a directory is one to capture, by its name
	Still func(path string) bool // whether one is captured whole, when it has been quiet; nil: each line is as it comes

	// Store asks what changes are captured into. An error means that it does not answer.
	Store func(ctx context.Context) (Store, error)
	// Capture stores what changes say, and returns when that is durable. took says what became of each
	// change; err, instead, that the store does not answer: nothing is known of any. To capture anything again must
	// add nothing.
	Capture func(ctx context.Context, changes []Change) (took []Taken, err error)

	Memory string        // file of the marks; empty: they are forgotten at the end
	Tell   func(Event)   // called by one goroutine
	Every  time.Duration // least time between two walks; 0 = 1s. They take a two hundredth of the time at most
	Grace  time.Duration // for what is captured when the watch is to end; 0 = 5s
}

// Taken is what became of a change.
type Taken struct {
	Of   string // what the file is a copy of, as the store calls it; "": of nothing that others can be copies of
	Part string // what it is a part of, as the store calls it, with other files; "": of nothing
	Anew bool   // the store had lost what it had of the file, and may have lost those others
	Err  error

	Wait bool // it is not to be taken yet: it is tried again, and nobody is told
}

// Event is something that a person or a program may want to know of a watch.
type Event struct {
	Kind  Kind
	Files int    // of KindBegun: that are known; of KindAway: that wait
	Path  string // of KindFailed
	Err   error
}

// Kind is what an Event says.
type Kind string

// The kinds of events.
const (
	KindBegun     Kind = "watching"  // the first walk is done
	KindAway      Kind = "waiting"   // the store does not answer; told once, until it does
	KindBack      Kind = "back"      // it answers again
	KindForgotten Kind = "forgotten" // what is remembered is of another store, or cannot be read: all is captured anew
	KindFailed    Kind = "failed"    // a file, or the memory, cannot be captured, read or written; each reason once
	KindSlow      Kind = "slow"      // not every directory is watched: walks find what changes in it
)

// A batch is small, so that what is written meanwhile does not wait for long.
const (
	batchFiles = 64
	batchBytes = 16 << 20
)

const (
	gather     = 20 * time.Millisecond  // how long a note waits for others that come with it
	mostPause  = 300 * time.Millisecond // between two passes; else half as long as the last one took
	awayEvery  = 500 * time.Millisecond // a store that is away is asked so often
	askEvery   = time.Minute            // one that is there, whether it is still the same
	saveEvery  = 5 * time.Second        // marks
	walkShare  = 200                    // walks are so much rarer than they are long
	lookEvery  = 250 * time.Millisecond // at what changed lately, where notifications lack
	lately     = 10 * time.Minute
	mostLately = 100
)

// Watch captures what changes.
type Watch struct {
	cfg   Config
	tree  *Tree
	notes *notes

	store   Store // whose marks the tree has
	away    bool
	asked   time.Time         // when the store answered last
	saved   time.Time         // when the marks were
	walked  time.Time         // when the last walk ended
	took    time.Duration     // how long it took
	reasons map[string]string // that were told, by path
	slow    bool              // that was told
}

// New makes a watch.
func New(cfg Config) *Watch {
	cfg.Every, cfg.Grace = cmp.Or(cfg.Every, time.Second), cmp.Or(cfg.Grace, 5*time.Second)
	w := &Watch{cfg: cfg, tree: NewTree(cfg.Roots, cfg.Match, cfg.Still), reasons: map[string]string{}}
	return w
}

// Once captures everything that there is, and returns what could not be.
func (w *Watch) Once(ctx context.Context) error {
	w.notes = &notes{}
	if _, err := w.ask(ctx); err != nil {
		return err
	}
	var errs []error
	for ctx.Err() == nil {
		if w.walked.IsZero() { // at the beginning, and in another store
			w.walked = time.Now()
			errs = append(errs, w.tree.Walk(nil))
		}
		changes, err := w.tree.Take(batchFiles, batchBytes, true)
		if len(changes) == 0 { // what cannot be looked at stays
			errs = append(errs, err)
			break
		}
		took, err := w.capture(ctx, changes)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i, it := range took {
			if errs = append(errs, it.Err); it.Err != nil || it.Wait {
				w.tree.forget(changes[i].Path) // it was its only try
			}
		}
	}
	return errors.Join(append(errs, ctx.Err(), w.save(true))...)
}

// Run captures what changes, until ctx ends: then what is whole by then. A crash loses marks alone.
//
//  1. Ask the store who it is, and take what is remembered of it.
//  2. Walk; from then on directories are watched.
//  3. Capture what differs, in batches.
//  4. Wait for a note, a file that is due, or the time of the next walk.
func (w *Watch) Run(ctx context.Context) error {
	w.notes = newNotes()
	defer w.notes.close()
	begun := false
	for ctx.Err() == nil {
		work, stop := w.graced(ctx)
		if w.away || time.Since(w.asked) > askEvery {
			w.asking(work)
		}
		if !w.away && time.Since(w.walked) >= w.every() {
			w.walk()
			if !begun {
				begun = true
				w.tell(Event{Kind: KindBegun, Files: w.tree.Files()})
			}
		}
		start := time.Now()
		w.pass(work, false)
		stop()
		w.told("", w.save(false))
		w.wait(ctx, min(max(gather, time.Since(start)/2), mostPause))
	}
	return w.end(ctx)
}

// graced is a context that outlives ctx by the grace.
func (w *Watch) graced(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() { time.AfterFunc(w.cfg.Grace, cancel) })
	return work, func() { undo(); cancel() }
}

// end captures what is whole. What is not stays in its file.
func (w *Watch) end(ctx context.Context) error {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Grace)
	defer cancel()
	if w.asking(work); w.away {
		return w.save(true)
	}
	w.walk()
	for n := w.tree.Waiting() + 1; n > 0 && work.Err() == nil && w.pass(work, false); n-- {
	}
	return w.save(true)
}

// pass captures a batch, and reports whether there was one.
func (w *Watch) pass(ctx context.Context, all bool) bool {
	if w.away {
		return false
	}
	changes, err := w.tree.Take(batchFiles, batchBytes, all)
	w.told("look", err)
	if len(changes) == 0 || ctx.Err() != nil {
		return false
	}
	took, err := w.capture(ctx, changes)
	if err != nil {
		w.gone(err)
		return false
	}
	for i, c := range changes {
		if ctx.Err() == nil {
			w.told(c.Path, took[i].Err)
		}
	}
	return true
}

// capture stores changes, and marks them. Where the store is not the one that was asked last, nobody knows which of
// them has what: then nothing is marked.
func (w *Watch) capture(ctx context.Context, changes []Change) (took []Taken, err error) {
	if took, err = w.cfg.Capture(ctx, changes); err != nil {
		return nil, err
	}
	if same, err := w.ask(ctx); err != nil || !same {
		return took, err
	}
	for i, c := range changes {
		if took[i].Anew && w.tree.lost(took[i].Part, changes) {
			w.walked = time.Time{}
		}
		c.mark.Of, c.mark.Part = took[i].Of, took[i].Part
		switch {
		case took[i].Err != nil:
			w.tree.Failed(c)
		case took[i].Wait:
			w.tree.Waits(c)
		default: // durable: a crash before the marks are saved costs that it is captured again
			w.tree.Captured(c)
		}
	}
	return took, nil
}

// ask asks the store who it is. same: the one that it was before, with all that it had. Of another one nothing is
// remembered.
func (w *Watch) ask(ctx context.Context) (same bool, err error) {
	now, err := w.cfg.Store(ctx)
	if err != nil {
		return false, err
	}
	was := w.store
	w.asked, w.store = time.Now(), now
	if was.ID == now.ID && was.Last <= now.Last && was.ID != "" {
		return true, nil
	}
	known := false
	if w.cfg.Memory != "" && was.ID == "" {
		if known, err = w.tree.load(w.cfg.Memory, now); err != nil {
			w.tell(Event{Kind: KindForgotten, Err: err})
		}
	}
	if !known && was.ID != "" {
		w.tree.reset()
		w.tell(Event{Kind: KindForgotten, Err: errors.New("this is another Spool than before, or it lost what it had")})
	}
	w.walked = time.Time{}
	return false, nil
}

// asking is ask that tells when the store goes, and comes back.
func (w *Watch) asking(ctx context.Context) {
	if _, err := w.ask(ctx); err != nil {
		w.gone(err)
		return
	}
	if w.away {
		w.away = false
		w.tell(Event{Kind: KindBack})
	}
}

func (w *Watch) gone(err error) {
	if !w.away {
		w.away = true
		w.tell(Event{Kind: KindAway, Files: w.tree.Waiting(), Err: err})
	}
}

// every is the time between two walks.
func (w *Watch) every() time.Duration { return max(w.cfg.Every, walkShare*w.took) }

func (w *Watch) walk() {
	start := time.Now()
	w.told("walk", w.tree.Walk(w.notes.add))
	w.walked = time.Now()
	w.took = w.walked.Sub(start)
	if w.notes.lacks != nil && !w.slow {
		w.slow = true
		w.tell(Event{Kind: KindSlow, Err: w.notes.lacks})
	}
}

// wait takes notes until a pass is to be made: pause after the last one, when there is something to do.
func (w *Watch) wait(ctx context.Context, pause time.Duration) {
	next := w.walked.Add(w.every())
	if w.away {
		next = time.Now().Add(awayEvery)
	} else if due, ok := w.tree.Next(); ok && due.Before(next) {
		if next = due; !due.After(time.Now()) { // the batch was full
			pause = gather
		}
	}
	if w.notes.lacks != nil && !w.away {
		next = earlier(next, time.Now().Add(lookEvery))
		defer func() {
			for _, path := range w.tree.Recent(lately, mostLately) {
				w.told(path, w.tree.Note(path, w.notes.add))
			}
		}()
	}
	if w.tree.changed {
		next = earlier(next, w.saved.Add(saveEvery))
	}
	timer := time.NewTimer(max(time.Until(next), pause))
	defer timer.Stop()
	noted := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case e := <-w.notes.events:
			w.told(e.Name, w.tree.Note(e.Name, w.notes.add))
			if w.tree.Waiting() > 0 && !noted && !w.away {
				noted = true
				timer.Reset(pause)
			}
		case err := <-w.notes.errors:
			if lost(err) {
				w.walked = time.Time{}
				return
			}
			w.told("notifications", err)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// save writes the marks, not often.
func (w *Watch) save(now bool) error {
	if w.cfg.Memory == "" || !w.tree.changed || w.store.ID == "" || !now && time.Since(w.saved) < saveEvery {
		return nil
	}
	w.saved = time.Now()
	if err := w.tree.save(w.cfg.Memory, w.store); err != nil {
		return fmt.Errorf("remember what was captured: %w", err)
	}
	return nil
}

// told tells of an error, once for each reason.
func (w *Watch) told(path string, err error) {
	if err == nil {
		delete(w.reasons, path)
		return
	}
	if w.reasons[path] != err.Error() {
		w.reasons[path] = err.Error()
		w.tell(Event{Kind: KindFailed, Path: path, Err: err})
	}
}

func (w *Watch) tell(e Event) {
	if w.cfg.Tell != nil {
		w.cfg.Tell(e)
	}
}
