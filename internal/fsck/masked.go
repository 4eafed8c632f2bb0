package fsck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"spool/internal/record"
	"spool/internal/redact"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// SPOOL_EVENTS has entries as they came; a thread, and a dead letter, have them masked by the rules that their persister
// had then. Nobody knows those rules any more. So an entry that is not found as it came is held against what can be it
// masked: text that is the same but for the masks.

// maskedEntry is an entry of a thread, with where it is if something is masked in it.
type maskedEntry struct {
	index int64
	sum   [sha256.Size]byte
	head  []byte        // its first bytes
	step  *threads.Step // nil: nothing is masked
}

// marked looks for the mark of a masked secret in what is written to it.
type marked struct {
	found bool
	head  []byte // the first bytes
	end   []byte // of what was written, shorter than the mark
}

// headBytes is what is remembered of a masked entry.
const headBytes = 256

func (m *marked) Write(p []byte) (int, error) {
	m.head = append(m.head, p[:min(len(p), headBytes-len(m.head))]...)
	m.found = m.found || bytes.Contains(p, []byte(redact.Mark)) ||
		bytes.Contains(append(m.end, p[:min(len(p), len(redact.Mark))]...), []byte(redact.Mark))
	m.end = append(m.end, p[max(0, len(p)-len(redact.Mark)):]...)
	m.end = slices.Clone(m.end[max(0, len(m.end)-len(redact.Mark)+1):])
	return len(p), nil
}

// take takes the entry of an event, as it came or masked; false: there is none.
func (s *entries) take(body [sha256.Size]byte) bool {
	for _, sum := range append([][sha256.Size]byte{body}, s.forms[body]...) {
		if s.of[sum] > 0 {
			s.of[sum]--
			return true
		}
	}
	return false
}

