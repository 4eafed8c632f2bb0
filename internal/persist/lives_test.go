package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A persister that is slow between its commit and its items sends them late: the thread was removed meanwhile, and another has its
// name. A reader gets each item of each life once.
func TestLateItemsOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := brief(t)
	id := events.Thread{Session: "s", Name: "main"}
	var hits atomic.Int64
	at, goOn := make(chan struct{}), make(chan struct{})
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepItems && hits.Add(1) == 1 {
				close(at)
				<-goOn
			}
			return nil
		}
	})
	p, q, x := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"}),
		r.Publisher(client.PublisherConfig{Producer: "x"})
	publish := func(p *client.Publisher, es ...client.Entry) {
		t.Helper()
		must.Get(p.Publish(ctx, es...))(t)
	}
	got := map[string]chan string{}
	for name, from := range map[string]client.Position{"all": {All: true}, "from 1": {N: 1}} {
		ch := make(chan string, 100)
		got[name] = ch
		go func() {
			for it, err := range r.Subscribe(ctx, client.Filter{Session: "s", Thread: "main"}, from) {
				if err != nil {
					ch <- "error: " + err.Error()
					return
				}
				ch <- it.Text()
			}
		}()
	}
	publish(p, stepBy(id, 1, "old1"), stepBy(id, 2, "old2"))
	<-at
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }()
	r.start(nil)
	r.await(id, "p", 2)
	must.Do(t, q.Control(ctx, id, 1, events.Control{Op: events.OpRemove, Remove: &events.Remove{}}))
	publish(x, stepBy(id, 1, "new1"), stepBy(id, 2, "new2"))
	r.await(id, "x", 2)
	must.Until(t, "the items of the second life are there", func() bool {
		n, life, err := r.conn.Items().LastItem(ctx, id)
		return err == nil && n == 2 && life != 0
	})
	close(goOn)
	t.Logf("first persister: %v", <-stopped)
	publish(x, stepBy(id, 3, "new3"))
	r.await(id, "x", 3)
	for name, ch := range got {
		var all []string
		for len(all) == 0 || all[len(all)-1] != "new3" {
			select {
			case text := <-ch:
				all = append(all, text)
			case <-ctx.Done():
				t.Fatalf("%s: got %v", name, all)
			}
		}
		if want := []string{"old1", "old2", "new1", "new2", "new3"}; !slices.Equal(all, want) {
			t.Errorf("%s: got %v, want %v", name, all, want)
		}
	}
}

func stepBy(t events.Thread, seq uint64, text string) client.Entry {
	return client.Entry{Thread: t, Dialect: "step", Body: []byte(`{"id":"` + text + `","role":"coder","content":"` + text + `"}`), Seq: seq}
}

// unheard stores the first items that it gets, and loses the answer; it goes on when it is told to.
type unheard struct {
	persist.Outbox
	stored, goOn chan struct{}
	n            atomic.Int64
}

func (o *unheard) PublishItems(ctx context.Context, items []events.Posted) error {
	err := o.Outbox.PublishItems(ctx, items)
	if err == nil && len(items) > 0 && o.n.Add(1) == 1 {
		close(o.stored)
		<-o.goOn
		return fmt.Errorf("%w: the answer is lost", record.ErrUnknown)
	}
	return err
}

// Items whose answer was lost are stored: they are not sent again when a later life of the name has items meanwhile.
func TestItemsOfAnEarlierLifeWithALostAnswer(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	o := &unheard{stored: make(chan struct{}), goOn: make(chan struct{})}
	a := r.deaf(func(d *persist.Deps, _ *persist.Config) { o.Outbox, d.Outbox = d.Outbox, o })
	b := r.deaf()
	r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), id, 0, 1)
	r.give(a, 1, 1)
	<-o.stored
	remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
	must.Do(t, r.Publisher(client.PublisherConfig{Producer: "q"}).Control(t.Context(), id, 1, remove))
	r.publish(r.Publisher(client.PublisherConfig{Producer: "x"}), id, 0, 2)
	r.give(b, 1, 3)
	r.through(b, 4)
	close(o.goOn)
	r.through(a, 1)
	var got []string
	s := must.Get(r.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	for seq := uint64(1); seq <= r.lastSeq(events.ItemsStream); seq++ {
		m := must.Get(s.GetMsg(t.Context(), seq))(t)
		var item struct{ N int }
		must.Do(t, json.Unmarshal(m.Data, &item))
		got = append(got, fmt.Sprintf("%d of life %q", item.N, m.Header.Get(events.HeaderLife)))
	}
	if want := []string{`1 of life ""`, `1 of life "3"`, `2 of life "3"`}; !slices.Equal(got, want) {
		t.Errorf("ITEMS holds %v, want %v", got, want)
	}
}

