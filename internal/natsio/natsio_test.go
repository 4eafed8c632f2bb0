package natsio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestEnsureIsIdempotent(t *testing.T) {
	c := natstest.Conn(t)
	for range 2 {
		must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
	}
}

// Where nobody says how large streams are, they fit what the account may store.
func TestDefaultLimitsFitTheAccount(t *testing.T) {
	const room = 6 << 30
	server := memjs.New(memjs.Config{MaxStore: room})
	t.Cleanup(server.Close)
	c := natstest.Dial(t, server)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
	for _, name := range []string{events.EventsStream, events.ItemsStream} {
		s := must.Get(c.JetStream().Stream(t.Context(), name))(t)
		if limit := s.CachedInfo().Config.MaxBytes; limit != room/4 {
			t.Errorf("%s takes %d bytes, want a quarter of the account's %d", name, limit, int64(room))
		}
	}
}

// The server does not tell an account without limits how much disk it has for all: defaults get smaller until they fit.
func TestDefaultLimitsFitTheServer(t *testing.T) {
	server := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), MaxStore: 3 << 30, Sync: time.Minute}))(t)
	t.Cleanup(server.Stop)
	c := natstest.Dial(t, server)
	if err := c.Ensure(t.Context(), natsio.Limits{ItemsBytes: 4 << 30}); !errors.Is(err, record.ErrRefused) {
		t.Errorf("items of 4 GiB that the operator asked for: %v, want record.ErrRefused", err)
	}
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
	for _, name := range []string{events.EventsStream, events.ItemsStream} {
		s := must.Get(c.JetStream().Stream(t.Context(), name))(t)
		if limit := s.CachedInfo().Config.MaxBytes; limit != 1<<30 {
			t.Errorf("%s takes %d bytes on a server of 3 GiB, want 1 GiB", name, limit)
		}
	}
}

