package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/apply"
	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Prompt is a question that an agent put to a person (SPEC I8).
type Prompt struct {
	Thread events.Thread
	events.Prompt
	Item       int64     // number of the item that asks; 0 = unknown
	Asked      time.Time // zero = unknown
	Answerable bool      // false: a transcript tells of it, and it is answered where its agent runs; or its thread has ended
	// Life tells the threads apart that had the name, as that of an Item; 0 = unknown. Whoever shows a prompt and answers it later gives it
	// with the answer: that is not one to a later thread's prompt then.
	Life uint64
	// Resolution is how it was settled; its Outcome is "" while it waits.
	Resolution events.Resolution
}

// Overdue tells that the deadline of a prompt has passed: nobody can answer it any more, and an approval counts as denied,
// also before anyone has noted it.
func (p Prompt) Overdue(now time.Time) bool { return p.Deadline != 0 && now.UnixMilli() >= p.Deadline }

var (
	// ErrNoPrompt: there is no prompt of that id in the thread.
	ErrNoPrompt = apply.ErrNoPrompt
	// ErrAnswered: the prompt was settled before, by another answer or by its deadline; how is told with it.
	ErrAnswered = family.Conflict.New("the prompt was settled before")
	// ErrPromptTaken: another question was asked under the id in this thread, whether it waits or was answered.
	ErrPromptTaken = family.Conflict.New("another question has this id")
)

// Prompts lists the prompts that wait for an answer. It reads records, never
// threads; those of threads that have ended are left out.
func (s SessionHandle) Prompts(ctx context.Context) ([]Prompt, error) {
	rs, err := s.c.records.List(ctx, events.PromptKeys(s.ID))
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	ts := make([]events.Thread, len(rs))
	heads := make([]string, len(rs))
	for i, r := range rs {
		ts[i], _ = events.ParsePromptKey(r.Key)
		heads[i] = events.HeadKey(ts[i])
	}
	active, err := s.c.records.Records(ctx, heads...)
	if err != nil {
		return nil, err
	}
	out := make([]Prompt, 0, len(rs))
	for i, r := range rs {
		if !active[i].Exists() {
			continue
		}
		if p, err := record.DecodePrompt(r.Value); err == nil { // else nobody can answer it
			out = append(out, promptOf(ts[i], p))
		}
	}
	return out, nil
}

func promptOf(t events.Thread, p record.Prompt) Prompt {
	return Prompt{Thread: t, Prompt: p.Prompt, Item: p.Item, Asked: whenever(p.Asked), Answerable: p.Dialect == "item", Life: p.Life,
		Resolution: p.Resolution}
}

// Prompt finds a prompt, open or settled. ErrNoPrompt: there is none of that id; with ErrBehind, no persister came within five seconds to
// what was published to the thread. So it is with AwaitAnswer and Answer.
func (t ThreadHandle) Prompt(ctx context.Context, id string) (Prompt, error) {
	r, err := t.c.awaitPrompt(ctx, t.Thread, id)
	p := promptOf(t.Thread, r)
	if err == nil && p.Answerable && !r.Settled() {
		head, none := t.Head(ctx)
		p.Answerable = none != nil || head.Status != threads.StatusCompleted
	}
	return p, err
}

// prompt finds the prompt of an id that a thread asked itself: how an earlier thread of its name settled one says nothing of it (SPEC P12).
func (c *Client) prompt(ctx context.Context, t events.Thread, id string) (record.Prompt, error) {
	p, err := c.storedPrompt(ctx, t, id)
	if err != nil || !p.Settled() { // a thread whose prompt waits keeps its name
		return p, err
	}
	life, err := c.lifeOf(ctx, t) // behind the record, and so no older
	if errors.Is(err, threads.ErrNoThread) || err == nil && !p.InLife(life) {
		if now, again := c.storedPrompt(ctx, t, id); again == nil && err == nil && now.InLife(life) { // settled between two reads
			return now, nil
		}
		return record.Prompt{}, noPrompt(t, id)
	}
	return p, err
}

