package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// However long a thread is, and wherever in it a fork is to begin, no more of it is read than there may be: others wait meanwhile. What is
// found within that is forked.
func TestForkReadsNoMore(t *testing.T) {
	defer func(was int) { mostForkRead = was }(mostForkRead)
	mostForkRead = 60
	m, room, s := newMemory(t), &Room{}, in("s1", "main", "p")
	const long = 300
	for i := range long {
		m.step(room, s.step(fmt.Sprint("w", i)))
	}
	at := func(f events.Fork) events.Fork {
		f.Session, f.Thread = "s1", "main"
		return f
	}
	for i, c := range []struct {
		fork events.Fork
		fate Fate
	}{
		{at(events.Fork{Whole: true, Index: long / 2}), Dead}, {at(events.Fork{Entry: "nobody"}), Dead}, {at(events.Fork{Entry: "w3"}), Dead},
		{at(events.Fork{Role: "nobody"}), Dead}, {at(events.Fork{Index: long + 9}), Dead}, {at(events.Fork{Item: long * 9}), Dead},
		{at(events.Fork{Index: 7}), Applied}, {at(events.Fork{Entry: "w280"}), Applied}, {at(events.Fork{Whole: true}), Applied},
		{at(events.Fork{}), Applied},
	} {
		f := in("s1", fmt.Sprint("fork", i), "f")
		e := Staged{Event: f.control(events.Control{Op: events.OpFork, Fork: &c.fork}), At: long + 1 + uint64(i)}
		st := m.state(&e)
		m.reads = 0
		_, v, err := Event(t.Context(), m, st, e)
		if err != nil || v.Is != c.fate || v.Is == Dead &&
			(!errors.Is(v.Why, threads.ErrNoPoint) || !strings.Contains(v.Why.Error(), "more than 60 states")) {
			t.Errorf("%+v: verdict %v, %v; want %v", c.fork, v, err, c.fate)
		}
		if read := m.reads; read > mostForkRead+20 && c.fate == Dead {
			t.Errorf("%+v: %d reads, want no more than %d and some records", c.fork, read, mostForkRead)
		}
	}
}
