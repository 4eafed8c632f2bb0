package attack_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// TestJudgeFinds: the judge names an entry that is lost, one that is there twice, and one that came back, and no other.
func TestJudgeFinds(t *testing.T) {
	l := must.Get(newLedger(filepath.Join(t.TempDir(), "ledger")))(t)
	a, b := events.Thread{Session: "wild-0", Name: "main"}, events.Thread{Session: "wild-1", Name: "main"}
	es := make([]*entry, 6)
	tail := &tail{}
	store := func(th events.Thread, n name, op *events.Control) {
		tail.all = append(tail.all, stored{at: uint64(len(tail.all) + 1), thread: th, each: []one{{n, op}}})
	}
	for i := range es {
		th := a
		if i > 3 {
			th = b
		}
		es[i] = l.try(name{th, "p", 0, uint64(i + 1)}, 5)
		store(th, es[i].name, nil)
	}
	store(b, name{b, "op", 0, 1}, &events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}})
	l.ack(es...)
	v := newVerdicts(&attack{l: l}, tail)
	v.note()
	v.letters[4] = []letter{{event: 4, seq: 4}}
	found := map[string][]string{es[0].id: {"wild-0/main"}, es[2].id: {"wild-0/main", "wild-0/x"}}
	found[es[4].id] = []string{"wild-1/main"}
	got := map[string]string{}
	for i, e := range es {
		v.found = map[string][]string{e.id: found[e.id]}
		if why := v.wrong(e); why != "" {
			got[e.id] = why
		}
		if now, gone, _ := v.fate(e.name.thread, uint64(i+1)); gone != (i > 3) || now != e.name.thread {
			t.Errorf("fate(%s) = %v, gone %v", e.id, now, gone)
		}
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{es[1].id, es[2].id, es[4].id}) {
		t.Errorf("the judge finds %v, want %s lost, %s twice and %s back", got, es[1].id, es[2].id, es[4].id)
	}
}
