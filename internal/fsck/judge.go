package fsck

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// book is the account of one thread.
type book struct {
	a      *accountant
	t      events.Thread
	w      whereabouts
	joined []join                    // the other names of the thread
	stored []*entries                // of the thread, and of the one that had its name
	first  map[name]*posting         // the events that were judged and found somewhere
	gone   map[said]bool             // of those that went with their thread
	links  map[chain][]events.Linked // of the events before
	top    map[string]uint64         // greatest epoch of each producer so far
	least  map[chain]uint64          // lowest sequence so far
	last   map[chain]uint64          // greatest sequence so far
	at     map[string]uint64         // where the last event of each producer is that the thread has
	stands map[name]uint64           // those that stand by their links, and from where on these were gone through
	takes  map[string]uint64         // of took; nil: not looked yet
	sent   map[name]uint64           // of sentBefore: where each first came; nil: not looked yet

	applied map[name]bool   // those that are in the thread
	former  map[said]uint64 // where those came first that came under names that the thread had; nil: not looked yet
	refused map[said]bool   // those that became dead letters, which may be removed since
	goneAt  map[uint64]bool // messages with dead letters of what went with its thread
	replays map[string]bool // producers that published the event of a dead letter again
}

// judge counts an event as what it is; else it says why it is none. What a persister takes for a repeat, or leaves out, is looked at
// before what is stored: else it would stand for another event that says the same.
func (b *book) judge(p *posting) (why string) {
	n, c := &b.a.accounts.Repeated, chain{p.producer, p.epoch}
	first, again := b.first[p.name()]
	gone, former := b.gone[said{p.name(), p.is}], b.cameBefore(p)
	unread := amongLetters(b.a.unread, p)
	letter := b.hadLetter(p) || unread
	switch {
	case b.a.refused(p):
		n = &b.a.accounts.Refused
		if p.at > b.w.removed {
			b.refused[said{p.name(), p.is}] = true
		} else {
			b.gone[said{p.name(), p.is}], b.goneAt[p.at] = true, true
		}
	case p.unread != nil:
		return fmt.Sprintf("it is no event (%v), and no dead letter says so", p.unread)
	case p.at <= b.w.removed:
		b.gone[said{p.name(), p.is}] = true
		n = &b.a.accounts.Removed
	case again && (first.means == p.means || letter):
	case gone && (p.op == events.OpRemove || p.op == events.OpRename): // what takes a thread from its name is done once
		n = &b.a.accounts.Noted
	case b.doneBefore(p):
		n = &b.a.accounts.Noted
	case p.op == events.OpDelete && (gone || b.w.deletedBy(p)): // so is what deletes a session, or was refused that
	case gone && b.w.left != nil && !b.w.own(b.t) && b.w.left.Duplicate(p.producer, p.epoch, p.seq):
	case gone && b.w.own(b.t) && p.at < b.w.heads[0].Life: // nobody had the name: it was that of a thread elsewhere
	case former && b.knownBefore(p):
	case gone && b.behindJoined(p), p.seq < b.last[c] && (letter || gone) && !b.applied[p.name()]:
	case p.seq < b.last[c] && p.op == events.OpTail && !again: // the later one says all that it does
	case (!again || b.refused[said{first.name(), first.is}]) && b.standing(p) == events.Superseded && !letter:
		b.a.accounts.Superseded++
		return ""
	case p.kind == events.KindEntry && (!unread || b.w.had(p)) && b.take(p.sum): // what nobody applied takes no other's
		b.applied[p.name()] = true
		n = &b.a.accounts.Applied
	case again && gone && !b.applied[p.name()]:
	case again:
		return "another event of its thread has its producer, epoch and sequence: a producer gave them out twice, and this one was skipped"
	case b.ended(p) && b.forgot():
		n = &b.a.accounts.Fenced
	case b.ended(p):
		return "it is of an epoch of its producer that had ended, and was taken for a repeat"
	case b.replaced(p):
		b.a.accounts.Unknown++
		b.first[p.name()] = p // else a dead letter behind it would have its sequence
		return ""
	case p.seq < b.last[c] && p.seq < b.least[c] && b.forgot(): // what it repeats can be forgotten
		b.a.accounts.Unknown++
		return ""
	case p.seq < b.last[c]:
		return "it came behind a later event of its producer, and was taken for a repeat"
	case p.output != nil && p.output.dropped && !letter && b.w.had(p):
		return fmt.Sprintf("its thread had it, and nothing is left of it: the output %s is not open, and there is neither a result nor "+
			"an artifact of it. A version that lost what was open when a thread ended, or was renamed by force, dropped it, or "+
			"the artifact was removed", p.output.id)
	case (p.kind != events.KindEntry || p.claimed && b.loose() != nil) && b.w.had(p):
		if p.kind == events.KindEntry {
			b.loose().loose--
		}
		n = &b.a.accounts.Noted
	case unread:
		n = &b.a.accounts.Refused
	case letter:
	case b.standing(p) == events.Unlinked && b.forgot():
		b.a.accounts.Unknown++
		return ""
	case b.w.gone != nil && b.w.gone.Applied < b.a.oldest && b.w.gone.Duplicate(p.producer, p.epoch, p.seq):
		b.a.accounts.Unknown++ // it repeats what went with the thread that had the name, and of that SPOOL_EVENTS has nothing
		return ""
	default:
		return "it was acked, and is neither in its thread nor in the dead letters"
	}
	if n == &b.a.accounts.Applied || n == &b.a.accounts.Noted {
		b.at[p.producer] = p.at
		why = b.bare(p)
	}
	if why == "" {
		*n++
	}
	if p.at > b.w.removed { // what went with its thread says nothing of the one that has its name now
		b.note(p, !again || n == &b.a.accounts.Applied) // else its sequence is another one's
	}
	return why
}

