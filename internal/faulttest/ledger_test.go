package faulttest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/pkg/client"
	"spool/pkg/events"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), faulttest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestLedger publishes in every way that a ledger has, and finds all of it in order.
func TestLedger(t *testing.T) {
	conn := natstest.Conn(t)
	faulttest.Start(t, conn, nil)
	c := client.New(conn)
	l := faulttest.NewLedger(faulttest.Workload{
		Sessions: 2, ThreadsEach: 2, ProducersEach: 2,
		Entry: func(r *rand.Rand) int {
			if r.IntN(100) == 0 {
				return 1 << 20 // through the inbox, and cut
			}
			return 50 + r.IntN(500)
		},
	})
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, c) }()
	must.Until(t, "500 entries are acked", func() bool { return l.Acked() >= 500 })
	cancel()
	must.Do(t, <-done)
	must.Do(t, l.Publish(within(t), c, 50))
	if err := l.Check(within(t), conn); err != nil {
		t.Error(err)
	}
	if l.Acked() < 700 {
		t.Errorf("Acked() = %d, want at least 700", l.Acked())
	}
	if err := faulttest.Settle(within(t), conn); err != nil {
		t.Error(err)
	}
}

// TestLedgerGivesUp: what got no answer may be there or not.
func TestLedgerGivesUp(t *testing.T) {
	conn := natstest.Conn(t)
	faulttest.Start(t, conn, nil)
	l := faulttest.NewLedger(faulttest.Workload{GiveUp: time.Nanosecond})
	c := client.New(conn)
	must.Do(t, l.Publish(within(t), c, 50))
	if l.Acked() != 0 || l.Unknown() != 50 {
		t.Errorf("acked %d, unknown %d, want 0 and 50", l.Acked(), l.Unknown())
	}
	if err := l.Check(within(t), conn); err != nil {
		t.Error(err)
	}
}

// TestLedgerFinds: each way in which a thread can differ from what was acked is found and named.
func TestLedgerFinds(t *testing.T) {
	conn := natstest.Conn(t)
	faulttest.Start(t, conn, nil)
	c := client.New(conn)
	for _, tt := range []struct {
		name string
		do   func(l *faulttest.Ledger, w faulttest.Forger) // what the thread gets beside 20 acked entries
		want string
	}{
		{"lost", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Lose(1) }, "entry 21 of NAME was acked and is not there"},
		{"lost-in-the-middle", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Lose(2); w.Add(22) },
			"entry 21 of NAME was acked and is not there"},
		{"lost-with-what-follows", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Forget(2); w.Add(22) },
			"entry 21 of NAME is not there, and one that was published with it"},
		{"doubled", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Add(20) }, "entry 20 of NAME is there twice"},
		{"doubled-later", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Add(3) }, "entry 20 of NAME stands before its entry 3"},
		{"swapped", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Lose(2); w.Add(22); w.Add(21) },
			"entry 22 of NAME stands before its entry 21"},
		{"foreign", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Raw(`{"content":[{"type":"text","text":"hello"}]}`) },
			"nobody of the ledger published it"},
		{"unpublished", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Add(21) }, "nobody of the ledger published it"},
		{"other-bytes", func(_ *faulttest.Ledger, w faulttest.Forger) {
			w.Raw(strings.Replace(w.Body(20), `"}]}`, `!"}]}`, 1))
		}, "entry 20 of NAME has other bytes"},
		{"other-thread", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Elsewhere("stray") }, "/stray: nobody of the ledger"},
		{"dead", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Poison() }, "dead letter"},
		{"two-items", func(_ *faulttest.Ledger, w faulttest.Forger) { w.Omp() }, "its head counts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := faulttest.NewLedger(faulttest.Workload{Name: tt.name})
			must.Do(t, l.Publish(within(t), c, 20))
			must.Do(t, l.CheckThreads(within(t), conn))
			w := faulttest.NewForger(t, c, l)
			tt.do(l, w)
			w.Await()
			err := l.CheckThreads(within(t), conn)
			if want := strings.ReplaceAll(tt.want, "NAME", tt.name+"-0-0"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Check() = %v, want it to say %q", err, want)
			}
		})
	}
}

// TestLedgerFindsItems: an item that SPOOL_ITEMS has and the nodes do not give is found; what SPOOL_ITEMS lost is not missed.
func TestLedgerFindsItems(t *testing.T) {
	conn := natstest.Conn(t)
	faulttest.Start(t, conn, nil)
	c := client.New(conn)
	l := faulttest.NewLedger(faulttest.Workload{})
	must.Do(t, l.Publish(within(t), c, 20))
	must.Do(t, l.Check(within(t), conn))
	items := must.Get(conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Do(t, items.SecureDeleteMsg(t.Context(), 7))
	if err := l.CheckThreads(within(t), conn); err != nil {
		t.Errorf("CheckThreads() without item 7 = %v, want it made from the nodes", err)
	}
	must.Do(t, items.Purge(t.Context()))
	thread := events.Thread{Session: l.Sessions()[0], Name: events.MainThread}
	forged := fmt.Sprintf(`{"n":1,"session":%q,"thread":%q,"content":[]}`, thread.Session, thread.Name)
	must.Get(conn.JetStream().Publish(t.Context(), events.ItemSubject(thread, "", ""), []byte(forged)))(t)
	if err := l.CheckThreads(within(t), conn); err == nil || !strings.Contains(err.Error(), "item 1 =") {
		t.Errorf("CheckThreads() = %v, want it to name item 1", err)
	}
}
