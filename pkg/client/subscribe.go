package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Item is one thread item as subscribers see it (SPEC I1).
type Item struct {
	ID        string          `json:"id"`
	N         int64           `json:"n"` // 1, 2, 3, … in its thread
	Session   string          `json:"session"`
	Thread    string          `json:"thread"`
	User      string          `json:"user_id,omitempty"`
	Claimed   string          `json:"claimed_user,omitempty"` // who its publisher said to be, where User is another: who it is
	CreatedAt string          `json:"created_at"`
	Node      string          `json:"node"`
	Source    string          `json:"source,omitempty"`
	Content   []Part          `json:"content"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	// Life tells the threads apart that had one name, one after the other: after a removal or a rename another thread begins under the
	// name, and its numbers with it. Two items are of one thread where Session, Thread and Life are equal.
	Life uint64 `json:"-"`

	Seq  uint64 `json:"-"` // position in ITEMS, to go on from
	More uint64 `json:"-"` // items that are stored behind it
	Raw  []byte `json:"-"` // the JSON it was read from

	Trace string `json:"-"` // W3C traceparent of the event that it comes from; "" when it had none, and when the item is Filled

	// Filled: SPOOL_ITEMS did not have it where it belongs, and it was made from the thread's nodes. Seq and More are 0.
	Filled bool `json:"-"`
}

// Part is one piece of an item's content.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// Type is metadata.type, or "message" for a plain user post.
func (i *Item) Type() string {
	name, _ := jsonscan.Text(jsonscan.Get(i.Metadata, "type"))
	return cmp.Or(name, events.TypeMessage)
}

// Text is the first text of the content.
func (i *Item) Text() string {
	for _, p := range i.Content {
		if p.Type == "text" {
			return p.Text
		}
	}
	return ""
}

// Position is where a subscription starts; the zero value is with the next item. One field at most is set.
type Position struct {
	// with the first item that is kept: not those from before a restore, nor what is older than SPOOL_ITEMS keeps; N has those, too
	All bool
	// with the newest item of each subject: of each thread, by type and detail. A durable may miss one where items are
	// removed before it has them
	Last  bool
	Since time.Time // with the first item stored at or after that time
	Seq   uint64    // with that ITEMS sequence, an Item's Seq
	N     int64     // with that item of the one thread that the filter names, also when SPOOL_ITEMS has it no more
}

func (p Position) stored() natsio.Position {
	return natsio.Position{All: p.All, Last: p.Last, Since: p.Since, Seq: p.Seq}
}

// Filter chooses items; empty fields choose everything.
type Filter struct {
	Session string
	Thread  string
	Type    string // metadata.type, or "message"
	Detail  string // the tool of a tool_call, "ok" or "error" of a tool_result; with or without Type
	NotUser string // leaves out items of that user_id: a program that posts and reads would else read itself (SPEC I6)
}

// ErrFilter: a filter or a position that means nothing.
var ErrFilter = family.Invalid.New("bad filter")

func (f Filter) check(from Position) error {
	var errs []error
	for what, name := range map[string]string{"session": f.Session, "thread": f.Thread} {
		if name != "" {
			errs = append(errs, events.CheckToken(what, name))
		}
	}
	if from.N != 0 && (from.N < 0 || !f.one() || f.narrow()) {
		errs = append(errs, fmt.Errorf("%w: a position by number needs a filter for one thread and nothing else", ErrFilter))
	}
	return errors.Join(errs...)
}

// one reports that a filter names one thread, and not those of all sessions that have its name.
func (f Filter) one() bool { return f.Session != "" && f.Thread != "" }

// narrow reports that a filter leaves items of a thread out, so that their numbers have gaps.
func (f Filter) narrow() bool { return f.Type != "" || f.Detail != "" }

// CheckType refuses, with ErrFilter, a type that looks like a misspelt one of Spool's own while no item has it: it would choose nothing.
func (i Internal) CheckType(ctx context.Context, f Filter) error {
	meant := events.MeantType(f.Type)
	if meant == "" {
		return nil
	}
	empty, err := i.Empty(ctx, Filter{Session: f.Session, Type: f.Type}, Position{All: true})
	if err != nil || !empty {
		return err
	}
	return fmt.Errorf("%w: no item has the type %q; did you mean %s? Spool's own types are %s",
		ErrFilter, f.Type, meant, strings.Join(events.OwnTypes, ", "))
}

func (f Filter) subjects() []string {
	switch {
	case f.Detail != "":
		return []string{events.DetailFilter(f.Session, f.Thread, f.Type, f.Detail)}
	case f.Type != "":
		return events.ItemFilters(f.Session, f.Thread, f.Type)
	}
	return []string{events.ItemFilter(f.Session, f.Thread, "")}
}

// ErrGap: items of a thread are missing and can not be had from its nodes either; errors.As with *Gap says which.
var ErrGap = family.NotFound.New("items are missing")

// Gap is what is missing of a thread.
type Gap struct {
	Thread   events.Thread
	From, To int64 // numbers of the first and the last item
	Err      error // why they can not be had
}

func (g *Gap) Error() string {
	return fmt.Sprintf("items %d to %d of %s are not in SPOOL_ITEMS, and not to be had from its nodes: %v", g.From, g.To, g.Thread, g.Err)
}

// Unwrap gives ErrGap and the cause.
func (g *Gap) Unwrap() []error { return []error{ErrGap, g.Err} }

// Subscribe follows items from a position until ctx ends or the caller breaks off. Of each life of a thread they come in the order
// of n, each once: what was stored twice after a crash is dropped here, and what is missing is made from the thread's nodes, also what a
// thread that is followed by its name had under another one meanwhile. Of more than 50,000 threads those are forgotten for this whose
// items came longest ago. An error ends it; a *Gap does not when the caller goes on.
func (c *Client) Subscribe(ctx context.Context, f Filter, from Position) iter.Seq2[Item, error] {
	return c.SubscribeReady(ctx, f, from, nil)
}

// SubscribeReady is Subscribe; ready is called once the subscription stands: all that is stored after it will come.
func (c *Client) SubscribeReady(ctx context.Context, f Filter, from Position, ready func()) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		s := &subscription{c: c, ctx: ctx, filter: f, from: from, last: newPlaces(mostPlaces), yield: yield}
		start, err := s.start()
		if err != nil {
			yield(Item{}, err)
			return
		}
		stands := func() {
			if ready != nil {
				ready()
			}
			if from.N != 0 && start.Seq == 0 && !s.past() {
				stop()
			}
		}
		s.run(c.items.Follow(ctx, f.subjects(), start, stands))
	}
}

// SubscribeDurable is Subscribe from a position that is kept under a name, across programs and machines; from says where the
// name begins the first time. An item is done when the loop asks for the next one: what was given and not done comes again, to
// whoever subscribes next, and after a crash so may what was done just before. Of several programs that use a
// name at the same time one gets the items, and another one when it stops or dies. ErrDurable: the name is taken.
func (c *Client) SubscribeDurable(ctx context.Context, name string, f Filter, from Position) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := &subscription{c: c, ctx: ctx, filter: f, from: from, last: newPlaces(mostPlaces), yield: yield}
		err := f.check(from)
		if err == nil && from.N != 0 {
			err = fmt.Errorf("%w: a durable subscription begins at a sequence, a time, or one end", ErrFilter)
		}
		if err != nil {
			yield(Item{}, err)
			return
		}
		s.run(c.items.FollowDurable(ctx, name, f.subjects(), from.stored(), func(begun natsio.Position) {
			s.begun = func(ctx context.Context, before uint64) (Had, error) {
				return c.hadBefore(ctx, events.Thread{Session: f.Session, Name: f.Thread}, before, begun)
			}
		}))
	}
}

// ErrDurable: a durable subscription of that name exists, to other items.
var ErrDurable = natsio.ErrReader

// Forget drops the position that is kept under the name of a durable subscription. ErrNotFound: there is none.
func (c *Client) Forget(ctx context.Context, name string) error {
	return c.items.ForgetReader(ctx, name)
}

// Alone calls do while no other program of the user does so under the name, of whatever session ("": of all), and waits for that. Its context
// ends when that may not be so any more, since the server is not heard; do is called again when it is. ErrDurable: another program does so
// for another session.
func (i Internal) Alone(ctx context.Context, name, session string, do func(context.Context) error) error {
	return natsio.Alone(ctx, i.c.items, name, session, do)
}

// subscription is what one reader has seen.
type subscription struct {
	c      *Client
	ctx    context.Context
	filter Filter
	from   Position
	last   *places // the last item of each life of a thread
	newest uint64  // of the thread that from.N is of: the newest life that is known
	unborn bool    // it was not there yet
	had    Had     // the newest, of a reader of one thread; what he does not want counts as had
	yield  func(Item, error) bool

	begun func(ctx context.Context, before uint64) (Had, error) // what had begins with, when the first item comes; nil: with nothing
}

// start checks what was asked for, and finds where SPOOL_ITEMS goes on from a number.
func (s *subscription) start() (natsio.Position, error) {
	at := s.from.stored()
	if err := s.filter.check(s.from); err != nil || !s.filter.one() {
		return at, err
	}
	t := events.Thread{Session: s.filter.Session, Name: s.filter.Thread}
	head, err := s.c.Thread(t).Head(s.ctx)
	if err != nil && !errors.Is(err, threads.ErrNoThread) {
		if s.from.N == 0 && errors.Is(err, record.ErrDenied) { // who may not look, follows
			err = nil
		}
		return at, err
	}
	if s.from == (Position{}) {
		s.had = Had{N: head.N, Life: head.Life}
	}
	if s.from.N == 0 {
		return at, nil
	}
	first, err := s.c.items.First(s.ctx, t, head.Life, s.from.N)
	s.unborn = err == nil && first.Seq == 0 && head.Start.IsZero()
	s.begin(life{t, head.Life}, s.from.N-1)
	at.Seq = first.Seq
	return at, err
}

// past gives what SPOOL_ITEMS has nothing of any more. Called when the subscription stands: what comes after it is not missed.
func (s *subscription) past() bool {
	t := events.Thread{Session: s.filter.Session, Name: s.filter.Thread}
	head, err := s.c.Thread(t).Head(s.ctx)
	if errors.Is(err, threads.ErrNoThread) {
		return true // it may come
	}
	if err != nil {
		s.fail(err)
		return false
	}
	s.bear(t, head.Life)
	now := life{t, head.Life}
	if _, known := s.last.get(now); !known { // another one began right now
		s.begin(now, 0)
		s.from.N = 1
	}
	if head.N < s.from.N {
		return true
	}
	s.last.set(now, head.N)
	return s.fill(t, head.Life, s.from.N, head.N, func() (threads.Head, error) { return head, nil })
}

// bear notes the life of a thread that was not there when its items were asked for by a number.
func (s *subscription) bear(t events.Thread, of uint64) {
	if s.unborn {
		s.unborn = false
		s.begin(life{t, of}, s.from.N-1)
	}
}

// begin notes how many items of a life of the thread that from.N is of are not wanted.
func (s *subscription) begin(of life, n int64) {
	s.newest = max(s.newest, of.life)
	s.last.set(of, n)
}

// run gives what is stored to the caller.
func (s *subscription) run(items iter.Seq2[natsio.StoredItem, error]) {
	for stored, err := range items {
		if err != nil {
			s.fail(err)
			return
		}
		if !s.take(stored) {
			return
		}
	}
}

// fail gives the error that ends the subscription; not what comes of the end of its context.
func (s *subscription) fail(err error) {
	if s.ctx.Err() == nil {
		s.yield(Item{}, err)
	}
}

// take gives a stored item, and before it those that are missing, made from the thread's nodes; nothing when it came before.
// Where items are left out by type or by position, gaps are as they should be. It reports whether the caller goes on.
func (s *subscription) take(stored natsio.StoredItem) bool {
	item, err := parseItem(stored.Data)
	if err != nil {
		s.yield(Item{}, fmt.Errorf("%s, sequence %d: %w", stored.Subject, stored.Seq, err))
		return false
	}
	item.Seq, item.More, item.Trace, item.Life = stored.Seq, stored.Pending, stored.Trace, stored.Life
	if s.from.Last {
		return s.give(item)
	}
	t := events.Thread{Session: item.Session, Name: item.Thread}
	s.bear(t, item.Life)
	of := life{t, item.Life}
	before, known := s.last.get(of)
	holder := func() (threads.Head, error) { return s.c.holder(s.ctx, t, hadOf(item)) }
	if !known && s.filter.one() && !s.filter.narrow() {
		late := s.begun == nil && item.Life == s.had.Life // the head had it when the subscription began, and it is stored since
		if s.begun != nil {
			if s.had, err = s.begun(s.ctx, item.Seq); err != nil && !errors.Is(err, record.ErrDenied) {
				s.fail(err)
				return false
			}
			s.begun = nil
		}
		var head threads.Head
		if head, before, err = s.comesBack(t, item); !head.Start.IsZero() || err != nil {
			holder = func() (threads.Head, error) { return head, err }
		}
		if late {
			before = min(before, item.N-1)
		}
		known = before > 0
	}
	if !known && s.from.N != 0 {
		if item.Life < s.newest { // an item of a life before that which was asked for, stored again
			return true
		}
		s.begin(of, 0) // another thread has the name: who asked for a number of the name has it from 1
		known = true
	}
	if known && item.N <= before {
		return true
	}
	s.last.set(of, item.N)
	if known && item.N > before+1 && !s.filter.narrow() && !s.fill(t, item.Life, before+1, item.N-1, holder) {
		return false
	}
	return s.give(item)
}

// comesBack reports whether an item is of the thread whose item the reader had last, under whatever name it was meanwhile (CameBack): what
// follows number before is its own, and missing. Where nobody can tell, it may be: with the error.
func (s *subscription) comesBack(t events.Thread, item Item) (head threads.Head, before int64, err error) {
	if s.had.N == 0 || s.had.Life == item.Life {
		return head, s.had.N, nil
	}
	head, err = s.c.Internal().CameBack(s.ctx, t, hadOf(item), s.had)
	if err != nil || head.Start.IsZero() {
		if err != nil {
			before = s.had.N
		}
		return head, before, err
	}
	s.newest = max(s.newest, item.Life)
	return head, s.had.N, nil
}

func (s *subscription) give(item Item) bool {
	if s.filter.one() {
		s.had = hadOf(item)
	}
	if s.filter.NotUser != "" && item.User == s.filter.NotUser {
		return true
	}
	return s.yield(item, nil)
}

// fill gives items that SPOOL_ITEMS does not have, from the nodes of the thread whose life it is: of the head that holder finds.
func (s *subscription) fill(t events.Thread, of uint64, from, to int64, holder func() (threads.Head, error)) bool {
	head, err := holder()
	if err == nil {
		for posted, e := range s.c.Thread(t).ItemsFrom(s.ctx, head, from) {
			var item Item
			if err = e; err == nil && posted.N == from {
				item, err = parseItem(posted.Data)
			}
			if err != nil || posted.N != from || from > to {
				break
			}
			item.Filled, item.Life = true, of
			if !s.give(item) {
				return false
			}
			from++
		}
	}
	if err == nil && from <= to {
		err = threads.ErrNoPoint
	}
	return err == nil || s.ctx.Err() == nil && s.yield(Item{}, &Gap{Thread: t, From: from, To: to, Err: err})
}

// Empty reports whether a subscription would get nothing of what is stored now.
func (i Internal) Empty(ctx context.Context, f Filter, from Position) (bool, error) {
	if from == (Position{}) {
		return true, nil
	}
	now, err := i.c.items.Extent(ctx, f.subjects())
	return err == nil && (now.Match == 0 || now.Stored.Before(from.Since)), err
}
