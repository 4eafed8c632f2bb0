package persist_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

// Over random histories of threads that take each other's names, each entry is in its thread once, or a dead letter if its sequence is that
// of another one there: whatever other threads had under the same names.
func TestReusedByThreadsOfOneName(t *testing.T) {
	r := newRig(t)
	p, _ := r.looking()
	type thread struct {
		has     []int // entries, by their sequences less 1
		refused map[int]bool
	}
	rnd, given := rand.New(rand.NewPCG(4, 4)), uint64(0)
	want, again, histories, threads := map[uint64]string{}, map[uint64]bool{}, map[string][]string{}, map[events.Thread]*thread{}
	give := func() {
		last := r.lastSeq(events.EventsStream)
		r.give(p, given+1, last)
		r.through(p, int64(last))
		given = last
	}
	for h := range 30 {
		session := fmt.Sprintf("s%d", h)
		to, names := map[string]string{}, []string{"a", "b", "c"}
		at := func(name string) events.Thread { return events.Thread{Session: session, Name: name} }
		note := func(format string, args ...any) uint64 {
			seq := r.lastSeq(events.EventsStream)
			histories[session] = append(histories[session], fmt.Sprintf("%d: ", seq)+fmt.Sprintf(format, args...))
			return seq
		}
		for range 30 {
			name, other := names[rnd.IntN(3)], names[rnd.IntN(3)]
			th := threads[at(name)]
			if to[name] != "" {
				continue
			}
			if th == nil {
				th = &thread{refused: map[int]bool{}}
				threads[at(name)] = th
			}
			seq, what := rnd.IntN(len(th.has)+1), rnd.IntN(100)
			switch fresh := 10*len(th.has) + rnd.IntN(2); {
			case what < 25 || len(th.has) == 0:
				r.entry(at(name), uint64(len(th.has)+1), fresh)
				th.has = append(th.has, fresh)
				note("%s has %d", name, fresh)
			case what < 60 && seq < len(th.has):
				entry := th.has[seq]
				if what >= 36 {
					entry = 20*seq + 1 - entry // the other one of the sequence
				}
				r.entry(at(name), uint64(seq+1), entry)
				here := note("%s gets %d", name, entry)
				if again[here] = th.refused[entry]; entry != th.has[seq] && !again[here] {
					want[here], th.refused[entry] = session, true
				}
			case what < 86 && threads[at(other)] == nil && (to[other] == "" || to[other] == name):
				r.control(at(name), fmt.Sprint(h, len(histories[session])), renameTo(other))
				threads[at(other)], to[name], to[other] = th, other, ""
				delete(threads, at(name))
				note("%s is %s now", name, other)
			case what >= 86:
				r.control(at(name), fmt.Sprint(h, len(histories[session])), removal())
				delete(threads, at(name))
				note("%s is removed", name)
			}
			switch rnd.IntN(90) {
			case 0:
				p, _ = r.looking()
				given = 0
				give()
			case 1, 2, 3, 4:
				give()
			}
		}
	}
	give()
	for _, l := range must.Get(r.EverySession().DeadLetters(t.Context()))(t) {
		if want[l.Seq] == "" && !again[l.Seq] {
			t.Errorf("%d is a dead letter: %s\n%s", l.Seq, l.Reason, strings.Join(histories[l.Thread.Session], "\n"))
		}
		delete(want, l.Seq)
	}
	for _, seq := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%d is no dead letter:\n%s", seq, strings.Join(histories[want[seq]], "\n"))
	}
	for id, th := range threads {
		var got []string
		for _, line := range strings.Split(r.export(id), "\n") {
			if at := strings.Index(line, `"id":"e`); at >= 0 {
				got = append(got, strings.TrimLeft(line[at+7:at+11], "0")+line[at+11:at+12])
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(th.has) {
			t.Errorf("%s has %v, want %v\n%s", id, got, th.has, strings.Join(histories[id.Session], "\n"))
		}
	}
}
