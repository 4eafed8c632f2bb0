package persist_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// picky refuses for good the items and the letters of one session that are larger than so many bytes; letters whose bytes go to the inbox
// are small.
type picky struct {
	persist.Outbox
	session string
	most    int
	sent    []events.Dead
}

func (o *picky) PublishItems(ctx context.Context, items []events.Posted) error {
	for i, it := range items {
		if t, _ := events.ParseItemSubject(it.Subject); t.Session == o.session && len(it.Data) > o.most {
			if err := o.Outbox.PublishItems(ctx, items[:i]); err != nil { // a prefix is stored
				return err
			}
			return fmt.Errorf("%w: an item of %d bytes", record.ErrRefused, len(it.Data))
		}
	}
	return o.Outbox.PublishItems(ctx, items)
}

func (o *picky) Dead(ctx context.Context, letters []events.Dead) error {
	for _, d := range letters {
		if size := len(d.Reason) + len(d.Data); d.Thread.Session == o.session && (size > o.most && !d.Apart || o.most < 0) {
			return fmt.Errorf("%w: a letter of %d bytes", record.ErrRefused, size)
		}
	}
	o.sent = append(o.sent, letters...)
	return o.Outbox.Dead(ctx, letters)
}

// An item that the store refuses for good gives its number to a stub, or is left out; the items beside it, and other sessions, go on.
func TestItemRefusedForGood(t *testing.T) {
	for _, c := range []struct {
		name string
		most int
		want []string // the texts of the items in SPOOL_ITEMS of the thread
	}{
		{"a stub is taken", 1000, []string{"e00000", "e00001", "e00002"}},
		{"nothing is taken", 450, []string{"e00000", "e00002"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
				d.Outbox = &picky{Outbox: d.Outbox, session: "s0", most: c.most}
			})
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			for i, size := range []int{10, 3000, 10} {
				e := client.Entry{Thread: thread(0), Dialect: "omp", Body: message(fmt.Sprintf("e%05d", i), "user", size)}
				must.Get(pub.Publish(t.Context(), e))(t)
			}
			r.publish(r.Publisher(client.PublisherConfig{Producer: "p"}), thread(1), 0, 5)
			r.give(p, 1, r.lastSeq(events.EventsStream))
			r.through(p, 8)
			r.check(thread(1), 5)
			if got := r.sentTexts(thread(0)); !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("SPOOL_ITEMS holds %q, want %q", got, c.want)
			}
			must.Same(t, p.Stats().ItemsRefused, 1, "%d items are counted as refused, want %d")
			whole := must.Get(r.Past(t.Context(), thread(0), 2, 2))(t)
			if len(whole) != 1 || len(whole[0].Text()) < 3000 {
				t.Errorf("from its thread: %d items, %.100v, want the whole one", len(whole), whole)
			}
		})
	}
}

