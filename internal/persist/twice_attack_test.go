package persist_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/persist"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A name is removed twice before anything of it is acknowledged, and the persister dies. What comes again must not be applied again:
// readers get every item once.
func TestRemovedTwiceSurvivesDeath(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b := events.Thread{Session: "s", Name: "b"}
	pub := func(name string) *client.Publisher { return r.Publisher(client.PublisherConfig{Producer: name}) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
	must(pub("q").Publish(ctx, stepEntry(b, 1, "one")))
	must(pub("q2").Control(ctx, b, 1, remove))
	must(pub("x").Publish(ctx, stepEntry(b, 1, "two")))
	must(pub("y").Control(ctx, b, 1, remove))
	must(pub("z").Publish(ctx, stepEntry(b, 1, "three")))
	var items atomic.Int64
	first := r.start(func(d *persist.Deps, _ *persist.Config) {
		d.At = func(s persist.Step) error {
			if s == persist.StepAck && items.Load() > 0 {
				return errKilled
			}
			if s != persist.StepItems || items.Add(1) > 1 {
				return nil
			}
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if h, err := r.Thread(context.Background(), b); err == nil && h.Duplicate("z", 0, 1) {
					return errKilled
				}
			}
			return errKilled // as far as the stages go
		}
	})
	if err := <-first.died; !errors.Is(err, errKilled) {
		t.Fatalf("Run() = %v, want it killed", err)
	}
	_ = first.stop()
	h, err := r.Thread(ctx, b)
	t.Logf("committed before the death: %d entries, %v, applied %d", h.Entries, err, h.Applied)
	var all []string
	second := r.start(nil)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && second.Stats().Applied < 5; time.Sleep(10 * time.Millisecond) {
	}
	must(second.stop())
	st := second.Stats()
	t.Logf("second: %+v", st)
	for it, err := range r.Subscribe(ctx, client.Filter{Session: "s", Thread: "b"}, client.Position{All: true}) {
		must(err)
		if all = append(all, it.Text()); it.More == 0 {
			break
		}
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(all, want) {
		t.Errorf("items %v, want %v", all, want)
	}
}
