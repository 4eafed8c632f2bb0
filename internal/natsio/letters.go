package natsio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// Headers of a dead letter; its payload is the message as it came.
const (
	HeaderReason   = "Spool-Reason"
	HeaderSubject  = "Spool-Subject"
	HeaderEventSeq = "Spool-Event-Seq"
	HeaderUnread   = "Spool-Unread" // there: nobody looked whether the event's thread has it
	HeaderObject   = "Spool-Object" // in InboxBucket: the message, where it does not fit beside the headers
	HeaderSum      = "Spool-Sum"    // beside that: tells the letters of a message's entries apart
)

// deadBox remembers, for each subject of dead letters that this connection wrote to, what SPOOL_DEAD holds there, so that a
// letter needs no look at those before it. The memory can be trusted without a lease: every write expects the newest
// letter that the memory knows of. The server refuses the write when another process stored or removed letters, and only
// then are they read.
type deadBox struct {
	turn     turn // of a write
	subjects map[string]*deadSubject
	held     int // letters in all sent maps
}

// deadSubject is what is known of one subject's letters. It holds for events that were stored at or after since.
type deadSubject struct {
	last  uint64             // sequence of the newest letter; 0: there is none
	top   uint64             // highest event sequence of a letter: the event of a higher one has no letter yet
	since int64              // Unix nanoseconds
	sent  map[letterID]int64 // letters, and a time that their events are not younger than; nil: not read
}

// letterID tells letters of a subject apart. Several entries of one message share its sequence.
type letterID struct {
	seq uint64
	sum [16]byte
}

// anySum stands for a letter of a message, whatever is in it: an event that is alone in its message has one letter, also where other
// secrets are masked in it by now.
var anySum = [16]byte{1}

const (
	deadSubjects = 1 << 16 // subjects that are remembered at most
	deadHeld     = 1 << 17 // letters that are remembered at most, but for those of one read
	deadTries    = 5       // writes that may meet another writer before the caller waits
)

// Dead stores events that could not be applied, in order (SPEC B1). A letter that comes again, after a crash or a replay, is
// not stored again. On an error a part of them may be stored; calling it again with all of them is safe.
//
// The letters of a call cost one write for a thousand of them. Where letters may have come before, they are read once.
func (box DeadLetters) Dead(ctx context.Context, letters []events.Dead) error {
	b := &box.c.dead
	if err := b.turn.take(ctx); err != nil {
		return text.Errorf("store %d dead letters: %w", len(letters), err)
	}
	defer b.turn.give()
	if b.subjects == nil || len(b.subjects) > deadSubjects {
		b.subjects, b.held = map[string]*deadSubject{}, 0
	}
	for len(letters) > 0 {
		n, size := 0, 0
		for n < len(letters) && n < maxBatch && (n == 0 || size+len(letters[n].Data) <= batchBytes) {
			size += len(letters[n].Data)
			n++
		}
		if err := box.storeDead(ctx, letters[:n]); err != nil {
			return text.Errorf("store %d dead letters: %w", n, err)
		}
		letters = letters[n:]
	}
	return nil
}

// HaveDead says which of these letters are stored, by any process. One whose event has no known time cannot be told from another.
func (box DeadLetters) HaveDead(ctx context.Context, letters []events.Dead) ([]bool, error) {
	b := &box.c.dead
	if err := b.turn.take(ctx); err != nil {
		return nil, text.Errorf("look for %d dead letters: %w", len(letters), err)
	}
	defer b.turn.give()
	if b.subjects == nil || len(b.subjects) > deadSubjects {
		b.subjects, b.held = map[string]*deadSubject{}, 0
	}
	look := map[string]bool{}
	for _, d := range letters {
		look[letterSubject(d)] = true
	}
	for range deadTries {
		if err := box.learnDead(ctx, letters, look); err != nil {
			return nil, text.Errorf("look for %d dead letters: %w", len(letters), err)
		}
		_, unread := b.compare(letters)
		b.forget(unread)
		if look = unread; len(look) == 0 {
			break
		}
	}
	there := make([]bool, len(letters))
	for i := range letters {
		fresh, unread := b.compare(letters[i : i+1])
		there[i] = len(fresh)+len(unread) == 0
	}
	return there, nil
}

