package project_test

import (
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// An entry whose items were too large is made again as it was sent: with a stub, or, of before there were stubs,
// without a number.
func TestTooLargeAsItWasSent(t *testing.T) {
	th, at := events.Thread{Session: "s", Name: "main"}, casstore.NodeRef([32]byte{1})
	text := `{"content":[{"type":"text","text":"head"},{"type":"text","text":"` + strings.Repeat("x", 400_000) + `"}]}`
	for _, c := range []struct {
		count   int64
		numbers string
	}{{1, "7"}, {0, "0"}} {
		st := threads.State{Entry: threads.Record{Dialect: "item", Projection: "item/1", First: 7, Count: c.count}}
		posted := must.Get(project.Rebuild(th, at, st, []byte(text)))(t)
		if len(posted) != int(c.count) || c.count == 1 && (posted[0].N != 7 || !strings.Contains(string(posted[0].Data),
			"head …[left out; see")) {
			t.Errorf("of %d items: %.500v", c.count, posted)
		}
		lines := must.Get(project.Full(th, at, st, []byte(text)))(t)
		if len(lines) != 1 || len(lines[0]) < 400_000 || string(jsonscan.Get(lines[0], "n")) != c.numbers {
			t.Errorf("of %d items: a log of %d lines, want all of one under the number %s", c.count, len(lines), c.numbers)
		}
	}
}
