package faulttest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// raw publishes as any client of NATS can.
func (w *world) raw(t events.Thread, kind events.Kind, header nats.Header, data []byte) {
	w.t.Helper()
	m := &nats.Msg{Subject: events.EventSubject(t, kind), Header: header, Data: data}
	must.Get(w.conn.JetStream().PublishMsg(within(w.t), m))(w.t)
}

// events reads all of SPOOL_EVENTS.
func (w *world) events() (all []*jetstream.RawStreamMsg) {
	w.t.Helper()
	s := must.Get(w.conn.JetStream().Stream(w.t.Context(), events.EventsStream))(w.t)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m := must.Get(s.GetMsg(w.t.Context(), seq))(w.t)
		all = append(all, m)
	}
	return all
}

func envelope(t events.Thread, producer string, seq, prev uint64, body string) []byte {
	e := events.Event{Producer: producer, Seq: seq, Prev: prev, Kind: events.KindEntry, Dialect: "item", Thread: t, Body: []byte(body)}
	return e.Encode()
}

func said(text string) string { return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text) }

func (w *world) letters(session string, want int) (all []faulttest.DeadLetter) {
	w.t.Helper()
	s := &scene{t: w.t}
	s.await("dead letters", func() (err error) {
		all, err = w.Session(session).DeadLetters(w.t.Context())
		if err == nil && len(all) != want {
			err = fmt.Errorf("%d dead letters, want %d", len(all), want)
		}
		return err
	})
	return all
}