// awaitPrompt is prompt once the thread has what was published to it before, if there is none.
func (c *Client) awaitPrompt(ctx context.Context, t events.Thread, id string) (record.Prompt, error) {
	p, err := c.prompt(ctx, t, id)
	if !errors.Is(err, ErrNoPrompt) {
		return p, err
	}
	_, behind := c.caughtUp(ctx, t)
	if p, err = c.prompt(ctx, t, id); errors.Is(err, ErrNoPrompt) && errors.Is(behind, ErrBehind) {
		err = errors.Join(err, behind)
	}
	return p, err
}

// lifeOf is where in SPOOL_EVENTS the thread of a name begins; 0: it is not known, or the thread has another name now.
// threads.ErrNoThread: there is none.
func (c *Client) lifeOf(ctx context.Context, t events.Thread) (uint64, error) {
	head, err := c.Thread(t).Head(ctx)
	if errors.As(err, new(*Renamed)) || isUnreadable(err) {
		return 0, nil
	}
	return head.Began, err
}

func noPrompt(t events.Thread, id string) error {
	return fmt.Errorf("%w: %q in %s", ErrNoPrompt, id, t)
}

// storedPrompt reads the prompt of an id that is stored under a thread's name.
func (c *Client) storedPrompt(ctx context.Context, t events.Thread, id string) (record.Prompt, error) {
	if err := t.Validate(); err != nil {
		return record.Prompt{}, err
	}
	for range 2 { // the two are not read at one moment: of one that is settled in between neither may be seen
		rs, err := c.records.Records(ctx, events.PromptKey(t, id), events.AnsweredKey(t, id))
		if err != nil {
			return record.Prompt{}, err
		}
		for _, r := range rs { // asked again after it was settled, it is open
			if r.Exists() {
				return record.DecodePrompt(r.Value)
			}
		}
	}
	return record.Prompt{}, noPrompt(t, id)
}

// CheckPrompt reports whether a question may be asked under its id: nil where it was asked already, ErrNoPrompt where
// none was, ErrPromptTaken where another one was. Kind, text and body make the question, not the deadline.
func (i Internal) CheckPrompt(ctx context.Context, t events.Thread, p events.Prompt) error {
	_, err := i.c.samePrompt(ctx, t, p)
	return err
}

// samePrompt is the prompt under the id of a question, with the errors of CheckPrompt.
func (c *Client) samePrompt(ctx context.Context, t events.Thread, p events.Prompt) (record.Prompt, error) {
	stored, err := c.prompt(ctx, t, p.ID)
	if err == nil && !stored.Asks(p) {
		err = fmt.Errorf("%w: %q in %s: ask under an id of its own", ErrPromptTaken, p.ID, t)
	}
	return stored, err
}

// Ask puts a question to a person and waits for the answer. With an ID of the caller's own it can be asked again after a
// crash: a prompt that is open is waited for, and one that is settled is answered at once. At its deadline Ask settles it.
// The prompt stays open when ctx ends. ErrPromptTaken: its ID is that of another question.
// ErrEnded: the thread takes none, or takes none any more. ErrRemoved: the thread that was asked in is removed, or its
// session: nothing that has the name since answers.
func (t ThreadHandle) Ask(ctx context.Context, p events.Prompt) (events.Resolution, error) {
	p.ID = cmp.Or(p.ID, ulid.Make().String())
	if err := checkPrompt(p); err != nil {
		return events.Resolution{}, err
	}
	asked, err := t.c.samePrompt(ctx, t.Thread, p)
	if errors.Is(err, ErrNoPrompt) {
		asked, err = t.c.askFirst(ctx, t.Thread, p)
	}
	if err != nil {
		return events.Resolution{}, fmt.Errorf("ask %q in %s: %w", p.ID, t.Thread, err)
	}
	return t.c.awaitAnswer(ctx, t.Thread, asked)
}

// askFirst publishes a question that was not asked before, as far as is known: another one may come under its id
// meanwhile, or the end of the thread.
func (c *Client) askFirst(ctx context.Context, t events.Thread, p events.Prompt) (asked record.Prompt, err error) {
	if err := c.Thread(t).Takes(ctx); err != nil {
		return asked, err
	}
	pub := c.Publisher(PublisherConfig{})
	_, err = pub.Publish(ctx, Entry{Thread: t, Dialect: "item", Body: p.Item().JSON(), Time: time.Now()})
	if err == nil {
		err = c.awaitStored(ctx, t, pub.Producer(), 0, 1)
	}
	if err == nil {
		asked, err = c.samePrompt(ctx, t, p)
	}
	if errors.Is(err, ErrNoPrompt) {
		err = cmp.Or(c.Thread(t).Takes(ctx), err)
	}
	if errors.Is(err, ErrNoPrompt) { // the thread had taken the question: where it does not know of it, that one is gone
		if knows, look := c.applied(ctx, waited{t, pub.Producer(), 0, 1, 1, false}); look == nil && !knows {
			err = removedPrompt(t, p.ID)
		}
	}
	return asked, err
}

