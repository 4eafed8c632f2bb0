package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"spool/internal/apply"
	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Items are derived, and so they tell of what they were derived from: a thread whose items go further than its head has lost
// its newest commits, and one that has items and no head has lost that. What lies before a deletion, or below what SPOOL_ITEMS
// has forgotten, is not held against anything.

// held is what SPOOL_ITEMS holds of a name. A thread that is removed leaves its items behind, and another one may take its name and
// begin at any number: an item counts for a thread only where the state that it says it was made from is one of the thread's.
type held struct {
	first   int64 // the number of the first since numbers went back
	last    int64 // the number of the newest
	through int64 // the same, under whatever name of the thread; of underOtherNames
	node    casstore.Ref
	sum     [32]byte
	missing map[int64]bool     // numbers before the last that are not there
	before  casstore.Ref       // the state of the item before the first that is missing
	all     map[int64]itemMade // with Config.Items
	old     *held              // as it was before an item came again; nil: none did since
}

// itemMade is an item by its bytes, and the state that it says it was made from.
type itemMade struct {
	sum  [32]byte
	node casstore.Ref
}

// maxMissing is how many missing items of a thread are counted.
const maxMissing = 10_000

func (h *held) take(n int64, data []byte, all bool) {
	made := itemMade{sha256.Sum256(data), nodeOf(data)}
	if all {
		if h.all == nil {
			h.all = map[int64]itemMade{}
		}
		h.all[n] = made
	}
	if h.missing[n] { // late
		delete(h.missing, n)
		if n < h.last {
			return
		}
	}
	if h.old != nil && n == h.old.last+1 { // what came again was late, and the thread goes on behind it
		h.restore()
	}
	if n <= h.last { // again: after a crash or a repair, late of a persister that slept, or another thread has the name
		if h.old == nil {
			old := *h
			old.missing = maps.Clone(h.missing)
			h.old = &old
		}
		maps.DeleteFunc(h.missing, func(k int64, _ bool) bool { return k >= n })
		h.first = n
	}
	if h.last == 0 {
		h.first = n
	}
	if h.last > 0 {
		h.miss(h.last+1, n)
	}
	h.last, h.sum, h.node = n, made.sum, made.node
}

// miss notes that numbers are missing, behind the last.
func (h *held) miss(from, to int64) {
	for k := from; k < to && len(h.missing) < maxMissing; k++ {
		if len(h.missing) == 0 {
			h.missing, h.before = map[int64]bool{}, h.node
		}
		h.missing[k] = true
	}
}

// restore forgets what came again.
func (h *held) restore() {
	all := h.all
	*h = *h.old
	h.all = all
}

// nodeOf is the state that an item says it was made from.
func nodeOf(item []byte) casstore.Ref {
	ref, err := casstore.ParseRef(strings.Trim(string(jsonscan.Get(item, "node")), `"`))
	if err != nil {
		return casstore.Ref{}
	}
	return ref
}

// checkItems holds what subscribers read against the heads.
func (c *checker) checkItems(ctx context.Context) error {
	c.items = map[events.Thread]*held{}
	err := c.s.Messages(ctx, events.ItemsStream, 1, func(_ uint64, subject string, data []byte) error {
		t, ok := events.ParseItemSubject(subject)
		n, _ := jsonscan.Int(jsonscan.Get(data, "n"))
		if !ok || n <= 0 {
			return nil
		}
		if c.items[t] == nil {
			c.items[t] = &held{}
		}
		c.items[t].take(n, data, c.cfg.Items)
		c.report.Items++
		return nil
	})
	if errors.Is(err, record.ErrNotFound) {
		err = nil // there is no such stream
	}
	if err != nil {
		return err
	}
	known := map[events.Thread]bool{}
	for _, h := range c.byPack() {
		known[h.id] = true
		if it := c.items[h.id]; it != nil {
			if err := c.compareItems(ctx, h, it); err != nil {
				return err
			}
		}
	}
	return c.lostHeads(ctx, known)
}

