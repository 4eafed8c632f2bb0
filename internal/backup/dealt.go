package backup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// dealt is which events were dealt with when the records were read. What is published again gets a higher sequence. So events of
// before a removal would begin anew what was removed, and those that were refused would count as applied.
//
// What has a letter was dealt with, also where no head tells of it: it would be refused again for another reason, or not at
// all. A refused event is noted until its letter is out. The letters were read behind the notes: where a note has none, the event
// comes again, with its note, and is refused again for the same reason.
type dealt struct {
	sessions map[string]record.Deleted
	threads  map[events.Thread][]threads.Head // that have a name, or had it
	noted    map[uint64][]noted               // what was refused, by the sequence of its message
	letters  map[uint64][]letter              // by the sequence of the message that they are of
	buried   map[events.Thread][]letter       // the same
	marks    scrub.Marks
}

// letter is whose it is; nobody: that is not known, because its bytes are elsewhere or cannot be read.
type letter struct {
	producer   string
	epoch, seq uint64
}

// noted is a refused event.
type noted struct {
	record.RefusedEvent
	key string // of the record that notes it
}

// dealtWith finds out by records. One that cannot be read says nothing: the events come again, and are recognized.
func dealtWith(ctx context.Context, records map[string][]byte, packs threads.Reader) dealt {
	d := dealt{map[string]record.Deleted{}, map[events.Thread][]threads.Head{},
		map[uint64][]noted{}, map[uint64][]letter{}, map[events.Thread][]letter{}, scrub.DecodeMarks(records[events.MarksKey])}
	for key, value := range records {
		if value == nil {
			continue
		}
		if session, ok := events.ParseDeletedKey(key); ok {
			if rec, err := record.DecodeDeleted(value); err == nil {
				d.sessions[session] = rec
			}
			continue
		}
		if isRefused(key) {
			rec, _ := record.DecodeRefused(value)
			for _, n := range rec.Events {
				d.noted[n.Seq] = append(d.noted[n.Seq], noted{n, key})
			}
			continue
		}
		t, ok := events.ParseHeadKey(key)
		if !ok {
			t, _, ok = events.ParseHistoryKey(key)
		}
		if !ok {
			t, ok = events.ParseLeftKey(key)
			if left, err := record.DecodeLeft(value); err == nil {
				value = left.Head
			}
		}
		if !ok {
			continue
		}
		h, err := threads.DecodeHead(value)
		if err == nil {
			h, err = packs.Recall(ctx, h)
		}
		if err == nil {
			d.threads[t] = append(d.threads[t], h)
		}
	}
	return d
}

// with reports whether an event was dealt with. A message that was stored before its sequence was known here was not, as far as
// anybody can tell.
func (d dealt) with(m Message) (bool, error) {
	t, _, err := events.ParseStored(m.Subject)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrRepository, err)
	}
	if rec, ok := d.sessions[t.Session]; ok && m.Seq != 0 && (rec.Before(m.Seq, m.Stored) || rec.Seq == m.Seq && rec.Stored == m.Stored) {
		return true, nil
	}
	if m.Seq == 0 {
		return false, nil
	}
	e, err := events.Open(m.Subject, m.Data)
	if err != nil {
		return len(d.letters[m.Seq]) > 0, nil //nolint:nilerr // else it is refused again
	}
	each := e.Each()
	for i := range each {
		if !d.told(m, each, i) && !d.had(t, m, each[i:i+1]) {
			return false, nil
		}
	}
	return !slices.ContainsFunc(d.noted[m.Seq], func(n noted) bool {
		return n.Stored == m.Stored && !d.told(m, each, n.Index)
	}), nil
}

// told reports whether an event of a message has a letter; one that the message has not: whether all have.
func (d dealt) told(m Message, each []events.Event, i int) bool {
	of := each
	if i >= 0 && i < len(each) {
		of = each[i : i+1]
	}
	return len(each) == 1 && len(d.letters[m.Seq]) > 0 || !slices.ContainsFunc(of, func(e events.Event) bool {
		return !slices.Contains(d.letters[m.Seq], letter{e.Producer, e.Epoch, e.Seq})
	})
}

// unsent are the refused events of a message that comes again whose letters are not kept.
func (d dealt) unsent(m Message) (all []noted) {
	t, _, _ := events.ParseStored(m.Subject)
	e, bad := events.Open(m.Subject, m.Data) // of what cannot be read no letter is kept
	each := e.Each()
	for _, n := range d.noted[m.Seq] {
		of := each
		if n.Index >= 0 && n.Index < len(each) {
			of = each[n.Index : n.Index+1]
		}
		if n.Stored == m.Stored && (bad != nil || !d.told(m, each, n.Index) || !d.had(t, m, of)) {
			all = append(all, n)
		}
	}
	return all
}

