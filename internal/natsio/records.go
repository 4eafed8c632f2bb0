package natsio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// Records reads records from the leader: what it returns was the latest when it answered. In a cluster it can be older, for as long
// as a server that was cut off or stopped believes that it still leads (leader.go): what is decided by it takes a Commit that
// expects it. A key without a record gives a Record with Seq 0; a key with wildcards the newest record that matches, under its own
// key. The requests go out at once.
func (recs Records) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	subjects := mapped.List(keys, events.RecordSubject)
	found, err := recs.c.newest(ctx, events.RecordsStream, subjects)
	if err != nil {
		return nil, text.Errorf("read %d records: %w", len(keys), err)
	}
	out := make([]record.Record, len(keys))
	for i, m := range found {
		out[i] = record.Record{Key: keys[i]}
		if m.Seq == 0 {
			continue
		}
		out[i] = record.Record{Key: RecordKey(m.Subject), Value: m.Data, Seq: m.Seq}
		if out[i], err = recs.open(ctx, out[i], m.Check); err != nil {
			return nil, text.Errorf("read %d records: %w", len(keys), err)
		}
	}
	return out, nil
}

// Written is when the newest value of each key was stored, by the server's clock. Zero: there is none.
func Written(ctx context.Context, recs Records, keys ...string) ([]time.Time, error) {
	subjects := mapped.List(keys, events.RecordSubject)
	found, err := recs.c.newest(ctx, events.RecordsStream, subjects)
	if err != nil {
		return nil, text.Errorf("read the times of %d records: %w", len(keys), err)
	}
	out := make([]time.Time, len(keys))
	for i, m := range found {
		if len(m.Data) > 0 {
			out[i] = m.Time
		}
	}
	return out, nil
}

// RecordKey is the key of the record that is stored on a subject.
func RecordKey(subject string) string { return subject[len(events.RecordSubject("")):] }

// putMsg is the message that writes a record. An empty one is a removal in the words of NATS's key-value buckets.
func putMsg(p record.Put) *nats.Msg {
	m := &nats.Msg{Subject: events.RecordSubject(p.Key), Data: p.Value, Header: make(nats.Header, 4)}
	switch {
	case p.Alone != "":
		m.Header[hdrExpectSeq], m.Header[hdrExpectSubj] = []string{"0"}, []string{events.RecordSubject(p.Alone)}
	case p.Of != "":
		m.Header[hdrExpectSeq] = []string{strconv.FormatUint(p.Expect, 10)}
		m.Header[hdrExpectSubj] = []string{events.RecordSubject(p.Of)}
	case p.Expect != record.Any:
		m.Header[hdrExpectSeq] = []string{strconv.FormatUint(p.Expect, 10)}
	}
	if len(p.Value) == 0 {
		m.Header[hdrOperation] = []string{"DEL"}
	}
	return m
}

// Fence reads the fence of a lane. It must be read before a commit uploads its first byte.
func (recs Records) Fence(ctx context.Context, lane int) (record.Fence, error) {
	if err := Usable(ctx, recs.c); err != nil {
		return record.Fence{}, err
	}
	r, err := recs.Records(ctx, events.FenceKey(lane))
	if err != nil {
		return record.Fence{}, err
	}
	return record.Fence{Lane: lane, Seq: r[0].Seq}, nil
}

// Commit writes all records or none, if the fence has not moved and every expectation holds, and returns the sequence of
// the first; the others follow it. A record of the lane goes ahead of them and carries the fence's expectation, because a
// message can make only one.
//
// record.ErrConflict: nothing was stored, something moved; or, in a cluster, another server refused what its leader took (see
// record.ErrConflict). record.ErrUnknown: it was stored or not.
func (recs Records) Commit(ctx context.Context, f record.Fence, puts []record.Put) (first uint64, err error) {
	if err := Usable(ctx, recs.c); err != nil {
		return 0, text.Errorf("commit %d records: %w", len(puts), err)
	}
	msgs, err := recs.putMsgs(ctx, puts...)
	if err != nil {
		return 0, text.Errorf("commit %d records: %w", len(puts), err)
	}
	last, err := recs.c.batchAs(ctx, recs.c.announced.take(f), slices.Insert(msgs, 0, fenceMsg(f)))
	if err != nil {
		return 0, text.Errorf("commit %d records: %w", len(puts), err)
	}
	return last - uint64(len(puts)) + 1, nil
}

