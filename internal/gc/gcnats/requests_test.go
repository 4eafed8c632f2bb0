package gcnats_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
)

// Of several collectors one gets a request, and no other request is carried out meanwhile, be it by a schedule that is
// faster than the cycles. What was asked for before a cycle began, it does; what is asked for while it runs takes
// another one.
func TestGCRunsOneAtATime(t *testing.T) {
	c := natstest.Conn(t)
	ctx, stop := context.WithCancel(t.Context())
	var busy, runs atomic.Int64
	began, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	begin := func() {
		for range 3 {
			wg.Go(func() {
				err := gcnats.Of(c).Runs(ctx, func(context.Context) {
					if busy.Add(1) > 1 {
						t.Error("two cycles at a time")
					}
					runs.Add(1)
					began <- struct{}{}
					<-goOn
					busy.Add(-1)
				})
				must.Is(t, err, nil, "Runs()")
			})
		}
	}
	ask := func(n int) {
		t.Helper()
		for range n {
			must.Do(t, gcnats.Of(c).Ask(t.Context()))
		}
	}
	ask(3)
	begin()
	<-began
	ask(2)
	goOn <- struct{}{}
	<-began
	goOn <- struct{}{}
	select {
	case <-began:
		t.Error("a third cycle: the first has done what was asked for before, the second the rest")
		goOn <- struct{}{}
	case <-time.After(300 * time.Millisecond):
	}
	must.Get(gcnats.Of(c).Schedule(t.Context(), gcnats.Every(time.Second)))(t)
	for range 2 {
		<-began
		select {
		case <-began:
			t.Error("the schedule makes another cycle begin in the middle of one")
			goOn <- struct{}{}
		case <-time.After(1500 * time.Millisecond):
		}
		goOn <- struct{}{}
	}
	stop()
	close(goOn)
	for open := true; open; { // one may have begun
		select {
		case <-began:
		case <-time.After(300 * time.Millisecond):
			open = false
		}
	}
	wg.Wait()
}

// Behind a cycle all collectors rest, four times as long as it took, also where another one is asked for meanwhile.
func TestGCRests(t *testing.T) {
	c := natstest.Conn(t)
	ctx, stop := context.WithCancel(t.Context())
	cycles := make(chan [2]time.Time)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			_ = gcnats.Of(c).Runs(ctx, func(context.Context) {
				began := time.Now()
				time.Sleep(100 * time.Millisecond)
				cycles <- [2]time.Time{began, time.Now()}
			})
		})
	}
	must.Do(t, gcnats.Of(c).Ask(ctx))
	first := <-cycles
	must.Do(t, gcnats.Of(c).Ask(ctx))
	second := <-cycles
	if rest, want := second[0].Sub(first[1]), 4*first[1].Sub(first[0]); rest < want {
		t.Errorf("the next cycle began %v behind one of %v, want %v at least", rest, first[1].Sub(first[0]), want)
	}
	stop()
	wg.Wait()
}

// The server asks by a schedule, also for what was missed: once. A schedule that is there goes on; another one takes
// its place.
func TestScheduleGC(t *testing.T) {
	c := natstest.Conn(t)
	for i, want := range []bool{true, false} {
		if made, err := gcnats.Of(c).Schedule(t.Context(), gcnats.Every(time.Hour)); err != nil || made != want {
			t.Fatalf("Schedule() for the %d. time = %v, %v, want %v", i+1, made, err, want)
		}
	}
	if made, err := gcnats.Of(c).Schedule(t.Context(), gcnats.Every(time.Second)); err != nil || !made {
		t.Fatalf("Schedule(another time) = %v, %v, want it made", made, err)
	}
	requests(t, c, 2)
}

// requests waits for so many.
func requests(t *testing.T, c *natsio.Conn, n int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	got := 0
	if err := gcnats.Of(c).Runs(ctx, func(context.Context) {
		if got++; got == n {
			stop()
		}
	}); err != nil || got < n {
		t.Errorf("Runs() = %v after %d requests, want %d", err, got, n)
	}
}
