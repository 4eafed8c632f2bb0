package natsio_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// settling is some who wait for threads that have an event, until they have a head.
type settling struct {
	*testing.T
	conn    *natsio.Conn
	threads []events.Thread
	looks   atomic.Int64
	errs    chan error
}

func settle(ctx context.Context, t *testing.T, conn *natsio.Conn, name string, n int) *settling {
	t.Helper()
	s := &settling{T: t, conn: conn, errs: make(chan error, n)}
	for i := range n {
		th := events.Thread{Session: fmt.Sprint(name, i), Name: "main"}
		e := &events.Event{Kind: events.KindEntry, Dialect: "raw", Thread: th, Producer: "p", Seq: 1, Body: []byte("x")}
		seq := must.Get(after(t, conn, 0, e))(t)
		s.threads = append(s.threads, th)
		go func() {
			s.errs <- natsio.Settle(ctx, conn.Events(), th, natsio.UpTo(conn.Events(), th, seq), func(bool) (bool, error) {
				s.looks.Add(1)
				rs, err := conn.Records().Records(ctx, events.HeadKey(th))
				if record.Again(err) {
					return false, nil
				}
				return err == nil && rs[0].Exists(), err
			})
		}()
	}
	return s
}

// watched returns when there is a watch.
func (s *settling) watched() {
	s.Helper()
	must.Until(s, "a watch stands", func() bool { _, stands := natsio.Watched(s.conn); return stands })
}

// move gives the threads their heads, and says how long the last of those who wait took behind its own.
func (s *settling) move() time.Duration {
	s.Helper()
	for _, th := range s.threads {
		must.Get(s.conn.Records().Write(s.Context(), record.Put{Key: events.HeadKey(th), Value: []byte("v"), Expect: record.Any}))(s.T)
	}
	begun := time.Now()
	for range s.threads {
		must.Do(s, must.Receive(s, s.errs, "who waited returns"))
	}
	return time.Since(begun)
}

// TestSettle: many who wait share a watch, which spares them looking again and again.
func TestSettle(t *testing.T) {
	conn := natstest.Conn(t)
	s := settle(t.Context(), t, conn, "s", 20)
	s.watched()
	time.Sleep(time.Second)
	s.move()
	if looks := s.looks.Load(); looks > 20*20 { // who polls for a second, late by an eighth at most, looks some fifty times
		t.Errorf("20 looked %d times in a second", looks)
	}
	if waiting, _ := natsio.Watched(conn); waiting != 0 {
		t.Errorf("%d wait when all are done", waiting)
	}
}

// TestSettleOfEveryThread: who waits for a session is told of no moves, and looks often, also where others have a watch.
func TestSettleOfEveryThread(t *testing.T) {
	conn := natstest.Conn(t)
	s := settle(t.Context(), t, conn, "s", 2)
	s.watched()
	every, looks, begun := events.Thread{Session: "other", Name: events.EveryThread}, 0, time.Now()
	must.Do(t, natsio.Settle(t.Context(), conn.Events(), every, func(context.Context) bool { return false }, func(bool) (bool, error) {
		looks++
		return looks == 10, nil
	}))
	if took := time.Since(begun); took > 2*time.Second { // with pauses of the watch it is 2.25 s
		t.Errorf("10 looks took %v", took)
	}
	s.move()
	if waiting, _ := natsio.Watched(conn); waiting != 0 {
		t.Errorf("%d wait when all are done", waiting)
	}
}

// TestSettleOfALetter: who waits for an event that becomes a dead letter is told at once, also where a watch tells of moves.
func TestSettleOfALetter(t *testing.T) {
	conn := natstest.Conn(t)
	others := settle(t.Context(), t, conn, "s", 2)
	others.watched()
	least := time.Hour
	for i := 0; i < 5 && least > 100*time.Millisecond; i++ { // a slow machine is late now and then
		th := events.Thread{Session: fmt.Sprint("refused", i), Name: "main"}
		var acked atomic.Bool
		looks, done := make(chan struct{}, 1000), make(chan error, 1)
		passed := func(context.Context) bool { return acked.Load() }
		go func() {
			done <- natsio.Settle(t.Context(), conn.Events(), th, passed, func(done bool) (bool, error) {
				looks <- struct{}{}
				return done, nil
			})
		}()
		for range 3 { // the pauses are as long as they get
			must.Receive(t, looks, "it looks")
		}
		letter := events.Dead{Thread: th, Kind: "entry", Seq: uint64(i + 1), Reason: "refused", Data: []byte("x")}
		must.Do(t, conn.DeadLetters().Dead(t.Context(), []events.Dead{letter}))
		acked.Store(true) // an event is acked behind its letter
		begun := time.Now()
		must.Do(t, must.Receive(t, done, "who waited returns"))
		least = min(least, time.Since(begun))
	}
	if least > 100*time.Millisecond {
		t.Errorf("a dead letter is told after %v, want at once", least)
	}
	others.move()
}