// byPack is the heads in the order of the packs of their states: who reads those reads each pack once, and not once a thread.
func (c *checker) byPack() []*head {
	all := make([]*head, len(c.heads))
	for i := range c.heads {
		all[i] = &c.heads[i]
	}
	slices.SortStableFunc(all, func(a, b *head) int { return cmp.Compare(c.packAt(a.Head.Head().Pack), c.packAt(b.Head.Head().Pack)) })
	return all
}

// compareItems holds the items of one thread against its head and its nodes.
func (c *checker) compareItems(ctx context.Context, h *head, it *held) error {
	note := func(kind, format string, args ...any) error {
		return c.find(ctx, h.seq, Finding{Kind: kind, Record: h.key, Detail: fmt.Sprintf(format, args...)})
	}
	switch wrong, err := c.itemsOf(ctx, h, it); {
	case err != nil:
		return err
	case wrong == itemsAhead:
		return note(Inconsistent, "%s holds its items up to %d, it counts %d, and has not seen events that were applied: "+
			"it is older than they are", events.ItemsStream, it.last, h.N)
	case wrong == itemsGap:
		return note(Missing, "%s holds its items up to %d, but for %d of them, the first %d; who reads the thread is given them from its nodes",
			events.ItemsStream, it.through, len(it.missing), it.gap())
	case wrong == itemsBehind:
		return note(Missing, "%s holds its items up to %d, it counts %d", events.ItemsStream, it.through, h.N)
	}
	return c.sameItems(ctx, h, it)
}

// What can be wrong with the items of a thread.
const (
	itemsGood = iota
	itemsAhead
	itemsGap
	itemsBehind
)

func (c *checker) itemsOf(ctx context.Context, h *head, it *held) (wrong int, err error) {
	if it.old != nil && it.old.last >= it.last && c.stands(h, it.old.node) { // what came again last is of the same thread
		it.restore()
	}
	c.underOtherNames(h, it)
	switch {
	case it.last > h.N:
		ahead, err := c.ahead(ctx, h)
		if err != nil || !ahead {
			return itemsGood, err
		}
		return itemsAhead, nil
	case it.gap() > 0 && c.stands(h, it.before):
		return itemsGap, nil
	case it.old != nil && it.old.last >= h.N && c.stands(h, it.old.node): // the newest message is one that came again late
	case it.through < h.N && h.Applied < c.floor && c.stands(h, it.node): // else whoever applies its events next publishes the rest
		last, err := c.lastItem(ctx, h)
		if err != nil || last >= h.N {
			return itemsGood, err
		}
		return itemsBehind, nil
	}
	return itemsGood, nil
}

// goneAt is up to where in SPOOL_EVENTS what came for a name was taken from it, by the records of its removal and of its
// session's deletion;
// 0: neither is there. What comes behind a rename is no thread's.
func goneAt(left, deleted record.Record) (seq uint64) {
	if deleted.Exists() {
		seq = math.MaxUint64
		if d, err := record.DecodeDeleted(deleted.Value); err == nil {
			seq = d.Seq
		}
	}
	if !left.Exists() {
		return seq
	}
	l, err := apply.DecodeLeft(left.Value)
	if err != nil || l.To != "" {
		return math.MaxUint64
	}
	return max(seq, l.Head.Applied)
}

// stands reports whether a state is one that a head or a tip stands on.
func (c *checker) stands(h *head, ref casstore.Ref) bool {
	seen := map[casstore.Ref]bool{}
	c.addStates(h, seen)
	return seen[ref]
}

// ahead reports whether SPOOL_EVENTS holds an event of a thread that was applied, and that its head has not seen.
func (c *checker) ahead(ctx context.Context, h *head) (bool, error) {
	l, err := c.lifeOf(ctx, h.id)
	return l != nil && slices.ContainsFunc(l.evs, func(e replayed) bool {
		return !e.refused && e.Seq > h.Applied && e.Seq < c.floor && !h.Duplicate(e.Producer, e.Epoch, e.Event.Seq)
	}), err
}

