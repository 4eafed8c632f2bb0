package notify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/notify"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// run begins a run.
func run(t *testing.T, cl *client.Client, session, id string) *client.Run {
	t.Helper()
	r := must.Get(cl.Thread(thread(session)).StartRun(t.Context(), client.RunConfig{ID: id, Summary: "to " + id}))(t)
	must.Do(t, r.Wait(t.Context()))
	return r
}

// die begins a run whose program dies with it: it gives no other sign.
func die(t *testing.T, cl *client.Client, session, id string, lease time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(cl.Thread(thread(session)).StartRun(ctx, client.RunConfig{ID: id, Lease: lease, Summary: "to " + id}))(t)
	cancel()
	must.Do(t, r.Wait(t.Context()))
}

// runsTold is what a target was told of runs.
type runsTold struct {
	sync.Mutex
	said    map[string][]string // by the run's id
	ids     map[string]bool
	refuses map[string]int // how often it takes none of a run
}

func (w *runsTold) tell(_ context.Context, n notify.Note, _ []byte) error {
	w.Lock()
	defer w.Unlock()
	if w.refuses[n.Data.Run] > 0 {
		w.refuses[n.Data.Run]--
		return errors.New("not now")
	}
	said := n.Type + " " + n.Data.State
	if n.Data.Expired {
		said += ", expired"
	}
	w.said[n.Data.Run] = append(w.said[n.Data.Run], said+", "+n.Data.Text)
	w.ids[n.ID] = true
	return nil
}

func (w *runsTold) of(run string) []string {
	w.Lock()
	defer w.Unlock()
	return slices.Clone(w.said[run])
}

// await waits until a run was told of.
func (w *runsTold) await(t *testing.T, run, want string) {
	t.Helper()
	must.Until(t, run+" is told of", func() bool { return len(w.of(run)) > 0 })
	if got := w.of(run); !slices.Equal(got, []string{want}) {
		t.Errorf("of %s it was told %q, want %q", run, got, want)
	}
}

func watchRuns(t *testing.T, cl *client.Client, name, session string) (w *runsTold, stop func()) {
	w = &runsTold{said: map[string][]string{}, ids: map[string]bool{}, refuses: map[string]int{}}
	return w, watch(t, cl, name, notify.Config{Session: session, Runs: true, Tell: w.tell})
}

func end(t *testing.T, cl *client.Client, session, id string, state artifacts.RunStatus) {
	t.Helper()
	must.Do(t, run(t, cl, session, id).End(t.Context(), state, "over: "+id))
}

// TestRuns: runs that end are told of, each once, also those that ended, or whose program died, while nobody watched; those that ended
// before the first watch of a name, and those that go on, are not. A target that takes none of one holds up no other.
func TestRuns(t *testing.T) {
	cl := system(t)
	before := run(t, cl, "s", "before")
	must.Do(t, before.End(t.Context(), artifacts.RunCompleted, "done"))
	must.Do(t, before.Wait(t.Context()))
	run(t, cl, "s", "long")

	first, stop := watchRuns(t, cl, "desk", "")
	nameless, _ := watchRuns(t, cl, "", "other")
	probes := 0
	for _, w := range []*runsTold{first, nameless} { // what ends before they stand is not told
		must.Until(t, "a watch stands", func() bool {
			probes++
			end(t, cl, "other", fmt.Sprint("probe", probes), artifacts.RunCompleted)
			w.Lock()
			defer w.Unlock()
			return len(w.said) > 0
		})
	}
	first.Lock()
	first.refuses["refused"] = 2
	first.Unlock()
	die(t, cl, "s", "dies", time.Second)
	end(t, cl, "s", "refused", artifacts.RunFailed)
	end(t, cl, "s", "ends", artifacts.RunFailed)
	first.await(t, "ends", "run.ended failed, over: ends")
	first.await(t, "refused", "run.ended failed, over: refused")
	first.await(t, "dies", "run.ended failed, expired, to dies")
	stop()

	die(t, cl, "s", "dies-alone", time.Second)
	end(t, cl, "s", "meanwhile", artifacts.RunCompleted)
	must.Until(t, "its lease is over", func() bool {
		return slices.ContainsFunc(must.Get(cl.Session("s").Runs(t.Context()))(t), func(r client.RunInfo) bool {
			return r.ID == "dies-alone" && r.Expired
		})
	})
	second, stop := watchRuns(t, cl, "desk", "")
	second.await(t, "meanwhile", "run.ended completed, over: meanwhile")
	second.await(t, "dies-alone", "run.ended failed, expired, to dies-alone")
	stop()
	third, _ := watchRuns(t, cl, "desk", "")
	end(t, cl, "other", "last", artifacts.RunCancelled)
	third.await(t, "last", "run.ended cancelled, over: last")
	nameless.await(t, "last", "run.ended cancelled, over: last")

	all := slices.Concat(slices.Collect(maps.Keys(first.said)), slices.Collect(maps.Keys(second.said)), slices.Collect(maps.Keys(third.said)))
	slices.Sort(all)
	if once := slices.Compact(slices.Clone(all)); len(once) != len(all) || slices.Contains(all, "before") || slices.Contains(all, "long") {
		t.Errorf("told of %q", all)
	}
	must.Same(t, len(first.ids), len(first.said), "%d ids for %d runs")
	for id := range nameless.said {
		if id != "last" && !strings.HasPrefix(id, "probe") {
			t.Errorf("the watch of another session is told of %s", id)
		}
	}
}

// TestOneTells: however many watch under a name, a target is told one at a time, of whatever; and when the one that tells stops, another
// does.
func TestOneTells(t *testing.T) {
	cl := system(t)
	var under, most, told atomic.Int32
	tell := func(context.Context, notify.Note, []byte) error {
		most.Store(max(most.Load(), under.Add(1)))
		time.Sleep(50 * time.Millisecond) // a slow target
		under.Add(-1)
		told.Add(1)
		return nil
	}
	var stops []func()
	for range 3 {
		stops = append(stops, watch(t, cl, "desk", notify.Config{Failed: true, Runs: true, Tell: tell}))
	}
	probes := 0
	must.Until(t, "runs are told of", func() bool { // what ended before the first watch stands is not
		probes++
		end(t, cl, "probes", fmt.Sprint("probe", probes), artifacts.RunCompleted)
		return told.Load() > 0
	})
	for round, stop := range stops {
		before := told.Load()
		for i := range 5 {
			id := fmt.Sprint(round, "-", i)
			ask(t, cl, "asks", id, 0)
			must.Do(t, cl.Thread(thread("ends-"+id)).Start(t.Context(), events.Start{Name: "flow"}))
			must.Do(t, cl.Thread(thread("ends-"+id)).End(t.Context(), events.End{ReturnCode: 1}))
			end(t, cl, "runs", id, artifacts.RunCompleted)
		}
		must.Until(t, "all is told of", func() bool { return told.Load() >= before+15 })
		stop()
	}
	if most.Load() != 1 {
		t.Errorf("%d were under way at a time", most.Load())
	}
}
