package persist_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spool/internal/apply"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// TestQuotas: what would bring a session a thread, or a producer, more than it may have is a dead letter that says the
// limit, also behind a restart and when it comes again; what it has goes on, and other sessions do not notice. Where a
// thread is removed there is room for another one, and a deleted session begins anew.
func TestQuotas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limit := func(_ *persist.Deps, cfg *persist.Config) { cfg.Limits = apply.Limits{Threads: 3, Producers: 4} }
	run := r.start(limit)
	send := func(session, name, producer string, seq uint64) error {
		t.Helper()
		ctx := brief(t)
		th := events.Thread{Session: session, Name: name}
		entry := client.Entry{Thread: th, Dialect: "omp", Body: message(fmt.Sprint(producer, seq), "user", 10), Seq: seq}
		must.Get(r.Publisher(client.PublisherConfig{Producer: producer}).Publish(ctx, entry))(t)
		return r.Thread(th).Await(ctx, producer, 0, seq)
	}
	refused := func(err error, why string) {
		t.Helper()
		if !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("= %v, want a refusal with %q", err, why)
		}
	}
	taken := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"main", "b", "c"} {
		taken(send("full", name, "~one", 1))
	}
	main := events.Thread{Session: "full", Name: "main"}
	refused(send("full", "d", "~one", 1), "3 threads, the most")
	refused(r.Thread(events.Thread{Session: "full", Name: "e"}).Fork(t.Context(), events.Fork{Session: "full", Thread: "main"}), "3 threads")
	taken(r.Thread(events.Thread{Session: "beside", Name: "main"}).Fork(t.Context(), events.Fork{Session: "full", Thread: "main"}))
	for i, producer := range []string{"p1", "p2", "p3", "p4"} {
		taken(send("full", []string{"main", "b"}[i%2], producer, 1))
	}
	refused(send("full", "main", "p5", 1), "4 producers, the most")
	taken(send("full", "main", "p1", 2))
	taken(send("full", "main", "~two", 1))
	if n := run.Stats(); n.OverThreads != 2 || n.OverProducers != 1 {
		t.Errorf("counted %d and %d, want 2 and 1", n.OverThreads, n.OverProducers)
	}

	taken(run.stop())
	r.start(limit)
	refused(send("full", "main", "p5", 2), "4 producers")
	refused(send("full", "d", "~one", 2), "3 threads")
	taken(send("full", "c", "~one", 2))
	taken(r.Thread(events.Thread{Session: "full", Name: "c"}).Rename(t.Context(), "f"))
	taken(r.Thread(events.Thread{Session: "full", Name: "b"}).Remove(t.Context()))
	taken(send("full", "d", "~one", 3))
	_ = send("full", "d", "~one", 2) // what was refused stays so
	must.Same(t, r.head(events.Thread{Session: "full", Name: "d"}).Entries, 1, "the new thread has %d entries, want %d")
	refused(send("full", "g", "~one", 1), "3 threads")

	must.Same(t, r.head(main).Entries, 5, "%s has %d entries, want %d", main)
	must.Get(r.Session("full").Delete(t.Context(), client.Deletion{By: "mira"}))(t)
	for i, name := range []string{"main", "b", "c"} {
		taken(send("full", name, fmt.Sprint("p", 6+i), 1))
	}
	refused(send("full", "d", "p6", 1), "3 threads")
}

