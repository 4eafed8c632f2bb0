package persist_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// moment is where a process dies over an event.
type moment string

const (
	reads   moment = "it reads what the event is for"
	commits moment = "it commits the event"
	tells   moment = "it tells of the event"
	stands  moment = "none: it stands still where it commits the event"
)

// deadly is an event over which processes die, in its session, until it has a dead letter.
type deadly struct {
	seq     uint64
	session string
	at      moment
	buried  atomic.Bool
}

// is reports whether a key or a subject is of the event's session.
func (d *deadly) is(at moment, keys ...string) bool {
	return d != nil && d.at == at && !d.buried.Load() && slices.ContainsFunc(keys, func(k string) bool {
		return events.SessionOf(k) == d.session || strings.Contains(k, "."+d.session+".")
	})
}

// mortalStore is the store of one process: nothing of that is heard any more once it is dead.
type mortalStore struct {
	bucket
	persist.Outbox
	over *deadly
	dead atomic.Bool
	died chan struct{}
	left atomic.Int64  // calls until done is closed; 0 at first: it never is
	done chan struct{} // closed after so many calls

	t       must.T
	unheard bool // a note that is taken back is, and the answer is lost
}

var errDied = errors.New("the process is dead")

func (s *mortalStore) die() {
	if s.dead.CompareAndSwap(false, true) {
		close(s.died)
	}
}

func (s *mortalStore) gone(is bool) error {
	if is {
		s.die()
	}
	if s.left.Add(-1) == 0 {
		close(s.done)
	}
	if s.dead.Load() {
		return errDied
	}
	return nil
}

func (s *mortalStore) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	if err := s.gone(s.over.is(reads, keys...)); err != nil {
		return nil, err
	}
	return s.bucket.Records(ctx, keys...)
}

func (s *mortalStore) Fence(ctx context.Context, lane int) (record.Fence, error) {
	if err := s.gone(false); err != nil {
		return record.Fence{}, err
	}
	return s.bucket.Fence(ctx, lane)
}

func (s *mortalStore) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	var keys []string
	refuses := false
	for _, p := range puts {
		keys = append(keys, p.Key)
		if v, err := record.DecodeRefused(p.Value); s.over != nil && strings.HasPrefix(p.Key, "refused.") && err == nil {
			refuses = slices.ContainsFunc(v.Events, func(e record.RefusedEvent) bool { return e.Seq == s.over.seq })
		}
	}
	if s.over.is(stands, keys...) {
		<-s.died
	}
	if err := s.gone(!refuses && s.over.is(commits, keys...)); err != nil {
		return 0, err
	}
	rev, err := s.bucket.Commit(ctx, f, puts)
	if s.unheard && strings.HasPrefix(keys[0], "tried.") && must.Get(record.DecodeTried(puts[0].Value))(s.t).Life == (record.Life{}) {
		return 0, cmp.Or(err, record.ErrUnknown)
	}
	return rev, err
}

func (s *mortalStore) PublishItems(ctx context.Context, items []events.Posted) error {
	var subjects []string
	for _, it := range items {
		subjects = append(subjects, it.Subject)
	}
	if err := s.gone(s.over.is(tells, subjects...)); err != nil {
		return err
	}
	return s.Outbox.PublishItems(ctx, items)
}

func (s *mortalStore) Dead(ctx context.Context, letters []events.Dead) error {
	if err := s.gone(false); err != nil {
		return err
	}
	err := s.Outbox.Dead(ctx, letters)
	if s.over != nil && err == nil {
		for _, d := range letters {
			if d.Seq == s.over.seq {
				s.over.buried.Store(true)
			}
		}
	}
	return err
}

// lives are processes that get a partition one after the other.
type lives struct {
	*rig
	over  *deadly
	terms uint64
	floor atomic.Uint64 // up to there events are acknowledged
	open  uint64        // what was given to somebody
	pause time.Duration // of persist.Config
	calls int64         // of its store, after which a process stops; 0: it goes on
	loses bool          // no ack but that of the last event is heard

	unheard bool // of its store

	messages map[uint64]persist.Message // as they were stored; a deletion drops some
}

