package gc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/casstore"
)

// scenario is one of the original collector: what was stored, what named it, what it kept (SPEC C8).
type scenario struct {
	Scenario string            `json:"scenario"`
	Named    map[string]string `json:"named"`
	Blobs    map[string]string `json:"blobs_before"`
	Index    struct {
		Threads string            `json:"threads.json"`
		History map[string]string `json:"history"`
	} `json:"index"`
	Kept    []string `json:"kept"`
	Deleted []string `json:"deleted"`
}

// TestOriginalScenarios runs the scenarios of seed 004 with a node to a pack. Where the original lost data ours keeps it, or
// refuses to collect.
func TestOriginalScenarios(t *testing.T) {
	raw := must.Get(os.ReadFile("../../testdata/golden/cas/05_gc.json"))(t)
	var all struct{ Scenarios []scenario }
	must.Do(t, json.Unmarshal(raw, &all))
	for _, s := range all.Scenarios {
		t.Run(s.Scenario, func(t *testing.T) {
			kept, err := runScenario(t, s)
			want := s.want()
			slices.Sort(kept)
			if diff := cmp.Diff(want.kept, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if !errors.Is(err, want.err) {
				t.Errorf("the cycle ended with %v, want %v", err, want.err)
			}
		})
	}
}

type outcome struct {
	kept []string
	err  error
}

// want is what the original kept, but where it was wrong.
func (s scenario) want() outcome {
	all := slices.Concat(s.Kept, s.Deleted)
	w := outcome{kept: s.Kept}
	switch number, _, _ := strings.Cut(s.Scenario, " "); number {
	case "6": // written and not published yet: young
		w.kept = all
	case "7", "13": // nothing names anything
		w = outcome{all, ErrBrake}
	case "8", "9", "10": // unreadable, or incomplete
		w = outcome{all, ErrUnsafe}
	}
	slices.Sort(w.kept)
	return w
}

var refLine = regexp.MustCompile(`(?m)^  - (\S+)$`)

// runScenario stores it, collects, and lists what is left.
func runScenario(t *testing.T, s scenario) (kept []string, err error) {
	f := newFake(t)
	w := &scenarioWorld{f: f, s: s, at: map[string]casstore.Located{}}
	for _, name := range s.Named {
		if !strings.HasPrefix(w.nameOf(name), "inflight") {
			w.store(name)
		}
	}
	w.roots()
	c := f.collector(Config{Allow: []Brake{BrakeShare}})
	f.put("session.x", []byte("{}"))
	plan := func() (*Plan, error) {
		late := &lateRecords{fake: f, then: func() {
			for _, name := range s.Named { // while the cycle is on its way
				w.store(name)
			}
		}}
		c.Records = late
		return c.Plan(t.Context())
	}
	p, err := plan()
	if err == nil {
		_, err = c.Apply(t.Context(), p)
	}
	for hash, l := range w.at {
		if f.lives(l) == nil {
			kept = append(kept, w.nameOf(hash))
		}
	}
	return kept, err
}

// lateRecords does something right behind the first fence.
type lateRecords struct {
	*fake
	then func()
}

func (l *lateRecords) Fences(ctx context.Context) (uint64, error) {
	first, err := l.fake.Fences(ctx)
	l.then()
	l.then = func() {}
	return first, err
}

type scenarioWorld struct {
	f  *fake
	s  scenario
	at map[string]casstore.Located // by the original's hash
}

func (w *scenarioWorld) nameOf(hash string) string {
	for name, h := range w.s.Named {
		if h == hash {
			return name
		}
	}
	return ""
}

// store writes a node into a pack of its own, what it refers to first. What is named and was never stored is referred to in
// a pack that is not there.
func (w *scenarioWorld) store(hash string) casstore.Located {
	if l, ok := w.at[hash]; ok {
		return l
	}
	text, ok := w.s.Blobs[hash]
	if !ok {
		return casstore.Located{Ref: casstore.SumNode([]byte(hash)), Pack: packID(1 << 40)}
	}
	n := casstore.Node{Type: "content", Payload: casstore.AppendText(nil, []byte(text))}
	b := casstore.NewPackBuilder()
	_, list, _ := strings.Cut(text, "\nrefs:")
	for _, m := range refLine.FindAllStringSubmatch(list, -1) {
		l := w.store(m[1])
		n.Refs = append(n.Refs, l.Ref)
		b.Locate(l)
	}
	id := packID(len(w.at))
	w.at[hash] = casstore.Located{Ref: b.AddNode(&n), Pack: id}
	w.f.pack(id, b)
	return w.at[hash]
}

// entry is a line of the original's index.
type entry struct {
	ThreadID    string
	Head, Start string
	CompletedAt *int64
}

// roots writes the heads. What the original cannot read is a record that cannot be read.
func (w *scenarioWorld) roots() {
	put := func(key string, e entry, err error) {
		if err != nil {
			w.f.put(key, []byte("?"))
			return
		}
		w.f.head(key, w.store(e.Start), w.store(e.Head))
	}
	if text := w.s.Index.Threads; text != "<absent>" {
		var list map[string]entry
		err := json.Unmarshal([]byte(text), &list)
		if err != nil {
			put("thread.s.broken", entry{}, err)
		}
		for id, e := range list {
			put("thread.s."+id, e, nil)
		}
	}
	for date, lines := range w.s.Index.History {
		for line := range strings.Lines(lines) {
			var e entry
			err := json.Unmarshal([]byte(line), &e)
			if err == nil && e.CompletedAt == nil {
				err = errors.New("no time")
			}
			put("history."+strings.TrimSuffix(date, ".jsonl")+".s."+e.ThreadID, e, err)
		}
	}
}
