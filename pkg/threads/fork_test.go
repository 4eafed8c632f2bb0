package threads_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// TestForkAsTheOriginal replays the original's fork scenarios: the same roles are kept, the same errors come.
func TestForkAsTheOriginal(t *testing.T) {
	var golden struct {
		Scenarios []struct {
			Scenario, Error string
			Roles           []string
		}
	}
	readGolden(t, "04_fork.json", &golden)
	sources := []struct {
		chain string
		at    threads.Point
	}{
		{"planner coder reviewer", threads.Point{}},
		{"planner coder reviewer", threads.Point{Role: "planner"}},
		{"planner coder reviewer", threads.Point{Role: "coder"}},
		{"planner coder reviewer", threads.Point{Role: "reviewer"}},
		{"planner coder reviewer", threads.Point{Role: "nosuch"}},
		{"planner", threads.Point{}},
		{"", threads.Point{}},
		{"planner coder reviewer coder", threads.Point{Role: "coder"}},
	}
	for i, want := range golden.Scenarios {
		w := newWorld(t, 2)
		h := w.begin()
		for _, role := range strings.Fields(sources[i].chain) {
			w.add(&h, role, 1)
		}
		w.flush()
		fork, err := threads.Fork(t.Context(), w.reader(), h, sources[i].at)
		if want.Error != "" {
			if !errors.Is(err, threads.ErrNoPoint) || !strings.HasSuffix(err.Error(), want.Error) {
				t.Errorf("%s: Fork = %v, want ErrNoPoint: %s", want.Scenario, err, want.Error)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: Fork = %v, want nil", want.Scenario, err)
			continue
		}
		w.add(&fork, "__fork__", 0)
		w.flush()
		steps := must.Get(w.reader().Last(t.Context(), fork.Head(), 99))(t)
		got := roles(steps[1:])
		slices.Reverse(got)
		must.SameAll(t, got, want.Roles, "%s: the fork keeps %v, want %v", want.Scenario)
		if fork.Start != h.Start {
			t.Errorf("%s: the fork's start is %s, want the source's", want.Scenario, fork.Start)
		}
		must.Is(t, threads.Verify(t.Context(), w.reader(), fork), nil, "%s: Verify(fork)", want.Scenario)
	}
}

func TestForkPoints(t *testing.T) {
	w := newWorld(t, 3)
	h := w.begin()
	var at []casstore.Located
	for i := range 20 {
		at = append(at, w.add(&h, fmt.Sprint("role", i%4), int64(i%3)))
	}
	w.flush()
	recent := must.Get(w.reader().Recent(t.Context(), at[9]))(t)
	h.MoveTo(recent)
	branch := w.add(&h, "branched", 2)
	h.Status = threads.StatusCompleted
	end := w.add(&h, threads.RoleEnd, 0)
	w.flush()
	for name, c := range map[string]struct {
		point   threads.Point
		want    casstore.Located
		entries int64
	}{
		"entry":           {threads.Point{Entry: 5}, at[4], 5},
		"entry of a tip":  {threads.Point{Entry: 18}, at[17], 18},
		"item":            {threads.Point{Item: 3}, at[2], 3},
		"item of a tip":   {threads.Point{Item: 19}, at[19], 20},
		"item of branch":  {threads.Point{Item: 20}, branch, 21},
		"node":            {threads.Point{Node: at[6].Ref}, at[6], 7},
		"node of a tip":   {threads.Point{Node: at[15].Ref}, at[15], 16},
		"the head":        {threads.Point{Node: end.Ref}, end, 22},
		"source id":       {threads.Point{Source: "src-3"}, at[2], 3},
		"role":            {threads.Point{Role: "role2"}, at[2], 3},
		"before the last": {threads.Point{}, at[9], 10},
	} {
		fork, err := threads.Fork(t.Context(), w.reader(), h, c.point)
		if err != nil {
			t.Errorf("%s: Fork = %v, want nil", name, err)
			continue
		}
		if fork.Head() != c.want || fork.Entries != c.entries || fork.Status != threads.StatusActive || len(fork.Tips) != 0 ||
			fork.Sent != fork.N {
			t.Errorf("%s: Fork = head %s, %d entries, %s, want %s, %d, active", name, fork.Head(), fork.Entries, fork.Status, c.want, c.entries)
		}
		s := must.Get(w.reader().State(t.Context(), c.want))(t)
		if last, _ := s.Entry.LastItem(); fork.N != last {
			t.Errorf("%s: Fork continues after item %d, want %d", name, fork.N, last)
		}
		before := w.builder.Len()
		fork.Saw("p", 1, 1, 1)
		w.add(&fork, "next", 1)
		must.Same(t, w.builder.Len()-before, 2, "%s: the fork's first entry added %d nodes, want %d", name)
		w.flush()
		must.Is(t, threads.Verify(t.Context(), w.reader(), fork), nil, "%s: Verify(fork)", name)
	}
}

func TestForkNamesTheChoices(t *testing.T) {
	w := newWorld(t, 3)
	h := w.begin()
	for range 12 {
		w.add(&h, "r", 2)
	}
	w.flush()
	for _, c := range []struct {
		point threads.Point
		want  string
	}{
		{threads.Point{Entry: 99}, "entry 99 not found in thread (available: 1 to 12)"},
		{threads.Point{Item: 25}, "item 25 not found in thread (available: 1 to 24)"},
		{threads.Point{Source: "no"}, "source id not found in thread: no (available: 12, the last of them src-3, src-4, src-5, src-6, src-7, src-8, src-9, src-10, src-11, src-12)"},
		{threads.Point{Node: ref(1)}, "is not a state of the thread (available: 12, the last of them node:sha256:"},
		{threads.Point{Entry: 1, Role: "r"}, "not several"},
	} {
		_, err := threads.Fork(t.Context(), w.reader(), h, c.point)
		if !errors.Is(err, threads.ErrNoPoint) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Fork(%+v) = %v, want ErrNoPoint: %s", c.point, err, c.want)
		}
	}
}