func (r *rig) lives(over *deadly) *lives {
	l := &lives{rig: r, over: over, pause: 1, messages: map[uint64]persist.Message{}}
	for seq := uint64(1); seq <= r.lastSeq(events.EventsStream); seq++ {
		l.messages[seq] = r.message(seq, 0)
	}
	return l
}

// next runs a process until it dies, stop says so, or all is acknowledged: true.
func (l *lives) next(stop <-chan time.Time, kill bool) (done bool) {
	l.t.Helper()
	last, through := l.lastSeq(events.EventsStream), make(chan struct{})
	if l.floor.Load() == last { // a process that ended in order acknowledged what was through
		return true
	}
	l.terms++
	s := &mortalStore{bucket: l.conn.Records(), over: l.over, died: make(chan struct{}), done: make(chan struct{})}
	s.t, s.unheard = l.t, l.unheard
	s.left.Store(l.calls)
	deps := persistnats.Deps(l.conn, 0, 0)
	s.Outbox, deps.Records, deps.Outbox = deps.Outbox, s, s
	deps.Packs, deps.Search, deps.Secrets = l.conn.Store(0), nil, l.secrets
	p := persist.New(deps, persist.Config{BatchEvents: 20, TrialPause: l.pause})
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	var msgs []persist.Message
	for seq := l.floor.Load() + 1; seq <= last; seq++ {
		m := l.messages[seq]
		m.Term, m.Open = l.terms, l.open
		m.Ack = func() error {
			if s.dead.Load() || l.loses && seq < last {
				return nil
			}
			was := l.floor.Swap(max(seq, l.floor.Load()))
			acked := events.PartitionConsumer(m.Partition)
			if _, err := l.conn.JetStream().ResetConsumerToSequence(ctx, events.EventsStream, acked, seq+1); err != nil {
				return err
			}
			if was < last && seq == last {
				close(through)
			}
			return nil
		}
		msgs = append(msgs, m)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	wg.Go(func() {
		for _, m := range msgs {
			p.Deliver(ctx, m)
		}
	})
	l.open = max(l.open, last)
	select {
	case <-through:
		done = true
	case <-s.died:
	case <-stop:
		if kill {
			s.die()
		}
	case <-s.done:
		if kill {
			s.die()
		}
	case <-time.After(60 * time.Second):
		l.t.Errorf("nothing becomes of it behind event %d", l.floor.Load())
		s.die()
		done = true
	}
	cancel()
	wg.Wait()
	return done
}

// all runs processes until all is acknowledged, and says how many died.
func (l *lives) all() (deaths int) {
	l.t.Helper()
	for ; !l.next(nil, true); deaths++ {
		if deaths > 20 {
			l.t.Fatal("they die for ever")
		}
	}
	return deaths
}

// dead are the dead letters.
func (r *rig) dead() (all []*jetstream.RawStreamMsg) {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.t.Context(), events.DeadStream)
	must.Do(r.t, err)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		if m, err := s.GetMsg(r.t.Context(), seq); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// left is what threads hold, of those that have entries, and what became dead letters but for one event's.
func (r *rig) left(without uint64) string {
	r.t.Helper()
	var out []string
	for _, t := range []events.Thread{
		{Session: "a", Name: "main"}, {Session: "a", Name: "side"}, {Session: "a", Name: "aside"},
		{Session: "b", Name: "main"}, {Session: "c", Name: "main"}, {Session: "d", Name: "main"},
	} {
		if h, err := r.Thread(t).Head(r.t.Context()); err == nil && h.Entries > 0 {
			must.Do(r.t, threads.Verify(r.t.Context(), r.Reader(), h))
			out = append(out, fmt.Sprintf("%s: %d entries, %d items\n%s", t, h.Entries, h.N, r.export(t)))
		}
	}
	for _, m := range r.dead() {
		if seq := m.Header.Get("Spool-Event-Seq"); seq != strconv.FormatUint(without, 10) {
			out = append(out, "event "+seq+" is dead")
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// sound fails where the store is not as it must be.
func (r *rig) sound() {
	r.t.Helper()
	rep, err := fsck.Check(r.t.Context(), natsadmin.Of(r.conn), fsck.Config{})
	must.Do(r.t, err)
	for _, f := range rep.Findings {
		r.t.Errorf("fsck: %s", f)
	}
}

// An event of any kind over which each process dies is a dead letter with its bytes after a few deaths, or it is applied.
// All others are as if it had never been.
func TestNoCrashLoop(t *testing.T) {
	all := newRig(t)
	all.everyKind()
	n := all.lastSeq(events.EventsStream)
	p := all.deaf()
	all.give(p, 1, n)
	all.through(p, int64(n))
	refused := map[string]bool{}
	for _, m := range all.dead() {
		refused[m.Header.Get("Spool-Event-Seq")] = true
	}
	for seq := uint64(1); seq <= n; seq++ {
		for _, at := range []moment{reads, commits} {
			t.Run(fmt.Sprint(seq, " ", at), func(t *testing.T) {
				t.Parallel()
				noCrashLoop(t, seq, at, refused[fmt.Sprint(seq)] && at == commits)
			})
		}
	}
}

func noCrashLoop(t *testing.T, seq uint64, at moment, refused bool) {
	r := newRig(t)
	r.everyKind()
	m := r.message(seq, 1)
	id, kind, err := events.ParseStored(m.Subject)
	must.Do(t, err)
	l := r.lives(&deadly{seq: seq, session: id.Session, at: at})
	before := r.deaf()
	r.give(before, 1, seq-1)
	r.through(before, int64(seq)-1)
	l.floor.Store(seq - 1)
	deaths := l.all()
	r.sound()

	var letters []string
	for _, l := range r.dead() {
		if l.Header.Get("Spool-Event-Seq") == fmt.Sprint(seq) {
			letters = append(letters, l.Header.Get("Spool-Reason"))
			if string(l.Data) != string(m.Data) || l.Header.Get("Spool-Subject") != m.Subject {
				t.Errorf("the letter has %q of %s, want %q of %s", l.Data, l.Header.Get("Spool-Subject"), m.Data, m.Subject)
			}
		}
	}
	if refused { // for what it is: nobody dies over that
		r.same(seq, 0)
		return
	}
	if r.holds(seq) && (len(letters) != 1 || !strings.HasPrefix(letters[0], "poison: ")) {
		t.Errorf("%s: letters %q after %d deaths, want one of poison", kind, letters, deaths)
	}
	if deaths > 8 {
		t.Errorf("%d died, want 8 at most", deaths)
	}
	r.same(seq, seq)
}

// holds reports whether an event is stored, and was not dropped with its session, and its letter.
func (r *rig) holds(seq uint64) bool {
	s, err := r.conn.JetStream().Stream(r.t.Context(), events.EventsStream)
	must.Do(r.t, err)
	_, err = s.GetMsg(r.t.Context(), seq)
	return err == nil
}

// same holds what is left against what a process leaves that is never given one event; 0: that is given all.
func (r *rig) same(seq, without uint64) {
	r.t.Helper()
	want := newRig(r.t)
	want.everyKind()
	p, n := want.deaf(), want.lastSeq(events.EventsStream)
	if without == 0 {
		want.give(p, 1, n)
		want.through(p, int64(n))
	} else {
		want.give(p, 1, without-1)
		want.give(p, without+1, n)
		want.through(p, int64(n)-1)
	}
	must.Same(r.t, r.left(without), want.left(without), "with event %d deadly there is\n%s\nwant\n%s", seq)
}

// A deadly event in the middle of a long backlog is found; all others are applied once.
func TestDeadlyInABacklog(t *testing.T) {
	r := newRig(t)
	const sessions, entries = 6, 400
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i := range entries {
		for s := range sessions { // one by one: several would share a message
			r.store(&events.Event{
				Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "omp", Thread: thread(s), Time: 1,
				Body: message(fmt.Sprintf("e%05d", i), "user", 100),
			})
		}
		if i == entries/2 {
			must.Get(pub.Publish(t.Context(), stepEntry(events.Thread{Session: "doomed", Name: "main"}, 1, "x")))(t)
		}
	}
	over := &deadly{seq: sessions*(entries/2+1) + 1, session: "doomed", at: commits}
	l := r.lives(over)
	deaths := l.all()
	for s := range sessions {
		r.check(thread(s), entries)
	}
	r.sound()
	if why := r.whyDead(); len(why) != 1 || !strings.HasPrefix(why[0], "poison: ") || deaths > 8 {
		t.Errorf("dead letters %q after %d deaths, want one of poison after 8 at most", why, deaths)
	}
}

// An event that was applied before processes die over its items is no dead letter: they are left out.
func TestDeadlyToTell(t *testing.T) {
	r := newRig(t)
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), stepEntry(thread(0), 1, "x")))(t)
	l := r.lives(&deadly{seq: 1, session: "s0", at: tells})
	if deaths := l.all(); deaths > 8 {
		t.Errorf("%d died, want 8 at most", deaths)
	}
	r.noDead()
	if h := r.head(thread(0)); h.Entries != 1 {
		t.Errorf("%d entries, want 1", h.Entries)
	}
}

// Of a message with several entries the deadly one alone is a dead letter.
func TestDeadlyInAMessage(t *testing.T) {
	r := newRig(t)
	var es []client.Entry
	for i := range 5 {
		es = append(es, stepEntry(thread(0), uint64(i+1), fmt.Sprint("e", i)))
	}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), es...))(t)
	l := r.lives(&deadly{seq: 1, session: "s0", at: commits})
	l.all()
	r.sound()
	if h, why := r.head(thread(0)), r.whyDead(); h.Entries != 4 || len(why) != 1 || !strings.HasPrefix(why[0], "poison: ") {
		t.Errorf("%d entries, dead letters %q, want 4 and one of poison", h.Entries, why)
	}
}