// unlink takes its link from a message that comes again if that is to an event with a letter. Where no head tells of that event, nobody
// could tell in the restored system that it was ever stored, and what is linked to it would count as superseded (SPEC P2).
func (d dealt) unlink(m *Message) {
	e, err := events.Open(m.Subject, m.Data)
	if err == nil && e.Prev != 0 && slices.Contains(d.buried[e.Thread], letter{e.Producer, e.Epoch, e.Prev}) {
		e.Prev = 0
		m.Data = e.Encode()
	}
}

func isRefused(key string) bool { return strings.HasPrefix(key, refusedPrefix) }

var refusedPrefix = strings.TrimSuffix(events.RefusedKey(0), "0")

// had reports whether a thread had all those events of a message.
func (d dealt) had(t events.Thread, m Message, of []events.Event) bool {
	return slices.ContainsFunc(d.threads[t], func(h threads.Head) bool {
		if m.Seq > h.Applied {
			return false
		}
		return h.Forgets() && !d.marks.Reused(m.Seq, m.Stored) ||
			!slices.ContainsFunc(of, func(e events.Event) bool { return !h.Duplicate(e.Producer, e.Epoch, e.Seq) })
	})
}

// judge decides which events are published again, and what deletions that were under way have to go on with.
func (r *restore) judge(ctx context.Context, records map[string][]byte) error {
	r.dealt = dealtWith(ctx, records, threads.Reader{Packs: packsOf{r.repo, records}})
	r.again = map[uint64]bool{}
	err := read(r.repo, r.m, deadFile, func(l Message) error {
		if at, ok := eventOf(l); ok {
			e, _ := events.Decode(l.Data)
			t, _ := events.ParseDead(l.Subject)
			of := letter{e.Producer, e.Epoch, e.Seq}
			r.dealt.letters[at] = append(r.dealt.letters[at], of)
			r.dealt.buried[t] = append(r.dealt.buried[t], of)
		}
		return nil
	})
	if err != nil {
		return err
	}
	next, moved := r.m.First[events.EventsStream], map[string][]record.RefusedEvent{}
	err = read(r.repo, r.m, eventsFile, func(m Message) error {
		done, err := r.dealt.with(m)
		if err != nil {
			return err
		}
		t, _, _ := events.ParseStored(m.Subject)
		if !done {
			for _, n := range r.dealt.unsent(m) {
				n.Seq, n.Stored = next, 0
				moved[n.key] = append(moved[n.key], n.RefusedEvent)
			}
		}
		if rec := r.dealt.sessions[t.Session]; done && rec.State == record.Removing && rec.Seq == m.Seq {
			done = false // it goes on, and is recognized by its sequence
			rec.Seq, rec.Stored, rec.Items, rec.Dead = next, 0, 0, 0
			records[events.DeletedKey(t.Session)] = rec.Encode()
		}
		if !done {
			r.again[m.Seq] = true
			next++
		}
		return nil
	})
	moveNotes(records, moved)
	for session, rec := range r.dealt.sessions {
		if rec.State == record.Removed { // only its streams were still to be purged: the snapshot has nothing of them
			rec.State, rec.Free = record.Done, nil
			records[events.DeletedKey(session)] = rec.Encode()
		}
	}
	return err
}

// moveNotes has the records of what was refused note what comes again, where it comes again, and nothing else.
func moveNotes(records map[string][]byte, moved map[string][]record.RefusedEvent) {
	for key, value := range records {
		rec, err := record.DecodeRefused(value)
		if !isRefused(key) || value == nil || err != nil {
			continue
		}
		rec.Events = moved[key]
		records[key] = rec.Encode(len(value) + record.RefusedBytes*len(rec.Events))
	}
}

// packsOf reads packs of a snapshot, by its records.
type packsOf struct {
	repo    *Repository
	records map[string][]byte
}

// Pack implements casstore.PackGetter.
func (p packsOf) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	read := func(_ context.Context, keys ...string) ([]record.Record, error) {
		rs := make([]record.Record, len(keys))
		for i, key := range keys {
			if rs[i] = (record.Record{Key: key}); p.records[key] != nil {
				rs[i].Value, rs[i].Seq = p.records[key], 1
			}
		}
		return rs, nil
	}
	found, err := record.FindPack(ctx, read, id)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Clean(p.repo.objectPath(found.Pack.Object.NUID)))
	if err != nil || int64(len(raw)) < found.Pack.Header {
		return nil, fmt.Errorf("%w: pack %s: %w", ErrRepository, id, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return casstore.OpenPack(raw[:found.Pack.Header], raw[found.Pack.Header:])
}

// refused reports whether a letter is of an event that its thread had, of a message that has others: these come again
// with it, and it is taken for a repeat, and not refused again.
func (d dealt) refused(m Message, event uint64) bool {
	t, _ := events.ParseDead(m.Subject)
	e, err := events.Decode(m.Data)
	return err == nil && d.had(t, Message{Seq: event}, e.Each())
}

// purged reports whether a letter is of a session that was deleted behind its event, and was still to be purged.
func (d dealt) purged(subject string, event uint64) bool {
	t, _ := events.ParseDead(subject)
	rec := d.sessions[t.Session]
	return rec.State == record.Removed && event < rec.Seq
}