// unmaskLetters finds the dead letters that have events of a thread masked.
func (a *accountant) unmaskLetters(ctx context.Context, t events.Thread) error {
	for i := range a.threads[t] {
		if p := &a.threads[t][i]; p.unread == nil && !p.claimed && !a.refused(p) {
			if err := a.unmaskLetter(ctx, t, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmask finds for events the entries of a thread that have them masked.
func (a *accountant) unmask(ctx context.Context, ps []posting, s *entries) (err error) {
	if !s.inOrder {
		slices.Reverse(s.masked) // as the events are
		s.forms, s.inOrder = map[[sha256.Size]byte][][sha256.Size]byte{}, true
	}
	for i := range ps {
		p := &ps[i]
		if p.unread != nil || p.claimed || a.refused(p) {
			continue
		}
		_, known := s.forms[p.sum]
		if known || p.kind != events.KindEntry || len(s.masked) == 0 || s.of[p.sum] >= s.want[p.sum] {
			continue
		}
		if s.forms[p.sum], err = a.formsOf(ctx, p, s.want[p.sum], s); err != nil {
			return err
		}
	}
	found := map[[sha256.Size]byte]bool{}
	for _, forms := range s.forms {
		for _, sum := range forms {
			found[sum] = true
		}
	}
	s.loose = 0
	for _, m := range s.masked {
		if !found[m.sum] && s.want[m.sum] == 0 {
			s.loose++
		}
	}
	return nil
}

// formsOf are the masked entries that can be an event, until there are as many as are wanted. The search begins behind
// the one that was found last: entries are in the order of their events, but for branches.
func (a *accountant) formsOf(
	ctx context.Context, p *posting, want int, s *entries,
) (forms [][sha256.Size]byte, err error) {
	e, err := a.again(ctx, p)
	if e == nil || err != nil {
		return nil, err
	}
	n, begin := s.of[p.sum], s.next
	for i := 0; i < len(s.masked) && n < want; i++ {
		at := (begin + i) % len(s.masked)
		m := &s.masked[at]
		if slices.Contains(forms, m.sum) {
			continue
		}
		is, err := a.isMasked(ctx, m, e)
		if err != nil {
			return nil, err
		}
		if is {
			n, s.next = n+s.of[m.sum], at+1
			forms = append(forms, m.sum)
		}
	}
	return forms, nil
}

// isMasked reports whether an entry of a thread can be an event, masked.
func (a *accountant) isMasked(ctx context.Context, m *maskedEntry, e *events.Event) (bool, error) {
	before, _, whole := bytes.Cut(m.head, []byte(redact.Mark))
	if !whole { // the mark may begin at its end
		before = before[:max(0, len(before)-len(redact.Mark))]
	}
	if !bytes.HasPrefix(e.Body, before) {
		return false, nil
	}
	raw, ok, err := a.src.Raw(ctx, *m.step)
	if err != nil || !ok {
		return false, err
	}
	return redact.Hides(raw, e.Body, dialect.IsJSON(e.Dialect)), nil
}

// message is one of SPOOL_EVENTS that was read again.
type message struct {
	at     uint64
	events []events.Event
}

// again reads an event once more; nil: it is gone.
func (a *accountant) again(ctx context.Context, p *posting) (*events.Event, error) {
	if a.last.at != p.at {
		a.last = message{at: p.at}
		data, err := a.l.Message(ctx, events.EventsStream, p.at)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
		if e, failed := events.Decode(data); err == nil && failed == nil {
			a.last.events = e.Each()
		}
	}
	for i := range a.last.events {
		if e := &a.last.events[i]; e.Seq == p.seq && sumOf(e) == p.sum {
			return e, nil
		}
	}
	return nil, nil
}

// letterOf is an event that has a dead letter. Where it comes again in another message it has none of its own: after a
// restore the message it came in first may be in no stream.
type letterOf struct {
	at    uint64        // the message that the event came in; of another stream after a restore
	is    events.Digest // as the letter has it
	event *events.Event // if something can be masked in it
}

// heldBytes is what is remembered of masked letters at most.
const heldBytes = 64 << 20

// noteRefusal notes an event that a dead letter has.
func (a *accountant) noteRefusal(at uint64, e *events.Event) {
	l := letterOf{at: at, is: e.Digest()}
	if a.held < heldBytes && (bytes.Contains(e.Body, []byte(redact.Mark)) || bytes.Contains(e.Body, []byte("****"))) {
		l.event = &events.Event{Kind: e.Kind, Dialect: e.Dialect, Body: bytes.Clone(e.Body)}
		a.held += len(e.Body)
	}
	n := refusal{e.Thread, nameOf(e)}
	a.refusals[n] = append(a.refusals[n], l)
}

// hasLetter reports whether an event has a dead letter, perhaps of another message, but for some of these.
func (a *accountant) hasLetter(n refusal, is events.Digest, but map[uint64]bool) bool {
	return slices.ContainsFunc(a.refusals[n], func(l letterOf) bool { return l.is == is && !but[l.at] })
}

// unmaskLetter finds the letter of an event that was masked, and notes it as one of the event as it came.
func (a *accountant) unmaskLetter(ctx context.Context, t events.Thread, p *posting) error {
	of := refusal{t, p.name()}
	letters := a.refusals[of]
	masked := func(l letterOf) bool { return l.event != nil }
	if a.hasLetter(of, p.is, nil) || !slices.ContainsFunc(letters, masked) {
		return nil
	}
	e, err := a.again(ctx, p)
	if e == nil {
		return err
	}
	for _, l := range letters {
		if masked(l) && same(l.event, e) {
			a.refusals[of] = append(a.refusals[of], letterOf{at: l.at, is: p.is})
		}
	}
	return err
}

// same reports whether a dead letter's event, or what was published again of it, can be an event as it came.
func same(letter, came *events.Event) bool {
	if letter.Kind != came.Kind || letter.Dialect != came.Dialect {
		return false
	}
	return letter.Digest() == came.Digest() || letter.Ref == nil && came.Ref == nil &&
		(redact.Hides(letter.Body, came.Body, dialect.IsJSON(came.Dialect)) || redact.Blanks(letter.Body, came.Body))
}