// leastCalls is more than a process needs for an event alone: no two of them end over the same one.
const leastCalls = 30

// Processes that end in order while an event is in hand, or die at any time for another reason, make no dead letters.
func TestDeathsOfOtherCauses(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprint("killed: ", kill), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const sessions, entries = 4, 250
			for s := range sessions {
				for i := range entries {
					r.store(&events.Event{
						Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "omp", Thread: thread(s), Time: 1,
						Body: message(fmt.Sprintf("e%05d", i), "user", 100),
					})
				}
			}
			l := r.lives(nil)
			for range 40 {
				l.calls = leastCalls + rand.Int64N(100)
				if l.next(nil, kill) {
					break
				}
			}
			l.calls = 0
			l.all()
			for s := range sessions {
				r.check(thread(s), entries)
			}
			r.sound()
			r.noDead()
		})
	}
}

// Processes that are killed again and again, each while an event of theirs waits for a store that stands still, make no
// dead letter of it.
func TestKilledInATrial(t *testing.T) {
	r := newRig(t)
	must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), stepEntry(thread(0), 1, "x")))(t)
	l := r.lives(&deadly{seq: 1, session: "s0", at: stands})
	l.pause = time.Hour
	for range 8 {
		l.next(time.After(200*time.Millisecond), true)
	}
	l.over, l.pause = nil, 1
	l.all()
	r.noDead()
	if h := r.head(thread(0)); h.Entries != 1 {
		t.Errorf("%d entries, want 1", h.Entries)
	}
}