// TestFindState: the beginning of a state's digits, as people are shown it, is enough in its thread, unless several begin so.
func TestFindState(t *testing.T) {
	w := newWorld(t, 3)
	h := w.begin()
	var at []casstore.Located
	for range 40 { // with so many, two begin with the same digit
		at = append(at, w.add(&h, "r", 1))
	}
	w.flush()
	for _, i := range []int{0, 20, 39} {
		if got, err := w.reader().FindState(t.Context(), h, at[i].Ref.Hex()[:12]); err != nil || got != at[i].Ref {
			t.Errorf("FindState(of entry %d) = %s, %v, want %s", i+1, got, err, at[i].Ref)
		}
	}
	for digits, want := range map[string]string{"": "several states",
		"0123456789ab": "no state of the thread begins with 0123456789ab (available: 40"} {
		_, err := w.reader().FindState(t.Context(), h, digits)
		if !errors.Is(err, threads.ErrNoPoint) || !strings.Contains(err.Error(), want) {
			t.Errorf("FindState(%q) = %v, want ErrNoPoint: %s", digits, err, want)
		}
	}
}

// TestForkWhole: a whole fork has every branch of its source, and its leaf; none of the source's producers and times.
func TestForkWhole(t *testing.T) {
	w := newWorld(t, 2)
	h := w.begin()
	for _, role := range []string{"a", "b", "c"} {
		w.add(&h, role, 1)
	}
	w.flush()
	recent := must.Get(w.reader().Recent(t.Context(), h.Recent[1]))(t)
	h.MoveTo(recent)
	w.add(&h, "d", 1)
	w.flush()
	h.Saw("p", 1, 2, 3)
	h.Updated, h.Leaf, h.Messages = 7, "d", 4
	fork := must.Get(threads.ForkWhole(h))(t)
	if len(fork.Producers) != 0 || fork.Updated != 0 || fork.Leaf != "d" || fork.Messages != 4 || fork.Entries != h.Entries ||
		fork.Sent != h.N {
		t.Errorf("ForkWhole = %+v, want the entries of %+v and nothing else", fork, h)
	}
	w.add(&fork, "__fork__", 0)
	w.flush()
	var got []string
	for s := range must.All(t, w.reader().Entries(t.Context(), fork)) {
		got = append(got, s.Role)
	}
	if want := []string{"a", "b", "c", "d", "__fork__"}; !slices.Equal(got, want) {
		t.Errorf("entries of the fork = %v, want %v", got, want)
	}
	must.Is(t, threads.Verify(t.Context(), w.reader(), fork), nil, "Verify")
	must.Is(t, must.Err(threads.ForkWhole(w.begin())), threads.ErrNoPoint, "ForkWhole of an empty thread")
}

// TestForkWholeAt: a whole fork at a point has what its source had when that came, on every branch, and goes on behind it.
func TestForkWholeAt(t *testing.T) {
	w := newWorld(t, 2)
	h := w.begin()
	roles := strings.Split("a b c d e f g", " ")
	after := map[string]int{"c": 1, "e": 1, "g": 3} // back to the state that many before the head
	for _, role := range roles {
		if back := after[role]; back > 0 {
			w.flush()
			h.MoveTo(must.Get(w.reader().Recent(t.Context(), h.Recent[min(back, len(h.Recent)-1)]))(t))
		}
		w.add(&h, role, 1)
	}
	w.flush()
	for k := range roles {
		fork := must.Get(threads.ForkWholeAt(t.Context(), w.reader(), h, threads.Point{Entry: int64(k + 1)}))(t)
		var got []string
		for s := range must.All(t, w.reader().Entries(t.Context(), fork)) {
			got = append(got, s.Role)
		}
		if !slices.Equal(got, roles[:k+1]) || fork.Entries != int64(k+1) || fork.N != int64(k+1) || fork.Sent != fork.N {
			t.Errorf("at entry %d: entries %v, head %+v; want %v", k+1, got, fork, roles[:k+1])
		}
		if s := must.Get(w.reader().State(t.Context(), fork.Head()))(t); s.Role != roles[k] {
			t.Errorf("at entry %d: it goes on behind %s, want %s", k+1, s.Role, roles[k])
		}
		must.Do(t, threads.Verify(t.Context(), w.reader(), fork))
	}
	must.Is(t, must.Err(threads.ForkWholeAt(t.Context(), w.reader(), h, threads.Point{Entry: 8})), threads.ErrNoPoint, "behind its end")
}
