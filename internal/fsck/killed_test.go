package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/redact"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// dying is the writer of a repair that is killed after so many writes of records, events and items.
type dying struct {
	fsck.Writer
	left *int // writes
}

var errKilled = errors.New("killed")

func (d dying) write() error {
	if *d.left--; *d.left < 0 {
		return errKilled
	}
	return nil
}

func (d dying) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if err := d.write(); err != nil {
		return 0, err
	}
	return d.Writer.Commit(ctx, f, puts)
}

func (d dying) PublishEvents(ctx context.Context, evs []*events.Event) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Writer.PublishEvents(ctx, evs)
}

func (d dying) PublishItems(ctx context.Context, items []events.Posted) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Writer.PublishItems(ctx, items)
}

func (d dying) DropItems(ctx context.Context, t events.Thread, above int64) (int, error) {
	if err := d.write(); err != nil {
		return 0, err
	}
	return d.Writer.DropItems(ctx, t, above)
}

// masked is what a persister is told that masks secrets.
var masked = service.PersisterConfig{Secrets: redact.New(redact.Default(), true)}

// masking is a system with such a persister.
func masking(t *testing.T) *world {
	conn := natstest.Conn(t)
	w := &world{T: t, conn: conn, cl: client.New(conn)}
	w.startWith(masked)
	return w
}

// laterLife has another thread take the name of one, and be removed.
func (w *world) laterLife(id events.Thread) {
	w.Helper()
	p := w.cl.Publisher(client.PublisherConfig{Producer: "former"})
	must.Do(w, must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step",
		Body: []byte(`{"id":"f","role":"coder","content":"f"}`), Seq: 1}))(w).Applied(w.Context()))
	must.Do(w, w.cl.Thread(id).Remove(w.Context(), client.Force(true)))
}

// secrets appends steps with a secret to a thread, each in a commit of its own.
func (w *world) secrets(id events.Thread, n int) {
	w.Helper()
	p := w.cl.Publisher(client.PublisherConfig{Producer: "agent.main"})
	for i := range n {
		body := fmt.Appendf(nil, `{"id":"main%d","role":"coder","content":"step %d: %s","timestamp":%d}`, i+1, i+1, leaked,
			1795176000000+int64(i))
		e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i + 1)}
		must.Do(w, must.Get(p.Publish(w.Context(), e))(w).Applied(w.Context()))
	}
}

// What was masked, or comes last and is a dead letter or a repeat, is nothing that a thread of a later life lacks.
func TestEndOfALaterLife(t *testing.T) {
	w := masking(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.laterLife(id)
	w.secrets(id, 3)
	for _, c := range []struct {
		seq     uint64
		content string
	}{{2, "another"}, {3, "step 3: " + leaked}} {
		e := &events.Event{Producer: "agent.main", Seq: c.seq, Kind: events.KindEntry, Dialect: "step", Thread: id, Time: 1795176000002,
			Body: fmt.Appendf(nil, `{"id":"main%d","role":"coder","content":%q,"timestamp":1795176000002}`, c.seq, c.content)}
		must.Do(w, w.conn.Events().PublishEvents(w.Context(), []*events.Event{e}))
		must.Do(w, faulttest.Settle(w.Context(), w.conn))
		w.wantClean()
	}
	if letters := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w); len(letters) != 1 {
		w.Errorf("%d dead letters, want one", len(letters))
	}
	w.stop()
	w.wantClean()
}

// skipped is a store whose SPOOL_EVENTS has one acked event more, which was taken for a repeat, or lost.
type skipped struct {
	fsck.Store
	e  events.Event
	at uint64
}

func (s skipped) Messages(ctx context.Context, stream string, from uint64, f func(uint64, string, []byte) error) error {
	err := s.Store.Messages(ctx, stream, from, f)
	if err == nil && stream == events.EventsStream {
		err = f(s.at, fmt.Sprintf("spool.v1.p.0.%s.%s.%s", s.e.Thread.Session, s.e.Thread.Name, s.e.Kind), s.e.Encode())
	}
	return err
}

func (s skipped) ThreadEvents(ctx context.Context, t events.Thread) ([]record.StoredEvent, error) {
	evs, err := s.Store.ThreadEvents(ctx, t)
	return append(evs, record.StoredEvent{Event: s.e, Seq: s.at}), err
}

func (s skipped) Unapplied(context.Context) (uint64, error) { return s.at + 1, nil }