// A stream that says nothing of consumers allows 1,000.
func TestEnsureAllowsReaders(t *testing.T) {
	for _, name := range []string{events.ItemsStream, events.RecordsStream} {
		s := must.Get(natstest.Conn(t).JetStream().Stream(t.Context(), name))(t)
		if most := s.CachedInfo().Config.MaxConsumers; most < 10_000 {
			t.Errorf("%s was made for %d consumers, want many", name, most)
		}
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	f := must.Get(c.Records().Fence(ctx, 3))(t)
	first, err := c.Records().Commit(ctx, f, []record.Put{
		{Key: "pack.a", Value: []byte("1"), Expect: record.Any},
		{Key: "thread.s.t", Value: []byte("h1"), Expect: 0},
	})
	must.Do(t, err)
	_, err = c.Records().Commit(ctx, f, []record.Put{
		{Key: "pack.b", Value: []byte("2"), Expect: record.Any},
		{Key: "thread.s.t", Value: []byte("h2"), Expect: first},
	})
	must.Is(t, err, record.ErrConflict, "Commit with a wrong revision")
	must.Get(c.Records().Write(ctx, record.Put{Key: events.FenceKey(3), Value: []byte("x"), Expect: record.Any}))(t)
	_, err = c.Records().Commit(ctx, f, []record.Put{{Key: "pack.c", Value: []byte("3"), Expect: record.Any}})
	must.Is(t, err, record.ErrConflict, "Commit behind a moved fence")
	rs := must.Get(c.Records().Records(ctx, "pack.a", "pack.b", "pack.c", "thread.s.t"))(t)
	if !rs[0].Exists() || rs[1].Exists() || rs[2].Exists() || string(rs[3].Value) != "h1" || rs[3].Seq != first+1 {
		t.Errorf("records after refused commits = %+v", rs)
	}
	list, err := c.Records().List(ctx, "pack.*")
	if err != nil || len(list) != 1 || list[0].Key != "pack.a" {
		t.Errorf("List(pack.*) = %+v, %v", list, err)
	}
}

func TestPublishEventsArePartitionedAndConsumed(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	var evs []*events.Event
	for i := range 300 {
		evs = append(evs, &events.Event{Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "raw",
			Thread: events.Thread{Session: fmt.Sprintf("s%d", i%20), Name: "main"}, Body: []byte(fmt.Sprint(i))})
	}
	must.Do(t, c.Events().PublishEvents(ctx, evs))
	got := make(chan natsio.Delivery, 1000)
	for p := range events.Partitions {
		stop := must.Get(c.Events().Consume(ctx, p, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
		defer stop()
	}
	last := map[string]uint64{}
	for n := 0; n < len(evs); {
		select {
		case d := <-got:
			e := must.Get(events.Decode(d.Data))(t)
			n += len(e.Each())
			th, kind, err := events.ParseStored(d.Subject)
			if err != nil || th != e.Thread || kind != events.KindEntry {
				t.Fatalf("ParseStored(%s) = %v, %v, %v", d.Subject, th, kind, err)
			}
			if e.Seq <= last[th.Session] {
				t.Fatalf("session %s: seq %d after %d", th.Session, e.Seq, last[th.Session])
			}
			last[th.Session] = e.Each()[len(e.More)].Seq
			must.Do(t, d.Ack())
		case <-time.After(time.Minute):
			t.Fatal("events missing")
		}
	}
}

func TestObjectsAreTheStandardObjectStore(t *testing.T) {
	c := natstest.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // without a deadline the store's own client gives an object 5 s
	defer cancel()
	obs := must.Get(c.JetStream().ObjectStore(ctx, events.BlobsBucket))(t)
	for _, size := range []int{0, 1, 100, 128 << 10, 3<<20 + 17, 50 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		name := fmt.Sprintf("ours-%d", size)
		o := must.Get(c.Objects().UploadFrom(ctx, events.BlobsBucket, name, bytes.NewReader(want)))(t)
		if got, err := c.Objects().Read(ctx, o); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Read(%s) = %d bytes, %v", name, len(got), err)
		}
		if got, err := obs.GetBytes(ctx, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ObjectStore.GetBytes(%s) = %d bytes, %v", name, len(got), err)
		}
		name = fmt.Sprintf("theirs-%d", size)
		must.Get(obs.PutBytes(ctx, name, want))(t)
		o = must.Get(c.Objects().Stat(ctx, events.BlobsBucket, name))(t)
		if got, err := c.Objects().Read(ctx, o); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Read(%s) = %d bytes, %v", name, len(got), err)
		}
	}
	must.Is(t, must.Err(c.Objects().Stat(ctx, events.BlobsBucket, "nothing")), record.ErrNotFound, "Stat(nothing)")
	must.Do(t, c.Store(0).DropBlob(ctx, record.Object{Bucket: events.BlobsBucket, Name: "ours-100"}))
	if _, err := obs.GetBytes(ctx, "ours-100"); err == nil {
		t.Error("a discarded object can still be read")
	}
}

func TestLargeBodyIsCheckedIn(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	body := bytes.Repeat([]byte("x"), 50<<20)
	e := &events.Event{Producer: "p", Seq: 1, Kind: events.KindEntry, Dialect: "raw",
		Thread: events.Thread{Session: "s", Name: "main"}, Body: body}
	must.Do(t, c.Events().PublishEvents(ctx, []*events.Event{e}))
	got := make(chan natsio.Delivery, 1)
	for p := range events.Partitions {
		stop := must.Get(c.Events().Consume(ctx, p, nil, func(d natsio.Delivery) { got <- d }))(t).Stop
		defer stop()
	}
	d := <-got
	claim, err := events.Decode(d.Data)
	if err != nil || claim.Ref == nil || claim.Ref.Size != int64(len(body)) {
		t.Fatalf("Decode = %+v, %v", claim.Ref, err)
	}
	o := must.Get(c.Objects().Stat(ctx, events.InboxBucket, claim.Ref.Object))(t)
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(c.Objects().ReadChunks(context.Background(), o, 0, func(b []byte) error { _, err := w.Write(b); return err }))
	}()
	if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(body)) {
		t.Errorf("inbox body: %d bytes, %v", n, err)
	}
}
