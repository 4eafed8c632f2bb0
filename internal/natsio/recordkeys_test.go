package natsio_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// TestKeysOfMoreThanAPage: more names than a server lists at once are all told, once and in order, also beside writers; and the same
// ones are where they are read page by page.
func TestKeysOfMoreThanAPage(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	nc := c.JetStream().Conn()
	const names = 100_500
	key := func(n int) string { return fmt.Sprintf("deleted.s%06d", n) }
	put := func(key string) { must.Do(t, nc.Publish(events.RecordSubject(key), []byte("x"))) }
	stored := func(n uint64) {
		t.Helper()
		must.Until(t, "the server has stored them", func() bool {
			return must.Get(c.JetStream().Stream(ctx, events.RecordsStream))(t).CachedInfo().State.LastSeq >= n
		})
	}
	began := must.Get(c.JetStream().Stream(ctx, events.RecordsStream))(t).CachedInfo().State.LastSeq
	want := make([]string, names)
	for n := range names {
		want[n] = key(n)
		if put(want[n]); n%10_000 == 9999 {
			stored(began + uint64(n) + 1)
		}
	}
	put("session.other")
	stored(began + names + 1)
	got := must.Get(c.Records().Keys(ctx, "deleted.*"))(t)
	if !slices.Equal(got, want) {
		t.Fatalf("%d names, want %d", len(got), names)
	}
	if got = must.Get(natsio.PagedKeys(ctx, c.Records(), "deleted.*", func() {}))(t); !slices.Equal(got, want) {
		t.Fatalf("%d names page by page, want %d", len(got), names)
	}

	// Beside who overwrites names and adds some.
	beside, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; beside.Err() == nil; n++ {
			for _, k := range []string{key(n * 7919 % names), key(names + n), "session.other"} {
				must.Is(t, must.Err(nc.RequestMsg(nats.NewMsg(events.RecordSubject(k)), 5*time.Second)), nil, "write %s", k)
			}
		}
	}()
	for range 3 {
		got = must.Get(c.Records().Keys(ctx, "deleted.*"))(t)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Error("the names are not in order, or one is there twice")
		}
		if len(got) < names || !slices.Equal(got[:names], want) {
			t.Fatalf("%d names beside a writer, want %d and those that are added", len(got), names)
		}
	}
	stop()
	<-ended
	t.Logf("%d names in the end", len(got))

	// Those behind names that go between two pages are none the less told.
	const gone = 3
	got = must.Get(natsio.PagedKeys(ctx, c.Records(), "deleted.*", func() {
		s := must.Get(c.JetStream().Stream(ctx, events.RecordsStream))(t)
		for n := range gone {
			must.Do(t, s.Purge(ctx, jetstream.WithPurgeSubject(events.RecordSubject(key(n)))))
		}
	}))(t)
	for _, key := range want[gone:] {
		if _, ok := slices.BinarySearch(got, key); !ok {
			t.Errorf("%s is not among the names while others go", key)
		}
	}
}