// What an earlier version skipped as a repeat, fsck --events names; a thread of a later life that says that it had it does not end short.
// What it has not seen is missing.
func TestSkippedInALaterLife(t *testing.T) {
	for name, c := range map[string]struct {
		e     events.Event
		short bool
	}{
		"an epoch that had ended": {entryOf(thA, "p", 7, 0, "late"), false},
		"not seen":                {inEpoch(1, entryOf(thA, "p", 2, 0, "lost")), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.play(entryOf(thA, "p", 1, 0, "one"), removes(thA), entryOf(thA, "p", 1, 0, "one"), inEpoch(1, entryOf(thA, "p", 1, 0, "two")))
			w.stop()
			store := natsadmin.Of(w.conn)
			rep := must.Get(fsck.Check(w.Context(), skipped{store, c.e, 5}, fsck.Config{}))(w)
			if short := len(rep.Findings) > 0; short != c.short {
				t.Errorf("findings %v, want some: %v", rep.Findings, c.short)
			}
			if a := w.accountLost(lostLedger{lost: &c.e}); len(a.Findings) != 1 {
				t.Errorf("findings %v of the events, want one", a.Findings)
			}
		})
	}
}

// A thread that took its name from another one misses nothing, although what it had under the first comes again under the second.
func TestNothingIsMissingBehindARename(t *testing.T) {
	title := func(t events.Thread, seq uint64) events.Event {
		return opOf(t, "p", seq, 0, events.Control{Op: events.OpName, Name: &events.Name{Title: fmt.Sprint(seq)}})
	}
	bad := func(t events.Thread) events.Event {
		e := entryOf(t, "p", 1, 0, "")
		e.Body = []byte("{")
		return e
	}
	for name, steps := range map[string][]any{
		"operations": {
			entryOf(thO, "p", 1, 0, "one"), title(thO, 2), title(thO, 3), title(thO, 4), title(thO, 5), renames(thO, "a"),
			entryOf(thA, "p", 6, 0, "six"),
			title(thA, 2), title(thA, 3), title(thA, 4), title(thA, 5), entryOf(thA, "p", 6, 0, "six"), entryOf(thA, "p", 1, 0, "one"),
			entryOf(thA, "p", 6, 0, "six"),
		},
		"operations, under a name of two lives": {
			entryOf(thA, "z", 1, 0, "one"), removes(thA), entryOf(thO, "p", 1, 0, "one"), title(thO, 2), renames(thO, "a"),
			entryOf(thA, "p", 3, 0, "three"),
			title(thA, 2), entryOf(thA, "p", 3, 0, "three"),
		},
		"a dead letter": {bad(thO), renames(thO, "a"), bad(thA)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.play(steps...)
			w.wantClean()
			w.wantNoFindings()
		})
	}
}

// What a repair leaves that is killed before one of its writes, whichever it is, the next one mends.
func TestRepairThatIsKilled(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	head := func(w *world) { w.loseHead(id) }
	for name, c := range map[string]struct {
		before bool // another thread had the name before
		lose   func(w *world)
	}{
		"a head of a later life": {true, func(w *world) { head(w); w.dropItems(id, func(n int64) bool { return n > 9 }) }},
		"a head and its session": {false, func(w *world) {
			head(w)
			w.put(events.SessionKey(id.Session), nil)
			w.dropItems(id, func(n int64) bool { return n > 9 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for writes, through := 0, false; !through && !t.Failed(); writes++ {
				t.Run(fmt.Sprint(writes), func(t *testing.T) {
					w := masking(t)
					if c.before {
						w.laterLife(id)
					}
					w.secrets(id, 12)
					must.Do(w, faulttest.Settle(w.Context(), w.conn))
					want := must.Get(w.cl.Thread(id).Head(w.Context()))(w)
					w.stop()
					c.lose(w)
					store, left := natsadmin.Of(w.conn), writes
					_, err := fsck.Fix(w.Context(), store, dying{store, &left}, w.conn.Store(0), fsck.Config{})
					if through = left >= 0; err != nil && !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					if !through {
						w.fix(id, fsck.Config{})
					}
					w.startWith(masked)
					must.Do(w, faulttest.Settle(w.Context(), w.conn))
					w.stop()
					got := must.Get(client.New(w.conn).Thread(id).Head(w.Context()))(w)
					if got.Entries != want.Entries || got.N != want.N {
						t.Errorf("%d entries, %d items, want %d, %d", got.Entries, got.N, want.Entries, want.N)
					}
					w.wantClean()
				})
			}
		})
	}
}
