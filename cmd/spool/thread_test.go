package main

import (
	"strings"
	"testing"

	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// A graph has a column for each path that is open, and shows where a path leaves another one.
func TestGraph(t *testing.T) {
	g := &graph{names: map[casstore.Ref][]string{}, steps: map[casstore.Ref]threads.Step{}}
	ref := func(n byte) casstore.Ref { return casstore.NodeRef([32]byte{n}) }
	add := func(n, parent byte, index int64) {
		s := threads.Step{At: casstore.Located{Ref: ref(n)}}
		s.Entry.Index = index
		if s.Role = string('a' + rune(n) - 1); parent > 0 {
			s.Parent = ref(parent)
		}
		g.steps[s.At.Ref] = s
	}
	// a ─ b ─ c ─ d, e and f leave b, g leaves c
	for _, s := range [][3]byte{{1, 0, 1}, {2, 1, 2}, {3, 2, 3}, {4, 3, 4}, {5, 2, 3}, {6, 2, 3}, {7, 3, 5}} {
		add(s[0], s[1], int64(s[2]))
	}
	var out strings.Builder
	err := g.draw(func(lanes string, s threads.Step) error {
		out.WriteString(lanes + " " + s.Role + "\n")
		return nil
	}, func(lanes string) error {
		out.WriteString(lanes + "\n")
		return nil
	})
	want := "* g\n| * d\n|/\n* c\n| * e\n| | * f\n| |/\n|/\n* b\n* a\n"
	if err != nil || out.String() != want {
		t.Errorf("graph =\n%s%v, want\n%s", &out, err, want)
	}
}
