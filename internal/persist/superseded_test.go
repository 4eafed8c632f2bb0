package persist_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// An event with a claim check is superseded, because the one that it is linked to was not stored. Its producer publishes both again,
// with the same claim check: the body must still be there.
func TestSupersededEventKeepsItsBody(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := thread(0)
	body := `{"id":"big","role":"coder","content":"` + strings.Repeat("x", 5000) + `"}`
	ref := must.Get(r.conn.Inbox().CheckIn(ctx, strings.NewReader(body)))(t)
	publish := func(e events.Event) {
		t.Helper()
		e.Kind, e.Dialect, e.Thread, e.Producer = events.KindEntry, "step", id, "p"
		must.Get(r.conn.JetStream().Publish(ctx, events.EventSubject(id, e.Kind), e.Encode()))(t)
	}
	run := r.start(nil)
	until := func(n int64) {
		t.Helper()
		r.through(run.Persister, n)
	}
	publish(events.Event{Seq: 2, Prev: 1, Ref: &ref})
	until(1)
	if st := run.Stats(); st.Superseded != 1 {
		t.Fatalf("stats %+v, want one superseded", st)
	}
	publish(events.Event{Seq: 1, Body: []byte(`{"id":"one","role":"coder","content":"one"}`)})
	publish(events.Event{Seq: 2, Prev: 1, Ref: &ref})
	until(3)
	letters := must.Get(r.EverySession().DeadLetters(ctx))(t)
	if h := r.head(id); h.Entries != 2 || len(letters) > 0 {
		t.Errorf("%d entries, want 2; %d dead letters", h.Entries, len(letters))
		for _, l := range letters {
			t.Log(l.Reason)
		}
	}
}
