package persist_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// poison is an event of the thread s0/main that can never be applied, and a word of the reason.
type poison struct {
	name, reason string
	data         []byte
	kind         events.Kind // it was published as; 0 = entry
}

// sound is a good entry, to be spoilt.
func sound(body string) events.Event {
	return events.Event{Producer: "poisoner", Kind: events.KindEntry, Dialect: "omp", Thread: thread(0), Body: []byte(body)}
}

func poisons(r *rig) []poison {
	seq := uint64(0)
	spoil := func(f func(e *events.Event)) []byte {
		e := sound(`{"type":"message"}`)
		seq++ // each is an event of its own
		e.Seq = seq
		f(&e)
		return e.Encode()
	}
	future := spoil(func(*events.Event) {})
	future[1] = 77
	body := []byte(`{"type":"message","id":"inbox"}`)
	must.Get(r.conn.Objects().UploadFrom(r.t.Context(), events.InboxBucket, "there", bytes.NewReader(body)))(r.t)
	claim := func(object string, size int64, sum [32]byte) []byte {
		return spoil(func(e *events.Event) { e.Body, e.Ref = nil, &events.BodyRef{Object: object, Size: size, Sum: sum} })
	}
	return []poison{
		{name: "fork of nothing", reason: "there is no thread", kind: events.KindControl,
			data: spoil(func(e *events.Event) {
				e.Kind = events.KindControl
				e.Body = events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s0", Thread: "nothing"}}.Encode()
			})},
		{name: "no msgpack", reason: "bad envelope", data: []byte("hello")},
		{name: "empty", reason: "bad envelope"},
		{name: "announces 4 GiB", reason: "bad envelope", data: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}},
		{name: "deep msgpack", reason: "nested too deep", data: bytes.Repeat([]byte{0x91}, 100_000)},
		{name: "version", reason: "version 77", data: future},
		{name: "another thread", reason: "published as", data: spoil(func(e *events.Event) { e.Thread.Name = "other" })},
		{name: "bad token", reason: "published as", data: spoil(func(e *events.Event) { e.Thread.Session = "../x" })},
		{name: "another kind", reason: "published as", data: spoil(func(*events.Event) {}), kind: events.KindControl},
		{name: "chunk", reason: "chunk", data: spoil(func(e *events.Event) { e.Kind = events.KindChunk }), kind: events.KindChunk},
		{name: "no producer", reason: "producer", data: spoil(func(e *events.Event) { e.Producer = "" })},
		{name: "no seq", reason: "seq", data: spoil(func(e *events.Event) { e.Seq = 0 })},
		{name: "dialect", reason: `dialect "cobol"`, data: spoil(func(e *events.Event) { e.Dialect = "cobol" })},
		{name: "no JSON", reason: "not JSON", data: spoil(func(e *events.Event) { e.Body = []byte(`{"type":`) })},
		{name: "JSON nested 257 deep", reason: "256", data: spoil(func(e *events.Event) {
			e.Body = []byte(strings.Repeat("[", 257) + strings.Repeat("]", 257))
		})},
		{name: "item without content", reason: "content",
			data: spoil(func(e *events.Event) { e.Dialect, e.Body = "item", []byte(`{"content":7}`) })},
		{name: "inbox object missing", reason: "not there", data: claim("nowhere", 10, sha256.Sum256(body))},
		{name: "inbox size", reason: "bytes", data: claim("there", 10, sha256.Sum256(body))},
		{name: "inbox hash", reason: "hash", data: claim("there", int64(len(body)), sha256.Sum256([]byte("other")))},
		{name: "control is no JSON", reason: "control", kind: events.KindControl,
			data: spoil(func(e *events.Event) { e.Kind, e.Body = events.KindControl, []byte("{") })},
		{name: "control op", reason: `op "explode"`, kind: events.KindControl,
			data: spoil(func(e *events.Event) { e.Kind, e.Body = events.KindControl, []byte(`{"op":"explode"}`) })},
	}
}

// TestPoisonGoesToTheDeadLetters: what can not be applied is kept as it came, with the reason, and what follows in its
// partition is applied (SPEC B1).
func TestPoisonGoesToTheDeadLetters(t *testing.T) {
	r := newRig(t)
	ctx, js := t.Context(), r.conn.JetStream()
	all := poisons(r)
	for _, p := range all {
		p.kind = cmp.Or(p.kind, events.KindEntry)
		must.Get(js.PublishMsg(ctx, &nats.Msg{Subject: events.EventSubject(thread(0), p.kind), Data: p.data}))(t)
	}
	p := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "good"})
	r.publish(pub, thread(0), 0, 50)
	r.await(thread(0), "good", 50)
	r.check(thread(0), 50)
	must.Do(t, p.stop())

	dead := must.Get(js.Stream(ctx, events.DeadStream))(t)
	if got := dead.CachedInfo().State.Msgs; got != uint64(len(all)) {
		t.Errorf("%d dead letters, want %d", got, len(all))
	}
	for i, want := range all {
		m, err := dead.GetMsg(ctx, uint64(i+1))
		if err != nil {
			t.Fatalf("%s: %v", want.name, err)
		}
		checkLetter(t, want, m, uint64(i+1))
	}
	if s := p.Stats(); s.Dead != int64(len(all)) {
		t.Errorf("Stats().Dead = %d, want %d", s.Dead, len(all))
	}
}

