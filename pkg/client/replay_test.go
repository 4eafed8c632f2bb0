package client_test

import (
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestReplayOfLetters: a dead letter that is published again is applied once, also when its event had come twice and has two letters, and
// also when letters are counted from 1 again, as in a system that was restored.
func TestReplayOfLetters(t *testing.T) {
	r := newRig(t)
	ctx, th := t.Context(), thread("s")
	entry := func(producer string, seq uint64, text string) []*events.Event {
		return []*events.Event{{Kind: events.KindEntry, Dialect: "item", Thread: th, Producer: producer, Seq: seq, Body: post(th, text).Body}}
	}
	// refuse publishes under a name that the thread has no more, twice, and gives the name back.
	refuse := func(producer string, seq uint64, text string) (letters []client.DeadLetter) {
		t.Helper()
		must.Do(t, r.Thread(th).Rename(ctx, "elsewhere"))
		must.Do(t, r.conn.Events().PublishEvents(ctx, entry(producer, seq, text)))
		must.Do(t, r.conn.Events().PublishEvents(ctx, entry(producer, seq, text)))
		for len(letters) < 2 {
			var err error
			letters, err = r.Session("s").DeadLetters(ctx)
			must.Do(t, err)
		}
		must.Do(t, r.Thread(events.Thread{Session: "s", Name: "elsewhere"}).Rename(ctx, th.Name))
		return letters
	}
	replay := func(letters []client.DeadLetter) {
		t.Helper()
		for _, d := range letters {
			must.Get(r.Admin().ReplayDeadLetter(ctx, d.At))(t)
			must.Do(t, r.Admin().RemoveDeadLetters(ctx, d.At))
		}
	}
	must.Do(t, r.conn.Events().PublishEvents(ctx, entry("p", 1, "one")))
	await(t, r.Client, th, "p", 1)
	replay(refuse("p", 9, "two"))
	must.Do(t, r.conn.JetStream().DeleteStream(ctx, events.DeadStream))
	must.Do(t, r.conn.Ensure(ctx, natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	replay(refuse("q", 3, "three"))
	must.Do(t, r.conn.Events().PublishEvents(ctx, entry("p", 10, "four")))
	await(t, r.Client, th, "p", 10)

	var got []string
	head := must.Get(r.Thread(th).Head(ctx))(t)
	for it, err := range r.Thread(th).ItemsFrom(ctx, head, 1) {
		must.Do(t, err)
		item := string(it.Data)
		for _, text := range []string{"one", "two", "three", "four"} {
			if strings.Contains(item, `"text":"`+text+`"`) {
				got = append(got, text)
			}
		}
	}
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("the thread has %q, want %q", got, want)
	}
}
