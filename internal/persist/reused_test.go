package persist_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/apply"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/redact"
	"spool/pkg/client"
	"spool/pkg/events"
)

// looks counts how often EVENTS is read back, and fails some of the reads.
type looks struct {
	of       persist.Past
	n, fails atomic.Int64
	bytes    atomic.Int64 // that were read
}

func (l *looks) Past(
	ctx context.Context, t events.Thread, producer string, epoch, from, before uint64, most int,
) (events.Past, error) {
	l.n.Add(1)
	if l.fails.Add(-1) >= 0 {
		return events.Past{}, fmt.Errorf("%w: as a test wants it", record.ErrBusy)
	}
	past, err := l.of.Past(ctx, t, producer, epoch, from, before, most)
	l.bytes.Add(int64(past.Bytes))
	return past, err
}

// looking is a persister that is fed by hand, and how often it reads EVENTS back.
func (r *rig) looking(change ...func(*persist.Deps, *persist.Config)) (*persist.Persister, *looks) {
	l := &looks{}
	return r.deaf(append(change, func(d *persist.Deps, _ *persist.Config) { l.of, d.Past = d.Past, l })...), l
}

// wantReused holds the dead letters against those of entries with another one's sequence: whose ids these are.
func (r *rig) wantReused(want ...string) {
	r.t.Helper()
	letters := must.Get(r.EverySession().DeadLetters(r.t.Context()))(r.t)
	var got []string
	for _, l := range letters {
		if !strings.Contains(l.Reason, apply.ErrReused.Error()) {
			r.t.Errorf("dead letter %q, want one that says %q", l.Reason, apply.ErrReused)
		}
		e, err := events.Decode(l.Data)
		at := bytes.Index(e.Body, []byte(`"id":"`))
		if err != nil || at < 0 {
			r.t.Fatalf("dead letter %.200q: %v", l.Data, err)
		}
		got = append(got, string(e.Body[at+6:at+12]))
	}
	slices.Sort(got) // sessions overtake each other
	slices.Sort(want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("dead letters of the entries %v, want %v", got, want)
	}
}

// run stores one event of several entries, with the sequences from..to; their ids begin at nth.
func (r *rig) run(id events.Thread, from, to uint64, nth int) {
	r.t.Helper()
	e := &events.Event{Producer: "p", Seq: from, Kind: events.KindEntry, Dialect: "omp", Thread: id, Time: 1,
		Body: message(fmt.Sprintf("e%05d", nth), "user", 10)}
	for seq := from + 1; seq <= to; seq++ {
		nth++
		e.More = append(e.More, events.Entry{Seq: seq, Body: message(fmt.Sprintf("e%05d", nth), "user", 10)})
	}
	r.store(e)
}

// A thread that was begun by one message, which comes again, costs no look at EVENTS: a store with very many of them is read again after
// a restart.
func TestRepeatedBeginningIsNotLookedFor(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.run(thread(i), 1, 4, 10*i)
	}
	first := r.deaf()
	r.giveAll(first)
	r.through(first, 12)
	p, l := r.looking()
	r.giveAll(p)
	r.through(p, 12)
	if p.Stats().Repeated != 12 || l.n.Load() != 0 {
		t.Errorf("%d events are repeats, EVENTS was read back %d times: want 12, and never", p.Stats().Repeated, l.n.Load())
	}
	r.run(thread(0), 3, 5, 30) // other entries with two of the sequences
	r.give(p, 4, 4)
	r.through(p, 15)
	r.wantReused("e00030", "e00031")
}

