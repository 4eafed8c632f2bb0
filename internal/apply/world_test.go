package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// memory is a world in memory, with a caller of Event that commits each change by itself.
type memory struct {
	t       *testing.T
	rules   Rules
	seq     uint64
	records map[string]record.Record
	packs   map[casstore.PackID]*casstore.Pack
	stored  []events.Event // EVENTS, from sequence 1 on

	threads  map[events.Thread]*Thread
	sessions map[string]*Session
	outputs  map[string]*Output
	counters map[string]*record.Counter

	mu           sync.Mutex
	reads, fails int // how many there were; the one that fails, from 1; 0: none
}

func newMemory(t *testing.T) *memory {
	return &memory{
		t: t, rules: Rules{Artifacts: artifacts.Thresholds{Bytes: 1000}, Results: true, Outputs: true, Sessions: true, OutputLease: time.Hour},
		records: map[string]record.Record{}, packs: map[casstore.PackID]*casstore.Pack{},
		threads: map[events.Thread]*Thread{}, sessions: map[string]*Session{}, outputs: map[string]*Output{},
		counters: map[string]*record.Counter{},
	}
}

// errDown is what a read of a store gives that does not answer.
var errDown = fmt.Errorf("%w: the store is down", record.ErrUnknown)

// asked counts a read, which may be the one that fails.
func (m *memory) asked() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads++; m.reads == m.fails {
		return errDown
	}
	return nil
}

func (m *memory) Records(_ context.Context, keys ...string) ([]record.Record, error) {
	rs := make([]record.Record, len(keys))
	for i, key := range keys {
		rs[i] = m.records[key]
		rs[i].Key = key
	}
	return rs, m.asked()
}

func (m *memory) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return record.FindPack(ctx, m.Records, id)
}

func (m *memory) Holds(context.Context, record.Object) (bool, error) { return true, m.asked() }

func (m *memory) Reader() threads.Reader { return threads.Reader{Packs: m} }

func (m *memory) Pack(_ context.Context, id casstore.PackID) (*casstore.Pack, error) {
	if err := m.asked(); err != nil {
		return nil, err
	}
	if p := m.packs[id]; p != nil {
		return p, nil
	}
	return nil, casstore.ErrNotFound
}

func (m *memory) Near(session string) (packs []casstore.PackID) {
	for _, name := range []string{"main", "two", "three"} {
		if t := m.threads[events.Thread{Session: session, Name: name}]; t != nil {
			packs = append(packs, t.Head.Head().Pack)
		}
	}
	return packs
}

func (m *memory) Locate(context.Context, casstore.Ref) (casstore.Located, error) {
	return casstore.Located{}, cmpErr(m.asked(), casstore.ErrNotFound)
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func (m *memory) Settle(context.Context, ...events.Thread) error { return m.asked() }

func (m *memory) Told(context.Context) error { return m.asked() }

func (m *memory) SettleBefore(context.Context, string) error { return m.asked() }

func (m *memory) Past(_ context.Context, t events.Thread, producer string, epoch, from, before uint64) (events.Past, error) {
	past := events.Past{From: from}
	for i, e := range m.stored {
		at := uint64(i + 1)
		if at >= from && at < before && (e.Thread == t || e.Thread.Session == t.Session && t.Name == events.EveryThread) &&
			e.Producer == producer && e.Epoch == epoch {
			past.Links = append(past.Links, events.Linked{Seq: e.Seq, Prev: e.Prev, At: at, Is: e.Means(), In: e.Thread.Name})
		}
	}
	return past, m.asked()
}

func (m *memory) Given(
	ctx context.Context, t events.Thread, producer string, epoch, _ uint64, _ *events.Digest, from, before uint64,
) (*events.Given, error) {
	past, err := m.Past(ctx, t, producer, epoch, from, before)
	g := &events.Given{}
	for _, l := range past.Links {
		g.Add(l)
	}
	return g, err
}

func (m *memory) Sent(
	ctx context.Context, t events.Thread, producer string, epoch, seq uint64, is events.Digest, from, before uint64,
) (bool, error) {
	g, err := m.Given(ctx, t, producer, epoch, seq, &is, from, before)
	return g.Before(seq, is, before), err
}

func (m *memory) Reused(uint64, int64) bool { return false }

func (m *memory) SessionKeys(_ context.Context, session string) (keys []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		if events.SessionOf(key) == session {
			keys = append(keys, key)
		}
	}
	return keys, m.asked()
}