// fenceMsg is the record that a commit begins with.
func fenceMsg(f record.Fence) *nats.Msg {
	return &nats.Msg{Subject: events.RecordSubject(events.LaneKey(f.Lane)), Header: nats.Header{
		hdrExpectSubj: {events.RecordSubject(events.FenceKey(f.Lane))},
		hdrExpectSeq:  {strconv.FormatUint(f.Seq, 10)},
	}}
}

// Write puts one record outside of a commit: fences and tools. It returns the record's sequence.
func (recs Records) Write(ctx context.Context, p record.Put) (uint64, error) {
	if err := Usable(ctx, recs.c); err != nil {
		return 0, err
	}
	msgs, err := recs.putMsgs(ctx, p)
	if err != nil {
		return 0, err
	}
	seqs, err := recs.c.Streams().Send(ctx, msgs)
	if err != nil {
		return 0, err
	}
	return seqs[0], nil
}

// List reads every record whose key matches the filter (a subject filter without the bucket's prefix), ordered by key.
//
// The names come from the stream's subjects, which is exact; the values from an ordered consumer, which may miss a key that
// is written during the scan: those are read one by one. Of a session that is being deleted there is nothing. In a cluster the names
// and the values may be as old as Records says.
func (recs Records) List(ctx context.Context, filter string) (out []record.Record, err error) {
	err = BetweenDeletions(ctx, recs, func() (err error) {
		out, err = recs.list(ctx, filter)
		return err
	})
	return out, err
}

func (recs Records) list(ctx context.Context, filter string) ([]record.Record, error) {
	keys, err := recs.Keys(ctx, filter)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	found, err := recs.scan(ctx, filter, len(keys))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filter, err)
	}
	missed := slices.DeleteFunc(keys, func(key string) bool { return found[key].Seq != 0 })
	late, err := recs.Records(ctx, missed...)
	if err != nil {
		return nil, err
	}
	for _, r := range late {
		found[r.Key] = r
	}
	out := make([]record.Record, 0, len(found))
	for _, r := range found {
		if r.Exists() {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b record.Record) int { return strings.Compare(a.Key, b.Key) })
	return recs.visible(ctx, out)
}

// scanAhead is how many records a scan asks for at once; with the default of 500 the waiting takes longer than the reading.
const scanAhead = 8192

// scanBytes is how many bytes a scan asks for ahead, of messages that are not small.
const scanBytes = 16 << 20

// scan reads the last value of each key until it has seen them all or the consumer has nothing more, or brings nothing more for a while:
// it passes over a record whose bytes went bad on disk, and says nothing. Reading that one by its key is an error.
func (recs Records) scan(ctx context.Context, filter string, names int) (map[string]record.Record, error) {
	cons, err := recs.c.js.OrderedConsumer(ctx, events.RecordsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(filter)}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return nil, WrapErr(err)
	}
	it, err := recs.c.read(ctx, cons, pulls{messages: scanAhead})
	if err != nil {
		return nil, WrapErr(err)
	}
	defer it.stop()
	found := make(map[string]record.Record, names)
	for {
		m, err := it.next(recs.c.timeout)
		if err != nil && ctx.Err() == nil && record.Again(ownGone(err)) {
			return found, nil
		}
		if err != nil {
			return nil, WrapErr(errors.Join(ctx.Err(), err))
		}
		r, err := recs.opened(ctx, m, m.meta.Sequence.Stream)
		if err != nil {
			return nil, err
		}
		found[r.Key] = r
		if m.meta.NumPending == 0 || len(found) >= names {
			return found, nil
		}
	}
}
