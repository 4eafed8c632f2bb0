// Package attack_test attacks Spool's built commands from outside, over HTTP, NATS and by signals, with programs that
// seeds choose, and holds what was acknowledged against what can be read then: "an ack means it is kept" (SPEC P1).
package attack_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

var (
	long = flag.Duration("long", 0, "attack for so long, in rounds of -round")
	each = flag.Duration("round", 2*time.Minute, "length of a round of a long attack")
	seed = flag.Uint64("seed", 0, "first seed of a long attack; 0: any")
	keep = flag.String("keep", os.TempDir(), "folder where the ledger and logs of a failure are kept")
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serveChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	commands := []string{"spool/cmd/spool", "spool/cmd/persister", "spool/cmd/ingest", "spool/cmd/gc", "spool/e2e/natsd"}
	os.Exit(proc.Main(m, commands...).Run())
}

// TestAttack attacks for some seconds by fixed seeds, one for each way in which the server is begun; with -long for
// longer. A seed repeats the choices of a round, though not its moments.
func TestAttack(t *testing.T) {
	if *long == 0 {
		if testing.Short() {
			t.Skip("takes some 20 s")
		}
		for s := range uint64(2) {
			t.Run(fmt.Sprintf("seed %d", s+1), func(t *testing.T) {
				t.Parallel()
				round(t, s+1, 5*time.Second, false)
			})
		}
		return
	}
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000
	}
	for failed, end := 0, time.Now().Add(*long); time.Now().Before(end) && failed < 3; s++ {
		length := min(*each, time.Until(end)+time.Second)
		if !t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) { round(t, s, length, true) }) {
			failed++
		}
	}
}

// attack is one round.
type attack struct {
	t      *testing.T
	w      *world
	l      *ledger
	long   bool
	beside sync.WaitGroup // of what waits for answers
	faults atomic.Int64

	mu    sync.Mutex
	saved []*entry // what was acked before the newest snapshot began
	slept map[string]time.Duration
}

// policy has retention remove sessions that are idle.
const policy = "[[retention]]\nname = \"short\"\nsession = \"ret-*\"\nmax-age = \"2s\"\n"

// round attacks for a while, and judges.
func round(t *testing.T, seed uint64, length time.Duration, long bool) {
	t.Logf("seed %d, %v: go test ./e2e/attack -run TestAttack -long %v -seed %d", seed, length, length, seed)
	began := time.Now()
	dir := t.TempDir()
	config := filepath.Join(dir, "retention.toml")
	must.Do(t, os.WriteFile(config, []byte(policy), 0o600))
	l := must.Get(newLedger(filepath.Join(dir, "ledger.jsonl")))(t)
	a := &attack{t: t, l: l, long: long, slept: map[string]time.Duration{}}
	a.w = newWorld(t, seed%2 == 1, config)
	t.Cleanup(func() { a.keep(seed, filepath.Join(dir, "ledger.jsonl")) })

	watched, enough := context.WithCancel(t.Context())
	events := &tail{nc: dial(t, a.w.nats), next: 1}
	var follower sync.WaitGroup
	follower.Go(func() { events.follow(watched, false) })
	tasks := a.play(seed, length)
	t.Logf("%d entries acked under %d faults after %v", l.acks.Load(), a.faults.Load(), time.Since(began))
	for _, k := range tasks {
		a.flush(k)
	}
	a.settle(events.nc)
	enough()
	follower.Wait()
	end, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events.follow(end, true)
	a.judge(events)
	a.w.noCrash()
	t.Logf("judged after %v; load %s", time.Since(began).Round(time.Second), load())
}

// play runs agents and faults for a while, and heals everything. It gives the tasks of the programs that queue offline.
func (a *attack) play(seed uint64, length time.Duration) (tasks []task) {
	ctx, cancel := context.WithTimeout(a.t.Context(), length)
	defer cancel()
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	var all sync.WaitGroup
	for i := range uint64(7) {
		g := &agent{a: a, r: random(i), http: httpClient(), producer: fmt.Sprintf("agent-%d", i)}
		g.nc = dial(a.t, a.w.clients.addr)
		all.Go(func() {
			if i < 2 {
				g.operate(ctx)
			} else {
				g.publish(ctx)
			}
		})
	}
	dir := a.t.TempDir()
	for i := range 2 { // two producers share the directory
		k := task{URL: "nats://" + a.w.clients.addr, Dir: dir, Seed: seed, Base: (i + 1) * 10_000_000}
		k.Producer = fmt.Sprint(laptop, i)
		tasks = append(tasks, k)
		all.Go(func() { a.children(ctx, k, random(uint64(100+i))) })
	}
	every := min(length/12, 1500*time.Millisecond)
	if a.long { // two faults at a time
		all.Go(func() { a.torment(ctx, random(201), every) })
	}
	a.torment(ctx, random(200), every)
	all.Wait()
	a.beside.Wait()
	a.w.revive()
	return tasks
}

// slow notes a request that was not answered in the time that a client waits.
func (a *attack) slow(what string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slept[what] = took
	a.l.say("slow", what, took.String())
}

// keep copies the ledger and the logs of a round that failed to where they stay.
func (a *attack) keep(seed uint64, ledger string) {
	if !a.t.Failed() {
		return
	}
	dir, err := os.MkdirTemp(*keep, fmt.Sprintf("attack-%d-", seed))
	if err != nil {
		a.t.Log(err)
		return
	}
	b, _ := os.ReadFile(ledger)
	err = os.WriteFile(filepath.Join(dir, "ledger.jsonl"), b, 0o600)
	for _, m := range a.w.members {
		for i, p := range m.old {
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", m.name, i+1)), []byte(p.Log()), 0o600)
		}
		m.now.Kill() // its goroutines are of no use
	}
	if e := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(a.w.dir, "data"))); err == nil {
		err = e
	}
	a.t.Logf("the ledger, the logs and the server's files are in %s (%v)", dir, err)
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	return string(b[:min(len(b), 14)])
}
