package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// DeadLetter is an event that could not be applied, as SPOOL_DEAD holds it (SPEC B1).
type DeadLetter struct {
	events.Dead           // Data is nil where the bytes are in the inbox: OpenDead
	At          uint64    // sequence in SPOOL_DEAD
	Time        time.Time // when it got there
	Size        int64     // bytes of the message; -1 when they are in the inbox and it was not asked
	object      string
}

// EachLetter gives every dead letter of a thread, oldest first; without its name those of its session, and without a session all.
func (box DeadLetters) EachLetter(ctx context.Context, t events.Thread, f func(DeadLetter) error) error {
	newest, err := box.c.newest(ctx, events.DeadStream, []string{events.DeadFilter(t)})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	if newest[0].Seq == 0 { // as of nearly all: a consumer, to be made and taken away again, would tell no more
		return nil
	}
	err = box.c.Streams().Each(ctx, events.DeadStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.DeadFilter(t)}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return f(deadLetter(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp))
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	return nil
}

// Owed looks for a refused event of a thread among those whose letters may not be out yet, and gives the reason, as
// far as it is kept.
func (box DeadLetters) Owed(ctx context.Context, t events.Thread, is func(events.Event) bool) (reason string, found bool, err error) {
	newest, err := box.c.Events().NewestEvent(ctx, t)
	if err != nil || newest.Seq == 0 {
		return "", false, err
	}
	rs, err := box.c.Records().Records(ctx, events.RefusedKey(newest.Partition))
	if err != nil || !rs[0].Exists() {
		return "", false, err
	}
	v, err := record.DecodeRefused(rs[0].Value)
	if err != nil {
		return "", false, err
	}
	s, err := MessagesOf(ctx, box.c.Streams(), events.EventsStream)
	if err != nil {
		return "", false, WrapErr(err)
	}
	var read uint64       // the message that was read last: a message can have a thousand events, and all of them be refused
	var of []events.Event // its events
	for _, owed := range v.Events {
		if owed.Session != record.SessionMark(t.Session) {
			continue
		}
		if owed.Seq != read {
			m, err := s.GetMsg(ctx, owed.Seq)
			if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
				return "", false, fmt.Errorf("event %d: %w", owed.Seq, WrapErr(err))
			}
			read, of = owed.Seq, nil
			if err == nil {
				if e, err := events.Open(m.Subject, m.Data); err == nil { // nobody waits for what cannot be read
					of = e.Each()
				}
			}
		}
		all := of
		if owed.Index >= 0 && owed.Index < len(all) {
			all = all[owed.Index : owed.Index+1]
		}
		if slices.ContainsFunc(all, is) {
			return owed.Reason, true, nil
		}
	}
	return "", false, nil
}

// Letter reads one. record.ErrNotFound: there is none at that sequence.
func (box DeadLetters) Letter(ctx context.Context, at uint64) (d DeadLetter, err error) {
	s, err := MessagesOf(ctx, box.c.Streams(), events.DeadStream)
	if err != nil {
		return d, fmt.Errorf("read dead letter %d: %w", at, WrapErr(err))
	}
	m, err := s.GetMsg(ctx, at)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return d, fmt.Errorf("%w: dead letter %d", record.ErrNotFound, at)
	}
	if err != nil {
		return d, fmt.Errorf("read dead letter %d: %w", at, WrapErr(err))
	}
	return deadLetter(m.Subject, m.Header, m.Data, m.Sequence, m.Time), nil
}

func deadLetter(subject string, h nats.Header, data []byte, at uint64, when time.Time) DeadLetter {
	d := DeadLetter{At: at, Time: when, Size: int64(len(data)), object: h.Get(HeaderObject)}
	d.Thread, d.Kind = events.ParseDead(subject)
	d.Reason, d.Subject, d.Data = h.Get(HeaderReason), h.Get(HeaderSubject), data
	d.Seq, _ = strconv.ParseUint(h.Get(HeaderEventSeq), 10, 64)
	d.Unread = h.Get(HeaderUnread) != ""
	if d.object != "" {
		d.Data, d.Size = nil, -1
	}
	return d
}

