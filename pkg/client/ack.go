package client

import (
	"context"

	"spool/pkg/events"
)

// Ack says what a Publish made durable: under which sequences of its producer, in which threads. The zero value is of no entries.
type Ack struct {
	Producer string
	Epoch    uint64
	Threads  []Acked // in the order of their first entries
	c        *Client
}

// Acked is what an Ack says of one thread: the sequences of its first and its last entry.
type Acked struct {
	Thread      events.Thread
	First, Last uint64
}

func (c *Client) ack(evs []*events.Event) Ack {
	a, at, i := Ack{c: c}, map[events.Thread]int{}, 0
	for _, e := range evs {
		a.Producer, a.Epoch = e.Producer, e.Epoch
		if len(a.Threads) == 0 || a.Threads[i].Thread != e.Thread { // most entries are of the thread of the one before
			var known bool
			if i, known = at[e.Thread]; !known {
				i, a.Threads = len(a.Threads), append(a.Threads, Acked{Thread: e.Thread, First: e.Seq})
				at[e.Thread] = i
			}
		}
		a.Threads[i].Last = e.Seq
	}
	return a
}

// Applied returns when all of the entries are in their threads. It waits as ThreadHandle.Await does. ErrRefused, with the thread, the
// sequence and the reason: one of them is a dead letter; of several, any. ErrRemoved: a thread or its session was removed behind them.
func (a Ack) Applied(ctx context.Context) error {
	for _, of := range a.Threads {
		w := waited{of.Thread, a.Producer, a.Epoch, of.First, of.Last, a.c.offline == nil}
		if err := a.c.taken(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