// TestQuotaOfAUser: what would begin a session beyond those that its user may have is a dead letter that says the limit,
// also in one commit with those that are taken, behind a restart, and when it forks another session. The user's sessions
// go on, and other users have theirs; where one is deleted there is room.
func TestQuotaOfAUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limit := func(_ *persist.Deps, cfg *persist.Config) { cfg.Limits = apply.Limits{Sessions: 3} }
	seq := uint64(0)
	publish := func(user, session, name string) (await func() error) {
		t.Helper()
		seq++
		th, of, producer := events.Thread{Session: session, Name: name}, seq, fmt.Sprint("p", seq)
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{{
			Thread: th, Kind: events.KindEntry, Producer: producer, Seq: of, Dialect: "omp", User: user,
			Body: message(producer, "user", 10),
		}}))
		return func() error { return r.Thread(th).Await(brief(t), producer, 0, of) }
	}
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "the user mira, who has 3 sessions, the most") {
			t.Errorf("= %v, want a refusal that says the limit", err)
		}
	}
	taken := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	var waits []func() error // published before anybody applies them, so that they are one batch
	for i := range 5 {
		waits = append(waits, publish("mira", fmt.Sprint("m", i), "main"))
	}
	nobody, other := publish("", "nobodys", "main"), publish("otto", "o", "main")
	run := r.start(limit)
	var has, hasNot []string // which come first is nobody's promise
	for i, wait := range waits {
		if err := wait(); err == nil {
			has = append(has, fmt.Sprint("m", i))
		} else {
			refused(err)
			hasNot = append(hasNot, fmt.Sprint("m", i))
		}
	}
	if len(has) != 3 {
		t.Fatalf("the user has %q, want 3 sessions", has)
	}
	taken(nobody())
	taken(other())
	taken(publish("mira", has[0], "main")())
	taken(publish("mira", has[0], "beside")())
	taken(publish("mira", "o", "main")()) // it is otto's, whoever writes to it
	must.Same(t, run.Stats().OverSessions, 2, "%d events were beyond the quota, want %d")
	if kept := must.Get(r.Session(has[1]).Info(t.Context()))(t); kept.User != "mira" {
		t.Errorf("a session is of %q, want mira", kept.User)
	}

	taken(run.stop())
	r.start(limit)
	refused(publish("mira", hasNot[0], "main")())
	op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: has[0], Thread: "main", Whole: true}}
	fork := events.Event{Kind: events.KindControl, Thread: events.Thread{Session: "m5", Name: "main"}, Producer: "forks", Seq: 1,
		User: "mira", Body: op.Encode()}
	must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{&fork}))
	refused(r.Thread(fork.Thread).Await(brief(t), "forks", 0, 1))
	must.Get(r.Session(has[1]).Delete(t.Context(), client.Deletion{By: "mira"}))(t)
	taken(publish("mira", hasNot[1], "main")())
	refused(publish("mira", "m6", "main")())
}

// TestManyProducers: of ephemeral producers a session may have any number, and no thread begins with what is refused.
func TestManyProducers(t *testing.T) {
	r := newRig(t)
	r.start(func(_ *persist.Deps, cfg *persist.Config) { cfg.Limits = apply.Limits{Threads: 1, Producers: 1} })
	for i := range 20 {
		p := r.Publisher(client.PublisherConfig{})
		must.Get(p.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: message(fmt.Sprint(i), "user", 10)}))(t)
		r.await(thread(0), p.Producer(), 1)
	}
	other := events.Thread{Session: thread(0).Session, Name: "other"}
	bad := client.Entry{Thread: other, Dialect: "omp", Body: []byte(`{"no json`), Seq: 1}
	must.Get(r.Publisher(client.PublisherConfig{Producer: "~bad"}).Publish(t.Context(), bad))(t)
	if err := r.Thread(other).Await(t.Context(), "~bad", 0, 1); !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "JSON") {
		t.Errorf("bad entry of a thread too many = %v, want a refusal for what it is", err)
	}
	if list, err := r.Sessions(t.Context(), thread(0).Session); err != nil || len(list) != 1 || len(list[0].Threads) != 1 {
		t.Errorf("Sessions() = %+v, %v, want one thread", list, err)
	}
}

// TestProducersInTurn: what counts is how many producers a session has, not how often a head that is full forgets one.
func TestProducersInTurn(t *testing.T) {
	const producers, most = threads.MaxProducers + 1, threads.MaxProducers + 20
	r := newRig(t)
	run := r.start(func(_ *persist.Deps, cfg *persist.Config) { cfg.Limits = apply.Limits{Producers: most} })
	for seq := uint64(1); seq <= 3; seq++ {
		var evs []*events.Event
		for i := range producers {
			evs = append(evs, &events.Event{
				Thread: thread(0), Kind: events.KindEntry, Producer: fmt.Sprint("p", i), Seq: seq, Dialect: "omp",
				Body: message(fmt.Sprint(i, seq), "user", 10),
			})
		}
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), evs))
		last := evs[producers-1]
		if err := r.Thread(thread(0)).Await(t.Context(), last.Producer, 0, seq); err != nil {
			t.Errorf("entry %d of the last one of %d producers, with %d allowed: %v", seq, producers, most, err)
		}
	}
	if n := r.head(thread(0)).Entries; n != 3*producers {
		t.Errorf("the thread has %d entries of %d: %+v", n, 3*producers, run.Stats())
	}
}