// An entry that has the sequence of another one of its producer was acknowledged: it is a dead letter, once. What says
// the same is a repeat, wherever it comes again.
func TestReused(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, _ := r.looking()
	r.entry(id, 1, 0)
	r.entry(id, 2, 1)
	r.entry(id, 2, 92)
	r.entry(id, 1, 0)  // its producer has got no ack
	r.entry(id, 1, 91) // behind a repeat
	r.entry(id, 2, 92) // its producer has got no ack
	r.entry(id, 2, 1)
	r.entry(id, 3, 2)
	r.entry(id, 1, 0)
	r.entry(id, 2, 93) // a third one
	r.entry(id, 2, 92)
	r.giveAll(p)
	r.wantReused("e00092", "e00091", "e00093")
	r.wantEntries(id, 3)
	next, looks := r.looking() // all of it is given again
	r.giveAll(next)
	r.wantReused("e00092", "e00091", "e00093")
	r.wantEntries(id, 3)
	if n := looks.n.Load(); n > 6 {
		t.Errorf("EVENTS was read back %d times for what comes again itself, want it for the last repeats alone", n)
	}
}

// What a thread had under its name before it left it, and took it again, is a repeat; what another thread had under the name is not.
func TestReusedAfterRenamesThereAndBack(t *testing.T) {
	a, b := thread(0), events.Thread{Session: thread(0).Session, Name: "b"}
	for name, removed := range map[string]bool{"the first of the name": false, "behind another one": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p, _ := r.looking()
			if removed {
				r.entry(a, 7, 70)
				r.control(a, "remover", removal())
			}
			r.entry(a, 1, 0)
			r.entry(a, 2, 1)
			for i := range 2 {
				r.control(a, fmt.Sprint("there", i), renameTo(b.Name))
				r.entry(b, uint64(3+i), 2+i)
				r.control(b, fmt.Sprint("back", i), renameTo(a.Name))
			}
			r.entry(a, 1, 0)
			r.entry(a, 2, 92)
			r.entry(a, 3, 2)
			r.entry(a, 4, 94)
			r.giveAll(p)
			r.wantReused("e00092", "e00094")
			r.wantEntries(a, 4)
		})
	}
	for name, again := range map[string]int{"another one's": 1, "another one's, behind the last that the thread had": 92} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p, _ := r.looking()
			r.entry(b, 1, 0)
			if again == 92 {
				r.entry(b, 2, 1)
			}
			r.entry(a, 2, 92)
			r.control(a, "remover", removal())
			if again == 1 {
				r.entry(b, 2, 1)
			}
			r.control(b, "renamer", renameTo(a.Name))
			r.entry(a, 2, again)
			r.entry(a, 2, 92)
			r.giveAll(p)
			r.wantReused("e00092")
			r.wantEntries(a, 2)
		})
	}
}

// The beginning of EVENTS was trimmed: in a thread that began behind that, a reused sequence is found all the same.
func TestReusedBehindTheTrimmed(t *testing.T) {
	r := newRig(t)
	p, _ := r.looking()
	r.entry(thread(0), 1, 0)
	r.entry(thread(1), 1, 1)
	r.give(p, 1, 2)
	r.through(p, 2)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
	r.entry(thread(1), 1, 91) // nobody can tell any more
	r.entry(thread(2), 1, 2)
	r.entry(thread(2), 1, 92)
	r.entry(thread(2), 1, 2)
	r.give(p, 3, 6)
	r.through(p, 6)
	r.wantReused("e00092")
	if n := p.Stats().Guessed; n != 1 {
		t.Errorf("%d events are counted of which nobody can tell whether they are repeats, want 1", n)
	}
	next, _ := r.looking()
	r.give(next, 3, 6)
	r.through(next, 4)
	r.wantReused("e00092")
}

// A second run of a program counts from 1 again: what is behind the last sequence of the first one is taken, all else is
// a dead letter, wherever the messages are cut. Repeats cost no read each.
func TestReusedByASecondRun(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, looks := r.looking()
	r.run(id, 1, 20, 0)
	r.run(id, 21, 40, 20)
	r.run(id, 1, 15, 100)
	r.run(id, 16, 45, 115) // ids 115 to 139 are of sequences that are given
	r.give(p, 1, 4)
	r.through(p, 85)
	var want []string
	for n := 100; n < 140; n++ {
		want = append(want, fmt.Sprintf("e%05d", n))
	}
	r.wantReused(want...)
	if n := r.head(id).Entries; n != 45 {
		t.Errorf("%d entries, want 45: those of the first run, and the last 5 of the second", n)
	}
	before := looks.n.Load()
	for range 10 {
		r.run(id, 1, 20, 0)
		r.run(id, 1, 15, 100)
	}
	r.give(p, 5, 24)
	r.through(p, 85+350)
	r.wantReused(want...)
	if n := looks.n.Load() - before; n > 30 {
		t.Errorf("EVENTS was read back %d times for 350 repeats in 20 messages, want less than twice a message", n)
	}
}