// TestSettleAsks: who waits only for persisters to be done is not told of that by the watch, and asks soon.
func TestSettleAsks(t *testing.T) {
	conn := natstest.Conn(t)
	s := settle(t.Context(), t, conn, "s", 2)
	s.watched()
	time.Sleep(time.Second) // what the watch told when it began is past
	for range 3 {
		begun := time.Now()
		passed := func(context.Context) bool { return time.Since(begun) > 60*time.Millisecond }
		must.Do(t, natsio.Settle(t.Context(), conn.Events(), s.threads[0], passed, func(done bool) (bool, error) { return done, nil }))
		if took := time.Since(begun); took < 200*time.Millisecond {
			s.move()
			return
		}
	}
	t.Error("it takes longer than 200 ms each time, for what was done in 60")
}

// TestSettleCancelled: who stops waiting is told why, and leaves nothing behind.
func TestSettleCancelled(t *testing.T) {
	conn := natstest.Conn(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := settle(ctx, t, conn, "s", 5)
	s.watched()
	cancel()
	for range s.threads {
		must.Is(t, must.Receive(t, s.errs, "who waited returns"), context.Canceled, "Settle")
	}
	if waiting, _ := natsio.Watched(conn); waiting != 0 {
		t.Errorf("%d wait when nobody does", waiting)
	}
	conn.Close()
	must.Until(t, "the watch has ended", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "natsio.(*moves).watch")
	})
}

// TestSettleWithoutWatch: a watch whose consumer is gone costs a pause, and comes again.
func TestSettleWithoutWatch(t *testing.T) {
	conn := natstest.Conn(t)
	s := settle(t.Context(), t, conn, "s", 3)
	s.watched()
	stream := must.Get(conn.JetStream().Stream(t.Context(), events.RecordsStream))(t)
	for name := range stream.ConsumerNames(t.Context()).Name() {
		must.Do(t, stream.DeleteConsumer(t.Context(), name))
	}
	if took := s.move(); took > 2*time.Second {
		t.Errorf("without the watch it took %v", took)
	}
	s.awake()
}

// awake returns when those who wait are told of moves.
func (s *settling) awake() {
	s.Helper()
	var waits [2]*natsio.Waiting
	for i := range waits {
		waits[i] = natsio.Wait(s.conn.Events(), s.threads[i])
		defer waits[i].End()
	}
	must.Until(s, "a write wakes who waits", func() bool {
		for i := range waits {
			put := record.Put{Key: events.HeadKey(s.threads[i]), Value: []byte("v"), Expect: record.Any}
			if _, err := s.conn.Records().Write(s.Context(), put); err != nil {
				return false
			}
		}
		moved, err := waits[0].Next(s.Context())
		must.Do(s, err)
		return moved
	})
}

// TestSettleAcrossRestart: who waits while the server is away goes on when it is back.
func TestSettleAcrossRestart(t *testing.T) {
	dir, wire := t.TempDir(), &natstest.Wire{}
	server := natstest.ServerIn(t, dir)
	wire.Leads(server)
	conn := natstest.Dial(t, wire)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	s := settle(t.Context(), t, conn, "s", 3)
	s.watched()
	wire.Leads(nil)
	server.Stop()
	time.Sleep(300 * time.Millisecond)
	wire.Leads(natstest.ServerIn(t, dir))
	must.Until(t, "the server is back", conn.Connected)
	s.move()
	s.awake()
}

// TestSettleEnds: an error of the look ends the waiting, and so does an event that is trimmed, although the thread has nothing.
func TestSettleEnds(t *testing.T) {
	conn := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	broken := errors.New("broken")
	passed := natsio.UpTo(conn.Events(), th, 1)
	err := natsio.Settle(t.Context(), conn.Events(), th, passed, func(bool) (bool, error) { return false, broken })
	must.Is(t, err, broken, "Settle with a look that fails")
	// EVENTS holds no event of the thread at or behind the sequence: it was applied, and trimmed.
	must.Do(t, natsio.Settle(t.Context(), conn.Events(), th, passed, func(done bool) (bool, error) { return done, nil }))
}
