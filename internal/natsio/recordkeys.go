package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
	"spool/internal/keyset"
	"spool/internal/record"
	"spool/pkg/events"
)

// keysInTime is how many keys a server lists in the time for one request, even one that is busy.
const keysInTime = 50_000

// Keys lists the keys of the records that match a filter, also of those that are removed, in order: exactly, as the stream counts them.
//
// The server names 100,000 at a time, and looks at all that match for each such page. Where there are more, their headers are read
// instead, which costs in proportion to their number, and the server says only how many there are. Pages are read where the two
// disagree: a record whose bytes went bad on disk has a name, and is not read; one that was removed meanwhile was read, and has none.
func (recs Records) Keys(ctx context.Context, filter string) (keys []string, err error) {
	err = recs.names(ctx, filter, func(key string) { keys = append(keys, key) }, func() { keys = nil })
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return keys, nil
}

// EachName gives the keys that Keys lists to f, and keeps none of them: some bytes a key. They come in no order. Where pages are read
// after all, most come twice, and some of those that were removed meanwhile come, too.
func (recs Records) EachName(ctx context.Context, filter string, f func(key string)) error {
	return recs.names(ctx, filter, f, func() {})
}

// names gives the keys to f. again is called before all are given once more.
func (recs Records) names(ctx context.Context, filter string, f func(key string), again func()) error {
	p, err := recs.keysPage(ctx, filter, 0)
	if err == nil && p.Total > len(p.State.Subjects) {
		err := recs.readKeys(ctx, filter, f)
		if !errors.Is(err, errMiscounted) {
			return err
		}
		recs.c.log.Debug("names of records are listed page by page", "filter", filter, "names", p.Total, "why", err)
		again()
	}
	if err != nil {
		return err
	}
	keys, err := recs.pagedKeys(ctx, filter, p)
	for _, key := range keys {
		f(key)
	}
	return err
}

// EachKey gives the keys of the records that match a filter to f: where the bucket has few records, as Keys does. Of many it reads the
// headers, which costs in proportion to what matches, has no time for the whole, and keeps nothing in memory. There a key that is
// written meanwhile can come twice, and one whose bytes went bad on disk does not come.
func EachKey(ctx context.Context, recs Records, filter string, f func(key string)) error {
	n, err := CountRecords(ctx, recs)
	if err != nil {
		return err
	}
	if n <= keysInTime {
		keys, err := recs.Keys(ctx, filter)
		for _, key := range keys {
			f(key)
		}
		return err
	}
	return eachHeader(ctx, recs, filter, func(m jetstream.Msg, _ *jetstream.MsgMetadata) { f(RecordKey(m.Subject())) })
}

func eachHeader(ctx context.Context, recs Records, filter string, f func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	err := recs.c.Streams().Each(ctx, events.RecordsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(filter)}, DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		f(m, meta)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the keys of %s: %w", filter, err)
	}
	return nil
}

// pagedKeys is Keys by one page after the other, of which there is the first. Where names go meanwhile, those behind them move to the page
// before: each page begins at or before the last name of the one before it, or the next try begins further back.
func (recs Records) pagedKeys(ctx context.Context, filter string, p keysPage) (keys []string, err error) {
	const further = 1000
	last, back := "", 1
	for {
		joins := last == "" || p.Offset == 0
		for subject := range p.State.Subjects {
			joins = joins || subject <= last
		}
		at := p.Offset + len(p.State.Subjects)
		if joins {
			back = 1
			for subject := range p.State.Subjects {
				keys, last = append(keys, RecordKey(subject)), max(last, subject)
			}
			if len(p.State.Subjects) == 0 || at >= p.Total {
				slices.Sort(keys)
				return slices.Compact(keys), nil // what is written meanwhile moves names to the next page
			}
		} else {
			at, back = p.Offset, back*further
		}
		if p, err = recs.keysPage(ctx, filter, max(at-back, 0)); err != nil {
			return nil, err
		}
	}
}