// note remembers an event that was found somewhere.
func (b *book) note(p *posting, first bool) {
	c := chain{p.producer, p.epoch}
	if first {
		b.first[p.name()] = p
	}
	if threads.IsReplayer(p.producer) {
		b.replays[p.producer] = true
	}
	b.top[p.producer] = max(b.top[p.producer], p.epoch)
	b.last[c] = max(b.last[c], p.seq)
	if low, known := b.least[c]; !known || p.seq < low {
		b.least[c] = p.seq
	}
}

// forgot reports whether SPOOL_EVENTS has forgotten events of which a persister may have known: it knows of none from before the deletion
// of their session.
func (b *book) forgot() bool { return b.a.oldest > b.w.deleted+1 }

// doneBefore reports whether what takes a thread or a session away was done, or refused, when it came first, and
// SPOOL_EVENTS has forgotten that.
func (b *book) doneBefore(p *posting) bool {
	takes := p.op == events.OpRemove || p.op == events.OpRename || p.op == events.OpDelete
	return takes && b.w.gone != nil && b.forgot() && b.w.gone.Duplicate(p.producer, p.epoch, p.seq)
}

// take takes the entry of an event from where it is; false: it is nowhere.
func (b *book) take(body [sha256.Size]byte) bool {
	return slices.ContainsFunc(b.stored, func(s *entries) bool { return s.take(body) })
}

// loose is what holds masked entries of which no event is found.
func (b *book) loose() *entries {
	if i := slices.IndexFunc(b.stored, func(s *entries) bool { return s.loose > 0 }); i >= 0 {
		return b.stored[i]
	}
	return nil
}

// hadLetter reports whether an event has or had a dead letter, perhaps of another message, also of a former name of the thread. One of
// what went with the thread is none of what has its name now.
func (b *book) hadLetter(p *posting) bool {
	has := func(t events.Thread) bool { return b.a.hasLetter(refusal{t, p.name()}, p.is, b.goneAt) }
	return has(b.t) || b.refused[said{p.name(), p.is}] ||
		slices.ContainsFunc(b.joined, func(j join) bool { return has(j.from) }) ||
		len(b.replays) > 0 && b.replays[threads.ReplayerOf(p.producer, p.epoch, p.seq, p.is[:])]
}

// cameBefore reports whether an event came before under a name that the thread had.
func (b *book) cameBefore(p *posting) bool {
	if b.former == nil {
		b.former = map[said]uint64{}
		for _, j := range b.joined {
			for i := range b.a.threads[j.from] {
				o := &b.a.threads[j.from][i]
				if is := (said{o.name(), o.is}); b.former[is] == 0 || o.at < b.former[is] {
					b.former[is] = o.at
				}
			}
		}
	}
	at := b.former[said{p.name(), p.is}]
	return at != 0 && at < p.at
}

// knownBefore reports whether the thread knows an event.
func (b *book) knownBefore(p *posting) bool {
	return b.w.left != nil && b.w.left.Duplicate(p.producer, p.epoch, p.seq) || slices.ContainsFunc(b.w.heads, func(h headOf) bool {
		return h.Duplicate(p.producer, p.epoch, p.seq)
	}) || slices.ContainsFunc(b.joined, func(j join) bool { return j.seen.Duplicate(p.producer, p.epoch, p.seq) })
}

// behindJoined reports whether the thread had seen an event of that sequence, or a later one of its producer, under another name.
func (b *book) behindJoined(p *posting) bool {
	return slices.ContainsFunc(b.joined, func(j join) bool {
		last, known := j.seen.Last(p.producer)
		return known && last.At < p.at && last.Epoch == p.epoch && last.Seq >= p.seq
	})
}