// TestRepeatedAndReordered: every message is published again by another client, last first, and delivered again long after its
// ack; nothing is there twice. Entries that are linked and come in the wrong order wait for their producer to publish them again.
func TestRepeatedAndReordered(t *testing.T) {
	w := newWorld(t)
	l := faulttest.NewLedger(faulttest.Workload{Sessions: 2, ThreadsEach: 2, ProducersEach: 2, Batch: 4})
	must.Do(t, errors.Join(l.Publish(within(t), w.Client, 40), l.Check(within(t), w.conn)))
	all := w.events()
	for i := len(all) - 1; i >= 0; i-- {
		th, kind := must.Two(events.ParseStored(all[i].Subject))(t)
		w.raw(th, kind, all[i].Header, all[i].Data)
		if i%3 == 0 {
			w.raw(th, kind, all[i].Header, all[i].Data)
		}
	}
	if err := errors.Join(faulttest.Settle(within(t), w.conn), l.Publish(within(t), w.Client, 10), l.Check(within(t), w.conn)); err != nil {
		t.Error(err)
	}

	again := persist.New(faulttest.Deps(w.conn), persist.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- again.Run(ctx) }()
	for i := len(all) - 1; i >= 0; i-- {
		again.Deliver(ctx, persist.Message{Subject: all[i].Subject, Data: all[i].Data, Seq: all[i].Sequence, Ack: func() error { return nil }})
	}
	if err := errors.Join(l.Publish(within(t), w.Client, 10), l.Check(within(t), w.conn)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	swapped := events.Thread{Session: "swapped", Name: events.MainThread}
	first, second := envelope(swapped, "p", 1, 0, said("one")), envelope(swapped, "p", 2, 1, said("two"))
	for _, data := range [][]byte{second, first, second, first, second} {
		w.raw(swapped, events.KindEntry, nil, data)
	}
	checkExport(w, swapped, []byte(said("one")+"\n"+said("two")+"\n"), 2, "p")
	if s := w.letters("swapped", 0); len(s) != 0 {
		t.Errorf("dead letters %v, want none", s)
	}
}

// TestTruncatedEnvelopes: an envelope that is cut anywhere is kept as it came, with the reason, and what is around it is applied.
func TestTruncatedEnvelopes(t *testing.T) {
	w := newWorld(t)
	to := events.Thread{Session: "cut", Name: events.MainThread}
	large := events.Event{Producer: "p", Seq: 3, Kind: events.KindEntry, Dialect: "item", Thread: to,
		Ref: &events.BodyRef{Object: "nothing", Size: 7, Sum: sha256.Sum256(nil)}}
	group := events.Event{Producer: "p", Seq: 4, Kind: events.KindEntry, Dialect: "item", Thread: to, Body: []byte(said("x")),
		More: []events.Entry{{Seq: 5, Body: []byte(said("y"))}}}
	sent := 0
	w.raw(to, events.KindEntry, nil, envelope(to, "p", 1, 0, said("before")))
	want := map[string]bool{}
	for _, whole := range [][]byte{envelope(to, "p", 2, 0, said("whole")), large.Encode(), group.Encode()} {
		for n := range whole {
			want[string(whole[:n])] = true
			w.raw(to, events.KindEntry, nil, whole[:n])
			sent++
		}
	}
	w.raw(to, events.KindEntry, nil, envelope(to, "p", 9, 0, said("after")))
	checkExport(w, to, []byte(said("before")+"\n"+said("after")+"\n"), 9, "p")
	for _, d := range w.letters(to.Session, sent) {
		if !want[string(d.Data)] || d.Reason == "" {
			t.Errorf("dead letter of %d bytes, reason %q, want one of those that were cut", len(d.Data), d.Reason)
		}
	}
}

// TestOversizedMessages: what is above the server's largest message is refused to whoever sends it, and so are headers above 64 KiB;
// what is just below is taken, and kept whole as a dead letter where it is none of ours.
func TestOversizedMessages(t *testing.T) {
	w := newWorld(t)
	to := events.Thread{Session: "large", Name: events.MainThread}
	js := w.conn.JetStream()
	huge := envelope(to, "p", 1, 0, said(strings.Repeat("x", w.conn.MaxPayload())))
	if _, err := js.Publish(t.Context(), events.EventSubject(to, events.KindEntry), huge); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("Publish of %d bytes = %v, want ErrMaxPayload", len(huge), err)
	}
	header := func(size int) nats.Header { return nats.Header{"X-Large": {strings.Repeat("h", size)}} }
	m := &nats.Msg{Subject: events.EventSubject(to, events.KindEntry), Header: header(64 << 10),
		Data: envelope(to, "p", 1, 0, said("refused"))}
	if _, err := js.PublishMsg(t.Context(), m); err == nil {
		t.Error("a header of more than 64 KiB was taken")
	}
	w.raw(to, events.KindEntry, header(60<<10), envelope(to, "p", 1, 0, said("with a header")))
	poison := bytes.Repeat([]byte{0xc1}, w.conn.MaxPayload()-100<<10)
	w.raw(to, events.KindEntry, header(60<<10), poison)
	full := bytes.Repeat([]byte{0xc1}, w.conn.MaxPayload()) // the letter has no room beside it for its headers
	w.raw(to, events.KindEntry, nil, full)
	w.raw(to, events.KindEntry, nil, envelope(to, "p", 2, 0, said("after")))
	checkExport(w, to, []byte(said("with a header")+"\n"+said("after")+"\n"), 2, "p")
	letters := w.letters(to.Session, 2)
	for i, want := range [][]byte{poison, full} {
		r := must.Get(w.Admin().OpenDeadLetter(t.Context(), letters[i]))(t)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("dead letter %d: %d bytes, %v, want the %d that came", i, len(got), err, len(want))
		}
	}
}