func checkLetter(t *testing.T, want poison, m *jetstream.RawStreamMsg, seq uint64) {
	t.Helper()
	if !bytes.Equal(m.Data, want.data) {
		t.Errorf("%s: the dead letter holds %d bytes, want the %d that came", want.name, len(m.Data), len(want.data))
	}
	if got := m.Header.Get(natsio.HeaderReason); !strings.Contains(got, want.reason) {
		t.Errorf("%s: reason = %q, want it to say %q", want.name, got, want.reason)
	}
	if got := m.Header.Get(natsio.HeaderEventSeq); got != strconv.FormatUint(seq, 10) {
		t.Errorf("%s: %s = %q, want %d", want.name, natsio.HeaderEventSeq, got, seq)
	}
	if th, _, err := events.ParseStored(m.Header.Get(natsio.HeaderSubject)); err != nil || th != thread(0) {
		t.Errorf("%s: %s = %q, want a subject of %s", want.name, natsio.HeaderSubject, m.Header.Get(natsio.HeaderSubject), thread(0))
	}
}

// TestEntriesBehindABadOneAreApplied: a publisher links the entries of one call; the bad one goes to the dead letters, and
// those linked to it are applied, also by a persister that did not see it.
func TestEntriesBehindABadOneAreApplied(t *testing.T) {
	r := newRig(t)
	p := r.start(nil)
	var es []client.Entry
	for i, body := range []string{`{"type":"custom"}`, `{"type":`, `{"type":"custom"}`, `{"type":"custom"}`} {
		es = append(es, client.Entry{Thread: thread(0), Dialect: "omp", Body: []byte(body), Seq: uint64(i + 1)})
	}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), es...))(t)
	if head := r.await(thread(0), "p", 4); head.Entries != 3 {
		t.Errorf("%d entries, want 3", head.Entries)
	}
	must.Do(t, p.stop())
	if s := p.Stats(); s.Dead != 1 || s.Repeated != 0 {
		t.Errorf("stats = %+v, want 1 dead, 0 repeated", s)
	}
}

// TestAThreadThatBeginsWithABadEntry takes the entries behind it.
func TestAThreadThatBeginsWithABadEntry(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	es := []client.Entry{
		{Thread: thread(0), Dialect: "cobol", Body: []byte("1"), Seq: 1},
		{Thread: thread(0), Dialect: "omp", Body: []byte(`{"type":"custom"}`), Seq: 2},
	}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), es...))(t)
	if head := r.await(thread(0), "p", 2); head.Entries != 1 {
		t.Errorf("%d entries, want 1", head.Entries)
	}
}

// TestALetterThatFillsAMessage goes to the inbox, and the letter names it: reason and bytes do not fit one message.
func TestALetterThatFillsAMessage(t *testing.T) {
	r := newRig(t)
	garbage := bytes.Repeat([]byte{0xc1}, r.conn.MaxPayload())
	must.Get(r.conn.JetStream().Publish(t.Context(), events.EventSubject(thread(0), events.KindEntry), garbage))(t)
	p := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "good"})
	r.publish(pub, thread(0), 0, 10)
	r.await(thread(0), "good", 10)
	r.check(thread(0), 10)
	must.Do(t, p.stop())
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.DeadStream))(t)
	m := must.Get(s.GetMsg(t.Context(), 1))(t)
	o := must.Get(r.conn.Objects().Stat(t.Context(), events.InboxBucket, m.Header.Get(natsio.HeaderObject)))(t)
	if got, err := r.conn.Objects().Read(t.Context(), o); err != nil || !bytes.Equal(got, garbage) {
		t.Errorf("the letter's object holds %d bytes, %v, want the %d that came", len(got), err, len(garbage))
	}
}