func (m *memory) SessionLive(_ context.Context, session string) (live record.Live, err error) {
	for key, o := range m.outputs {
		if o.Open && events.SessionOf(key) == session {
			live.Outputs = append(live.Outputs, record.Silent{Output: o.Rec, Session: session})
		}
	}
	for _, r := range m.records {
		if class, err := record.ClassOf(r.Key); err == nil && class.Name == "run" && r.Exists() && events.SessionOf(r.Key) == session {
			if run, err := record.DecodeRun(r.Value); err == nil {
				live.Runs = append(live.Runs, record.Seen{Session: session, Run: run})
			}
		}
	}
	return live, m.asked()
}

// state is what is known before an event.
func (m *memory) state(e *Staged) State {
	s := m.sessions[e.Thread.Session]
	if s == nil {
		s = &Session{ID: e.Thread.Session}
		s.Info.ID = s.ID
		m.sessions[s.ID] = s
	}
	t := m.threads[e.Thread]
	if t == nil {
		t = &Thread{}
		must.Do(m.t, t.Load(e.Thread, m.records[events.HeadKey(e.Thread)], s))
		if left := m.records[events.LeftKey(e.Thread)]; left.Exists() {
			t.Left, _ = DecodeLeft(left.Value)
		}
		m.threads[e.Thread] = t
	}
	if m.counters[s.ID] == nil {
		m.counters[s.ID] = &record.Counter{}
	}
	st := State{Thread: t, Session: s, Back: m, Rules: m.rules, Counter: m.counters[s.ID]}
	st.Batch.Pack, st.Batch.ID = casstore.PackID{byte(m.seq + 1), byte((m.seq + 1) >> 8), 1}, [16]byte{byte(m.seq + 1)}
	if e.Kind == events.KindChunk {
		key := events.OutputKey(s.ID, e.Chunk.Output)
		if m.outputs[key] == nil {
			m.outputs[key] = &Output{}
		}
		st.Output = m.outputs[key]
	}
	return st
}

// take commits a change.
func (m *memory) take(st State, e *Staged, c *Change) {
	key := e.Thread
	c.Session(st.Session, MarkedBy(&e.Event))
	if c.Info != nil {
		st.Session.Stored = true
	}
	if c.Noted && c.Nodes.Len() > 0 {
		b := casstore.NewPackBuilder()
		for _, at := range slices.Concat([]casstore.Located{c.On.Start}, c.On.Recent, c.Locate) {
			if at.Pack != st.Batch.Pack {
				b.Locate(at)
			}
		}
		b.AddDraft(&c.Nodes)
		header, body, err := b.Finish()
		if err != nil {
			m.t.Fatalf("%s: %v", e.Kind, err)
		}
		if m.packs[st.Batch.Pack], err = casstore.OpenPack(header, body); err != nil {
			m.t.Fatal(err)
		}
		m.put(record.Put{Key: events.PackKey(st.Batch.Pack.String()), Value: record.Pack{Header: int64(len(header))}.Encode()})
	}
	for _, b := range c.Blobs {
		m.put(record.Put{Key: events.BlobKey(b.Ref.Hex()), Value: record.Blob{Object: record.Object{Bucket: "b", Name: "n", NUID: "x"}}.Encode()})
	}
	c.Thread(st.Thread)
	for _, p := range c.Puts {
		m.put(p)
	}
	if c.Run != nil {
		m.put(c.Run.Put)
	}
	if c.Counter != nil {
		m.counters[key.Session] = c.Counter
	}
	if c.Output != nil {
		st.Output.Take(c.Output, &m.rules)
	}
	for _, key := range c.OutputsMoved {
		if o := m.outputs[key]; o != nil {
			o.Rec.Thread = c.Leaves.To
		}
	}
	for _, key := range c.OutputsDropped {
		m.outputs[key] = &Output{Removed: true}
	}
	m.takeHead(key, st.Thread, c)
	if d := c.Delete; d != nil && d.Spared == nil {
		m.forget(key.Session, d.Rec)
	}
}

// takeHead commits what a change leaves of a thread's head.
func (m *memory) takeHead(key events.Thread, t *Thread, c *Change) {
	switch {
	case c.Leaves != nil && c.Leaves.To == "":
		m.put(record.Put{Key: events.LeftKey(key), Value: t.LeaveTo("").Encode()})
		m.put(record.Put{Key: events.HeadKey(key)})
		delete(m.threads, key)
	case c.Leaves != nil:
		delete(m.threads, key)
		m.put(record.Put{Key: events.HeadKey(key)})
		t.Key.Name = c.Leaves.To
		m.threads[t.Key] = t
		m.put(record.Put{Key: events.HeadKey(t.Key), Value: t.Head.Encode()})
	case c.Noted:
		t.Head.Memory = t.Memory.Encode()
		m.put(record.Put{Key: events.HeadKey(key), Value: t.Head.Encode()})
	}
}

func (m *memory) put(p record.Put) {
	m.seq++
	m.records[p.Key] = record.Record{Key: p.Key, Value: p.Value, Seq: m.seq}
}