// A second run edits a line and adds one, a third one sends what the first one sent: that is a repeat.
func TestRepeatedBehindAnotherRun(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, _ := r.looking()
	run := func(to uint64, edited int) {
		for seq := uint64(1); seq <= to; seq++ {
			nth := int(seq) - 1
			if seq == 5 {
				nth = edited
			}
			r.entry(id, seq, nth)
		}
	}
	run(20, 4)
	for n := range 80 {
		r.store(&events.Event{Producer: "q", Seq: uint64(n + 1), Kind: events.KindEntry, Dialect: "omp", Thread: thread(2),
			Body: message(fmt.Sprintf("e%05d", n), "user", 10)})
	}
	run(21, 95)
	run(21, 4)
	r.giveAll(p)
	r.wantReused("e00095")
	r.wantEntries(id, 21)
}

// What says the same as an event that never counted is no repeat: one that was linked to what was never stored, one of an
// earlier life of the name.
func TestSameAsWhatNeverCounted(t *testing.T) {
	r := newRig(t)
	linked, lives := thread(0), thread(1)
	p, _ := r.looking()
	r.entry(linked, 1, 0)
	r.store(&events.Event{Producer: "p", Seq: 3, Prev: 2, Kind: events.KindEntry, Dialect: "omp", Thread: linked,
		Body: message("e00091", "user", 10)})
	r.entry(linked, 2, 1)
	r.entry(linked, 3, 2)
	r.entry(linked, 3, 91)
	r.entry(lives, 1, 0)
	r.entry(lives, 2, 92)
	r.control(lives, "rm", removal())
	r.entry(lives, 1, 0)
	r.entry(lives, 2, 1)
	r.entry(lives, 2, 92)
	r.giveAll(p)
	r.wantReused("e00091", "e00092")
	r.wantEntries(linked, 3)
	r.wantEntries(lives, 2)
}

// What is linked to an entry of the thread that had its name before counts, and is a repeat when it is sent again.
func TestRepeatedBehindAnEarlierLife(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, _ := r.looking()
	r.linked(id, 1, 0)
	r.linked(id, 2, 1)
	r.control(id, "rm", removal())
	r.linked(id, 3, 2)
	r.linked(id, 4, 3)
	r.linked(id, 3, 2)
	r.entry(id, 4, 91)
	r.giveAll(p)
	r.wantReused("e00091")
	if h := r.head(id); h.Entries != 2 {
		t.Errorf("%d entries, want the two of the later life", h.Entries)
	}
}

// What says the same is a repeat however it travels: with its body beside it, with secrets that are masked.
func TestRepeatedInAnotherForm(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	mask := func(d *persist.Deps, c *persist.Config) {
		d.Secrets, c.StreamBytes = redact.New(redact.Default(), true), 1<<20
	}
	p, _ := r.looking(mask)
	seq := uint64(0)
	for _, size := range []int{0, 2 << 20} {
		seq++
		body := secretBody(fmt.Sprintf("e%05d", seq-1), size)
		inline := events.Event{Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "omp", Thread: id, Body: body}
		if size == 0 {
			r.store(&inline)
		}
		for range 2 {
			claim := inline
			ref := must.Get(r.conn.Inbox().CheckIn(t.Context(), bytes.NewReader(body)))(t)
			claim.Body, claim.Ref = nil, &ref
			r.store(&claim)
		}
		if size == 0 {
			r.store(&inline)
			inline.Body = secretBody("e00099", size)
			r.store(&inline)
			inline.Body, inline.Dialect = body, "raw"
			r.store(&inline)
		}
	}
	r.giveAll(p)
	r.wantReused("e00099", "e00000")
	r.wantEntries(id, 2)
}

