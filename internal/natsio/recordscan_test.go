package natsio_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// history is every write that tests made, by sequence.
type history struct {
	sync.Mutex
	t      *testing.T
	c      *natsio.Conn
	writes map[uint64]record.Put
}

func (h *history) put(key string, value []byte) {
	p := record.Put{Key: key, Value: value, Expect: record.Any}
	seq, err := h.c.Records().Write(h.t.Context(), p)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.Lock()
	defer h.Unlock()
	h.writes[seq] = p
}

// at is what the bucket held at a sequence: keys and the sequences of their records.
func (h *history) at(last uint64) map[string]uint64 {
	out := map[string]uint64{}
	for _, seq := range slices.Sorted(maps.Keys(h.writes)) {
		if seq > last {
			break
		}
		if p := h.writes[seq]; len(p.Value) == 0 {
			delete(out, p.Key)
		} else {
			out[p.Key] = seq
		}
	}
	return out
}

// What Scan tells is what the bucket held at the sequence that it returns, exactly, under writers that overwrite, remove and
// add keys all the time; and from there it can go on.
func TestScanIsExact(t *testing.T) {
	h := &history{t: t, c: natstest.Conn(t), writes: map[uint64]record.Put{}}
	for i := range 500 {
		h.put(fmt.Sprintf("session.s%d", i), []byte("first"))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	// A machine that is slow enough reads slower than four write that do not rest: now and then all rest, and longer the longer a
	// scan takes.
	var rest sync.RWMutex
	var scanned atomic.Bool
	wg.Go(func() {
		for long := time.Millisecond; ctx.Err() == nil; long = min(2*long, time.Second) {
			if scanned.Swap(false) {
				long = time.Millisecond
			}
			time.Sleep(100 * time.Millisecond)
			rest.Lock()
			time.Sleep(long)
			rest.Unlock()
		}
	})
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for ctx.Err() == nil {
				rest.RLock()
				value := []byte("again")
				if r.IntN(4) == 0 {
					value = nil
				}
				h.put(fmt.Sprintf("session.s%d", r.IntN(800)), value)
				rest.RUnlock()
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			}
		})
	}
	scans := map[uint64]map[string]uint64{}
	got, from := map[string]uint64{}, uint64(1)
	for n := range 20 {
		if n%2 == 0 { // every other one goes on from the one before
			clear(got)
			from = 1
		}
		last := must.Get(h.c.Records().Scan(t.Context(), from, func(r record.Stamped) error {
			if delete(got, r.Key); r.Exists() {
				got[r.Key] = r.Seq
			}
			return nil
		}))(t)
		scanned.Store(true)
		scans[last] = maps.Clone(got)
		from = last + 1
	}
	stop()
	wg.Wait()
	for last, got := range scans {
		if diff := cmp.Diff(h.at(last), got); diff != "" || len(got) == 0 {
			t.Errorf("scan up to %d of %d records (-want +got):\n%s", last, len(got), diff)
		}
	}
}

// TestScanKeepsUp: a scan does not ask for the end behind each record that comes one by one: then it would be slower than a single writer
// that does not pause, and find no end.
func TestScanKeepsUp(t *testing.T) {
	h := &history{t: t, c: natstest.Conn(t), writes: map[uint64]record.Put{}}
	const many = 500
	var asked atomic.Int64
	count := func(m *nats.Msg) {
		if strings.Contains(m.Subject, ".GET.") {
			asked.Add(1)
		}
	}
	sub := must.Get(h.c.JetStream().Conn().Subscribe("$JS.API.>", count))(t)
	defer func() { _ = sub.Unsubscribe() }()
	h.put("session.first", []byte("v"))
	told := 0
	must.Get(h.c.Records().Scan(t.Context(), 1, func(r record.Stamped) error {
		if r.Key == "session.first" {
			for i := range many {
				h.put(fmt.Sprint("session.s", i), []byte("v"))
			}
			asked.Store(0)
		}
		told++
		return nil
	}))(t)
	if n := asked.Load(); told < many || n == 0 || n > 20 {
		t.Errorf("of %d records told, a scan asked %d times whether they are all, want once or twice", told, n)
	}
}

// A fence that moved refuses what was prepared before, in every lane.
func TestFences(t *testing.T) {
	c := natstest.Conn(t)
	first := must.Get(c.Records().Fences(t.Context()))(t)
	for _, lane := range []int{0, 17, events.Lanes - 1} {
		f, err := c.Records().Fence(t.Context(), lane)
		if err != nil || f.Seq != first+uint64(lane) {
			t.Errorf("Fence(%d) = %+v, %v, want sequence %d", lane, f, err, first+uint64(lane))
		}
	}
}

// Forget takes one message and no later one of its key.
func TestForget(t *testing.T) {
	c := natstest.Conn(t)
	put := func() uint64 {
		seq := must.Get(c.Records().Write(t.Context(), record.Put{Key: "blob.x", Value: []byte("v"), Expect: record.Any}))(t)
		return seq
	}
	old, now := put(), put()
	for range 2 {
		must.Is(t, c.Records().Forget(t.Context(), old), nil, "Forget(overwritten)")
	}
	rs, err := c.Records().Records(t.Context(), "blob.x")
	if err != nil || rs[0].Seq != now {
		t.Errorf("the record is %+v, %v, want it at %d", rs, err, now)
	}
	many := []uint64{now}
	for i := range 700 { // more than are sent at a time
		many = append(many, must.Get(c.Records().Write(t.Context(), record.Put{Key: fmt.Sprintf("blob.%d", i), Expect: record.Any}))(t))
	}
	for range 2 {
		must.Is(t, c.Records().Forget(t.Context(), many...), nil, "Forget(%d and others)", now)
	}
	if left := must.Get(c.Records().Keys(t.Context(), "blob.*"))(t); len(left) != 0 {
		t.Errorf("%d records are left", len(left))
	}
	if rs, err := c.Records().Records(t.Context(), "blob.x"); err != nil || rs[0].Seq != 0 {
		t.Errorf("the record is %+v, %v, want none", rs, err)
	}
}