// underOtherNames takes from what is missing of a thread what SPOOL_ITEMS holds under a name that it had meanwhile, and goes on to the
// last of it.
func (c *checker) underOtherNames(h *head, it *held) {
	it.through = it.last
	if it.last >= h.N && len(it.missing) == 0 {
		return
	}
	var others []*held
	for t, other := range c.items {
		for ; t.Session == h.id.Session && t != h.id && other != nil; other = other.old {
			if c.stands(h, other.node) {
				others = append(others, other)
				it.through = max(it.through, min(other.last, h.N))
			}
		}
	}
	if c.stands(h, it.node) {
		it.miss(it.last+1, it.through+1)
	}
	maps.DeleteFunc(it.missing, func(n int64, _ bool) bool {
		return slices.ContainsFunc(others, func(o *held) bool { return n >= o.first && n <= o.last && !o.missing[n] })
	})
}

// gap is the lowest number that is missing; 0: none is.
func (h *held) gap() int64 {
	if len(h.missing) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(h.missing)))
}

// lastItem asks again for a while: items follow their commit.
func (c *checker) lastItem(ctx context.Context, h *head) (last int64, err error) {
	for range 30 {
		var life uint64
		last, life, err = c.s.LastItem(ctx, h.id)
		if life != h.Life {
			last = 0
		}
		if err != nil || last >= h.N {
			break
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return last, ctx.Err()
		}
	}
	return last, err
}

// sameItems makes items again from their nodes and compares: the newest of each thread, with Config.Items all that are held.
func (c *checker) sameItems(ctx context.Context, h *head, it *held) error {
	whole := threads.Head{Tips: slices.DeleteFunc(slices.Clone(h.Newest()), func(root casstore.Located) bool {
		s := c.states[root.Ref]
		return s == nil || s.wrong != nil // it is told elsewhere
	})}
	for step, err := range (threads.Reader{Packs: c.packCache()}).EntriesBack(ctx, whole) {
		if err != nil {
			return ctx.Err() // what cannot be read is told elsewhere
		}
		first, last := step.Entry.First, step.Entry.First+step.Entry.Count-1
		if last < it.last && !c.cfg.Items {
			break
		}
		if step.Entry.Count == 0 || first > it.last {
			continue
		}
		if n, err := c.differs(ctx, h.id, step, it); err != nil || n > 0 {
			if err == nil {
				err = c.find(ctx, h.seq, Finding{Kind: Inconsistent, Record: h.key,
					Detail: fmt.Sprintf("its item %d in %s is not what its node %s makes", n, events.ItemsStream, step.At.Ref)})
			}
			return err
		}
	}
	return nil
}

// differs gives the first item of a step that SPOOL_ITEMS holds in other bytes; 0: none.
func (c *checker) differs(ctx context.Context, id events.Thread, step threads.Step, it *held) (n int64, err error) {
	again, err := project.Items(ctx, id, step)
	if err != nil {
		return 0, ctx.Err() // it is told elsewhere, or an older projection, which this program does not have
	}
	for _, p := range again {
		sum := sha256.Sum256(p.Data)
		made, ok := it.all[p.N]
		if p.N == it.last {
			made, ok = itemMade{it.sum, it.node}, true
		}
		if ok && made.node == step.At.Ref && made.sum != sum {
			return p.N, nil
		}
	}
	return 0, nil
}

// packCache reads packs for comparing items.
func (c *checker) packCache() casstore.PackGetter {
	if c.cache == nil {
		c.cache = casstore.NewPackCache(packsOf{c}, packCache)
	}
	return c.cache
}

// packsOf reads the packs that were listed.
type packsOf struct{ c *checker }

func (p packsOf) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	i, ok := p.c.at[p.c.final(id)]
	if !ok {
		return nil, fmt.Errorf("pack %s: %w", id, casstore.ErrNotFound)
	}
	return p.c.open(ctx, &p.c.packs[i])
}