// storeDead stores those letters of one batch that are not stored yet.
func (box DeadLetters) storeDead(ctx context.Context, letters []events.Dead) error {
	objects := map[int]string{} // of the letters that were uploaded
	var err error
	for range deadTries {
		fresh, unread := box.c.dead.compare(letters)
		if len(unread) > 0 {
			box.c.dead.forget(unread)
			if letters, err = box.learnAndDrop(ctx, letters, unread); err != nil {
				return err
			}
			clear(objects)
			continue
		}
		if len(fresh) == 0 {
			return nil
		}
		msgs := make([]*nats.Msg, len(fresh))
		for i, n := range fresh {
			if msgs[i], err = box.letterMsg(ctx, letters[n], objects, n); err != nil {
				return err
			}
		}
		seqs, err := box.sendDead(ctx, msgs)
		if err == nil {
			box.c.dead.note(letters, fresh, seqs)
			return nil
		}
		subjects := map[string]bool{}
		for _, m := range msgs {
			subjects[m.Subject] = true
		}
		if !errors.Is(err, record.ErrConflict) {
			box.c.dead.doubt(subjects)
			return err
		}
		if letters, err = box.learnAndDrop(ctx, letters, subjects); err != nil {
			return err
		}
		clear(objects)
	}
	return fmt.Errorf("%w: other processes write letters of the same threads", record.ErrBusy)
}

// learnAndDrop is learnDead, and gives the letters but for those of events that went with their session: whoever stood
// still meanwhile would bring back what a deletion has removed. Where nothing is to be learned nobody stood still: the
// commit has just found the session.
func (box DeadLetters) learnAndDrop(ctx context.Context, letters []events.Dead, subjects map[string]bool) (
	[]events.Dead, error,
) {
	if err := box.learnDead(ctx, letters, subjects); err != nil {
		return letters, err
	}
	return box.undeleted(ctx, letters)
}

