package natsio_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// letters makes dead letters of the events of one thread, by their sequences.
func letters(name string, from, to uint64) (out []events.Dead) {
	th := events.Thread{Session: "s", Name: name}
	for seq := from; seq <= to; seq++ {
		out = append(out, events.Dead{
			Thread: th, Kind: "entry", Subject: "spool.v1.p.3.s." + name + ".entry", Seq: seq,
			Stored: lettersBegin.Add(time.Duration(seq)).UnixNano(), Data: fmt.Appendf(nil, "event %d", seq), Reason: "bad",
		})
	}
	return out
}

var lettersBegin = time.Now().Add(-time.Hour)

func storeLetters(t *testing.T, c *natsio.Conn, all []events.Dead, batch int) {
	t.Helper()
	for some := range slices.Chunk(all, batch) {
		must.Do(t, c.DeadLetters().Dead(t.Context(), some))
	}
}

// wantLetters compares what is stored of a thread, by the sequences of the events, in order.
func wantLetters(t *testing.T, c *natsio.Conn, name string, n int) {
	t.Helper()
	var got []uint64
	must.Do(t, c.DeadLetters().EachLetter(t.Context(), events.Thread{Session: "s"}, func(l natsio.DeadLetter) error {
		if l.Thread.Name == name {
			got = append(got, l.Seq)
		}
		return nil
	}))
	want := make([]uint64, n)
	for i := range want {
		want[i] = uint64(i + 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("letters of %s: %d, %v…, want those of the events 1 to %d, once each, in order", name, len(got), got[:min(len(got), 20)], n)
	}
}

// traffic counts the messages that f costs: those sent and those received.
func traffic(c *natsio.Conn, f func()) (out, in uint64) {
	before := c.JetStream().Conn().Stats()
	f()
	after := c.JetStream().Conn().Stats()
	return after.OutMsgs - before.OutMsgs, after.InMsgs - before.InMsgs
}

// A letter costs the same, however many its thread has: one message, and an answer a batch. Nothing is read for it.
func TestDeadLettersCostTheSame(t *testing.T) {
	c := natstest.Conn(t)
	const each, batch = 2000, 100
	for round := range uint64(5) {
		some := letters("main", round*each+1, (round+1)*each)
		out, in := traffic(c, func() { storeLetters(t, c, some, batch) })
		if out != each || in != each/batch {
			t.Errorf("letters %d to %d: %d messages sent, %d received, want %d, %d", round*each+1, (round+1)*each, out, in, each, each/batch)
		}
	}
	wantLetters(t, c, "main", 5*each)
}

// A process that takes a partition over reads its letters once, and goes on where the one before it stopped.
func TestDeadLettersAreReadOnceAfterATakeover(t *testing.T) {
	s := natstest.Server(t)
	first := natstest.Dial(t, s)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	const n, batch = 1000, 50
	storeLetters(t, first, letters("main", 1, n), batch) // and it dies before it acknowledges anything
	second := natstest.Dial(t, s)
	out, in := traffic(second, func() { storeLetters(t, second, letters("main", 1, n), batch) })
	if out > batch+20 || in > n+20 {
		t.Errorf("%d letters again: %d messages sent, %d received, want one batch refused and one read", n, out, in)
	}
	wantLetters(t, second, "main", n)
	out, in = traffic(second, func() { storeLetters(t, second, letters("main", n-20, 2*n), batch) })
	if out > n+20 || in > n/batch+20 {
		t.Errorf("%d letters behind them: %d messages sent, %d received, want no read", n, out, in)
	}
	wantLetters(t, second, "main", 2*n)

	// Back at the first one, whose memory is old.
	storeLetters(t, first, letters("main", n-20, 2*n+30), batch)
	wantLetters(t, first, "main", 2*n+30)
}

// Two processes that both believe to own a partition store each letter once.
func TestDeadLettersOfTwoProcesses(t *testing.T) {
	s := natstest.Server(t)
	a, b := natstest.Dial(t, s), natstest.Dial(t, s)
	must.Do(t, a.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	const n = 300
	errs := make(chan error)
	for i, c := range []*natsio.Conn{a, b} {
		go func() {
			for some := range slices.Chunk(letters("main", 1, n), 7+4*i) {
				err := c.DeadLetters().Dead(t.Context(), some)
				for tries := 0; err != nil && tries < 100; tries++ {
					err = c.DeadLetters().Dead(t.Context(), some)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 2 {
		must.Do(t, <-errs)
	}
	wantLetters(t, a, "main", n)
}

// Letters that are removed meanwhile are no reason to read the others.
func TestDeadLettersAreRemoved(t *testing.T) {
	c := natstest.Conn(t)
	storeLetters(t, c, append(letters("main", 1, 100), letters("other", 1, 100)...), 200)
	stream := must.Get(c.JetStream().Stream(t.Context(), events.DeadStream))(t)
	must.Do(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("spool.v1.dead.s.other.*")))
	must.Do(t, c.DeadLetters().DropLetters(t.Context(), 100))
	more := append(letters("main", 101, 120), letters("other", 101, 120)...)
	if _, in := traffic(c, func() { storeLetters(t, c, more, 40) }); in > 5 {
		t.Errorf("40 letters after a removal: %d messages received, want two answers, the newest of two threads and their session", in)
	}
	n := 0
	if err := c.DeadLetters().EachLetter(t.Context(), events.Thread{Session: "s"},
		func(natsio.DeadLetter) error { n++; return nil }); err != nil || n != 99+40 {
		t.Errorf("%d letters, %v, want 139", n, err)
	}
}

// Letters of many threads that come again are read once for all of them.
func TestDeadLettersOfManyThreads(t *testing.T) {
	c := natstest.Conn(t)
	var all []events.Dead
	for i := range 300 {
		all = append(all, letters(fmt.Sprintf("t%d", i), 1, 3)...)
	}
	storeLetters(t, c, all, 250)
	out, _ := traffic(c, func() { storeLetters(t, c, all, 900) })
	if out > 300+20 {
		t.Errorf("%d letters of 300 threads again: %d messages sent, want one question a thread and one read", len(all), out)
	}
	n := 0
	if err := c.DeadLetters().EachLetter(t.Context(), events.Thread{Session: "s"},
		func(natsio.DeadLetter) error { n++; return nil }); err != nil || n != 900 {
		t.Errorf("%d letters, %v, want 900", n, err)
	}
}