// maxPromptBody is the most bytes of the further members of a prompt.
const maxPromptBody = 60_000

func checkPrompt(p events.Prompt) error {
	switch {
	case p.Kind == "":
		return fmt.Errorf("prompt %q has no kind: use %s, %s or %s", p.ID, events.PromptText, events.PromptApproval, events.PromptQuestion)
	case len(p.ID) > 1024 || len(p.Kind) > 1024:
		return fmt.Errorf("prompt %.32q…: id and kind have at most 1,024 bytes", p.ID)
	case len(p.Body) > maxPromptBody:
		return fmt.Errorf("prompt %q: body of %d bytes; at most %d: put the rest into an item before it", p.ID, len(p.Body), maxPromptBody)
	case p.Body == nil:
		return nil
	}
	err := jsonscan.Valid(p.Body)
	if err == nil && jsonscan.KindOf(p.Body) != jsonscan.KindObject {
		err = errors.New("it is no JSON object")
	}
	if err != nil {
		return fmt.Errorf("prompt %q: body: %w", p.ID, err)
	}
	return nil
}

// How often a waiting AwaitAnswer looks without being told that something happened, and while the server is away.
const lookAgain, lookAway = 15 * time.Second, time.Second

// AwaitAnswer waits until a prompt is settled, settles it at its deadline, and says how; also while the server is away. ErrNoPrompt:
// there is no such prompt. ErrEnded: its thread has ended. ErrRemoved: its thread or session was removed, whatever has its name since.
// Both are noticed within 15 seconds.
func (t ThreadHandle) AwaitAnswer(ctx context.Context, id string) (events.Resolution, error) {
	asked, err := t.c.awaitPrompt(ctx, t.Thread, id)
	if err != nil {
		return events.Resolution{}, err
	}
	return t.c.awaitAnswer(ctx, t.Thread, asked)
}

// awaitAnswer is AwaitAnswer for a prompt as it was found.
func (c *Client) awaitAnswer(ctx context.Context, t events.Thread, asked record.Prompt) (events.Resolution, error) {
	ctx, cancel := context.WithCancel(ctx)
	news := make(chan struct{}, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		f := Filter{Session: t.Session, Thread: t.Name, Type: events.TypePendingPromptResolved}
		for away := true; away; {
			away = false
			for _, err := range c.SubscribeReady(ctx, f, Position{}, tell) {
				if away = record.Again(err) && ctx.Err() == nil; err != nil {
					break // who may not subscribe looks every while
				}
				tell()
			}
			if away {
				sleep.For(ctx, lookAway)
			}
		}
	})
	for {
		p, wait, err := c.lookAt(ctx, t, asked)
		if err != nil && !record.Again(err) || p.Settled() {
			return p.Resolution, err
		}
		if err != nil {
			wait = lookAway
		}
		timer := time.NewTimer(wait)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return events.Resolution{}, fmt.Errorf("prompt %q of %s waits for its answer: %w", asked.ID, t, ctx.Err())
		}
		timer.Stop()
	}
}