func (box DeadLetters) undeleted(ctx context.Context, letters []events.Dead) ([]events.Dead, error) {
	at := map[string]int{}
	var keys []string
	for _, d := range letters {
		if d.Thread.Session == "" {
			continue // nobody knows whose it is
		}
		if _, asked := at[d.Thread.Session]; !asked {
			at[d.Thread.Session] = len(keys)
			keys = append(keys, events.DeletedKey(d.Thread.Session))
		}
	}
	rs, err := box.c.Records().Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	gone := make([]*record.Deleted, len(rs))
	for i, r := range rs {
		if !r.Exists() {
			continue
		}
		d, err := record.DecodeDeleted(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		gone[i] = &d
	}
	return slices.DeleteFunc(slices.Clone(letters), func(d events.Dead) bool {
		i, known := at[d.Thread.Session]
		return known && gone[i].Before(d.Seq, d.Stored)
	}), nil
}

// compare finds the letters that the memory does not hold, by their place in the list; unread are the subjects whose letters
// must be read first to tell.
func (b *deadBox) compare(letters []events.Dead) (fresh []int, unread map[string]bool) {
	unread = map[string]bool{}
	batch := map[string]map[letterID]bool{}
	for i, d := range letters {
		subject, id := letterSubject(d), letterOf(d)
		s := b.subjects[subject]
		switch {
		case d.Stored == 0: // a repeat cannot be told from another event
		case batch[subject][id]:
			continue
		case s == nil, d.Stored >= s.since && d.Seq > s.top:
		case d.Stored < s.since, s.sent == nil:
			unread[subject] = true
			continue
		case s.has(id, d.Stored), s.has(letterID{seq: d.Seq}, d.Stored), d.Alone && s.has(letterID{d.Seq, anySum}, d.Stored):
			continue
		}
		if batch[subject] == nil {
			batch[subject] = map[letterID]bool{}
		}
		batch[subject][id] = true
		fresh = append(fresh, i)
	}
	return fresh, unread
}

func (s *deadSubject) has(id letterID, stored int64) bool {
	at, ok := s.sent[id]
	return ok && at >= stored
}

// note remembers letters that were stored.
func (b *deadBox) note(letters []events.Dead, fresh []int, seqs []uint64) {
	for i, seq := range seqs {
		d := letters[fresh[i]]
		s := b.subjects[letterSubject(d)]
		if s == nil {
			s = &deadSubject{}
			b.subjects[letterSubject(d)] = s
		}
		s.last, s.top = seq, max(s.top, d.Seq)
		if s.sent != nil {
			s.sent[letterOf(d)], s.sent[letterID{d.Seq, anySum}] = d.Stored, d.Stored
			b.held += 2
		}
	}
}

// doubt makes the next write of these subjects find out first what they hold: nobody knows what became of the last one.
// To write it again at once, and see whether the server refuses it, could store what a deletion has removed meanwhile.
func (b *deadBox) doubt(subjects map[string]bool) {
	b.forget(subjects)
	for subject := range subjects {
		b.subjects[subject] = &deadSubject{since: math.MaxInt64}
	}
}

func (b *deadBox) forget(subjects map[string]bool) {
	for subject := range subjects {
		if s := b.subjects[subject]; s != nil {
			b.held -= len(s.sent)
			delete(b.subjects, subject)
		}
	}
}

// learnDead finds out what SPOOL_DEAD holds on these subjects. It asks for the newest letter of each. Where the memory does
// not know that one, it reads the letters since the oldest event of the batch, once for all subjects: an older letter is of
// an event that had its sequence in a stream that is gone.
func (box DeadLetters) learnDead(ctx context.Context, letters []events.Dead, subjects map[string]bool) error {
	b := &box.c.dead
	b.shrink()
	names := slices.Sorted(maps.Keys(subjects))
	found, err := box.c.newest(ctx, events.DeadStream, names)
	if err != nil {
		return err
	}
	oldest, read := oldestEvents(letters), map[string]newestMsg{}
	for i, m := range found {
		if s := b.subjects[names[i]]; s != nil && m.Seq <= s.last {
			s.last = m.Seq // nobody wrote; the newest letters were removed
			continue
		}
		b.forget(map[string]bool{names[i]: true})
		s := &deadSubject{last: m.Seq, sent: map[letterID]int64{}}
		b.subjects[names[i]] = s
		if m.Seq == 0 {
			continue
		}
		s.since = cmp.Or(oldest[names[i]], math.MaxInt64)
		if m.Time.UnixNano() >= s.since {
			read[names[i]] = m
		}
	}
	if err := box.readDead(ctx, read); err != nil {
		b.forget(subjects)
		return err
	}
	return nil
}

// shrink drops the letters that were read, when they are too many. Where one comes again they are read again.
func (b *deadBox) shrink() {
	if b.held <= deadHeld {
		return
	}
	for _, s := range b.subjects {
		s.sent = nil
	}
	b.held = 0
}

// oldestEvents is when the oldest event with a letter on each subject was stored; 0: nobody knows.
func oldestEvents(letters []events.Dead) map[string]int64 {
	oldest := map[string]int64{}
	for _, d := range letters {
		if at, ok := oldest[letterSubject(d)]; d.Stored != 0 && (!ok || d.Stored < at) {
			oldest[letterSubject(d)] = d.Stored
		}
	}
	return oldest
}

// readDead reads the letters on these subjects into the memory, up to the newest of each.
func (box DeadLetters) readDead(ctx context.Context, newest map[string]newestMsg) error {
	if len(newest) == 0 {
		return nil
	}
	b := &box.c.dead
	since, oldest := int64(math.MaxInt64), uint64(math.MaxUint64)
	for subject, m := range newest {
		since, oldest = min(since, b.subjects[subject].since), min(oldest, m.Seq)
	}
	stream, err := box.c.Streams().LeaderStream(ctx, events.DeadStream)
	if err != nil {
		return WrapErr(err)
	}
	start, err := firstSince(ctx, stream, time.Unix(0, since))
	if err != nil {
		return err
	}
	last := map[string]uint64{}
	err = box.c.Streams().EachUntilNewest(ctx, stream, min(start, oldest), func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if _, asked := newest[m.Subject()]; !asked {
			return nil
		}
		s, l := b.subjects[m.Subject()], deadLetter(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
		id := letterID{seq: l.Seq}
		if l.object == "" {
			id = letterOf(l.Dead)
		} else if sum, err := hex.DecodeString(m.Headers().Get(HeaderSum)); err == nil {
			copy(id.sum[:], sum)
		}
		s.top = max(s.top, l.Seq)
		before := len(s.sent)
		s.sent[id], s.sent[letterID{l.Seq, anySum}] = meta.Timestamp.UnixNano(), meta.Timestamp.UnixNano()
		b.held += len(s.sent) - before
		last[m.Subject()] = meta.Sequence.Stream
		return nil
	})
	if err != nil {
		return err
	}
	for subject, m := range newest {
		// A consumer of a copy that is behind ends before the newest letter.
		if last[subject] < m.Seq {
			return fmt.Errorf("%w: letter %d of %s cannot be read yet", record.ErrBusy, m.Seq, subject)
		}
		b.subjects[subject].last = last[subject]
	}
	return nil
}

// sendDead stores messages on condition that the memory knows the newest letter of each of their subjects, all or none, and
// returns their sequences.
func (box DeadLetters) sendDead(ctx context.Context, msgs []*nats.Msg) ([]uint64, error) {
	expects := map[string]bool{} // the first message of each subject does, for those behind it
	for _, m := range msgs {
		if expects[m.Subject] {
			continue
		}
		expects[m.Subject] = true
		last := uint64(0)
		if s := box.c.dead.subjects[m.Subject]; s != nil {
			last = s.last
		}
		m.Header[hdrExpectSeq] = []string{strconv.FormatUint(last, 10)}
	}
	if len(msgs) == 1 {
		return box.c.Streams().Send(ctx, msgs)
	}
	last, err := box.c.batch(ctx, msgs)
	if err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(msgs))
	for i := range seqs {
		seqs[i] = last - uint64(len(msgs)-1-i)
	}
	return seqs, nil
}

