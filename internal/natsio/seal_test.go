package natsio_test

import (
	"runtime"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/bounded"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// raw publishes as a hand does that is not the system's.
func raw(t *testing.T, c *natsio.Conn, key string, value []byte, header nats.Header) {
	t.Helper()
	m := &nats.Msg{Subject: events.RecordSubject(key), Data: value, Header: header}
	must.Get(c.JetStream().PublishMsg(t.Context(), m))(t)
}

// foreigns reads a record in every way there is: how many of them call it foreign.
func foreigns(t *testing.T, c *natsio.Conn, key string) (n int) {
	t.Helper()
	recs, ctx := c.Records(), t.Context()
	count := func(r record.Record) {
		if r.Key == key && r.IsForeign() {
			n++
		}
	}
	rs := must.Get(recs.Records(ctx, key))(t)
	count(rs[0])
	all := must.Get(recs.List(ctx, ">"))(t)
	for _, r := range all {
		count(r)
	}
	must.Get(recs.Scan(ctx, 1, func(r record.Stamped) error { count(r.Record); return nil }))(t)
	for r, err := range recs.Watch(ctx, key, natsio.FromCurrent, nil) {
		must.Do(t, err)
		count(r)
		break
	}
	return n
}

// TestForeignRecord: what the system wrote is its own in every class, and what somebody else wrote there is foreign
// for whoever reads it, in any way: without a check, with that of another key, or with that of other bytes. What a
// record had before is not foreign, nor is what is removed.
func TestForeignRecord(t *testing.T) {
	c := natstest.Conn(t)
	stream := must.Get(c.JetStream().Stream(t.Context(), events.RecordsStream))(t)
	for _, class := range record.Classes {
		if class.Name == "fence" || class.Name == "lane" { // of those the sequence is all that counts
			continue
		}
		key, other, value := class.Name+".a", class.Name+".b", []byte{0x91, 1}
		write := func(key string, value []byte) nats.Header {
			t.Helper()
			put := record.Put{Key: key, Value: value, Expect: record.Any}
			must.Get(c.Records().Write(t.Context(), put))(t)
			m := must.Get(stream.GetLastMsgForSubject(t.Context(), events.RecordSubject(key)))(t)
			return m.Header
		}
		checked := write(key, value)
		want := func(what, key string, want int) {
			t.Helper()
			must.Same(t, foreigns(t, c, key), want, "%s: %s: %d of 4 ways to read it call it foreign, want %d", class.Name, what)
		}
		want("its own", key, 0)
		raw(t, c, key, value, nil)
		want("the same without a check", key, 4)
		raw(t, c, other, value, checked)
		want("a copy under another key", other, 4)
		raw(t, c, key, []byte{0x91, 2}, checked)
		want("other bytes", key, 4)
		raw(t, c, key, value, checked)
		want("what it had", key, 0)
		must.Is(t, class.Check([]byte(bounded.Foreign)), bounded.ErrForeign, "%s: Check of a foreign value", class.Name)
		write(other, nil)
		write(key, nil)
		raw(t, c, key, nil, nats.Header{"KV-Operation": {"DEL"}})
		want("removed", key, 0)
	}
}

// TestSealing: a store of an earlier version has records without a check, which stay its own; once it is sealed, what
// is written without one is foreign. A store that nobody has marked has no checks.
func TestSealing(t *testing.T) {
	srv := natstest.Server(t)
	c := natstest.Dial(t, srv)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{}))
	mark := func(metadata map[string]string) *natsio.Conn {
		t.Helper()
		s := must.Get(c.JetStream().Stream(t.Context(), events.RecordsStream))(t)
		cfg := s.CachedInfo().Config
		cfg.Metadata = metadata
		must.Get(c.JetStream().UpdateStream(t.Context(), cfg))(t)
		return natstest.Dial(t, srv)
	}
	value := []byte{0x91, 1}
	write := func(c *natsio.Conn, key string) {
		t.Helper()
		put := record.Put{Key: key, Value: value, Expect: record.Any}
		must.Get(c.Records().Write(t.Context(), put))(t)
	}
	want := func(c *natsio.Conn, key string, want int) {
		t.Helper()
		must.Same(t, foreigns(t, c, key), want, "%s: %d of 4 ways to read it call it foreign, want %d", key)
	}
	unmarked := mark(nil)
	write(unmarked, "run.s.unmarked")
	want(unmarked, "run.s.unmarked", 0)
	earlier := mark(map[string]string{"spool-store": "one"})
	raw(t, c, "run.s.before", value, nil)
	write(earlier, "run.s.checked")
	for _, key := range []string{"run.s.unmarked", "run.s.before", "run.s.checked"} {
		want(earlier, key, 0)
	}
	raw(t, c, "run.s.checked", []byte{0x91, 2}, nats.Header{"Spool-Check": {"x"}})
	want(earlier, "run.s.checked", 4) // it has a check
	must.Get(natsadmin.New(earlier).Seal(t.Context()))(t)
	raw(t, c, "run.s.behind", value, nil)
	sealed := natstest.Dial(t, srv)
	for _, key := range []string{"run.s.unmarked", "run.s.before"} {
		want(sealed, key, 0)
	}
	want(sealed, "run.s.behind", 4)
}

// TestSealOfAnotherStore: who connects again to a server whose streams were removed and made anew meanwhile writes what
// is not foreign in the new store.
func TestSealOfAnotherStore(t *testing.T) {
	srv := natstest.Server(t)
	stays, other := natstest.Dial(t, srv), natstest.Dial(t, srv)
	must.Do(t, stays.Ensure(t.Context(), natsio.Limits{}))
	put := record.Put{Key: "run.s.a", Value: []byte{0x91, 1}, Expect: record.Any}
	must.Get(stays.Records().Write(t.Context(), put))(t)
	for name := range other.JetStream().StreamNames(t.Context()).Name() {
		must.Do(t, other.JetStream().DeleteStream(t.Context(), name))
	}
	must.Do(t, other.Ensure(t.Context(), natsio.Limits{}))
	nc := stays.JetStream().Conn()
	must.Do(t, nc.ForceReconnect())
	for nc.Stats().Reconnects == 0 {
		runtime.Gosched()
	}
	f := must.Get(stays.Records().Fence(t.Context(), 0))(t)
	if rs := must.Get(stays.Records().Records(t.Context(), put.Key))(t); rs[0].Exists() {
		t.Fatal("the new store has what the one before had")
	}
	put.Expect = 0
	must.Get(stays.Records().Commit(t.Context(), f, []record.Put{put}))(t)
	must.Same(t, foreigns(t, other, put.Key), 0, "%d of 4 ways to read what was written into the new store call it foreign, want %d")
}

// TestRestoreOverEarlier: a bucket that a process of an earlier version has made meanwhile is none that a restore made.
func TestRestoreOverEarlier(t *testing.T) {
	c := natstest.Conn(t)
	s := must.Get(c.JetStream().Stream(t.Context(), events.RecordsStream))(t)
	cfg := s.CachedInfo().Config
	cfg.Metadata = nil
	must.Get(c.JetStream().UpdateStream(t.Context(), cfg))(t)
	must.Do(t, c.Ensure(t.Context(), natsio.Limits{Restore: "backup 1"}))
	if must.Get(c.Restore().Own(t.Context(), "backup 1"))(t) {
		t.Error("the restore takes the bucket for its own")
	}
}