// What a producer publishes again under the name that its thread had, under the one that it has now, or behind its removal, is held
// against what was published there.
func TestReusedUnderAFormerName(t *testing.T) {
	r := newRig(t)
	gone, away := thread(0), thread(1)
	p, _ := r.looking()
	for _, id := range []events.Thread{gone, away} {
		r.entry(id, 1, 0)
		r.entry(id, 2, 1)
	}
	r.control(gone, "rm", removal())
	r.control(away, "mv", renameTo("other"))
	r.entry(gone, 5, 0) // begins anew
	r.entry(gone, 2, 1)
	r.entry(gone, 2, 91)
	r.entry(away, 2, 1)
	r.entry(away, 1, 92)
	other := events.Thread{Session: away.Session, Name: "other"}
	r.entry(other, 2, 1)
	r.entry(other, 2, 93)
	r.entry(other, 3, 2)
	r.entry(other, 1, 94)
	r.giveAll(p)
	r.wantReused("e00091", "e00092", "e00093", "e00094")
	r.wantEntries(gone, 1)
	r.wantEntries(other, 3)
}

// Two operations of one sequence that do different things are one too many: the second one is a dead letter, and the first
// a repeat however it is worded. So it is with a piece of an output and an entry. What describes a thread may say more.
func TestReusedOperations(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, _ := r.looking()
	r.entry(id, 1, 0)
	r.entry(id, 2, 1)
	op := func(seq uint64, kind events.Kind, body string) {
		r.store(&events.Event{Producer: "p", Seq: seq, Kind: kind, Thread: id, Time: 1, Body: []byte(body)})
	}
	label := `{"op":"label","label":{"target":"e00000","label":"%s"}}`
	op(3, events.KindControl, fmt.Sprintf(label, "first"))
	op(3, events.KindControl, fmt.Sprintf(label, "second"))
	op(3, events.KindControl, `{"label": {"label": "first", "target": "e00000"}, "op": "label"}`)
	op(3, events.KindControl, `{"op":"end","end":{}}`)
	for _, start := range []string{`{"prompt":"Look"}`, `{"prompt":"Look","name":"main"}`} {
		r.store(&events.Event{Producer: "p", Seq: 1, Kind: events.KindControl, Thread: thread(1), Time: 1,
			Body: fmt.Appendf(nil, `{"op":"start","start":%s}`, start)})
	}
	begins := func(output string) string {
		return string(events.Chunk{Op: events.ChunkStart, Output: output, Start: events.OutputStart{Tool: "bash"}}.Encode())
	}
	op(2, events.KindChunk, begins("o1"))
	op(4, events.KindChunk, begins("o2"))
	op(4, events.KindChunk, string(events.Chunk{Op: events.ChunkStart, Output: "o2", Start: events.OutputStart{Tool: "sh"}}.Encode()))
	op(4, events.KindChunk, begins("o3"))
	r.giveAll(p)
	var got []string
	for _, l := range must.Get(r.EverySession().DeadLetters(t.Context()))(t) {
		if !strings.Contains(l.Reason, apply.ErrReused.Error()) {
			t.Errorf("dead letter %q, want one that says %q", l.Reason, apply.ErrReused)
		}
		e := must.Get(events.Decode(l.Data))(t)
		got = append(got, string(e.Body))
	}
	want := []string{"second", `"end"`, "o1", "o3"}
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("dead letters %q, want the second label, the end, and the outputs o1 and o3", got)
	}
	r.wantEntries(id, 2)
}

// A store that does not answer is no verdict.
func TestReusedWhileEventsDoNotAnswer(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	p, looks := r.looking()
	looks.fails.Store(3)
	r.entry(id, 1, 0)
	r.entry(id, 1, 0)
	r.entry(id, 1, 91)
	r.give(p, 1, 3)
	r.through(p, 3)
	r.wantReused("e00091")
	r.wantEntries(id, 1)
}

