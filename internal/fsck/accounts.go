package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Ledger is what accounting reads. Letters gives the EVENTS sequence, the subject, and the bytes of every dead letter, and whether nobody
// looked if its thread has the event; without bytes it is of all that the message held: they are elsewhere, or an operator removed it.
type Ledger interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	Messages(ctx context.Context, stream string, from uint64, f func(seq uint64, subject string, data []byte) error) error
	Unapplied(ctx context.Context) (uint64, error)
	Letters(ctx context.Context, f func(event uint64, subject string, data []byte, unread bool) error) error
	Message(ctx context.Context, stream string, seq uint64) (data []byte, err error)
	List(ctx context.Context, filter string) ([]record.Record, error)
}

// Accounts is what became of each event that SPOOL_EVENTS still holds (SPEC P1). A message of several entries counts as several
// events.
type Accounts struct {
	Events     int64 `json:"events"`     // that were judged
	Applied    int64 `json:"applied"`    // entries that are in their thread, byte for byte
	Noted      int64 `json:"noted"`      // operations that their thread says it had, and pieces of outputs that are kept
	Repeated   int64 `json:"repeated"`   // the same under the same name as an event before
	Refused    int64 `json:"refused"`    // became dead letters, which may be removed or published again since
	Superseded int64 `json:"superseded"` // linked to an event that was never stored: their producer was told, and publishes both again
	Fenced     int64 `json:"fenced"`     // of an epoch of their producer that had ended: nobody could tell that they were new
	Removed    int64 `json:"removed"`    // with their thread or their session
	Unknown    int64 `json:"unknown"`    // an event that SPOOL_EVENTS may have forgotten decided: what it is linked to, or what it repeats
	Waiting    int64 `json:"waiting"`    // not applied yet; not judged, and not one of Events

	// Unaccounted are the events of which nothing of all this is true. All together are Events, but for those that wait.
	Unaccounted int64 `json:"unaccounted"`

	// one for each that is unaccounted for, or one for an output, or for a thread that cannot be read whole
	Findings []Finding `json:"findings"`
}

// Unaccounted is the kind of finding of an event that was acked and is nowhere.
const Unaccounted = "unaccounted"

// Account holds every event of SPOOL_EVENTS against what is stored. It needs about 180 bytes of memory an event. What was masked
// is found in its thread whatever the rules were.
func Account(ctx context.Context, l Ledger, src rehydrate.Source) (*Accounts, error) {
	a := &accountant{
		l: l, src: src, threads: map[events.Thread][]posting{}, letters: map[uint64][]name{}, refusals: map[refusal][]letterOf{},
		unread: map[uint64][]name{}, outputs: map[outputKey]*outputOf{},
		accounts: &Accounts{Findings: []Finding{}},
	}
	var err error
	// Whatever is below was dealt with before anything else is read.
	if a.floor, err = l.Unapplied(ctx); err != nil && !errors.Is(err, record.ErrNotFound) {
		return nil, err
	}
	if err := a.l.Messages(ctx, events.EventsStream, 1, a.post); err != nil {
		return nil, err
	}
	if err := a.l.Letters(ctx, a.letter); err != nil {
		return nil, err
	}
	names := slices.SortedFunc(maps.Keys(a.threads), func(x, y events.Thread) int { return cmp.Compare(x.String(), y.String()) })
	for len(names) > 0 {
		n := slices.IndexFunc(names, func(t events.Thread) bool { return t.Session != names[0].Session })
		if n < 0 {
			n = len(names)
		}
		if err := a.session(ctx, names[:n]); err != nil {
			return nil, err
		}
		names = names[n:]
	}
	return a.accounts, nil
}