// ended reports whether an event came behind a later epoch of its producer. One that was refused while no thread had the name ended none.
func (b *book) ended(p *posting) bool {
	return p.epoch < b.top[p.producer] && !slices.ContainsFunc(b.w.seen, func(h threads.Head) bool {
		last, known := h.Last(p.producer)
		return known && last.Epoch == p.epoch
	})
}

// replaced reports whether the name's thread has seen a later epoch of an event's producer of which SPOOL_EVENTS has not got the first
// events any more: they may have come before.
func (b *book) replaced(p *posting) bool {
	begins := func(epoch uint64) bool {
		var first *posting
		for _, t := range append([]join{{from: b.t}}, b.joined...) {
			for i, o := range b.a.threads[t.from] {
				if o.producer == p.producer && o.epoch == epoch && (first == nil || o.seq < first.seq) {
					first = &b.a.threads[t.from][i]
				}
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

// took is where in SPOOL_EVENTS the thread first took a name by a rename; 0: it began under it.
func (b *book) took(to string) uint64 {
	if b.takes == nil {
		b.takes = map[string]uint64{}
		for _, j := range append([]join{{from: b.t, to: b.w.to}}, b.joined...) {
			for i := range b.a.threads[j.from] {
				p := &b.a.threads[j.from][i]
				if at, known := b.takes[p.to]; p.op == events.OpRename && !b.a.refused(p) && (!known || p.at < at) {
					b.takes[p.to] = p.at
				}
			}
		}
		for _, j := range b.joined {
			if b.takes[j.to] == 0 && j.to != "" { // SPOOL_EVENTS has the rename no more
				b.takes[j.to] = j.seen.Applied
			}
		}
	}
	return b.takes[to]
}

// sentBefore reports whether an event of that name came for the thread under another name that it had, before a sequence of SPOOL_EVENTS.
func (b *book) sentBefore(n name, at uint64) bool {
	if b.sent == nil {
		b.sent = map[name]uint64{}
		for _, j := range b.joined {
			from := b.took(j.from.Name)
			for i := range b.a.threads[j.from] {
				p := &b.a.threads[j.from][i]
				if first, known := b.sent[p.name()]; from < p.at && (!known || p.at < first) {
					b.sent[p.name()] = p.at
				}
			}
		}
	}
	first, known := b.sent[n]
	return known && first < at
}

// standing is how a persister had to take an event, by what it is linked to (SPEC P2). What its thread had seen under another name counts
// for what came since it has this one.
func (b *book) standing(p *posting) events.Standing {
	joined, heads := b.joined, b.w.heads
	if p.at <= b.took(b.t.Name) {
		joined, heads = nil, nil
	}
	known := func(seq uint64) bool {
		_, judged := b.first[name{p.producer, p.epoch, seq}]
		return judged || slices.ContainsFunc(joined, func(j join) bool {
			last, known := j.seen.Last(p.producer)
			own := j.to == "" || last.At >= j.seen.Life // not one of those that had the name before
			return known && own && last.At < p.at && j.seen.Duplicate(p.producer, p.epoch, seq) &&
				(last.Epoch == p.epoch || b.sentBefore(name{p.producer, p.epoch, seq}, p.at))
		}) || slices.ContainsFunc(heads, func(h headOf) bool {
			last, known := h.Last(p.producer)
			return known && last.Epoch == p.epoch && last.Seq == seq && last.At < p.at
		})
	}
	since := max(b.at[p.producer], 1)
	// Of a thread that is lost no event is known, and each is linked to the one before: all of them are not gone through again for each.
	before, judged := b.stands[name{p.producer, p.epoch, p.prev}]
	stands := p.prev == 0 || known(p.prev) || judged && before == since
	if !stands {
		past := events.Past{Links: b.links[chain{p.producer, p.epoch}], From: max(b.a.oldest, b.w.deleted+1)}
		if is := events.Stand(p.prev, known, past, since); is != events.Stands {
			return is
		}
	}
	b.stands[p.name()] = since
	return events.Stands
}

func (b *book) find(p *posting, why string) {
	record, detail := events.EventsStream, fmt.Sprintf("%s: %s", b.t, why) // of all of the thread's events
	if _, given := b.first[p.name()]; b.a.lost != nil && !given {          // else what its sequence names is there
		b.a.lost[p.name()] = true
	}
	if p.at != 0 {
		record = fmt.Sprintf("%s %d", record, p.at)
	}
	if p.producer != "" {
		detail = fmt.Sprintf("%s: %s of producer %s, epoch %d, seq %d: %s", b.t, p.kind, p.producer, p.epoch, p.seq, why)
	}
	b.a.accounts.Findings = append(b.a.accounts.Findings, Finding{
		Kind: Unaccounted, Record: record, Detail: detail,
	})
}
