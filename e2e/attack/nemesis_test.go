package attack_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"
)

// fault is one thing that is done to the processes.
type fault struct {
	weight int
	long   bool // takes longer than a short run has
	name   string
	do     func(a *attack, r *rand.Rand)
}

func (a *attack) member(r *rand.Rand) *member { return a.w.members[r.IntN(len(a.w.members))] }

func (a *attack) persister(r *rand.Rand) *member { return a.w.persisters[r.IntN(len(a.w.persisters))] }

var faults = []fault{
	{8, false, "kill a persister", func(a *attack, r *rand.Rand) { a.persister(r).kill() }},
	{6, false, "stop a persister", func(a *attack, r *rand.Rand) { a.persister(r).stop() }},
	{5, false, "kill anything", func(a *attack, r *rand.Rand) { a.member(r).kill() }},
	{3, false, "kill the server", func(a *attack, r *rand.Rand) { a.w.server.kill() }},
	{2, false, "stop the server", func(a *attack, r *rand.Rand) { a.w.server.stop() }},
	{3, false, "stop ingest", func(a *attack, r *rand.Rand) { a.w.ingest.stop() }},
	{5, false, "freeze briefly", func(a *attack, r *rand.Rand) {
		a.member(r).freeze(time.Duration(200+r.IntN(2500))*time.Millisecond, nil)
	}},
	{4, true, "fail back", failBack},
	{8, false, "clients lose answers", func(a *attack, r *rand.Rand) { a.w.clients.loseAnswers(lost(r)) }},
	{8, false, "requests lose answers", func(a *attack, r *rand.Rand) { a.w.web.loseAnswers(lost(r)) }},
	{8, false, "a process loses answers", func(a *attack, r *rand.Rand) {
		if m := a.member(r); m.link != nil {
			m.link.loseAnswers(lost(r))
		}
	}},
	{4, false, "cut", func(a *attack, r *rand.Rand) { a.w.clients.cut(); a.w.web.cut(); a.member(r).cutLink() }},
	{6, false, "collect", func(a *attack, r *rand.Rand) {
		a.tool("gc", "run", "--apply", "--share", "1", "--quarantine", fmt.Sprint(time.Duration(r.IntN(3))*time.Second))
	}},
	{3, false, "undelete", func(a *attack, r *rand.Rand) { a.tool("gc", "undelete", "--all") }},
	{3, false, "retention", func(a *attack, r *rand.Rand) {
		a.tool("retention", "apply", "--yes", "--share", "1", "--config", a.w.config)
	}},
	{2, false, "repair", func(a *attack, r *rand.Rand) { a.tool("fsck", "--repair", "--yes") }},
	{2, false, "look", func(a *attack, r *rand.Rand) { a.look("fsck"); a.look("fsck", "--events") }},
	{2, false, "back up", backUp},
}

func lost(r *rand.Rand) time.Duration { return time.Duration(20+r.IntN(1200)) * time.Millisecond }

func (m *member) cutLink() {
	if m.link != nil {
		m.link.cut()
	}
}

// failBack freezes a persister until others have taken over, wakes it and ends another one in the middle of what comes.
func failBack(a *attack, r *rand.Rand) {
	if len(a.w.persisters) < 2 {
		a.w.persisters[0].freeze(12*time.Second, nil)
		return
	}
	i := r.IntN(2)
	a.w.persisters[i].freeze(time.Duration(9+r.IntN(14))*time.Second, func() {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		if r.IntN(2) == 0 {
			a.w.persisters[1-i].stop()
		} else {
			a.w.persisters[1-i].kill()
		}
	})
}

// backUp takes a snapshot, and remembers what was acked before.
func backUp(a *attack, _ *rand.Rand) {
	a.l.mu.Lock()
	var before []*entry
	for _, e := range a.l.byID {
		if e.acked.Load() && !strings.HasPrefix(e.name.producer, laptop) { // theirs may be on their own disk still
			before = append(before, e)
		}
	}
	a.l.mu.Unlock()
	if _, code := a.w.tool(2*time.Minute, "backup", "create", filepath.Join(a.w.dir, "backup")); code == 0 {
		a.mu.Lock()
		a.saved = before
		a.mu.Unlock()
	}
}

// tool runs a command beside everything else. It may fail while servers die, but it must end.
func (a *attack) tool(args ...string) {
	if out, code := a.w.tool(2*time.Minute, args...); code < 0 || strings.Contains(out, "panic:") {
		a.t.Errorf("spool %v: exit code %d\n%.4000s", args, code, out)
	} else if code != 0 {
		a.l.say("tool fails", args, out)
	}
}

// look runs a check beside writers: it has nothing to find, but it may be cut off.
func (a *attack) look(args ...string) {
	out, code := a.w.tool(2*time.Minute, append(args, "--json")...)
	if code < 0 || strings.Contains(out, `"findings":[{`) {
		a.l.say("finds something beside writers", args, out)
		a.t.Errorf("spool %v beside writers: exit code %d\n%.3000s", args, code, out)
	}
}

// torment does one fault after another until ctx ends.
func (a *attack) torment(ctx context.Context, r *rand.Rand, every time.Duration) {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for ctx.Err() == nil {
		pause(ctx, time.Duration(r.Int64N(int64(2*every))))
		k := r.IntN(total)
		for _, f := range faults {
			if k -= f.weight; k >= 0 {
				continue
			}
			if ctx.Err() == nil && (!f.long || a.long) {
				a.l.say("fault", f.name)
				a.faults.Add(1)
				f.do(a, r)
				a.w.revive()
			}
			break
		}
	}
}