// session judges the events of all threads of a session. A thread's entries are counted once, under whatever names their events came.
func (a *accountant) session(ctx context.Context, names []events.Thread) error {
	defer func() {
		for _, t := range names {
			delete(a.threads, t)
		}
	}()
	where, has, at := make([]whereabouts, len(names)), map[events.Thread]*entries{}, map[events.Thread][]int{}
	if err := a.lacksKept(ctx, names); err != nil {
		return err
	}
	for i, t := range names {
		var err error
		if where[i], err = a.whereabouts(ctx, t); err != nil {
			return fmt.Errorf("account for the events of %s: %w", t, err)
		}
		for _, h := range where[i].heads {
			at[h.of] = append(at[h.of], i)
			if has[h.of] == nil {
				has[h.of] = &entries{head: h.Head, of: map[[sha256.Size]byte]int{}, want: map[[sha256.Size]byte]int{}}
			}
			a.wants(a.threads[t], where[i].removed, has[h.of].want)
		}
	}
	for _, s := range has {
		if s.unreadable = a.count(ctx, s); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for i, t := range names {
		err := a.unmaskLetters(ctx, t)
		for _, h := range where[i].heads {
			err = cmp.Or(err, a.unmask(ctx, a.threads[t], has[h.of]))
		}
		if err != nil {
			return fmt.Errorf("account for the events of %s: %w", t, err)
		}
	}
	if err := a.dropped(ctx, names, where, has); err != nil {
		return err
	}
	for i, t := range names {
		a.thread(t, where[i], joins(names, where, at, i), has)
	}
	return nil
}

// wants counts the bodies that entries of a thread must have for postings.
func (a *accountant) wants(ps []posting, removed uint64, want map[[sha256.Size]byte]int) {
	for i := range ps {
		if p := &ps[i]; p.kind == events.KindEntry && p.unread == nil && !a.refused(p) && p.at > removed {
			want[p.sum]++
		}
	}
}

type accountant struct {
	l        Ledger
	src      rehydrate.Source
	floor    uint64
	oldest   uint64                      // sequence of the first message that SPOOL_EVENTS has
	threads  map[events.Thread][]posting // in the order of SPOOL_EVENTS
	letters  map[uint64][]name           // by message: its events that have one; nil: all, as far as is known
	unread   map[uint64][]name           // those that have one and may be applied nevertheless: nobody looked
	refusals map[refusal][]letterOf      // events that have a letter, whatever message they came in
	outputs  map[outputKey]*outputOf
	held     int               // bytes of letters in which something is masked
	last     message           // that was read again
	lost     map[name]bool     // of findings
	gone     map[kept]bool     // what events of the session leave and is not there
	bare     map[string]string // with lost: the keys of records that are lost, and what tells of them
	asked    events.Thread     // whose events are to be counted; the zero value: all threads'
	accounts *Accounts
}

// posting is an event as far as it is compared.
type posting struct {
	at       uint64 // sequence in SPOOL_EVENTS
	producer string
	epoch    uint64
	seq      uint64
	prev     uint64
	kind     events.Kind
	sum      [sha256.Size]byte // of the body, as it came
	is       events.Digest     // tells it from others of its sequence
	claimed  bool              // the body waited beside the event, and cannot be had again
	op       events.Op         // of an operation
	to       string            // of a rename: the new name
	output   *outputOf         // of a piece that has bytes
	means    events.Digest     // what it does, however it is worded
	leaves   []kept
	unread   error // why it is no event
}

// name identifies an event within its thread for ever.
type name struct {
	producer   string
	epoch, seq uint64
}

func (p *posting) name() name { return name{p.producer, p.epoch, p.seq} }

func nameOf(e *events.Event) name { return name{e.Producer, e.Epoch, e.Seq} }

// refusal identifies an event that was refused: a letter of another thread's event is none of its.
type refusal struct {
	thread events.Thread
	name
}

// said is an event with what it says.
type said struct {
	name
	is events.Digest
}

// chain is what the links of a producer are in.
type chain struct {
	producer string
	epoch    uint64
}

// post notes the events of a message.
func (a *accountant) post(seq uint64, subject string, data []byte) error {
	e, err := events.Open(subject, data)
	a.oldest = cmp.Or(a.oldest, seq)
	if seq >= a.floor {
		a.accounts.Waiting += int64(1 + len(e.More))
		return nil
	}
	if err != nil {
		a.threads[e.Thread] = append(a.threads[e.Thread], posting{at: seq, unread: err})
		return nil
	}
	a.postEvents(seq, &e)
	return nil
}

// postEvents notes the events of a message that could be read.
func (a *accountant) postEvents(seq uint64, e *events.Event) {
	for _, one := range e.Each() {
		p := posting{at: seq, producer: one.Producer, epoch: one.Epoch, seq: one.Seq, prev: one.Prev, kind: one.Kind}
		p.sum, p.is, p.means, p.claimed, p.leaves = sumOf(&one), one.Digest(), one.Means(), one.Ref != nil, leaves(&one)
		if one.Kind == events.KindChunk { // which of the pieces of an output were left out, nobody else tells
			p.means = p.is
			a.postPiece(&p, &one)
		}
		if op, err := events.ParseControl(one.Body); one.Kind == events.KindControl && err == nil {
			if p.op = op.Op; op.Rename != nil {
				p.to = op.Rename.To
			}
		}
		a.threads[one.Thread] = append(a.threads[one.Thread], p)
	}
}

// sumOf is the digest of an event's body.
func sumOf(e *events.Event) [sha256.Size]byte {
	if e.Ref != nil {
		return e.Ref.Sum
	}
	return sha256.Sum256(e.Body)
}

// letter notes a dead letter. Of a message with several entries each has one of its own, as an event by itself.
func (a *accountant) letter(event uint64, subject string, data []byte, unread bool) error {
	letters := a.letters
	if unread {
		letters = a.unread
	}
	e, err := events.Open(subject, data)
	of, known := letters[event]
	if len(data) == 0 || err != nil {
		letters[event] = nil
		return nil
	}
	for _, one := range e.Each() {
		if !unread {
			a.noteRefusal(event, &one)
		}
		if !known || of != nil {
			of = append(of, nameOf(&one))
		}
	}
	letters[event] = of
	return nil
}

// refused reports whether an event is a dead letter.
func (a *accountant) refused(p *posting) bool {
	return amongLetters(a.letters, p) || p.unread != nil && amongLetters(a.unread, p)
}

func amongLetters(letters map[uint64][]name, p *posting) bool {
	of, known := letters[p.at]
	return known && (of == nil || p.unread != nil || slices.Contains(of, p.name()))
}

// refusedAll reports whether all events of a message are dead letters: no thread need tell of them.
func (a *accountant) refusedAll(seq uint64, e *events.Event) bool {
	return !slices.ContainsFunc(e.Each(), func(one events.Event) bool {
		return !a.refused(&posting{at: seq, producer: one.Producer, epoch: one.Epoch, seq: one.Seq})
	})
}

// thread judges the events that came under one name. joined are the other names of its thread; has is what threads hold.
func (a *accountant) thread(t events.Thread, w whereabouts, joined []join, has map[events.Thread]*entries) {
	if a.asked != (events.Thread{}) && t != a.asked {
		defer func(was accountant) { a.accounts, a.lost, a.bare = was.accounts, was.lost, was.bare }(*a)
		a.accounts, a.lost, a.bare = &Accounts{}, nil, nil
	}
	ps := a.threads[t]
	a.accounts.Events += int64(len(ps))
	b := book{a: a, t: t, w: w, joined: joined, first: map[name]*posting{}, applied: map[name]bool{}, gone: map[said]bool{},
		links: map[chain][]events.Linked{}, top: map[string]uint64{}, least: map[chain]uint64{}, last: map[chain]uint64{},
		at: map[string]uint64{}, stands: map[name]uint64{}, refused: map[said]bool{}, goneAt: map[uint64]bool{}, replays: map[string]bool{},
	}
	var unreadable error
	for _, h := range w.heads {
		b.stored = append(b.stored, has[h.of])
		unreadable = cmp.Or(unreadable, has[h.of].unreadable)
	}
	if unreadable != nil {
		b.find(&posting{}, fmt.Sprintf("the thread cannot be read whole, so not all of its events can be accounted for: %v", unreadable))
	}
	for i := range ps {
		p := &ps[i]
		if why := b.judge(p); why != "" {
			a.accounts.Unaccounted++
			dropped := p.output != nil && p.output.dropped
			if unreadable == nil && !(dropped && p.output.told) {
				b.find(p, why)
			}
			if dropped {
				p.output.told = true
			}
		}
		c := chain{p.producer, p.epoch}
		b.links[c] = append(b.links[c], events.Linked{Seq: p.seq, Prev: p.prev, At: p.at})
	}
}

// headOf is the head of a thread, and the name that it has.
type headOf struct {
	threads.Head
	of events.Thread
}

// whereabouts is what the records say of a name and of the thread that has it or had it.
type whereabouts struct {
	heads   []headOf       // of the thread that has the name, and of the one that had it and has another one now
	seen    []threads.Head // which events the name's thread had, and the one that went elsewhere
	removed uint64         // events up to this sequence went with their thread or their session
	deleted uint64         // those of before its session's deletion, which was there, are not in SPOOL_EVENTS any more
	left    *threads.Head  // what the thread had seen that was renamed
	to      string         // its next name
	gone    *threads.Head  // what those had seen that had the name and were removed
	session record.Deleted // how the name's session was deleted last
}

func (a *accountant) whereabouts(ctx context.Context, t events.Thread) (w whereabouts, err error) {
	rs, err := a.l.Records(ctx, events.HeadKey(t), events.HistoryOf(t), events.LeftKey(t), events.DeletedKey(t.Session))
	if err != nil {
		return w, err
	}
	for _, r := range rs[:2] {
		h, err := threads.DecodeHead(r.Value)
		if r.Exists() && err == nil {
			if h, err = a.src.Reader.Recall(ctx, h); err != nil {
				return w, fmt.Errorf("%s: %w", r.Key, err)
			}
			w.heads, w.seen = append(w.heads, headOf{h, t}), append(w.seen, h)
			break
		}
	}
	if d, err := record.DecodeDeleted(rs[3].Value); rs[3].Exists() && err == nil {
		w.removed, w.deleted, w.session = d.Seq, d.Seq, d
	}
	left, err := apply.DecodeLeft(rs[2].Value)
	if !rs[2].Exists() || err != nil {
		return w, nil
	}
	had := left.Head
	if left.To == "" {
		w.removed, w.gone = max(w.removed, had.Applied), &had
		return w, nil
	}
	w.seen = append(w.seen, had)
	if had.Life > 0 {
		w.removed = max(w.removed, had.Life-1)
	}
	w.left, w.to = &had, left.To
	now, err := a.whereabouts(ctx, events.Thread{Session: t.Session, Name: left.To})
	w.heads = append(w.heads, now.heads...)
	if now.removed > had.Applied { // what came for the thread went with it; else those went that had the new name before
		w.removed = max(w.removed, had.Applied)
	}
	return w, err
}

// join is another name of a thread: what it had seen when it left it, or has seen, and which name it took then.
type join struct {
	from events.Thread
	seen threads.Head
	to   string
}

// joins are the other names of the thread that has one of these, or had it; at is which names lead to a thread.
func joins(names []events.Thread, where []whereabouts, at map[events.Thread][]int, to int) (all []join) {
	seen := map[int]bool{to: true}
	for _, h := range where[to].heads {
		for _, i := range at[h.of] {
			if seen[i] {
				continue
			}
			seen[i] = true
			j := join{from: names[i], seen: where[i].heads[0].Head, to: where[i].to}
			if where[i].left != nil {
				j.seen = *where[i].left
			}
			all = append(all, j)
		}
	}
	return all
}

// own reports whether a thread has the name now.
func (w *whereabouts) own(t events.Thread) bool { return len(w.heads) > 0 && w.heads[0].of == t }

// deletedBy reports whether the name's session was deleted by an event.
func (w *whereabouts) deletedBy(p *posting) bool {
	_, known := w.session.Knows(p.producer, p.epoch, p.seq)
	return known
}

// had reports whether the name's thread says that it had an event.
func (w *whereabouts) had(p *posting) bool {
	return slices.ContainsFunc(w.seen, func(h threads.Head) bool {
		return h.Duplicate(p.producer, p.epoch, p.seq) || p.at <= h.Applied && len(h.Producers) >= threads.MaxProducers
	})
}

// entries are those of a thread.
type entries struct {
	head       threads.Head
	want       map[[sha256.Size]byte]int // how many events have a body
	unreadable error
	inOrder    bool // masked is as the events are

	of     map[[sha256.Size]byte]int                 // by the hash of their raw bytes: how many no event is found for yet
	masked []maskedEntry                             // in which something is masked, newest first
	forms  map[[sha256.Size]byte][][sha256.Size]byte // by the hash of an event's body: those that have it masked
	next   int                                       // of the masked ones: where the next event's is probably
	loose  int                                       // masked ones of which no event is found whose body can be had again
}

// count counts the entries of a thread, newest first. It ends when it has found what is wanted. Those of the thread that it was forked
// from are not its own.
func (a *accountant) count(ctx context.Context, found *entries) (err error) {
	h, missing, forked, seen := &found.head, 0, int64(0), map[casstore.Ref]bool{}
	for _, n := range found.want {
		missing += n
	}
	var own []maskedEntry
	for root, e := range a.src.Reader.Newest(ctx, *h, 0) {
		if e != nil {
			return cmp.Or(err, e)
		}
		for step, e := range a.src.Reader.Walk(ctx, root) {
			if e != nil || missing <= 0 && h.Branches() == 0 || seen[step.At.Ref] {
				err = cmp.Or(err, e)
				break
			}
			seen[step.At.Ref] = true
			if step.State.Role == threads.RoleFork {
				forked = max(forked, step.State.Entry.Index)
				break
			}
			sum, mark := sha256.New(), &marked{}
			ok, e := a.src.RawTo(ctx, step, io.MultiWriter(sum, mark))
			if err = cmp.Or(err, e); e != nil || !ok {
				continue
			}
			one := maskedEntry{index: step.State.Entry.Index, sum: [sha256.Size]byte(sum.Sum(nil))}
			if mark.found {
				one.head, one.step = mark.head, &step
			}
			if own = append(own, one); found.want[one.sum] > 0 {
				missing--
			}
		}
	}
	for _, e := range own {
		if e.index <= forked { // a leaf can have gone back to before the fork
			continue
		}
		if found.of[e.sum]++; e.step != nil {
			found.masked = append(found.masked, e)
		}
	}
	return err
}
