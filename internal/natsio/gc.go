package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Fences moves the fence of every lane in one batch and returns the sequence of the first; that of lane n is n above it.
// A commit that was prepared before is refused from here on (DESIGN 9, step 1).
func (c *Conn) Fences(ctx context.Context) (first uint64, err error) {
	msgs := make([]*nats.Msg, events.Lanes)
	for lane := range msgs {
		msgs[lane] = putMsg(record.Put{Key: events.FenceKey(lane), Value: []byte("gc"), Expect: record.Any})
	}
	last, err := c.batch(ctx, msgs)
	if err != nil {
		return 0, fmt.Errorf("move the fences: %w", err)
	}
	return last - uint64(events.Lanes) + 1, nil
}

// Scan calls f for every record from a sequence on, removed ones included, in the order of their sequences, and goes on with
// what is written meanwhile until there was a moment in which the one that it had seen last was the newest. It returns that
// one's sequence: what f was told is then exactly what the bucket held at it. For whatever was overwritten before its place was
// reached comes again further on, and nothing further on is left out. Writers are not stopped; if for scanStill they never
// leave a gap of one round trip it is record.ErrBusy.
func (c *Conn) Scan(ctx context.Context, from uint64, f func(record.Stamped) error) (last uint64, err error) {
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", wrapErr(err))
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(">")}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: max(from, 1), InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", wrapErr(err))
	}
	now, busy := s.CachedInfo().TimeStamp, time.Now().Add(scanStill)
	last = max(from, 1) - 1
	// What a consumer says is pending lags behind what is stored: only the stream knows.
	atEnd := func() (bool, error) {
		_, err := s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(events.RecordSubject(">")))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return true, nil
		case err == nil && time.Now().After(busy):
			return false, fmt.Errorf("%w: records are written without a pause", record.ErrBusy)
		}
		return false, wrapErr(err)
	}
	err = c.follow(ctx, cons, atEnd, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		return f(record.Stamped{Record: record.Record{Key: recordKey(m.Subject()), Value: m.Data(), Seq: last}, Age: now.Sub(meta.Timestamp)})
	})
	if err != nil {
		return 0, fmt.Errorf("scan records: %w", err)
	}
	return last, nil
}

// Quiet reports whether a record is the newest. Scan asks the leader whether it is; in a cluster that is not enough. The server that tells
// the records may have taken in more than the leader: what is overwritten behind the last record that it told, it left out
// before it. So there a record is written, on condition that nothing is behind the last: a majority agrees to that, and what was told
// before cannot have been overwritten.
func (c *Conn) Quiet(ctx context.Context, last uint64) (bool, error) {
	if c.Incarnation() != "" {
		return true, nil
	}
	_, err := c.publish(ctx, []*nats.Msg{{
		Subject: events.RecordSubject(events.QuietKey), Data: []byte("gc"), Header: nats.Header{hdrExpectLast: {strconv.FormatUint(last, 10)}},
	}})
	if errors.Is(err, record.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for a quiet moment: %w", err)
	}
	return true, nil
}

// scanStill is how long a scan waits for a moment in which nothing is written behind what it has read.
const scanStill = time.Minute

// each gives all messages of a consumer to f, until there is none behind the last.
func (c *Conn) each(ctx context.Context, cons jetstream.Consumer, f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	return c.follow(ctx, cons, func() (bool, error) { return true, nil }, f)
}

// follow gives the messages of a consumer to f; where none seems to be behind the last, atEnd decides.
func (c *Conn) follow(ctx context.Context, cons jetstream.Consumer, atEnd func() (bool, error), f func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	pending := cons.CachedInfo().NumPending
	defer func() { // else it would be among the stream's consumers for a while
		info := cons.CachedInfo()
		_ = c.js.DeleteConsumer(context.WithoutCancel(ctx), info.Stream, info.Name)
	}()
	it, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(scanAhead, scanBytes))
	if err != nil {
		return wrapErr(err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		if pending == 0 {
			if done, err := atEnd(); err != nil || done {
				return err
			}
		}
		m, err := it.Next(jetstream.NextMaxWait(c.timeout))
		if errors.Is(err, nats.ErrTimeout) && ctx.Err() == nil { // those that were counted may have been deleted since
			info, err := cons.Info(ctx)
			if err != nil {
				return wrapErr(err)
			}
			pending = info.NumPending
			continue
		}
		if err != nil {
			return wrapErr(errors.Join(ctx.Err(), err))
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := f(m, meta); err != nil {
			return err
		}
		pending = meta.NumPending
	}
}

// RecordNames lists the key of every record, removed ones included, by the stream's own list of subjects.
func (c *Conn) RecordNames(ctx context.Context) ([]string, error) {
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("list record names: %w", wrapErr(err))
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(">")))
	if err != nil {
		return nil, fmt.Errorf("list record names: %w", wrapErr(err))
	}
	names := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		names = append(names, recordKey(subject))
	}
	return names, nil
}

// Forget deletes the message of a record that means nothing any more: an old tombstone, a moved record that nobody follows. One
// that was overwritten since is at another sequence and stays.
func (c *Conn) Forget(ctx context.Context, seq uint64) error {
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return fmt.Errorf("forget record %d: %w", seq, wrapErr(err))
	}
	if err = s.DeleteMsg(ctx, seq); err == nil {
		return nil
	}
	if _, gone := s.GetMsg(ctx, seq); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("forget record %d: %w", seq, wrapErr(err))
}

// Birth tells the streams that a collector relies on apart from others of their name: when each was made.
func (c *Conn) Birth(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range []string{
		events.RecordsStream, events.EventsStream, events.DeadStream, events.ObjectStream(events.NodesBucket),
		events.ObjectStream(events.BlobsBucket), events.ObjectStream(events.ArtifactsBucket), events.ObjectStream(events.InboxBucket),
	} {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, wrapErr(err))
		}
		out[name] = s.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	}
	return out, nil
}

// LastSeqs is the last sequence of a stream of each name.
func (c *Conn) LastSeqs(ctx context.Context, streams ...string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range streams {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, wrapErr(err))
		}
		out[name] = s.CachedInfo().State.LastSeq
	}
	return out, nil
}

// Remember stores what the next collector must know of this cycle, in a stream of its own: a record bucket that was set back
// would have set it back as well.
func (c *Conn) Remember(ctx context.Context, state any) error {
	b, err := json.Marshal(state)
	if err == nil {
		_, err = c.publish(ctx, []*nats.Msg{{Subject: events.GCStateSubject, Data: b}})
	}
	if err != nil {
		return fmt.Errorf("remember the cycle: %w", err)
	}
	return nil
}

// Recall reads what the last collector remembered into state; it leaves it alone when there was none.
func (c *Conn) Recall(ctx context.Context, state any) error {
	s, err := c.leaderStream(ctx, events.GCStream)
	if err != nil {
		return fmt.Errorf("recall the last cycle: %w", wrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, events.GCStateSubject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("recall the last cycle: %w", wrapErr(err))
	}
	if err := json.Unmarshal(m.Data, state); err != nil {
		return fmt.Errorf("recall the last cycle: %w: %w", record.ErrValue, err)
	}
	return nil
}
