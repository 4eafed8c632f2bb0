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
	"strings"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Ledger is what accounting reads. Letters gives the EVENTS sequence, the subject and the bytes of every dead letter; without bytes it is of
// all that the message held: they are elsewhere, or an operator removed it.
type Ledger interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	Messages(ctx context.Context, stream string, from uint64, f func(seq uint64, subject string, data []byte) error) error
	Unapplied(ctx context.Context) (uint64, error)
	Letters(ctx context.Context, f func(event uint64, subject string, data []byte) error) error
	Message(ctx context.Context, stream string, seq uint64) (data []byte, err error)
}

// Accounts is what became of each event that SPOOL_EVENTS still holds (SPEC P1). A message of several entries counts as several
// events.
type Accounts struct {
	Events     int64 `json:"events"`     // that were judged
	Applied    int64 `json:"applied"`    // entries that are in their thread, byte for byte
	Noted      int64 `json:"noted"`      // operations and pieces of outputs: their thread says that it had them
	Repeated   int64 `json:"repeated"`   // the same under the same name as an event before
	Refused    int64 `json:"refused"`    // in the dead letters
	Superseded int64 `json:"superseded"` // linked to an event that was never stored: their producer was told, and publishes both again
	Fenced     int64 `json:"fenced"`     // of an epoch of their producer that had ended: nobody could tell that they were new
	Removed    int64 `json:"removed"`    // with their thread or their session
	Unknown    int64 `json:"unknown"`    // an event that SPOOL_EVENTS may have forgotten decided: what it is linked to, or what it repeats
	Waiting    int64 `json:"waiting"`    // not applied yet; not judged

	Findings []Finding `json:"findings"` // events of which nothing of all this is true
}

// Unaccounted is the kind of finding of an event that was acked and is nowhere.
const Unaccounted = "unaccounted"

