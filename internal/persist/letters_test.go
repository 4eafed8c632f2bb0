package persist_test

import (
	"context"
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/pkg/client"
	"spool/pkg/events"
)

// letterBox counts the calls for dead letters.
type letterBox struct {
	persist.Outbox
	calls, letters int
}

func (c *letterBox) Dead(ctx context.Context, letters []events.Dead) error {
	c.calls, c.letters = c.calls+1, c.letters+len(letters)
	return c.Outbox.Dead(ctx, letters)
}

// A persister that dies right before or right after the commit in which a thread notes a refused event leaves the letter, once.
func TestLetterOfANotedEvent(t *testing.T) {
	for _, step := range []persist.Step{persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			r := newRig(t)
			first := r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(step, 1) })
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			e := client.Entry{Thread: thread(0), Dialect: "nobody", Body: []byte(`{}`)}
			must.Get(pub.Publish(t.Context(), e))(t)
			first.killed(t)
			second := r.start(nil)
			must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: message("good", "user", 10)}))(t)
			r.await(thread(0), "p", 2)
			must.Do(t, second.stop())
			letters, err := r.EverySession().DeadLetters(t.Context())
			if err != nil || len(letters) != 1 || letters[0].Seq != 1 {
				t.Errorf("dead letters %v, %v, want one, of event 1", letters, err)
			}
		})
	}
}

// TestLettersOfACommitGoTogether: a thousand entries that cannot be applied cost a write a commit, and each is a letter once,
// although the persister dies between a letter and its ack.
func TestLettersOfACommitGoTogether(t *testing.T) {
	server := natstest.Server(t)
	conn, other := natstest.Dial(t, server), natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	r := &rig{t: t, conn: conn, Client: client.New(conn)}
	const entries, batch = 1000, 100
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i := range entries { // alone in its message, each
		e := client.Entry{Thread: thread(0), Dialect: "omp", Body: fmt.Appendf(nil, `{"type":%d`, i)}
		must.Get(pub.Publish(t.Context(), e))(t)
	}
	first := r.start(func(d *persist.Deps, c *persist.Config) {
		c.BatchEvents = batch
		d.At = dieAt(persist.StepAck, 3)
	})
	first.killed(t)

	second := &letterBox{Outbox: persistnats.Deps(other, 0, 0).Outbox} // of a process that knows of no letters
	p := r.start(func(d *persist.Deps, c *persist.Config) {
		d.Outbox, c.BatchEvents = second, batch
	})
	good := r.Publisher(client.PublisherConfig{Producer: "good"})
	r.publish(good, thread(0), 0, 1)
	r.await(thread(0), "good", 1)
	must.Do(t, p.stop())
	if commits := (entries + batch) / batch; second.calls > 2*commits || second.letters < entries-3*batch {
		t.Errorf("%d letters in %d calls, want about a call for %d", second.letters, second.calls, batch)
	}
	seen := map[uint64]int{}
	err := r.conn.DeadLetters().EachLetter(t.Context(), events.Thread{}, func(l natsio.DeadLetter) error { seen[l.Seq]++; return nil })
	if err != nil || len(seen) != entries {
		t.Errorf("%d events have letters, %v, want %d", len(seen), err, entries)
	}
	for seq, n := range seen {
		must.Same(t, n, 1, "event %d has %d letters, want %d", seq)
	}
}