// Persisters that live on beside those that took over from them, and get the partition back, make no dead letter.
func TestAliveBesideItsSuccessor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 {
		e := stepEntry(thread(0), uint64(i+1), fmt.Sprint("e", i))
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), e))(t)
	}
	r.put(events.TriedKey(0), record.Tried{Life: record.Life{1}, Lo: 1, Hi: 3}.Encode()) // it died over one of them
	give := func(p *persist.Persister, term, to uint64) {
		for seq := uint64(1); seq <= to; seq++ {
			m := r.message(seq, term)
			m.Open = 3
			p.Deliver(t.Context(), m)
		}
	}
	a, at, goOn := r.held()
	give(a, 1, 1)
	<-at // it commits the first, alone
	if rec, err := record.DecodeTried(r.record(events.TriedKey(0)).Value); err != nil || !rec.Alone || rec.Lo != 1 {
		t.Fatalf("the record is %+v, %v, want event 1 alone", rec, err)
	}
	b := r.deaf()
	give(b, 1, 3)
	r.through(b, 3)
	goOn()
	r.through(a, 1)
	for i := range uint64(5) {
		give(a, 2+i, 3)
		r.through(a, 4+3*int64(i))
		give(b, 2+i, 3)
		r.through(b, 6+3*int64(i))
	}
	r.noDead()
	if h := r.head(thread(0)); h.Entries != 3 {
		t.Errorf("%d entries, want 3", h.Entries)
	}
}