// lostHeads finds threads that items, or events which were applied, tell of, and that have no record: no head, no history, no
// new name, no deletion.
func (c *checker) lostHeads(ctx context.Context, known map[events.Thread]bool) error {
	told := map[events.Thread]string{}
	c.posted, c.told = map[events.Thread]posted{}, map[kept]events.Thread{}
	for t, it := range c.items {
		if !known[t] {
			told[t] = fmt.Sprintf("%s holds its items up to %d", events.ItemsStream, it.last)
		}
	}
	if err := c.readLetters(ctx); err != nil {
		return err
	}
	err := c.s.Messages(ctx, events.EventsStream, 1, func(seq uint64, subject string, data []byte) error {
		t, kind, err := events.ParseStored(subject)
		if err != nil || kind != events.KindEntry && kind != events.KindControl || seq >= c.floor {
			return nil
		}
		e, err := events.Open(subject, data)
		if err != nil {
			return nil //nolint:nilerr // it is a dead letter
		}
		if is, all := nameOf(&e), c.posted[t]; kind == events.KindEntry && known[t] && all.last != is { // one that is sent again is no other
			c.posted[t] = posted{all.n + int64(1+len(e.More)), is, seq}
		}
		for _, one := range e.Each() {
			for _, k := range leaves(&one) {
				c.told[k] = t
			}
		}
		if name, why := begins(&e); !known[name] && why != "" && !c.ledger.refusedAll(seq, &e) {
			told[name] = cmp.Or(told[name], fmt.Sprintf("%s holds %s, %d", events.EventsStream, why, seq))
		}
		return nil
	})
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return err
	}
	for _, t := range slices.SortedFunc(maps.Keys(told), func(a, b events.Thread) int { return cmp.Compare(a.String(), b.String()) }) {
		rev, lost, err := c.lostHead(ctx, t)
		if err != nil {
			return err
		}
		if !lost {
			continue
		}
		c.lostThreads = append(c.lostThreads, t)
		if err := c.find(ctx, rev, Finding{Kind: Missing, Record: events.HeadKey(t),
			Detail: told[t] + ", and nothing says what became of it"}); err != nil {
			return err
		}
	}
	return c.lackEvents(ctx)
}

// begins gives the thread that an event tells of, and what the event is; "" where no thread need come of it.
func begins(e *events.Event) (t events.Thread, what string) {
	if e.Kind == events.KindEntry {
		return e.Thread, "an entry of it"
	}
	op, err := events.ParseControl(e.Body)
	switch {
	case err != nil:
	case op.Op == events.OpFork:
		return e.Thread, "a fork that began it"
	case op.Op == events.OpStart:
		return e.Thread, "what began it"
	case op.Op == events.OpRename:
		return events.Thread{Session: e.Thread.Session, Name: op.Rename.To}, "a rename to it"
	}
	return t, ""
}

// lostHead reports whether the record of a thread that has none is lost: its head, or what says that it left its name. rev is the
// head's revision.
func (c *checker) lostHead(ctx context.Context, t events.Thread) (rev uint64, lost bool, err error) {
	rs, err := c.s.Records(ctx, events.HeadKey(t), events.HistoryOf(t), events.LeftKey(t), events.DeletedKey(t.Session))
	if err != nil || rs[0].Exists() || rs[1].Exists() { // it came meanwhile
		return 0, false, err
	}
	rev = rs[0].Seq
	gone := goneAt(rs[2], rs[3])
	n, err := c.namesOf(ctx, t.Session)
	if err != nil {
		return 0, false, err
	}
	l := n.at(t.Name).life
	switch {
	case l == nil && (c.items[t] != nil || n.at(t.Name).left != nil): // it left its name, or items alone tell of it
		return rev, gone == 0, nil
	case l != nil && gone > 0 && l.last() <= gone:
		return rev, false, nil
	case l != nil && gone == 0 && (c.items[t] != nil || c.noLetters):
		return rev, true, nil
	case l != nil && len(l.renames) > 0:
		took, err := c.tookName(ctx, l)
		return rev, took, err
	}
	// what came may be a repeat alone, also of what was refused, and no thread begins with what is superseded
	acc, missing, err := c.account(ctx, t)
	return rev, len(missing) > 0 || gone == 0 && acc.Superseded == 0 && l != nil && l.last() > 0, err
}

// tookName reports whether what was renamed was a thread: it had events, may have had some that SPOOL_EVENTS has forgotten, or left its
// name. Else the rename is a dead letter, perhaps one that is lost.
func (c *checker) tookName(ctx context.Context, l *life) (bool, error) {
	if len(applied(l.evs)) > 0 || c.ledger.oldest > 1 {
		return true, nil
	}
	rs, err := c.s.Records(ctx, events.LeftKey(l.renames[0].Thread))
	return err == nil && rs[0].Exists(), err
}