// letterMsg is a letter as a message. What does not fit one is uploaded, once: objects says under which name, by the letter's
// place.
func (box DeadLetters) letterMsg(ctx context.Context, d events.Dead, objects map[int]string, place int) (*nats.Msg, error) {
	m := &nats.Msg{Subject: letterSubject(d), Data: d.Data, Header: nats.Header{
		HeaderReason:   {oneLine(d.Reason, 2048)},
		HeaderSubject:  {oneLine(d.Subject, 1024)},
		HeaderEventSeq: {strconv.FormatUint(d.Seq, 10)},
	}}
	if d.Unread {
		m.Header[HeaderUnread] = []string{"true"}
	}
	if len(d.Data)+headerRoom <= box.c.MaxPayload() && !d.Apart {
		return m, nil
	}
	if objects[place] == "" {
		name := fmt.Sprintf("dead.%d.%s", d.Seq, ulid.Make())
		if _, err := box.c.Objects().UploadFrom(ctx, events.InboxBucket, name, bytes.NewReader(d.Data)); err != nil {
			return nil, err
		}
		objects[place] = name
	}
	sum := letterOf(d).sum
	m.Data, m.Header[HeaderObject], m.Header[HeaderSum] = nil, []string{objects[place]}, []string{hex.EncodeToString(sum[:])}
	return m, nil
}

func letterSubject(d events.Dead) string {
	return events.DeadSubject(d.Thread.Session, d.Thread.Name, d.Kind)
}

func letterOf(d events.Dead) letterID {
	id, h := letterID{seq: d.Seq}, sha256.New()
	fmt.Fprintf(h, "%s\n", oneLine(d.Subject, 1024))
	h.Write(d.Data)
	copy(id.sum[:], h.Sum(nil))
	return id
}

func oneLine(s string, limit int) string {
	b := []byte(s)
	if len(b) > limit {
		b = b[:limit]
	}
	for i, ch := range b {
		if ch < ' ' || ch == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
