package faulttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Forger makes a ledger with one producer and its thread differ, so that tests can show that the ledger finds it.
type Forger struct {
	t   testing.TB
	w   *writer
	pub *client.Publisher
	seq *uint64
	c   *client.Client
}

// NewForger forges in the first thread of a ledger.
func NewForger(t testing.TB, c *client.Client, l *Ledger) Forger {
	return Forger{t: t, w: l.writers[0], c: c, seq: new(uint64), pub: c.Publisher(client.PublisherConfig{Producer: "forger"})}
}

// Lose has the ledger believe that its next entries were acked.
func (f Forger) Lose(entries int) {
	f.w.note(entries, true)
	f.w.last[0] -= uint64(entries) // or Check would wait for them
}

// Forget has the ledger believe that its next entries were published together and got no answer.
func (f Forger) Forget(entries int) { f.w.note(entries, false) }

// Body is an entry of the ledger.
func (f Forger) Body(n uint64) string { return string(f.w.body(n)) }

// Add publishes an entry of the ledger behind its back.
func (f Forger) Add(n uint64) { f.Raw(f.Body(n)) }

// Raw publishes any entry.
func (f Forger) Raw(body string) { f.publish(f.w.threads[0], "item", body) }

// Elsewhere publishes to another thread of the session.
func (f Forger) Elsewhere(thread string) {
	t := events.Thread{Session: f.w.threads[0].Session, Name: thread}
	f.publish(t, "item", f.Body(1))
	f.await(t)
	*f.seq = 0
}

// Poison publishes an entry that becomes a dead letter, and one that follows it.
func (f Forger) Poison() {
	f.publish(f.w.threads[0], "none", f.Body(1))
	f.publish(f.w.threads[0], "raw", "the end")
}

// Omp publishes an entry that makes two items.
func (f Forger) Omp() {
	f.publish(f.w.threads[0], "omp", `{"type":"message","id":"a1","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"toolCall","id":"x","name":"read","arguments":{}}]}}`)
}

// Await returns when what was forged is in its thread, or a dead letter that can be read: that goes out behind the commit.
func (f Forger) Await() {
	f.t.Helper()
	if *f.seq > 0 {
		f.await(f.w.threads[0])
	}
}

func (f Forger) publish(t events.Thread, dialect, body string) {
	f.t.Helper()
	*f.seq++
	must.Get(f.pub.Publish(f.t.Context(), client.Entry{Thread: t, Dialect: dialect, Body: []byte(body), Seq: *f.seq}))(f.t)
}

func (f Forger) await(t events.Thread) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	err := f.c.Thread(t).Await(ctx, "forger", 0, *f.seq)
	if err == nil {
		err = client.ErrBehind
	}
	for errors.Is(err, client.ErrBehind) && ctx.Err() == nil {
		err = f.c.Thread(t).Settled(ctx)
	}
	if err != nil {
		f.t.Fatal(fmt.Errorf("what was forged: %w", err))
	}
}