// keysPage is a server's answer to who asks for the names of subjects: some of those that match, in order, and how many there are.
type keysPage struct {
	Total  int `json:"total"`
	Offset int `json:"offset"`
	State  struct {
		LastSeq  uint64            `json:"last_seq"`
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Error *jetstream.APIError `json:"error"`
}

func (recs Records) keysPage(ctx context.Context, filter string, offset int) (p keysPage, err error) {
	most := recs.c.names.Load() // that there were ever
	if most == 0 {
		if n, err := CountRecords(ctx, recs); err == nil {
			most = int64(n)
		}
	}
	err = recs.c.denied.patience(ctx).once(ctx, "the keys of "+filter, func() error {
		answers, err := recs.c.pipe.all(ctx, []*nats.Msg{recs.keysRequest(filter, offset)}, recs.c.timeout*time.Duration(1+most/keysInTime))
		if err == nil {
			p, err = parseKeys(answers[0])
		}
		return WrapErr(err)
	})
	if err != nil {
		recs.c.names.Store(max(2*most, keysInTime)) // there may be far more now
		return p, fmt.Errorf("list the keys of %s: %w", filter, err)
	}
	recs.c.names.Store(max(most, int64(p.Total), 1))
	return p, nil
}

func (recs Records) keysRequest(filter string, offset int) *nats.Msg {
	body := jsonscan.AppendString([]byte(`{"subjects_filter":`), events.RecordSubject(filter))
	body = fmt.Appendf(body, `,"offset":%d}`, offset)
	return &nats.Msg{Subject: apiSubject(recs.c.js, "STREAM.INFO."+events.RecordsStream), Data: body}
}

func parseKeys(answer *nats.Msg) (p keysPage, err error) {
	if answer.Header.Get("Status") == "503" {
		return p, record.ErrBusy
	}
	if err = json.Unmarshal(answer.Data, &p); err == nil && p.Error != nil {
		err = p.Error
	}
	return p, err
}

// errMiscounted: not as many names were read as the server counts.
var errMiscounted = errors.New("fewer or more names were read than there are")

// countTries is how often names are counted, where each time one was made and overwritten before it was read.
const countTries = 5

// errCounted ends a reading that is done.
var errCounted = errors.New("as many as there are")

// readKeys is names by the headers of all that match. Behind an error some were given.
func (recs Records) readKeys(ctx context.Context, filter string, f func(key string)) error {
	s, err := recs.c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{events.RecordSubject(filter)}, DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("list the keys of %s: %w", filter, WrapErr(err))
	}
	r := keyReader{recs: recs, s: s, filter: filter, f: f, seen: keyset.Make()}
	err = recs.c.Streams().follow(ctx, cons, func() (bool, error) { return r.atEnd(ctx) }, r.met)
	if err != nil && !errors.Is(err, errCounted) {
		return fmt.Errorf("list the keys of %s: %w", filter, err)
	}
	return nil
}

// keyReader reads names up to a sequence that was a leader's newest when it counted them. The reading is exact when it met as many.
type keyReader struct {
	recs   Records
	s      jetstream.Stream
	filter string
	last   uint64
	seen   *keyset.Set
	f      func(key string)
	tries  int
	upTo   uint64 // 0: not counted yet
	want   int
}

func (r *keyReader) met(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
	r.last = meta.Sequence.Stream
	if r.upTo > 0 && r.last > r.upTo {
		if err := r.compare(); err != nil {
			return err
		}
	}
	key := RecordKey(m.Subject())
	if fresh, _ := r.seen.Put(key, false); fresh {
		r.f(key)
	}
	if r.last == r.upTo {
		return r.compare()
	}
	return nil
}

// atEnd counts, where nothing seems to be behind what was read.
func (r *keyReader) atEnd(ctx context.Context) (bool, error) {
	if r.upTo == 0 {
		if err := r.count(ctx); err != nil {
			return false, err
		}
	}
	if r.last < r.upTo {
		_, err := r.s.GetMsg(ctx, r.last+1, jetstream.WithGetMsgSubject(events.RecordSubject(r.filter)))
		if err == nil {
			return false, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, WrapErr(err)
		}
	}
	r.tries = countTries // nothing was overwritten behind what was read: another count says the same
	return false, r.compare()
}

// count asks how many names there are. How many the whole bucket has the server knows; those of a filter it counts, while others are
// made.
func (r *keyReader) count(ctx context.Context) error {
	if r.filter == ">" {
		info, err := r.s.Info(ctx)
		if err != nil {
			return WrapErr(err)
		}
		r.upTo, r.want = info.State.LastSeq, int(info.State.NumSubjects)
		return nil
	}
	p, err := r.recs.keysPage(ctx, r.filter, 0)
	r.upTo, r.want = p.State.LastSeq, p.Total
	return err
}

// compare ends the reading with errCounted, or errMiscounted. Before that it has it go on to another count.
func (r *keyReader) compare() error {
	have, upTo := r.seen.Len(), r.upTo
	if have == r.want {
		return errCounted
	}
	r.upTo = 0
	if r.tries++; r.tries >= countTries {
		return fmt.Errorf("%w: %d of %d up to sequence %d", errMiscounted, have, r.want, upTo)
	}
	return nil
}