// A letter that is replayed has a sequence of its own.
func TestReplayedReused(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	id := thread(0)
	pub := func(n int) {
		must.Get(r.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(),
			client.Entry{Thread: id, Dialect: "omp", Body: message(fmt.Sprintf("e%05d", n), "user", 10), Seq: 1}))(t)
	}
	pub(0)
	pub(1)
	pub(2)
	var letters []client.DeadLetter
	must.Until(r.t, "there are two dead letters", func() bool {
		letters = must.Get(r.EverySession().DeadLetters(t.Context()))(t)
		return len(letters) == 2
	})
	for range 2 {
		for _, l := range letters {
			must.Get(r.Admin().ReplayDeadLetter(t.Context(), l.At))(t)
		}
	}
	must.Until(r.t, "both are in the thread", func() bool { return r.head(id).Entries == 3 })
	pub(3)
	must.Until(r.t, "all is applied", func() bool { return len(must.Get(r.EverySession().DeadLetters(t.Context()))(t)) == 3 })
	r.wantReused("e00001", "e00002", "e00003")
	r.wantEntries(id, 3)
}

// The beginning of EVENTS was trimmed, before the thread began: what it had under a name that it has no more is found all the same.
func TestReusedUnderAFormerNameBehindTheTrimmed(t *testing.T) {
	r := newRig(t)
	r.entry(thread(0), 1, 0)
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	must.Do(t, s.Purge(t.Context()))
	p, _ := r.looking()
	id, other := thread(1), events.Thread{Session: thread(1).Session, Name: "other"}
	r.entry(id, 1, 0)
	r.entry(id, 2, 1)
	r.control(id, "mv", renameTo("other"))
	r.entry(other, 1, 91)
	r.entry(other, 3, 2)
	r.entry(other, 2, 92)
	r.entry(other, 1, 0) // a repeat
	r.entry(id, 2, 93)
	r.control(other, "back", renameTo(id.Name))
	r.entry(id, 3, 94)
	last := r.lastSeq(events.EventsStream)
	r.give(p, 2, last)
	r.through(p, int64(last)-1)
	r.wantReused("e00091", "e00092", "e00093", "e00094")
	r.wantEntries(id, 3)
}

// What a thread had under one name is a repeat under any other one that it had.
func TestRepeatedUnderAnotherName(t *testing.T) {
	r := newRig(t)
	p, _ := r.looking()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	r.entry(a, 1, 0)
	r.control(a, "there", renameTo(b.Name))
	r.entry(b, 2, 1)
	r.control(b, "back", renameTo(a.Name))
	r.control(a, "again", renameTo(b.Name))
	r.entry(a, 2, 1)
	r.entry(b, 1, 0)
	r.entry(a, 1, 91)
	r.giveAll(p)
	r.wantReused("e00091")
	r.wantEntries(b, 2)
}

// What says the same as an entry that another thread of the session has is no repeat of that one: whether that one is stored yet
// makes no difference, nor that its thread has ended.
func TestReusedAsInAnotherThread(t *testing.T) {
	for _, how := range []string{"committed before", "in one commit", "ended", "renamed", "renamed in one commit", "removed",
		"removed in one commit", "begun anew"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			p, _ := r.looking()
			here, other := events.Thread{Session: "s", Name: "here"}, events.Thread{Session: "s", Name: "other"}
			given := uint64(1)
			give := func(always bool) {
				if last := r.lastSeq(events.EventsStream); always || !strings.Contains(how, "in one commit") {
					r.give(p, given, last)
					r.through(p, int64(last))
					given = last + 1
				}
			}
			r.entry(other, 1, 0)
			switch how {
			case "ended":
				r.control(other, "op", events.Control{Op: events.OpEnd, End: &events.End{}})
			case "renamed", "renamed in one commit":
				r.control(other, "op", renameTo("another"))
			case "removed", "removed in one commit", "begun anew":
				r.control(other, "op", removal())
				if how == "begun anew" {
					r.entry(other, 5, 5)
				}
			}
			r.entry(here, 1, 91)
			give(false)
			r.entry(here, 1, 0)
			give(true)
			r.wantReused("e00000")
		})
	}
}