// forget removes a session.
func (m *memory) forget(session string, how record.Deleted) {
	keys, _ := m.SessionKeys(m.t.Context(), session)
	for _, key := range keys {
		m.put(record.Put{Key: key})
	}
	maps.DeleteFunc(m.threads, func(t events.Thread, _ *Thread) bool { return t.Session == session })
	maps.DeleteFunc(m.outputs, func(key string, _ *Output) bool { return events.SessionOf(key) == session })
	how.State = record.Done
	m.sessions[session] = &Session{ID: session, Deleted: &how}
}

// look is all of a state that an event could change, in a form that can be compared.
func look(st State) any {
	type seen struct {
		Thread  Thread
		Session Session
		Output  Output
		Sink    record.OutputBase
		Body    parts
		Counter record.Counter
		Batch   Batch
	}
	s := seen{Thread: *st.Thread, Session: *st.Session, Counter: *st.Counter, Batch: st.Batch}
	s.Thread.Head = s.Thread.Head.Clone()
	if s.Thread.Left != nil {
		left := *s.Thread.Left
		left.Head = left.Head.Clone()
		s.Thread.Left = &left
	}
	s.Thread.Runs, s.Session.Marks = maps.Clone(s.Thread.Runs), maps.Clone(s.Session.Marks)
	if o := st.Output; o != nil {
		s.Output = *o
		if o.Open {
			s.Sink, s.Body = o.base(), *o.body
			s.Body.part, s.Body.ready = slices.Clone(o.body.part), slices.Clone(o.body.ready)
		}
		s.Output.sink, s.Output.body, s.Body.sum = nil, nil, nil
	}
	return s
}

// decided is what Event gave, in a form that can be compared: an output that has ended has functions in it.
func decided(c *Change, v Verdict, err error) []any {
	if c == nil {
		return []any{err}
	}
	plain := *c
	why := ""
	if v.Why != nil {
		why = v.Why.Error()
	}
	if c.Output != nil && c.Output.Ends != nil {
		end := *c.Output.Ends
		end.After = &Output{Rec: end.After.Rec, Removed: end.After.Removed}
		plain.Output = &OutputChange{Ends: &end}
	}
	return []any{plain, v.Is, why, err}
}

// step applies one event, and holds what a decision over values must be: the same twice, nothing done when a read
// fails, wherever that is, and the same in memory that was used before.
func (m *memory) step(room *Room, ev events.Event) Verdict {
	t, ctx := m.t, m.t.Context()
	t.Helper()
	m.stored = append(m.stored, ev)
	e := Staged{Event: ev, At: uint64(len(m.stored)), Now: time.UnixMilli(1_800_000_000_000)}
	e.Bad = Stage(&e)
	st := m.state(&e)
	before, what := look(st), fmt.Sprintf("%s of %s: %.60s", ev.Kind, ev.Thread, ev.Body)

	m.reads, m.fails = 0, 0
	once := decided(Event(ctx, m, st, e))
	reads := m.reads
	for n := 1; n <= reads; n++ {
		m.reads, m.fails = 0, n
		c, _, err := Event(ctx, m, st, e)
		if !errors.Is(err, errDown) || c != nil {
			t.Fatalf("%s: Event() with read %d of %d failing = %v, %v, want an error for the caller", what, n, reads, c, err)
		}
		if !reflect.DeepEqual(look(st), before) {
			t.Fatalf("%s: after read %d of %d failed the state is\n%+v\nwas\n%+v", what, n, reads, look(st), before)
		}
	}
	m.reads, m.fails = 0, 0
	if again := decided(Event(ctx, m, st, e)); !reflect.DeepEqual(again, once) {
		t.Fatalf("%s: Event() gives\n%+v\nthen\n%+v", what, once, again)
	}
	st.Room = room
	c, v, err := Event(ctx, m, st, e)
	if err != nil {
		t.Fatalf("%s: Event() = %v", what, err)
	}
	if got := decided(c, v, err); fmt.Sprintf("%+v", got[1:]) != fmt.Sprintf("%+v", once[1:]) ||
		!slices.EqualFunc(got[0].(Change).Items, once[0].(Change).Items, func(a, b events.Posted) bool { return reflect.DeepEqual(a, b) }) ||
		!reflect.DeepEqual(got[0].(Change).Head.Encode(), once[0].(Change).Head.Encode()) {
		t.Fatalf("%s: Event() in a room that was used gives\n%+v\nwant\n%+v", what, got, once)
	}
	if !reflect.DeepEqual(look(st), before) {
		t.Fatalf("%s: Event() changed the state to\n%+v\nfrom\n%+v", what, look(st), before)
	}
	m.take(st, &e, c)
	return v
}
