package natsio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/pkg/events"
)

// Backward reads records from the newest on, a window at a time, and gives those that are wanted. The bucket keeps one message of a key,
// so its sequences are the order of what changed last: what is read costs what is read, whatever else the bucket holds. For a consumer
// with a filter the server counts all subjects that match, and for one without it goes through all subjects, too: windows are few. One is
// eight times as large as the one before it, up to what is in memory at a time: where most records were overwritten since, it spans more
// sequences. A window of few sequences, for so large a bucket, needs no consumer.
type Backward struct {
	recs   Records
	s      jetstream.Stream
	wanted func(key string) bool
	size   uint64 // of the next window, in sequences
	first  uint64 // of the stream
	last   uint64 // when the reading began
	below  uint64 // from here on all is read, but for the gap
	gap    Gap
	floor  uint64    // no window goes across it
	oldest time.Time // when the oldest one that was read was stored
	looked int       // how many records were read, wanted or not
	dense  float64   // how many records a sequence had in the last window; 0: not known
	few    uint64    // so many sequences cost the server less as a request for each than by a consumer
	ended  bool
}

// Gap is what a reading passes over: the records with sequences above After, up to Last. The zero Gap is none.
type Gap struct{ After, Last uint64 }

const (
	leastWindow = 256
	mostWindow  = 16_384 // records
)

// perRequest is for how many subjects a consumer costs what a request more for a record does than its message: for 90,000 it took the
// server the CPU of 600 requests, for 300,000 that of 2,500 or more.
const perRequest = 200

// otherClocks is by how much the clocks of a cluster's servers are taken to differ.
const otherClocks = time.Minute

// ReadBackward begins a reading with a window of so many sequences; one window ends above the sequence floor, if it is not 0. A gap and a
// floor of another bucket, as one that was restored, are none.
func ReadBackward(
	ctx context.Context, recs Records, window int, gap Gap, floor uint64, wanted func(key string) bool,
) (*Backward, error) {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("read the newest records: %w", WrapErr(err))
	}
	state := s.CachedInfo().State
	b := &Backward{recs: recs, s: s, wanted: wanted, size: min(max(uint64(window), leastWindow), mostWindow), first: max(state.FirstSeq, 1),
		last: state.LastSeq, below: state.LastSeq + 1, few: min(state.NumSubjects/perRequest, mostWindow)}
	if gap.Last <= b.last {
		b.floor = floor
		if gap.After < gap.Last {
			b.gap = gap
		}
	}
	return b, nil
}

// CountRecords is about how many records the bucket holds, removed ones too. It costs the same whatever it is.
func CountRecords(ctx context.Context, recs Records) (uint64, error) {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return 0, fmt.Errorf("count records: %w", WrapErr(err))
	}
	return s.CachedInfo().State.NumSubjects, nil
}

// Last is the newest sequence that there was when the reading began.
func (b *Backward) Last() uint64 { return b.last }

// Looked is how many records were read, wanted or not.
func (b *Backward) Looked() int { return b.looked }

// Unread is how far what is not read yet goes up; 0: all is read.
func (b *Backward) Unread() uint64 {
	if b.ended {
		return 0
	}
	return b.below - 1
}

// Before is a time after which none of what is not read yet was stored. It is zero while nothing is known.
func (b *Backward) Before() time.Time {
	if b.oldest.IsZero() || !b.recs.c.clustered() {
		return b.oldest
	}
	return b.oldest.Add(otherClocks)
}