// TestReplay: an entry that was too large for the persister of that day is appended once the limit is raised, behind what came
// since, and once, however often it is replayed.
func TestReplay(t *testing.T) {
	r := newRig(t)
	small := r.start(func(_ *persist.Deps, cfg *persist.Config) { cfg.MaxEntry = 10_000 })
	large := []byte(`{"type":"custom","data":[` + strings.Repeat("1,", 8_000) + `1]}`)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	es := []client.Entry{
		{Thread: thread(0), Dialect: "omp", Body: []byte(`{"type":"custom","data":1}`), Seq: 1},
		{Thread: thread(0), Dialect: "omp", Body: large, Seq: 2},
		{Thread: thread(0), Dialect: "omp", Body: []byte(`{"type":"custom","data":3}`), Seq: 3},
	}
	must.Get(pub.Publish(t.Context(), es...))(t)
	r.await(thread(0), "p", 3)
	must.Do(t, small.stop())
	dead, err := r.Session("s0").DeadLetters(t.Context())
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].Reason, "10000") || dead[0].Thread != thread(0) || dead[0].Kind != "entry" {
		t.Fatalf("DeadLetters = %+v, %v", dead, err)
	}
	if others, err := r.Session("s1").DeadLetters(t.Context()); err != nil || len(others) != 0 {
		t.Errorf("dead letters of another session = %+v, %v", others, err)
	}
	body := must.Get(r.Admin().OpenDeadLetter(t.Context(), dead[0]))(t)
	raw, err := io.ReadAll(body)
	if e, bad := events.Decode(raw); err != nil || bad != nil || !bytes.Equal(e.Body, large) {
		t.Errorf("the letter holds %d bytes, %v, %v", len(raw), err, bad)
	}

	r.start(nil)
	for range 2 {
		must.Get(r.Admin().ReplayDeadLetter(t.Context(), dead[0].At))(t)
	}
	r.publish(pub, thread(0), 3, 4)
	r.await(thread(0), "p", 4)
	var out bytes.Buffer
	n, err := r.Thread(thread(0)).Export(t.Context(), &out)
	if want := string(es[0].Body) + "\n" + string(es[2].Body) + "\n" + string(large) + "\n"; err != nil || n != 4 ||
		!strings.HasPrefix(out.String(), want) {
		t.Errorf("Export = %d entries, %v: %.200s", n, err, out.String())
	}
	for range 2 {
		must.Do(t, r.Admin().RemoveDeadLetters(t.Context(), dead[0].At))
	}
	must.Is(t, must.Err(r.Admin().DeadLetter(t.Context(), dead[0].At)), record.ErrNotFound, "DeadLetter after its removal")
	must.Is(t, must.Err(r.Admin().ReplayDeadLetter(t.Context(), dead[0].At)), record.ErrNotFound, "ReplayDeadLetter after its removal")
}

// What came back when it was replayed is the same event in another letter: replaying both, in any order, adds it once.
func TestReplayOfWhatCameBack(t *testing.T) {
	r := newRig(t)
	small := r.start(func(_ *persist.Deps, cfg *persist.Config) { cfg.MaxEntry = 10_000 })
	large := []byte(`{"type":"custom","data":[` + strings.Repeat("1,", 8_000) + `1]}`)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: large, Seq: 1}))(t)
	letters := func(n int) (dead []client.DeadLetter) {
		must.Until(r.t, fmt.Sprintf("there are %d dead letters", n), func() bool {
			dead = must.Get(r.Session("s0").DeadLetters(t.Context()))(t)
			return len(dead) == n
		})
		return dead
	}
	must.Get(r.Admin().ReplayDeadLetter(t.Context(), letters(1)[0].At))(t)
	must.Get(r.Admin().ReplayDeadLetter(t.Context(), letters(2)[1].At))(t)
	dead := letters(3)
	must.Do(t, small.stop())
	r.start(nil)
	for _, d := range dead {
		must.Get(r.Admin().ReplayDeadLetter(t.Context(), d.At))(t)
	}
	r.publish(pub, thread(0), 1, 2)
	r.await(thread(0), "p", 2)
	var out bytes.Buffer
	must.Get(r.Thread(thread(0)).Export(t.Context(), &out))(t)
	if n := bytes.Count(out.Bytes(), large); n != 1 {
		t.Errorf("the thread has the entry %d times, want once", n)
	}
}

// A producer whose name begins like that of a replay is one as all are: what it sent, and was refused, is replayed behind
// what it sent since.
func TestReplayOfAProducerNamedLikeAReplay(t *testing.T) {
	r := newRig(t)
	small := r.start(func(_ *persist.Deps, cfg *persist.Config) { cfg.MaxEntry = 10_000 })
	large := []byte(`{"type":"custom","data":[` + strings.Repeat("1,", 8_000) + `1]}`)
	const name = "~dead.drop"
	must.Get(r.Publisher(client.PublisherConfig{Producer: name}).Publish(t.Context(),
		client.Entry{Thread: thread(0), Dialect: "omp", Body: large, Seq: 1},
		client.Entry{Thread: thread(0), Dialect: "omp", Body: []byte(`{"type":"custom"}`), Seq: 2}))(t)
	r.await(thread(0), name, 2)
	must.Do(t, small.stop())
	r.start(nil)
	dead := must.Get(r.Session("s0").DeadLetters(t.Context()))(t)
	if had := must.Get(r.Admin().ReplayDeadLetter(t.Context(), dead[0].At))(t); had {
		t.Error("the thread is said to have what was refused")
	}
	must.Do(t, r.Thread(thread(0)).Settled(t.Context()))
	var out bytes.Buffer
	must.Get(r.Thread(thread(0)).Export(t.Context(), &out))(t)
	if n := bytes.Count(out.Bytes(), large); n != 1 {
		t.Errorf("the thread has the entry %d times, want once", n)
	}
}
