package notify_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/notify"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

// run begins a run, and lets its program die when the test says so.
func run(t *testing.T, cl *client.Client, session, id string, lease time.Duration) (r *client.Run, die func()) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	t.Cleanup(die)
	r = must.Get(cl.StartRun(ctx, thread(session), client.RunConfig{ID: id, Lease: lease, Summary: "to " + id}))(t)
	must.Do(t, r.Wait(t.Context()))
	return r, die
}

// TestRuns: runs that end are told of, each once, also those whose program died while nobody watched; those that ended before the first
// watch of a name, and those that go on, are not. A target that takes none of one holds up no other.
func TestRuns(t *testing.T) {
	cl := system(t)
	before, _ := run(t, cl, "s", "before", time.Minute)
	must.Do(t, before.End(t.Context(), artifacts.RunCompleted, "done"))
	must.Do(t, before.Wait(t.Context()))
	long, _ := run(t, cl, "s", "long", time.Second) // it gives signs all the time
	defer func() { _ = long.End(context.Background(), artifacts.RunCompleted, "") }()

	var mu sync.Mutex
	told := map[string][]string{} // what was said of a run, by its id
	ids := map[string][]string{}
	refused := 0
	tell := func(_ context.Context, n notify.Note, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if n.Data.Run == "refused" && refused < 2 {
			refused++
			return errors.New("not now")
		}
		said := n.Type + " " + n.Data.State
		if n.Data.Expired {
			said += ", expired"
		}
		told[n.Data.Run] = append(told[n.Data.Run], said+", "+n.Data.Text)
		ids[n.Data.Run] = append(ids[n.Data.Run], n.ID)
		return nil
	}
	has := func(run, want string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(told[run], []string{want})
		}
	}
	stop := watch(t, cl, "desk", notify.Config{Runs: true, Tell: tell})
	_, die := run(t, cl, "s", "dies", time.Second)
	for _, id := range []string{"refused", "ends"} {
		r, _ := run(t, cl, "s", id, time.Minute)
		must.Do(t, r.End(t.Context(), artifacts.RunFailed, "could not "+id))
	}
	must.Until(t, "the one behind is told of", has("ends", "run.ended failed, could not ends"))
	must.Until(t, "the one that was not taken is told of again", has("refused", "run.ended failed, could not refused"))
	die()
	must.Until(t, "the one that died is told of", has("dies", "run.ended failed, expired, to dies"))
	_, die = run(t, cl, "s", "dies-alone", 2*time.Second)
	stop()
	die()
	r, _ := run(t, cl, "s", "meanwhile", time.Minute)
	must.Do(t, r.End(t.Context(), artifacts.RunCompleted, "well"))
	time.Sleep(2500 * time.Millisecond) // the lease is over
	watch(t, cl, "desk", notify.Config{Runs: true, Tell: tell})
	watch(t, cl, "desk", notify.Config{Runs: true, Tell: tell})
	must.Until(t, "what ended meanwhile is told of", has("meanwhile", "run.ended completed, well"))
	must.Until(t, "what died meanwhile is told of", has("dies-alone", "run.ended failed, expired, to dies-alone"))
	last, _ := run(t, cl, "other", "last", time.Minute)
	must.Do(t, last.End(t.Context(), artifacts.RunCancelled, "not needed"))
	must.Until(t, "the last one is told of", has("last", "run.ended cancelled, not needed"))
	mu.Lock()
	defer mu.Unlock()
	for run, said := range told {
		if len(said) != 1 || run == "before" || run == "long" || !strings.HasPrefix(ids[run][0], "msg_") {
			t.Errorf("of %s it was told %q", run, said)
		}
	}
}