// A session is deleted while the persister that committed its entries stands still before their items, or their dead letters, are out:
// what comes late is gone again, and what the session has anew stays.
func TestWhatComesLateOfADeletedSession(t *testing.T) {
	for _, step := range []persist.Step{persist.StepLetters, persist.StepItems} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ctx := t.Context()
			id := events.Thread{Session: "s", Name: "main"}
			var hits atomic.Int64
			at, goOn := make(chan struct{}), make(chan struct{})
			first := r.start(func(d *persist.Deps, c *persist.Config) {
				c.Late = time.Nanosecond
				d.At = func(s persist.Step) error {
					if s == step && hits.Add(1) == 1 {
						close(at)
						<-goOn
					}
					return nil
				}
			})
			publish := func(producer string, from, to int) {
				t.Helper()
				p := r.Publisher(client.PublisherConfig{Producer: producer})
				for n := from; n <= to; n++ {
					must.Get(p.Publish(ctx, stepEntry(id, uint64(n), fmt.Sprint(producer, n))))(t)
				}
			}
			r.store(&events.Event{Producer: "bad", Seq: 1, Kind: events.KindEntry, Dialect: "step", Thread: id, Time: 1, Body: []byte("{")})
			publish("old", 1, 3)
			<-at
			stopped := make(chan error, 1)
			go func() { stopped <- first.stop() }()
			r.start(nil)
			r.await(id, "old", 3)
			must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
			publish("new", 1, 2)
			r.await(id, "new", 2)
			close(goOn)
			t.Logf("first persister: %v", <-stopped)
			must.Same(t, r.items(id, 2), 2, "%d items, want %d")
			var stored []string
			must.Do(t, natsadmin.New(r.conn).Messages(ctx, events.ItemsStream, 1, func(_ uint64, _ string, data []byte) error {
				stored = append(stored, string(data))
				return nil
			}))
			if len(stored) != 2 {
				t.Errorf("items %q, want those of the new life", stored)
			}
			if letters := must.Get(r.EverySession().DeadLetters(ctx))(t); len(letters) > 0 {
				t.Errorf("dead letters %v, want none", letters)
			}
		})
	}
}

// The items of a thread that was renamed are stored once, under the name that it had, also when its events come again to who does not know
// what was sent.
func TestItemsOfARenamedThreadOnce(t *testing.T) {
	r := newRig(t)
	id, to := thread(0), events.Thread{Session: thread(0).Session, Name: "other"}
	for i := range 3 {
		r.entry(id, uint64(i+1), i)
	}
	first, _ := r.looking()
	r.give(first, 1, 3)
	r.through(first, 3)
	second, _ := r.looking()
	r.control(id, "mv", renameTo("other"))
	r.give(second, 4, 4)
	r.through(second, 1)
	third, _ := r.looking()
	r.give(third, 1, 4)
	r.through(third, 4)
	r.entry(to, 4, 3)
	r.give(third, 5, 5)
	r.through(third, 5)
	r.wantItems("main 1", "main 2", "main 3", "other 4")
}

// A persister dies behind the commit of an entry whose item it did not send, and whoever gets that again gets a rename of its thread
// with it, and dies too before it sends anything. The item has the name that the thread had, and is not lost.
func TestRenameBesideWhatWasNotSent(t *testing.T) {
	r := newRig(t)
	id := thread(0)
	dies := func() {
		t.Helper()
		deps := persistnats.Deps(r.conn, 0, 0)
		deps.At = dieAt(persist.StepItems, 1)
		p := persist.New(deps, persist.Config{})
		r.give(p, 1, r.lastSeq(events.EventsStream)) // all in one batch
		if err := p.Run(t.Context()); !errors.Is(err, errKilled) {
			t.Fatalf("Run() = %v, want it killed", err)
		}
	}
	r.entry(id, 1, 0)
	dies()
	r.control(id, "mv", renameTo("other"))
	dies()
	p := r.deaf()
	r.giveAll(p)
	r.wantItems("main 1")
	if h := r.head(events.Thread{Session: id.Session, Name: "other"}); h.Entries != 1 {
		t.Errorf("%d entries, want 1", h.Entries)
	}
}

// wantItems holds all stored items, by the names of their threads and their numbers, against those that are wanted.
func (r *rig) wantItems(want ...string) {
	r.t.Helper()
	var stored []string
	must.Do(r.t, natsadmin.New(r.conn).Messages(r.t.Context(), events.ItemsStream, 1, func(_ uint64, subject string, data []byte) error {
		in, _ := events.ParseItemSubject(subject)
		stored = append(stored, fmt.Sprint(in.Name, " ", string(jsonscan.Get(data, "n"))))
		return nil
	}))
	if !slices.Equal(stored, want) {
		r.t.Errorf("items %v, want %v", stored, want)
	}
}