// Object is the name of the object of the inbox that has the letter's bytes; empty: Data has them.
func (d DeadLetter) Object() string { return d.object }

// OpenLetter reads the message as it came, from wherever its bytes are.
func (box DeadLetters) OpenLetter(ctx context.Context, d DeadLetter) (io.Reader, error) {
	if d.object == "" {
		return bytes.NewReader(d.Data), nil
	}
	o, err := box.c.Objects().Stat(ctx, events.InboxBucket, d.object)
	if err != nil {
		return nil, fmt.Errorf("bytes of dead letter %d: %w", d.At, err)
	}
	return box.c.Objects().readOnce(ctx, o), nil
}

// DropLetters removes dead letters for good, after noting whose they were. Their bytes in the inbox, if they have such, are gc's from
// then on. Doing it again changes nothing. record.ErrNotFound: there is no letter at one of the numbers, and none is removed.
func (box DeadLetters) DropLetters(ctx context.Context, at ...uint64) error {
	s, err := MessagesOf(ctx, box.c.Streams(), events.DeadStream)
	if err != nil {
		return fmt.Errorf("remove dead letters: %w", WrapErr(err))
	}
	for some := range slices.Chunk(at, 1000) {
		gone := make([]events.Dead, 0, len(some))
		for _, at := range some {
			d, err := box.Letter(ctx, at)
			if errors.Is(err, record.ErrNotFound) { // it was removed before
				continue
			}
			if err != nil {
				return err
			}
			gone = append(gone, d.Dead)
		}
		// A crash after this leaves letters whose events are accounted for twice.
		if err := box.noteRemoved(ctx, gone); err != nil {
			return fmt.Errorf("remove dead letters: %w", err)
		}
		for _, at := range some {
			if err := UnlessGone(ctx, s, at, s.SecureDeleteMsg(ctx, at)); err != nil {
				return fmt.Errorf("remove dead letter %d: %w", at, err)
			}
		}
	}
	return nil
}

// noteRemoved notes the events of letters that are to be removed.
func (box DeadLetters) noteRemoved(ctx context.Context, gone []events.Dead) error {
	s, err := box.c.js.Stream(ctx, events.EventsStream)
	if err != nil {
		return WrapErr(err)
	}
	for err = record.ErrConflict; errors.Is(err, record.ErrConflict) && ctx.Err() == nil; {
		err = box.addLetters(ctx, s.CachedInfo().State.FirstSeq, gone)
	}
	return err
}

func (box DeadLetters) addLetters(ctx context.Context, oldest uint64, gone []events.Dead) error {
	rs, err := box.c.Records().Records(ctx, events.LettersKey)
	if err != nil {
		return err
	}
	l, err := record.DecodeLetters(rs[0].Value)
	if err != nil {
		return err
	}
	l.Add(oldest, gone...)
	_, err = box.c.Records().Write(ctx, record.Put{Key: events.LettersKey, Value: l.Encode(), Expect: rs[0].Seq})
	return err
}

// Letters gives the EVENTS sequence of every event that is a dead letter, with its subject, and its bytes where they are not in the
// inbox, and whether nobody looked if its thread has it; or was one that an operator removed, without bytes.
func (box DeadLetters) Letters(ctx context.Context, f func(event uint64, subject string, data []byte, unread bool) error) error {
	// Whatever is removed while they are listed is noted before.
	s, err := box.c.Streams().LeaderStream(ctx, events.DeadStream)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", WrapErr(err))
	}
	err = box.c.Streams().EachUntilNewest(ctx, s, 1, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		d := deadLetter(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp)
		return f(d.Seq, d.Subject, d.Data, d.Unread)
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	rs, err := box.c.Records().Records(ctx, events.LettersKey)
	if err != nil {
		return err
	}
	l, err := record.DecodeLetters(rs[0].Value)
	for _, e := range l.Events {
		if err := f(e, "", nil, slices.Contains(l.Unread, e)); err != nil {
			return err
		}
	}
	return err
}