// Window gives the next records, those that were stored last first. Where all is read there are none, and more is false. most is how many
// the reader has use for, about; 0: any number.
func (b *Backward) Window(ctx context.Context, most int) (rs []record.Record, more bool, err error) {
	if b.gap.Last > 0 && b.below == b.gap.Last+1 {
		b.below, b.gap = b.gap.After+1, Gap{}
	}
	if b.ended = b.below <= b.first; b.ended {
		return nil, false, nil
	}
	from, size := b.first, b.size
	if most > 0 && b.dense > 0 {
		size = min(size, max(leastWindow, uint64(1.2*float64(most)/b.dense)))
	}
	if b.below-b.first > size {
		from = b.below - size
	}
	if b.gap.Last > 0 {
		from = max(from, b.gap.Last+1)
	}
	if b.floor+1 < b.below {
		from = max(from, b.floor+1)
	}
	before := b.looked
	if from < b.below {
		var oldest time.Time
		rs, oldest, err = b.read(ctx, from, b.below)
		if errors.Is(err, errMany) {
			b.size = (b.below - from) / 2
			return nil, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		if !oldest.IsZero() {
			b.oldest = oldest
		}
	}
	if from < b.below {
		b.dense = float64(b.looked-before) / float64(b.below-from)
	}
	b.below = from
	if b.size < mostWindow {
		b.size = min(8*b.size, mostWindow)
	} else if b.looked-before < mostWindow/4 {
		b.size *= 2
	}
	return rs, true, nil
}

// Moved gives what was stored since the reading began: some of it was read before, or was passed by on its way up. What moves
// while it is read by requests is read behind that; where that goes on and on, by a consumer, which none escapes.
func (b *Backward) Moved(ctx context.Context) (rs []record.Record, err error) {
	last := b.last
	for round := 0; ; round++ {
		info, err := b.s.Info(ctx)
		if err != nil {
			return nil, WrapErr(err)
		}
		if info.State.LastSeq == last {
			return rs, nil
		}
		below := info.State.LastSeq + 1
		if round == mostRounds || below-last > b.few {
			below = 0
		}
		some, _, err := b.read(ctx, last+1, below)
		if rs = append(some, rs...); err != nil || below == 0 {
			return rs, err
		}
		last = info.State.LastSeq
	}
}

// mostRounds is how often what moved meanwhile is read by requests.
const mostRounds = 3

// What ends the reading of a window.
var (
	errWindow = errors.New("what is behind was read before")
	errMany   = errors.New("more records than are in memory at a time")
)

// read gives the records from a sequence on and below another one; 0: to the end, where none escapes that moves meanwhile. oldest is when
// the first of all was stored.
func (b *Backward) read(ctx context.Context, from, below uint64) (rs []record.Record, oldest time.Time, err error) {
	before := b.looked
	patience := b.recs.c.denied.patience(ctx)
	patience.most = max(patience.most, atLeast)
	err = patience.read(ctx, events.RecordsStream, func() (further bool, err error) {
		began := from
		err = b.each(ctx, from, below, func(m newestMsg) error {
			if below > 0 && below <= b.last && m.Seq >= below {
				return errWindow
			}
			if b.looked++; below > 0 && b.looked-before > mostWindow {
				return errMany
			}
			if oldest.IsZero() {
				oldest = m.Time
			}
			if r := (record.Record{Key: RecordKey(m.Subject), Value: m.Data, Seq: m.Seq}); b.wanted(r.Key) && len(r.Value) > 0 {
				if r, err = b.recs.open(ctx, r, m.Check); err != nil {
					return err
				}
				rs = append(rs, r)
			}
			from = m.Seq + 1
			return nil
		})
		return from > began, err
	})
	if err != nil && !errors.Is(err, errWindow) {
		return nil, oldest, fmt.Errorf("read records from %d on: %w", from, err)
	}
	slices.Reverse(rs)
	return rs, oldest, nil
}

// each gives the records from a sequence on to f: few by a request for each sequence, others by a consumer.
func (b *Backward) each(ctx context.Context, from, below uint64, f func(newestMsg) error) error {
	if below > 0 && below-from <= b.few {
		return b.eachOf(ctx, from, below, f)
	}
	cons, err := b.s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(">")}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return WrapErr(err)
	}
	last := from - 1
	take := func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		last = meta.Sequence.Stream
		return f(newestMsg{Subject: m.Subject(), Seq: last, Check: m.Headers().Get(hdrCheck), Data: m.Data(), Time: meta.Timestamp})
	}
	if below > 0 {
		return b.recs.c.Streams().each(ctx, cons, take)
	}
	// What a consumer says is pending lags behind what is stored: of a record that is written anew meanwhile it may count neither. So the
	// stream is asked, until all is read that it had when it was asked before, as often as others write meanwhile, up to mostAsked times: what
	// escapes moved in each of them.
	asked, had, seen := 0, uint64(0), uint64(0)
	return b.recs.c.Streams().follow(ctx, cons, func() (bool, error) {
		if last < had && last != seen { // seen twice: what it had is gone
			seen = last
			return false, nil
		}
		_, err := b.s.GetMsg(ctx, last+1, jetstream.WithGetMsgSubject(events.RecordSubject(">")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true, nil
		}
		if err != nil {
			return false, WrapErr(err)
		}
		info, err := b.s.Info(ctx)
		if err != nil {
			return false, WrapErr(err)
		}
		asked, had = asked+1, info.State.LastSeq
		return asked > mostAsked, nil
	}, take)
}

// mostAsked is how often what was stored meanwhile is read, where others write without a pause.
const mostAsked = 8

// eachOf gives the records with sequences from one on and below another one to f, some hundred at a time.
func (b *Backward) eachOf(ctx context.Context, from, below uint64, f func(newestMsg) error) error {
	const some = 500
	for ; from < below; from += some {
		var requests [][]byte
		for seq := from; seq < min(from+some, below); seq++ {
			requests = append(requests, fmt.Appendf(nil, `{"seq":%d}`, seq))
		}
		found, err := b.recs.c.stored(ctx, events.RecordsStream, requests)
		if err != nil {
			return err
		}
		for _, m := range found {
			if m.Seq == 0 { // written anew since
				continue
			}
			if err := f(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// atLeast is how long a reading that gets no further is tried again, as beside a gc that keeps the server's disk busy.
const atLeast = time.Minute

// MatchingRecords reads the records that match many narrow filters, as List does, in a few requests at a time for all: a request for the
// names of each filter, which the server answers from memory, and one for each record that is not among others that were seen. Those come
// with them, and any others that were seen. Those of a session that is being deleted are left out, where it is called BetweenDeletions.
func MatchingRecords(ctx context.Context, recs Records, filters []string, seen ...record.Record) ([]record.Record, error) {
	keys, err := recs.namesOf(ctx, filters)
	if err != nil {
		return nil, err
	}
	has := make(map[string]bool, len(seen))
	for _, r := range seen {
		has[r.Key] = true
	}
	found, err := recs.Records(ctx, slices.DeleteFunc(keys, func(key string) bool { return has[key] })...)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(r record.Record) bool { return !r.Exists() })
	return recs.visible(ctx, slices.Concat(seen, found))
}

// namesOf lists the keys that match many filters.
func (recs Records) namesOf(ctx context.Context, filters []string) (keys []string, err error) {
	msgs := mapped.List(filters, func(f string) *nats.Msg { return recs.keysRequest(f, 0) })
	answers, err := recs.c.pipe.all(ctx, msgs, recs.c.timeout)
	if err != nil {
		return nil, fmt.Errorf("list the keys of %d filters: %w", len(filters), err)
	}
	for i, m := range answers {
		p, err := parseKeys(m)
		if err == nil {
			var some []string
			some, err = recs.pagedKeys(ctx, filters[i], p)
			keys = append(keys, some...)
		}
		if err != nil {
			return nil, fmt.Errorf("list the keys of %s: %w", filters[i], WrapErr(err))
		}
	}
	return keys, nil
}