// lookAt is a prompt as it is now, with how long to wait until it is looked at again. Behind its deadline it is settled.
func (c *Client) lookAt(ctx context.Context, t events.Thread, asked record.Prompt) (p record.Prompt, wait time.Duration, err error) {
	p, err = c.storedPrompt(ctx, t, asked.ID)
	if err == nil && !p.IsOf(asked) { // of one that is settled between two reads, what was settled before it may be seen
		p, err = c.storedPrompt(ctx, t, asked.ID)
	}
	if err == nil && !p.IsOf(asked) || errors.Is(err, ErrNoPrompt) {
		return record.Prompt{}, 0, c.lost(ctx, t, asked, err)
	}
	if err != nil || p.Settled() {
		return p, 0, err
	}
	if head, err := c.Thread(t).Head(ctx); err == nil && head.Status == threads.StatusCompleted {
		return p, 0, fmt.Errorf("prompt %q: %w: %s", asked.ID, ErrEnded, t)
	}
	if p.Deadline == 0 {
		return p, lookAgain, nil
	}
	if left := time.Until(time.UnixMilli(p.Deadline)); left > 0 {
		return p, min(lookAgain, left), nil
	}
	_, err = c.Thread(t).Answer(ctx, events.Answer{Prompt: asked.ID, Expired: true})
	if err == nil || errors.Is(err, ErrAnswered) {
		return p, 0, nil // its record says how
	}
	if now, look := c.storedPrompt(ctx, t, asked.ID); look == nil && now.IsOf(asked) {
		return p, 0, err
	}
	return p, 0, nil // it is not there any more
}

// lost says why a prompt that was asked is not found, or another one is: found is nil then.
func (c *Client) lost(ctx context.Context, t events.Thread, asked record.Prompt, found error) error {
	if found != nil {
		life, err := c.lifeOf(ctx, t)
		if err == nil && asked.InLife(life) {
			return found // a transcript settled it
		}
		if err != nil && !errors.Is(err, threads.ErrNoThread) {
			return err
		}
	}
	return removedPrompt(t, asked.ID)
}

func removedPrompt(t events.Thread, id string) error {
	return fmt.Errorf("prompt %q was %w: %s", id, ErrRemoved, t)
}

// Answer settles a prompt and returns how it was settled. ErrNoPrompt: there is none of that id. ErrAnswered: another answer
// was first, or the deadline has passed; the resolution is that one. ErrEnded: its thread has ended. ErrRemoved: it was
// removed meanwhile, or was of an earlier thread of that name than the one that has it now.
func (t ThreadHandle) Answer(ctx context.Context, a events.Answer) (events.Resolution, error) {
	claimed := a.By
	a.By = cmp.Or(events.UserFrom(ctx), a.By)
	p, err := t.c.awaitPrompt(ctx, t.Thread, a.Prompt)
	if err != nil {
		return events.Resolution{}, err
	}
	if !p.InLife(a.Life) {
		return events.Resolution{}, removedPrompt(t.Thread, a.Prompt)
	}
	a.Life = cmp.Or(a.Life, p.Life)
	if p.Settled() {
		return p.Resolution, answered(p)
	}
	if p.Dialect != "item" {
		return events.Resolution{}, fmt.Errorf("%w to answer here: %q in %s was asked by a transcript; answer it where the agent runs",
			ErrNoPrompt, a.Prompt, t.Thread)
	}
	if _, err := p.Settle(a, time.Now().UnixMilli()); err != nil {
		return events.Resolution{}, err
	}
	head, err := t.Head(ctx)
	if err != nil {
		return events.Resolution{}, err
	}
	if head.Status == threads.StatusCompleted {
		return events.Resolution{}, fmt.Errorf("%w: %s", ErrEnded, t.Thread)
	}
	pub := t.c.Publisher(PublisherConfig{User: cmp.Or(claimed, a.By)})
	if err := pub.Control(ctx, t.Thread, 1, events.Control{Op: events.OpAnswer, Answer: &a}); err != nil {
		return events.Resolution{}, err
	}
	if err := t.c.awaitStored(ctx, t.Thread, pub.Producer(), 0, 1); err != nil {
		return events.Resolution{}, err
	}
	open := p
	if p, err = t.c.storedPrompt(ctx, t.Thread, a.Prompt); err == nil && !p.IsOf(open) || errors.Is(err, ErrNoPrompt) {
		err = t.c.lost(ctx, t.Thread, open, err)
	}
	if err != nil {
		return events.Resolution{}, err
	}
	if p.Producer == pub.Producer() && (p.By != events.ByDeadline || a.Expired) {
		return p.Resolution, nil
	}
	return p.Resolution, answered(p)
}

func answered(p record.Prompt) error {
	by := cmp.Or(p.By, "someone")
	return fmt.Errorf("%w: %s by %s at %s", ErrAnswered, p.Outcome, by, time.UnixMilli(p.At).UTC().Format(time.RFC3339))
}
