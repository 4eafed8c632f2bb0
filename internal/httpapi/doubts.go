package httpapi

import (
	"context"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// doubts knows of which threads and sessions an entry must look before it is taken: threads that have ended or left
// their names, those with heads that cannot be read (api.lookBehind), and sessions that come near a limit. It follows the
// records that say so: an entry for any other waits for no read. It forgets no name, and holds a few for others: that
// costs a look. What it has not heard of yet is taken, and the persister judges.
type doubts struct {
	records *natsio.Records
	limits  apply.Limits

	hears atomic.Bool  // all that was stored when it began to follow, and what comes
	again atomic.Int64 // when it may begin to follow, Unix nanoseconds; underWay: it does
	seed  maphash.Seed
	bits  []atomic.Uint64
}

const (
	doubtBits  = 1 << 26          // 8 MiB: of a million names, it holds one in sixty for one of them
	followGaps = 10 * time.Second // behind a failure to follow
	underWay   = math.MaxInt64
	nearLimit  = 1000 // threads or producers
)

func newDoubts(records *natsio.Records, limits apply.Limits) *doubts {
	return &doubts{records: records, limits: limits, seed: maphash.MakeSeed(), bits: make([]atomic.Uint64, doubtBits/64)}
}

func (d *doubts) bit(name string) (word *atomic.Uint64, mask uint64) {
	n := maphash.String(d.seed, name) % doubtBits
	return &d.bits[n/64], 1 << (n % 64)
}

// note has entries look from now on: for the thread "session/name", or the session of that name.
func (d *doubts) note(name string) {
	word, mask := d.bit(name)
	word.Or(mask)
}

// about reports whether an entry must look. The first one has it follow.
func (d *doubts) about(ctx context.Context, name string) bool {
	if d.hears.Load() {
		word, mask := d.bit(name)
		return word.Load()&mask != 0
	}
	if at := d.again.Load(); d.records != nil && time.Now().UnixNano() >= at && d.again.CompareAndSwap(at, underWay) {
		go d.follow(context.WithoutCancel(ctx))
	}
	return true
}

// follow notes what records say, until the connection is closed, or reading fails.
func (d *doubts) follow(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	var missing atomic.Int32
	watch := func(filter string, take func(r record.Record)) {
		g.Go(func() (failed error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			ready := func() { // what was stored before is known by its key; a session's record comes
				var keys []string
				if filter != events.SessionKeys {
					keys, failed = d.records.Keys(ctx, filter)
				}
				for _, key := range keys {
					take(record.Record{Key: key})
				}
				if failed != nil {
					stop()
				} else if missing.Add(-1) == 0 {
					d.hears.Store(true)
				}
			}
			from := natsio.FromNow
			if filter == events.SessionKeys {
				from = natsio.FromCurrent
			}
			for r, err := range d.records.Watch(ctx, filter, from, ready) {
				if err != nil {
					return err
				}
				take(r)
			}
			return failed
		})
	}
	missing.Store(3)
	watch(events.HistoryKeys(""), func(r record.Record) {
		if t, _, ok := events.ParseHistoryKey(r.Key); ok {
			d.note(t.String())
		}
	})
	watch(events.LeftKeys, func(r record.Record) {
		if t, ok := events.ParseLeftKey(r.Key); ok {
			d.note(t.String())
		}
	})
	watch(events.SessionKeys, func(r record.Record) {
		if info, err := sessions.DecodeInfo(r.Value); err == nil && r.Exists() && d.near(info) {
			d.note(info.ID)
		}
	})
	_ = g.Wait() // an entry that comes later begins anew
	d.hears.Store(false)
	d.again.Store(time.Now().Add(followGaps).UnixNano())
}

// near reports whether a session is near a limit. It is always near a small one.
func (d *doubts) near(info sessions.Info) bool {
	near := func(has, limit int64) bool { return limit > 0 && limit-has <= nearLimit }
	return near(info.Threads, d.limits.Threads) || near(info.Producers, d.limits.Producers)
}