// TestRecordsFromTheFuture: what a later version wrote is not read, not overwritten and not collected. Events for it are kept with
// a reason that says so, and others are applied.
func TestRecordsFromTheFuture(t *testing.T) {
	for name, key := range map[string]func(h record.Record, pack string) string{
		"head": func(h record.Record, _ string) string { return h.Key },
		"pack": func(_ record.Record, pack string) string { return events.PackKey(pack) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			to, other := events.Thread{Session: "future", Name: events.MainThread}, events.Thread{Session: "present", Name: events.MainThread}
			pub := w.Publisher(client.PublisherConfig{Producer: "p"})
			say := func(t events.Thread, seq uint64) {
				w.t.Helper()
				must.Get(pub.Publish(within(w.t), client.Entry{Thread: t, Dialect: "item",
					Body: []byte(said(fmt.Sprint("entry ", seq))), Seq: seq}))(w.t)
			}
			say(to, 1)
			w.await(to, "p", 0, 1)
			must.Do(t, faulttest.Settle(within(t), w.conn))
			head := must.Get(w.Thread(to).Head(within(t)))(t)
			at := key(record.Record{Key: events.HeadKey(to)}, head.Head().Pack.String())
			rs, err := w.conn.Records().Records(within(t), at)
			if err != nil || !rs[0].Exists() {
				t.Fatalf("%s: %+v, %v", at, rs, err)
			}
			later := bytes.Clone(rs[0].Value)
			version := 1
			if later[0] == 0xdc { // an array of more than 15
				version = 3
			}
			later[version] = 99
			must.Get(w.conn.Records().Write(within(t), record.Put{Key: at, Value: later, Expect: rs[0].Seq}))(t)
			for range 2 { // it moves the fences first: from then on what is built on is looked at
				if p, err := collect(within(t), w); err == nil {
					t.Errorf("a cycle of gc did %+v, want it to fail", p)
				}
			}
			next := newPersister(w) // it has not read the record before
			say(to, 2)
			say(other, 3)
			w.await(other, "p", 0, 3)
			letters := w.letters(to.Session, 1)
			if len(letters) == 1 && (!strings.Contains(letters[0].Reason, "99") || !bytes.Contains(letters[0].Data, []byte("entry 2"))) {
				t.Errorf("dead letter = %q with %d bytes, want it to name version 99, and the event", letters[0].Reason, len(letters[0].Data))
			}
			if rs, err := w.conn.Records().Records(within(t), at); err != nil || !bytes.Equal(rs[0].Value, later) {
				t.Errorf("%s was overwritten: %v, %v", at, rs, err)
			}
			if err := next.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// newPersister is another persister, which has the partitions for itself.
func newPersister(w *world) *faulttest.Persister {
	w.t.Helper()
	must.Do(w.t, w.persister.Stop())
	takeOver(w.t, w.conn)
	w.persister = faulttest.Start(w.t, w.conn, nil)
	return w.persister
}

// collect runs a cycle that reclaims at once.
func collect(ctx context.Context, w *world) (gc.Done, error) {
	const lane = events.Lanes - 1
	c, err := gc.New(gcnats.Deps(w.conn, lane), gc.Config{Lane: lane, Allow: []gc.Brake{gc.BrakeShare}})
	if err != nil {
		return gc.Done{}, err
	}
	p, err := c.Plan(ctx)
	if err != nil {
		return gc.Done{}, err
	}
	return c.Apply(ctx, p)
}

// panics is a reader that cannot read everything.
type panics struct{}

func (panics) Clean(text []byte, _ bool) ([]byte, int) {
	if bytes.Contains(text, []byte("panic")) {
		panic("index out of range")
	}
	return text, 0
}
func (panics) Blank(text []byte) ([]byte, int) { return text, 0 }
func (panics) Piece(_, held, piece []byte, _ bool) (out, context, next []byte, found int) {
	return append(held, piece...), nil, nil, 0
}
func (panics) Reader(r io.Reader, _ bool, _ *int) io.Reader { return r }

// TestPanicOverAnEvent: an event that something on the way panics over is a dead letter, and not the end of every persister that
// it comes to.
func TestPanicOverAnEvent(t *testing.T) {
	w := newWorld(t)
	must.Do(t, w.persister.Stop())
	faulttest.Start(t, w.conn, func(d *persist.Deps, _ *persist.Config) { d.Secrets = panics{} })
	to := events.Thread{Session: "panic", Name: events.MainThread}
	pub := w.Publisher(client.PublisherConfig{Producer: "p"})
	for i, text := range []string{"one", "panic now", "two"} {
		must.Get(pub.Publish(within(t), client.Entry{Thread: to, Dialect: "item", Body: []byte(said(text)), Seq: uint64(i + 1)}))(t)
	}
	checkExport(w, to, []byte(said("one")+"\n"+said("two")+"\n"), 3, "p")
	if d := w.letters(to.Session, 1); len(d) == 1 && (!strings.Contains(d[0].Reason, "index out of range") ||
		!bytes.Contains(d[0].Data, []byte("panic now"))) {
		t.Errorf("dead letter = %q, want the panic as its reason and the event", d[0].Reason)
	}
}

// TestHalfAnObject: chunks without a meta message and meta messages without chunks, as a failed upload leaves them, are not taken
// for an object: who refers to one is refused in bounded time, the same bytes can be stored, and gc takes the rest.
func TestHalfAnObject(t *testing.T) {
	w := newWorld(t)
	ctx := within(t)
	js := w.conn.JetStream()
	data := bytes.Repeat([]byte("half an object "), 20_000)
	sum := sha256.Sum256(data)
	buckets := []string{events.InboxBucket, events.BlobsBucket, events.NodesBucket, events.ArtifactsBucket}
	ref := casstore.SumBlob(data)
	for _, bucket := range buckets {
		for i, name := range []string{"half-0", ref.Hex() + ".half"} {
			o := must.Get(w.conn.Objects().UploadFrom(ctx, bucket, name, bytes.NewReader(data)))(t)
			s := must.Get(js.Stream(ctx, events.ObjectStream(bucket)))(t)
			lose := "$O." + bucket + ".C." + o.NUID
			if i == 1 {
				lose = "$O." + bucket + ".M.>"
			}
			if i == 0 || bucket != events.InboxBucket {
				must.Do(t, s.Purge(ctx, jetstream.WithPurgeSubject(lose)))
			}
		}
	}
	to := events.Thread{Session: "half", Name: events.MainThread}
	for i, object := range []string{"half-0", ref.Hex() + ".half"} {
		claim := events.Event{Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "raw", Thread: to,
			Ref: &events.BodyRef{Object: object, Size: int64(len(data)), Sum: sum}}
		w.raw(to, events.KindEntry, nil, claim.Encode())
	}
	w.await(to, "p", 0, 2) // this one is whole
	if d := w.letters(to.Session, 1); len(d) == 1 && d[0].Reason == "" {
		t.Error("a dead letter without a reason")
	}
	if _, err := w.Blob(ctx, ref); err == nil {
		t.Error("Blob() of half an object, want an error")
	}
	must.Is(t, must.Err(w.conn.Store(0).PutBlob(ctx, data)), nil, "PutBlob() of the same bytes")
	if got, err := w.Blob(ctx, ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Blob() = %d bytes, %v, want %d", len(got), err, len(data))
	}
	for _, d := range w.letters(to.Session, 1) {
		must.Do(t, w.Admin().RemoveDeadLetters(ctx, d.At))
	}
	must.Do(t, faulttest.Settle(ctx, w.conn))
	for range 2 {
		must.Get(collect(ctx, w))(t)
	}
	for _, bucket := range []string{events.InboxBucket, events.ArtifactsBucket} {
		left := must.Get(w.conn.Objects().Stored(ctx, bucket))(t)
		if bucket == events.ArtifactsBucket { // gc leaves those that a record names (SPEC A5), and young ones
			continue
		}
		if len(left) != 0 {
			t.Errorf("%s holds %v, want nothing", bucket, left)
		}
	}
	for _, bucket := range []string{events.BlobsBucket, events.NodesBucket} {
		left := must.Get(w.conn.Objects().Stored(ctx, bucket))(t)
		for _, o := range left {
			if strings.Contains(o.Object.Name, "half") || o.Object.Name == "" {
				t.Errorf("%s holds %+v, want only what a record names", bucket, o)
			}
		}
	}
	checkSound(w)
}