// Account holds every event of SPOOL_EVENTS against what is stored. It needs about 150 bytes of memory an event. What was masked
// is found in its thread whatever the rules were.
func Account(ctx context.Context, l Ledger, src rehydrate.Source) (*Accounts, error) {
	a := &accountant{
		l: l, src: src, threads: map[events.Thread][]posting{}, letters: map[uint64][]uint64{}, refusals: map[refusal][]letterOf{},
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

// session judges the events of all threads of a session.
func (a *accountant) session(ctx context.Context, names []events.Thread) error {
	joins, err := a.joins(ctx, names)
	for _, t := range names {
		if err == nil {
			err = a.thread(ctx, t, a.threads[t], joins[t.Name])
		}
		if err != nil {
			return fmt.Errorf("account for the events of %s: %w", t, err)
		}
		delete(a.threads, t)
	}
	return nil
}

type accountant struct {
	l        Ledger
	src      rehydrate.Source
	floor    uint64
	oldest   uint64                      // sequence of the first message that SPOOL_EVENTS has
	threads  map[events.Thread][]posting // in the order of SPOOL_EVENTS
	letters  map[uint64][]uint64         // by message: the sequences of the producer that have one; nil: all
	refusals map[refusal][]letterOf      // events that have a letter, whatever message they came in
	held     int                         // bytes of letters in which something is masked
	last     message                     // that was read again
	lost     map[name]bool               // of findings
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
	unread   error             // why it is no event
}

// name identifies an event within its thread for ever.
type name struct {
	producer   string
	epoch, seq uint64
}

func (p *posting) name() name { return name{p.producer, p.epoch, p.seq} }

// refusal identifies an event that was refused: a letter of another session's event is none of its.
type refusal struct {
	session string
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
		p.sum, p.is, p.claimed = sumOf(&one), one.Digest(), one.Ref != nil
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
func (a *accountant) letter(event uint64, subject string, data []byte) error {
	e, err := events.Open(subject, data)
	of, known := a.letters[event]
	if err == nil {
		for _, one := range e.Each() {
			a.noteRefusal(&one)
		}
	}
	switch {
	case len(data) == 0 || err != nil || len(e.More) > 0:
		a.letters[event] = nil
	case !known || of != nil:
		a.letters[event] = append(of, e.Seq)
	}
	return nil
}

// refused reports whether an event is a dead letter.
func (a *accountant) refused(p *posting) bool {
	of, known := a.letters[p.at]
	return known && (of == nil || p.unread != nil || slices.Contains(of, p.seq))
}

// refusedAll reports whether all events of a message are dead letters: no thread need tell of them.
func (a *accountant) refusedAll(seq uint64, e *events.Event) bool {
	return !slices.ContainsFunc(e.Each(), func(one events.Event) bool { return !a.refused(&posting{at: seq, seq: one.Seq}) })
}

// thread judges the events of one thread. joined is what those had seen that were renamed to it.
func (a *accountant) thread(ctx context.Context, t events.Thread, ps []posting, joined []threads.Head) error {
	a.accounts.Events += int64(len(ps))
	w, err := a.whereabouts(ctx, t)
	if err != nil {
		return err
	}
	want := map[[sha256.Size]byte]int{}
	for i := range ps {
		if p := &ps[i]; p.kind == events.KindEntry && p.unread == nil && !a.refused(p) && p.at > w.removed {
			want[p.sum]++
		}
	}
	stored, unreadable := a.stored(ctx, w.heads, want)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := a.unmask(ctx, t, ps, want, stored); err != nil {
		return err
	}
	b := book{a: a, t: t, w: w, joined: joined, stored: stored, first: map[name]events.Digest{}, gone: map[said]bool{},
		refused: map[said]bool{}, replays: map[string]bool{},
		links: map[chain][]events.Linked{}, top: map[string]uint64{}, least: map[chain]uint64{}, last: map[chain]uint64{}}
	if unreadable != nil {
		b.find(&posting{}, fmt.Sprintf("the thread cannot be read whole, so not all of its events can be accounted for: %v", unreadable))
	}
	for i := range ps {
		p := &ps[i]
		if why := b.judge(p); why != "" && unreadable == nil {
			b.find(p, why)
		}
		c := chain{p.producer, p.epoch}
		b.links[c] = append(b.links[c], events.Linked{Seq: p.seq, Prev: p.prev, At: p.at})
	}
	return nil
}

// whereabouts is what the records say of a name and of the thread that has it or had it.
type whereabouts struct {
	heads   []threads.Head // of the thread that has the name, and of the one that had it and has another one now
	seen    []threads.Head // which events the name had
	went    *threads.Head  // what the thread had seen that was renamed, if no other one has the name since
	removed uint64         // events up to this sequence went with their thread or their session
	purged  bool           // those of before its session's deletion are not in SPOOL_EVENTS any more
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
			w.heads, w.seen = append(w.heads, h), append(w.seen, h)
			break
		}
	}
	if d, err := record.DecodeDeleted(rs[3].Value); rs[3].Exists() && err == nil {
		w.removed, w.purged = d.Seq, true
	}
	left, err := apply.DecodeLeft(rs[2].Value)
	if !rs[2].Exists() || err != nil {
		return w, nil
	}
	had := left.Head
	w.seen = append(w.seen, had)
	if left.To == "" {
		w.removed = max(w.removed, had.Applied)
		return w, nil
	}
	if had.Life > 0 {
		w.removed = max(w.removed, had.Life-1)
	}
	if len(w.heads) == 0 {
		w.went = &had
	}
	now, err := a.whereabouts(ctx, events.Thread{Session: t.Session, Name: left.To})
	w.heads = append(w.heads, now.heads...)
	if now.removed > had.Applied { // else those went that had the new name before
		w.removed = max(w.removed, now.removed)
	}
	return w, err
}

// joins is, by its name, what threads of a session had seen when they were renamed to the one that has the name.
func (a *accountant) joins(ctx context.Context, names []events.Thread) (seen map[string][]threads.Head, err error) {
	keys := make([]string, len(names))
	for i, t := range names {
		keys[i] = events.LeftKey(t)
	}
	rs, err := a.l.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	seen = map[string][]threads.Head{}
	for _, r := range rs {
		if left, err := apply.DecodeLeft(r.Value); r.Exists() && err == nil && left.To != "" {
			seen[left.To] = append(seen[left.To], left.Head)
		}
	}
	return seen, nil
}

// had reports whether the name's thread says that it had an event.
func (w *whereabouts) had(p *posting) bool {
	return slices.ContainsFunc(w.seen, func(h threads.Head) bool {
		return h.Duplicate(p.producer, p.epoch, p.seq) || p.at <= h.Applied && len(h.Producers) >= threads.MaxProducers
	})
}

// entries are those of a thread.
type entries struct {
	of     map[[sha256.Size]byte]int                 // by the hash of their raw bytes: how many no event is found for yet
	masked []maskedEntry                             // in which something is masked, newest first
	forms  map[[sha256.Size]byte][][sha256.Size]byte // by the hash of an event's body: those that have it masked
	next   int                                       // of the masked ones: where the next event's is probably
	loose  int                                       // masked ones of which no event is found whose body can be had again
}

// stored counts the entries of threads, newest first. It ends when it has found what is wanted.
func (a *accountant) stored(ctx context.Context, heads []threads.Head, want map[[sha256.Size]byte]int) (found *entries, err error) {
	found = &entries{of: map[[sha256.Size]byte]int{}}
	for i := range heads {
		err = cmp.Or(err, a.entriesOf(ctx, &heads[i], want, found))
	}
	return found, err
}

// entriesOf adds the entries of one thread. Those of the thread that it was forked from are not its own.
func (a *accountant) entriesOf(ctx context.Context, h *threads.Head, want map[[sha256.Size]byte]int, found *entries) (err error) {
	missing, forked, seen := 0, int64(0), map[casstore.Ref]bool{}
	for sum, n := range want {
		missing += max(0, n-found.of[sum])
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
			if own = append(own, one); want[one.sum] > 0 {
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

// book is the account of one thread.
type book struct {
	a      *accountant
	t      events.Thread
	w      whereabouts
	joined []threads.Head            // what those had seen that were renamed to the thread
	stored *entries                  // of the thread
	first  map[name]events.Digest    // of the events that were judged and found somewhere
	gone   map[said]bool             // of those that went with their thread
	links  map[chain][]events.Linked // of the events before
	top    map[string]uint64         // greatest epoch of each producer so far
	least  map[chain]uint64          // lowest sequence so far
	last   map[chain]uint64          // greatest sequence so far

	refused map[said]bool   // those that became dead letters, which may be removed since
	replays map[string]bool // producers that published the event of a dead letter again
}

// judge counts an event as what it is; else it says why it is none.
func (b *book) judge(p *posting) (why string) {
	n, c := &b.a.accounts.Repeated, chain{p.producer, p.epoch}
	first, again := b.first[p.name()]
	gone := b.gone[said{p.name(), p.is}]
	letter := b.hadLetter(p)
	switch {
	case b.a.refused(p):
		n = &b.a.accounts.Refused
		b.refused[said{p.name(), p.is}] = true
	case p.unread != nil:
		return fmt.Sprintf("it is no event (%v), and no dead letter says so", p.unread)
	case p.at <= b.w.removed:
		b.gone[said{p.name(), p.is}] = true
		n = &b.a.accounts.Removed
	case again && (first == p.is || letter):
	case p.kind == events.KindEntry && b.stored.take(p.sum):
		n = &b.a.accounts.Applied
	case again && gone:
	case again:
		return "another event of its thread has its producer, epoch and sequence: a producer gave them out twice, and this one was skipped"
	case p.epoch < b.top[p.producer]:
		n = &b.a.accounts.Fenced
	case b.replaced(p):
		b.a.accounts.Unknown++
		return ""
	case gone && b.w.went != nil && b.w.went.Duplicate(p.producer, p.epoch, p.seq):
	case gone && b.behindJoined(p), p.seq < b.last[c] && (letter || gone):
	case p.seq < b.last[c] && p.seq < b.least[c] && (b.w.purged || b.a.oldest > 1): // what it repeats can be forgotten
		b.a.accounts.Unknown++
		return ""
	case p.seq < b.last[c]:
		return "it came behind a later event of its producer, and was taken for a repeat"
	case (p.kind != events.KindEntry || p.claimed && b.stored.loose > 0) && b.w.had(p):
		if p.kind == events.KindEntry {
			b.stored.loose--
		}
		n = &b.a.accounts.Noted
	case letter:
	case b.standing(p) == events.Superseded:
		b.a.accounts.Superseded++
		return ""
	case b.standing(p) == events.Unlinked:
		b.a.accounts.Unknown++
		return ""
	default:
		return "it was acked, and is neither in its thread nor in the dead letters"
	}
	*n++
	if strings.HasPrefix(p.producer, threads.Replayer) {
		b.replays[p.producer] = true
	}
	if p.at > b.w.removed { // what went with its thread says nothing of the one that has its name now
		if !again || n == &b.a.accounts.Applied { // else its sequence is another one's
			b.first[p.name()] = p.is
		}
		b.top[p.producer] = max(b.top[p.producer], p.epoch)
		b.last[c] = max(b.last[c], p.seq)
		if low, known := b.least[c]; !known || p.seq < low {
			b.least[c] = p.seq
		}
	}
	return ""
}

// hadLetter reports whether an event has or had a dead letter, perhaps of another message.
func (b *book) hadLetter(p *posting) bool {
	return b.a.hasLetter(refusal{b.t.Session, p.name()}, p.is) || b.refused[said{p.name(), p.is}] ||
		len(b.replays) > 0 && b.replays[threads.ReplayerOf(p.producer, p.epoch, p.seq, p.is[:])]
}

// behindJoined reports whether the thread had seen a later event of a producer under another name.
func (b *book) behindJoined(p *posting) bool {
	return slices.ContainsFunc(b.joined, func(h threads.Head) bool {
		last, known := h.Last(p.producer)
		return known && last.At < p.at && last.Epoch == p.epoch && last.Seq > p.seq
	})
}

// replaced reports whether the name's thread has seen a later epoch of an event's producer of which SPOOL_EVENTS has not got the first
// events any more: they may have come before.
func (b *book) replaced(p *posting) bool {
	begins := func(epoch uint64) bool {
		var first *posting
		for i, o := range b.a.threads[b.t] {
			if o.producer == p.producer && o.epoch == epoch && (first == nil || o.seq < first.seq) {
				first = &b.a.threads[b.t][i]
			}
		}
		return first != nil && first.prev == 0 && (first.seq == 1 || b.a.oldest <= 1)
	}
	return slices.ContainsFunc(b.w.seen, func(h threads.Head) bool {
		return slices.ContainsFunc(h.Producers, func(k threads.Producer) bool {
			return k.ID == p.producer && k.Epoch > p.epoch && !begins(k.Epoch)
		})
	})
}

// standing is how a persister had to take an event, by what it is linked to (SPEC P2).
func (b *book) standing(p *posting) events.Standing {
	known := func(seq uint64) bool {
		_, judged := b.first[name{p.producer, p.epoch, seq}]
		return judged
	}
	return events.Stand(p.prev, known, events.Past{Links: b.links[chain{p.producer, p.epoch}], From: b.a.oldest}, 1)
}

func (b *book) find(p *posting, why string) {
	detail := fmt.Sprintf("%s: %s", b.t, why)
	if _, given := b.first[p.name()]; b.a.lost != nil && !given { // else what its sequence names is there
		b.a.lost[p.name()] = true
	}
	if p.producer != "" {
		detail = fmt.Sprintf("%s: %s of producer %s, epoch %d, seq %d: %s", b.t, p.kind, p.producer, p.epoch, p.seq, why)
	}
	b.a.accounts.Findings = append(b.a.accounts.Findings, Finding{
		Kind: Unaccounted, Record: fmt.Sprintf("%s %d", events.EventsStream, p.at), Detail: detail,
	})
}
