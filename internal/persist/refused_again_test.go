package persist_test

import (
	"fmt"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/redact"
	"spool/pkg/client"
	"spool/pkg/events"
)

// An event whose letter is out stays refused when the record of its partition cannot be read any more.
func TestRefusedWithAnUnreadableRecord(t *testing.T) {
	for _, value := range []string{"\xc1", "\x97\x63", ""} {
		t.Run(fmt.Sprintf("%q", value), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c, in := passings[0], thread(0)
			c.publish(r, in)
			first := r.deaf()
			r.give(first, 1, 1)
			r.through(first, 1)
			r.put(events.RefusedKey(0), []byte(value))
			c.settle(r)
			second := r.deaf()
			second.Deliver(t.Context(), r.message(1, 1))
			r.through(second, 1)
			if why := r.whyDead(); c.applied(r, in) || len(why) != 1 {
				t.Errorf("applied: %v, dead letters %q, want it refused once", c.applied(r, in), why)
			}
			c.publish(r, thread(1))
			seq := r.lastSeq(events.EventsStream)
			second.Deliver(t.Context(), r.message(seq, 1))
			r.through(second, 2)
			if !c.applied(r, thread(1)) {
				t.Errorf("what was stored since is not applied: %q", r.whyDead())
			}
		})
	}
}

// An event whose letter is out gets no other one when rules for secrets have changed.
func TestOneLetterUnderOtherRules(t *testing.T) {
	with := func(mask bool) func(*persist.Deps, *persist.Config) {
		return func(d *persist.Deps, _ *persist.Config) { d.Secrets = redact.New(redact.Default(), mask) }
	}
	for _, masked := range []bool{false, true} {
		t.Run(fmt.Sprint("masked first: ", masked), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			e := client.Entry{Thread: thread(0), Dialect: "nobody", Body: []byte("key: " + leaked)}
			must.Get(pub.Publish(t.Context(), e))(t)
			first := r.doomed(persist.StepAck, with(masked))
			first.Deliver(t.Context(), r.message(1, 1))
			first.wait(t, persist.StepAck)
			second := r.deaf(with(!masked))
			second.Deliver(t.Context(), r.message(1, 1))
			r.through(second, 1)
			if why := r.whyDead(); len(why) != 1 {
				t.Errorf("dead letters %q, want one", why)
			}
		})
	}
}