// An item can be within its budget, which counts what json.dumps makes of it, and longer than a message: one in which each character
// is spelled as an escape, or with so much white space. It is posted as it would be there. One that is too long even so has a stub, and
// its thread is failed, as any other that is too large (SPEC P10).
func TestItemLongerThanAMessage(t *testing.T) {
	for name, long := range map[string]string{
		"escapes": `{"content":[{"type":"text","text":"` + strings.Repeat(`\u0041`, 340_000) + `"}]}`,
		"space":   `{"content":[{"type":"text",` + strings.Repeat(" ", 2<<20) + `"text":"A"}]}`,
		"number":  `{"content":[{"type":"text","text":"A"}],"metadata":{"x":1.` + strings.Repeat("0", 2<<20) + `}}`,
		"repeats": `{"content":[{"type":"text","text":"A"}],"metadata":{"x":"` + strings.Repeat("0", 2<<20) + `","x":1}}`,
		"endless": `{"content":[{"type":"text","text":"A"}],"metadata":{"x":1` + strings.Repeat("0", 2<<20) + `.0}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(nil)
			small := `{"content":[{"type":"text","text":"small"}]}`
			if h := r.say(thread(0), "item", small, long, small); h.N != 3 {
				t.Errorf("the thread has %d items, want 3", h.N)
			}
			r.items(thread(0), 3)
			sent := r.sentTexts(thread(0))
			failed := must.Get(r.Thread(thread(0)).Head(t.Context()))(t).Status == threads.StatusFailed
			if stub := strings.Contains(sent[1], "left out"); sent[1][0] != 'A' || failed != stub || stub != (name == "endless") {
				t.Errorf("it is posted as %.100q, thread failed: %t; want it whole, or a stub and a failed thread", sent[1], failed)
			}
			r.say(thread(1), "item", small)
			r.items(thread(1), 1)
			whole := must.Get(r.Past(t.Context(), thread(0), 2, 2))(t)
			if len(whole) != 1 || !strings.HasPrefix(whole[0].Text(), "A") {
				t.Errorf("from its thread: %.100v, want the whole one", whole)
			}
		})
	}
}

func (r *rig) sentTexts(id events.Thread) (texts []string) {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.ItemsStream))(r.t)
	for seq := uint64(1); seq <= r.lastSeq(events.ItemsStream); seq++ {
		m := must.Get(s.GetMsg(r.t.Context(), seq))(r.t)
		var item struct{ Content []struct{ Text string } }
		must.Do(r.t, json.Unmarshal(m.Data, &item))
		if t, _ := events.ParseItemSubject(m.Subject); t == id {
			texts = append(texts, item.Content[0].Text)
		}
	}
	return texts
}

// A dead letter that the store refuses for good is cut, and its bytes are in the inbox; one that it refuses even then is counted. Either
// way other sessions go on, and so does the thread.
func TestLetterRefusedForGood(t *testing.T) {
	for _, most := range []int{1000, -1} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.deaf(func(d *persist.Deps, _ *persist.Config) {
				d.Outbox = &picky{Outbox: d.Outbox, session: "s0", most: most}
			})
			bad := message("bad", "user", 5000)
			for i := range 2 {
				pub := r.Publisher(client.PublisherConfig{Producer: "p"})
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(i), Dialect: "nobody", Body: bad}))(t)
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(i), Dialect: "omp", Body: message("e00000", "user", 10)}))(t)
			}
			r.give(p, 1, r.lastSeq(events.EventsStream))
			r.through(p, 4)
			for i := range 2 {
				r.wantEntries(thread(i), 1)
			}
			letters := must.Get(r.EverySession().DeadLetters(t.Context()))(t)
			if want, lost := map[int]int{1000: 2, -1: 1}[most], p.Stats().LettersRefused; len(letters) != want || lost != int64(2-want) {
				t.Fatalf("%d dead letters, %d counted as refused, want %d and %d", len(letters), lost, want, 2-want)
			}
			for _, d := range letters {
				from := must.Get(r.Admin().OpenDeadLetter(t.Context(), d))(t)
				b := must.Get(io.ReadAll(from))(t)
				if e, err := events.Decode(b); err != nil || string(e.Body) != string(bad) || !strings.Contains(d.Reason, "nobody") {
					t.Errorf("letter %d, %q: %v, with %d bytes, want the event as it came", d.At, d.Reason, err, len(b))
				}
			}
		})
	}
}

// Letters of a message's entries whose bytes are in the inbox are told apart, also by a process that knows none of them.
func TestLettersApart(t *testing.T) {
	server := natstest.Server(t)
	first, other := natstest.Dial(t, server), natstest.Dial(t, server)
	must.Do(t, first.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	letter := func(data string) events.Dead {
		return events.Dead{Thread: thread(0), Kind: "entry", Subject: "x", Seq: 7, Stored: 1, Data: []byte(data), Apart: true, Reason: "why"}
	}
	must.Do(t, first.DeadLetters().Dead(t.Context(), []events.Dead{letter("one")}))
	there, err := other.DeadLetters().HaveDead(t.Context(), []events.Dead{letter("one"), letter("two")})
	if err != nil || !slices.Equal(there, []bool{true, false}) {
		t.Errorf("HaveDead() = %v, %v, want the first", there, err)
	}
}
