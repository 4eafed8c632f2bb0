// Package notify tells a program, or an address, what needs a person: prompts that wait for an answer, threads that ended badly, runs that
// ended. Each is told until it is taken, one at a time, and keeps its id, so that who is told twice can know it. Where a name stands is
// kept in Spool.
package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"spool/pkg/client"
	"spool/pkg/events"
)

// Note is what is told, as JSON.
type Note struct {
	ID   string `json:"-"`    // the same whenever it is told
	Type string `json:"type"` // Asked, Failed, or RunEnded
	Time string `json:"timestamp"`
	Data Data   `json:"data"`
}

// Data says what it is about.
type Data struct {
	Session    string          `json:"session"`
	Thread     string          `json:"thread"`
	Item       int64           `json:"n,omitempty"`
	Node       string          `json:"node,omitempty"`
	Text       string          `json:"text,omitempty"` // at most 4,000 characters of the question, or of how it ended
	Prompt     string          `json:"prompt,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Deadline   int64           `json:"deadline,omitempty"` // Unix milliseconds
	ReturnCode json.RawMessage `json:"return_code,omitempty"`
	Run        string          `json:"run,omitempty"`
	State      string          `json:"state,omitempty"`   // of the run
	Expired    bool            `json:"expired,omitempty"` // its lease is over
}

// Types of notes.
const (
	Asked    = "prompt.asked"
	Failed   = "thread.failed"
	RunEnded = "run.ended"
)

// Teller takes a note; an error has it told again.
type Teller func(ctx context.Context, n Note, body []byte) error

const (
	mostWait   = time.Minute      // between two tries
	mostTries  = 24 * time.Hour   // then a note is given up
	mostAlone  = 5                // tries of one before those behind it are told, too
	mostAhead  = 10 * time.Second // to look for those
	mostText   = 4000             // characters
	subDurable = "notify-"
)

// Config says what is told, and to whom.
type Config struct {
	Session string // of which it is told; "": of all
	Failed  bool   // also threads that ended with another return code than 0
	Runs    bool   // also runs that ended
	Tell    Teller
	Log     *slog.Logger
}

// Run tells until ctx ends. Under a name it goes on where the last one that had it stopped, and begins with what waits; of several of a
// name at a time one tells. Without a name it begins with the next one.
func Run(ctx context.Context, cl *client.Client, name string, cfg Config) error {
	if name == "" {
		return run(ctx, cl, "", cfg)
	}
	// What is told comes over several subscriptions, each of which would be given to another process.
	return cl.Internal().Alone(ctx, subDurable+name, cfg.Session, func(ctx context.Context) error { return run(ctx, cl, name, cfg) })
}

func run(ctx context.Context, cl *client.Client, name string, cfg Config) error {
	r := runner{Config: cfg, cl: cl, early: map[string]bool{}}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.follow(ctx, name, "prompts", events.TypePendingPrompt, r.asked) })
	if cfg.Failed {
		g.Go(func() error { return r.follow(ctx, name, "ends", events.TypeStatus, r.failed) })
	}
	if cfg.Runs {
		g.Go(func() error { return r.runs(ctx, name) })
	}
	return g.Wait()
}

type runner struct {
	Config
	cl    *client.Client
	one   sync.Mutex      // one note is under way at a time
	early map[string]bool // by id: those taken before one that comes first
}

// maker is what an item is told as, and false where it is not, any more.
type maker func(context.Context, client.Item) (Note, bool, error)

// follow tells of items of a type.
func (r *runner) follow(ctx context.Context, name, what, typ string, note maker) error {
	filter := client.Filter{Session: r.Session, Type: typ}
	items := r.cl.Subscribe(ctx, filter, client.Position{})
	if name != "" {
		items = r.cl.SubscribeDurable(ctx, subDurable+name+"-"+what, filter, client.Position{All: what == "prompts"})
	}
	for it, err := range items {
		if errors.Is(err, client.ErrGap) {
			r.Log.Warn("items were removed before they were read", "error", err)
			continue
		}
		if err == nil {
			err = r.tell(ctx, it, filter, note)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tell tells of an item until it is taken. One that is not taken for long lets those behind it go first.
func (r *runner) tell(ctx context.Context, it client.Item, behind client.Filter, note maker) error {
	wait := backoff.NewExponentialBackOff(backoff.WithMaxInterval(mostWait), backoff.WithMaxElapsedTime(mostTries))
	of := fmt.Sprintf("%s/%s item %d", it.Session, it.Thread, it.N)
	passed := map[string]bool{}
	for tries := 1; ; tries++ {
		err := r.try(ctx, it, note, false)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		pause := wait.NextBackOff()
		if pause == backoff.Stop || errors.As(err, new(*backoff.PermanentError)) {
			r.Log.Error("given up", "of", of, "error", err)
			return nil
		}
		r.Log.Warn("not taken, and told again", "of", of, "in", pause, "error", err)
		again := time.NewTimer(pause)
		if tries >= mostAlone {
			r.ahead(ctx, pause, behind, it.Seq+1, note, passed)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

// ahead tells of the items behind a place, from a sequence of SPOOL_ITEMS on, until one is not taken, or until the pause is over and none
// is left: one that comes meanwhile does not wait. The next call passes over the one that was not taken, until one has come to the end: so
// a target that takes nothing is told of one at a time, and several that it does not take hold up none behind them.
func (r *runner) ahead(
	ctx context.Context, pause time.Duration, behind client.Filter, from uint64, note maker, passed map[string]bool,
) {
	looking, stop := context.WithTimeout(ctx, max(pause, mostAhead))
	defer stop()
	var atEnd atomic.Bool
	over := time.AfterFunc(pause, func() {
		if atEnd.Load() {
			stop()
		}
	})
	defer over.Stop()
	began := time.Now()
	for it, err := range r.cl.Subscribe(looking, behind, client.Position{Seq: from}) {
		atEnd.Store(false)
		if id := idOf(it); err == nil && !passed[id] {
			if err = r.try(ctx, it, note, true); err != nil {
				passed[id] = true
			}
		}
		if err != nil {
			return
		}
		if it.More > 0 {
			continue
		}
		clear(passed)
		if atEnd.Store(true); time.Since(began) >= pause {
			return
		}
	}
}

// try tells of an item once; early: before one that comes first.
func (r *runner) try(ctx context.Context, it client.Item, note maker, early bool) error {
	r.one.Lock()
	defer r.one.Unlock()
	id := idOf(it)
	if r.early[id] {
		if !early {
			delete(r.early, id)
		}
		return nil
	}
	n, ok, err := note(ctx, it) // again each time: it may be answered meanwhile
	if err != nil || !ok {
		return err
	}
	n.ID, n.Time = id, it.CreatedAt
	body, err := json.Marshal(n)
	if err != nil {
		return backoff.Permanent(err)
	}
	if err = r.Tell(ctx, n, body); err == nil && early {
		r.early[id] = true
	}
	return err
}

// asked is a prompt that waits for an answer.
func (r *runner) asked(ctx context.Context, it client.Item) (n Note, ok bool, err error) {
	var meta struct {
		Prompt struct {
			ID string `json:"id"`
		} `json:"prompt"`
	}
	if json.Unmarshal(it.Metadata, &meta) != nil || meta.Prompt.ID == "" {
		return n, false, nil
	}
	p, err := r.cl.Thread(events.Thread{Session: it.Session, Name: it.Thread}).Prompt(ctx, meta.Prompt.ID)
	switch {
	case errors.Is(err, client.ErrNoPrompt), errors.Is(err, client.ErrNotFound): // removed, with its thread or without
		return n, false, nil
	case err != nil:
		return n, false, err
	case p.Resolution.Outcome != "" || p.Overdue(time.Now()) || !p.Answerable || p.Life != 0 && it.Life != 0 && p.Life != it.Life:
		return n, false, nil
	}
	n = of(it, Asked)
	n.Data.Text, n.Data.Prompt, n.Data.Kind, n.Data.Deadline = cut(p.Text), p.ID, p.Kind, p.Deadline
	return n, true, nil
}

// failed is the end of a thread with a return code that is not 0.
func (r *runner) failed(_ context.Context, it client.Item) (n Note, ok bool, err error) {
	var meta struct {
		Status     string          `json:"status"`
		ReturnCode json.RawMessage `json:"returnCode"`
	}
	if json.Unmarshal(it.Metadata, &meta) != nil || meta.Status != "ended" {
		return n, false, nil
	}
	if code := string(meta.ReturnCode); code == "" || code == "0" || code == "null" {
		return n, false, nil
	}
	n = of(it, Failed)
	n.Data.Text, n.Data.ReturnCode = cut(it.Text()), meta.ReturnCode
	return n, true, nil
}

// runs tells of runs that end. One that is not taken is told again behind others.
func (r *runner) runs(ctx context.Context, name string) error {
	if name != "" {
		name = subDurable + name + "-runs"
	}
	failing := map[string]*tries{} // by the note's id
	return r.cl.Session(r.Session).RunEnds(ctx, name, func(run client.RunInfo) (again time.Duration) {
		n := runNote(run)
		err := r.tellRun(ctx, n)
		f := failing[n.ID]
		delete(failing, n.ID)
		if err == nil {
			return 0
		}
		if f == nil {
			f = &tries{since: time.Now()}
		}
		of := fmt.Sprintf("run %s of %s", run.ID, run.Thread)
		again = min(time.Second<<min(f.n, 6), mostWait)
		f.n++
		switch {
		case ctx.Err() != nil: // the next watch tells of it
		case time.Since(f.since) > mostTries:
			r.Log.Error("given up", "of", of, "error", err)
			return 0
		default:
			failing[n.ID] = f
			r.Log.Warn("not taken, and told again", "of", of, "in", again, "error", err)
		}
		return again
	})
}

// tries are those of a note that was not taken yet.
type tries struct {
	since time.Time
	n     int
}

func (r *runner) tellRun(ctx context.Context, n Note) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	r.one.Lock()
	defer r.one.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.Tell(ctx, n, body)
}

// runNote has the same id whenever it is told that a run ended so. One whose lease is over may come back, and end again.
func runNote(run client.RunInfo) Note {
	of := fmt.Sprintf("run %s/%s %d %s", run.Thread.Session, run.ID, events.MillisOf(run.Begun), run.State)
	if run.Expired {
		of += fmt.Sprintf(" %d", events.MillisOf(run.Touched))
	}
	return Note{ID: noteID(of), Type: RunEnded, Time: events.StampOf(cmp.Or(run.Touched, time.Now())), Data: Data{
		Session: run.Thread.Session, Thread: run.Thread.Name, Run: run.ID, State: string(run.State), Expired: run.Expired, Text: cut(run.Summary),
	}}
}

func of(it client.Item, typ string) Note {
	return Note{Type: typ, Data: Data{Session: it.Session, Thread: it.Thread, Item: it.N, Node: it.Node}}
}

// idOf is the same for an item whenever it is told, and another one for each other item.
func idOf(it client.Item) string {
	return noteID(fmt.Sprintf("%s/%s %d %d", it.Session, it.Thread, it.Life, it.N))
}

func noteID(of string) string {
	sum := sha256.Sum256([]byte(of))
	return "msg_" + hex.EncodeToString(sum[:16])
}

func cut(s string) string {
	if r := []rune(s); len(r) > mostText {
		return string(r[:mostText]) + "…"
	}
	return s
}
