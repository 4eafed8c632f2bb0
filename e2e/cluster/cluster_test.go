// Package cluster_test attacks three real nats-servers that hold three copies of everything, while publishers, persisters,
// collectors, subscribers, forks and deletions go on, and then holds all that was acknowledged against what is there.
//
//	SPOOL_CLUSTER=ci   go test ./e2e/cluster          # three faults, within two minutes
//	SPOOL_CLUSTER=full go test -timeout 20m ./e2e/cluster [-args -seed N]   # all of them twice, within a quarter of an hour
//
// The servers live in network namespaces within one that is made for the test: partitions are links that are taken down. All of
// it is gone with the process. Where namespaces are not allowed the servers share loopback, and faults that need a cut are named
// as left out.
package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

var (
	seed  = flag.Uint64("seed", 0, "order of the faults; 0 = any, which is printed")
	fault = flag.String("fault", "", "only the faults whose names match this `expression`")
)

// class is a form of the test.
type class struct {
	faults time.Duration // no fault begins later than this
	limit  time.Duration // what has not ended by then is stuck
	pause  time.Duration // of a publisher: all entries are read in the end
	plan   func(*rand.Rand) []nemesis
}

var classes = map[string]class{
	"ci": {55 * time.Second, 8 * time.Minute, 80 * time.Millisecond, func(*rand.Rand) []nemesis {
		var plan []nemesis
		for _, want := range []string{"the leader of " + events.EventsStream + " is killed",
			"the leader of " + events.RecordsStream + " is cut off, both sides are written to", "rolling restart"} {
			for _, n := range nemeses() {
				if n.name == want {
					plan = append(plan, n)
				}
			}
		}
		return plan
	}},
	"full": {11 * time.Minute, 18 * time.Minute, 120 * time.Millisecond, func(r *rand.Rand) []nemesis {
		var plan []nemesis
		for range 2 {
			all := nemeses()
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			plan = append(plan, all...)
		}
		return plan
	}},
}

// Where the test runs again, in namespaces of its own; the value says what it may cut.
const (
	insideEnv = "SPOOL_CLUSTER_INSIDE"
	probe     = "probe" // nothing but the network, to see whether it can be made
)

func TestCluster(t *testing.T) {
	form, ok := classes[os.Getenv("SPOOL_CLUSTER")]
	if !ok {
		t.Skip("three servers under faults: set SPOOL_CLUSTER=ci (two minutes) or full (a quarter of an hour)")
	}
	dir := os.Getenv(insideEnv)
	if dir != "" {
		network := must.Get(makeNetwork())(t)
		if dir == probe {
			return
		}
		data := filepath.Join(dir, "data")
		// Faults here are of processes and networks, not of disks; memory keeps others' disks out of the elections.
		must.Do(t, errors.Join(os.Mkdir(data, 0o755), sh("mount -t tmpfs -o size=8g none "+data)))
		attack(t, form, network, data, dir)
		return
	}
	dir = t.TempDir()
	must.Do(t, proc.Build(dir, "github.com/nats-io/nats-server/v2", "spool/cmd/persister", "spool/cmd/gc"))
	args := []string{"-test.run=^TestCluster$", "-test.v", "-test.timeout=" + form.limit.String(),
		fmt.Sprintf("-seed=%d", *seed), "-fault=" + *fault}
	runtime.LockOSThread() // the kernel kills a child with the thread that made it
	defer runtime.UnlockOSThread()
	try := unshared(exec.Command(os.Args[0], args...))
	try.Env = append(os.Environ(), insideEnv+"="+probe)
	if out, why := try.CombinedOutput(); why != nil {
		t.Logf("NOT RUN: faults that cut servers off from each other: namespaces are not allowed here: %v\n%s", why, out)
		attack(t, form, &network{}, dir, dir)
		return
	}
	again := unshared(exec.Command(os.Args[0], args...))
	again.Env = append(os.Environ(), insideEnv+"="+dir)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	must.Do(t, again.Run())
}

// unshared makes a command run in namespaces of its own, of processes too: whatever it leaves ends with it, and it with the test.
func unshared(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // root only in there
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// attack is the test itself.
func attack(t *testing.T, form class, network *network, dir, bin string) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	begun := time.Now()
	said := func(format string, args ...any) {
		t.Helper()
		t.Logf("%5.1f s  %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	said("seed %d", *seed)
	plan := form.plan(rand.New(rand.NewPCG(*seed, 0)))
	if *fault != "" {
		only := regexp.MustCompile(*fault)
		plan = slices.DeleteFunc(plan, func(n nemesis) bool { return !only.MatchString(n.name) })
	}
	c := newCluster(t, network, dir, bin)
	said("three servers, all streams with three copies")
	w := watch(c)
	r := &run{c: c, l: newLoad(c, form.pause)}
	w.pauses(r.l)
	r.goesOn()
	c.await("a cycle of gc", r.l.collected)
	said("the load runs")
	left := 0
	for i, n := range plan {
		if n.cuts && !network.namespaces {
			said("NOT RUN: %s: no namespaces", n.name)
			continue
		}
		if time.Since(begun) > form.faults && i > 0 {
			left++
			said("NOT RUN: %s: the time for faults is over", n.name)
			continue
		}
		said("%s", n.name)
		n.do(r)
		r.must(r.l.failed())
	}
	said("healed; %d of %d faults were left out", left, len(plan))
	pause := w.stop()
	verify(t, r, said, w, pause)
}

// verify ends the load and looks at everything.
func verify(t *testing.T, r *run, said func(string, ...any), w *watcher, pause time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	r.l.stop()
	if err := r.l.group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for i, d := range r.l.daemons {
		if strings.HasPrefix(r.l.names[i], "gc") {
			d.Stop()
		}
	}
	cl := client.New(r.c.conn)
	if err := faulttest.Settle(ctx, r.c.conn); err != nil {
		t.Fatalf("%v%s", err, r.l.persisters())
	}
	said("everything is applied")
	r.checkEntries(ctx, cl)
	said("the ledgers are checked")
	r.checkFollowers(ctx, cl)
	said("the subscribers are checked")
	var report *fsck.Report
	must.Do(t, settled(ctx, func() (err error) { report, err = fsck.Check(ctx, natsadmin.Of(r.c.conn), fsck.Config{}); return err }))
	for _, f := range report.Findings {
		t.Errorf("fsck: %s", f)
	}
	for _, differ := range r.c.copies(ctx) {
		said("copies differ: %s", differ)
	}
	letters, err := cl.EverySession().DeadLetters(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, d := range letters {
		t.Errorf("dead letter of %s: %s", d.Thread, d.Reason)
	}
	said("fsck: %d threads, %d states, %d packs, %d blobs", report.Threads, report.States, report.Packs, report.Blobs)
	v, err := r.l.heads.judge()
	if err != nil {
		t.Errorf("moves of heads are not linearizable: %v\n%s", err, strings.Join(v.bad, "\n"))
	}
	if v.undecided > v.keys/4 {
		t.Errorf("the checker found no answer for %d of %d heads", v.undecided, v.keys)
	}
	said("heads: %d operations on %d heads, %d without an answer; linearizable: %v (%d heads undecided); %d stale reads, the oldest by %v; %d moves were refused and took place",
		v.ops, v.keys, v.open, err == nil, v.undecided, v.stale, v.oldest.Round(time.Millisecond), v.denied)
	var unknown, items, filled int64
	for _, g := range r.l.ledgers {
		unknown += g.Unknown()
	}
	for _, f := range r.l.followers {
		items, filled = items+f.items, filled+f.filled
	}
	cycles, applied, condemned := 0, 0, 0
	for _, g := range r.l.gc {
		cycles, applied, condemned = cycles+g.cycles, applied+g.applied, condemned+g.condemned
		for why, n := range g.refused {
			said("gc, %d times: %.600s", n, why)
			if strings.Contains(why, gc.ErrUnsafe.Error()) {
				t.Errorf("gc found something wrong: %s", why)
			}
		}
	}
	// A cycle that reads while leaders change may see less than there is, and knows it (record.ErrBusy); one that reads now must not.
	must.Is(t, settled(ctx, func() error { return planned(ctx, r.c.conn) }), nil, "a cycle of gc")
	said("%d entries acked, %d unknown; %d forks, %d deletions, %d cut short; %d items to %d subscribers, %d of them filled",
		r.l.acked(), unknown,
		r.l.forks.Load(), r.l.deletions.Load(), r.l.cut.Load(), items, len(r.l.followers), filled)
	said("%d gc cycles, %d applied, %d condemned; %d commits; %d changes of leaders seen; longest pause of acks %v", cycles,
		applied, condemned,
		r.commits(ctx), w.elections.Load(), pause.Round(100*time.Millisecond))
}

func (r *run) checkEntries(ctx context.Context, cl *client.Client) {
	t := r.c.t
	for _, g := range r.l.ledgers {
		must.Is(t, g.CheckThreads(ctx, r.c.conn), nil, "ledger")
		if g.Acked() == 0 {
			t.Errorf("ledger of %v: nothing was acked: it was not tried", g.Sessions())
		}
	}
	for _, a := range r.l.asyncs {
		if err := a.check(ctx, cl); err != nil {
			t.Error(err)
		}
	}
}

// checkFollowers: each gets every item, in order, without a gap.
func (r *run) checkFollowers(ctx context.Context, cl *client.Client) {
	t, want := r.c.t, map[events.Thread]int64{}
	list := must.Get(cl.EverySession().Threads(ctx))(t)
	for _, th := range list {
		if !doomed(th.Session) && !strings.HasPrefix(th.Session, "fork-") { // a fork has no items of its own here
			want[th.Thread] = th.Head.N
		}
	}
	for _, f := range r.l.followers {
		if err := eventually(ctx, func(context.Context) error { return f.behind(want) }); err != nil {
			t.Error(err)
		}
	}
	r.l.stopFollowers()
	if err := r.l.following.Wait(); err != nil {
		t.Error(err)
	}
	for _, f := range r.l.followers {
		for i, err := range f.wrong {
			if i < 5 {
				t.Error(err)
			}
		}
	}
}

// commits are those of the persisters, by what they say of themselves as NATS services; -1: they do not answer.
func (r *run) commits(ctx context.Context) (n int64) {
	nc := r.c.conn.JetStream().Conn()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return -1
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$SRV.STATS.spool-persister", sub.Subject, nil); err != nil {
		return -1
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for range servers {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return -1
		}
		var stats struct {
			Endpoints []struct{ Data struct{ Commits int64 } }
		}
		if err := json.Unmarshal(m.Data, &stats); err != nil || len(stats.Endpoints) == 0 {
			return -1
		}
		n += stats.Endpoints[0].Data.Commits
	}
	return n
}

// persisters is what they said last.
func (l *load) persisters() string {
	var b strings.Builder
	for i, d := range l.daemons {
		fmt.Fprintf(&b, "\n%s:\n%s", l.names[i], d.Lines(12))
	}
	return b.String()
}

// watcher looks at who leads, and at how long no publisher gets an ack.
type watcher struct {
	c         *cluster
	elections atomic.Int64
	cancel    context.CancelFunc
	ctx       context.Context
	done      chan struct{}
	pause     chan time.Duration
}

func watch(c *cluster) *watcher {
	w := &watcher{c: c, done: make(chan struct{}), pause: make(chan time.Duration, 1)}
	w.ctx, w.cancel = context.WithCancel(c.t.Context())
	go func() {
		defer close(w.done)
		last := map[string]int{}
		for w.ctx.Err() == nil {
			for _, group := range groups {
				ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
				now, err := c.leader(ctx, group)
				cancel()
				if err != nil {
					continue
				}
				if was, ok := last[group]; ok && was != now {
					w.elections.Add(1)
				}
				last[group] = now
			}
			wait(w.ctx, 300*time.Millisecond)
		}
	}()
	return w
}

func (w *watcher) pauses(l *load) {
	go func() {
		acked, since, longest := l.acked(), time.Now(), time.Duration(0)
		for w.ctx.Err() == nil {
			wait(w.ctx, 50*time.Millisecond)
			if now := l.acked(); now != acked {
				longest = max(longest, time.Since(since))
				acked, since = now, time.Now()
			}
		}
		w.pause <- longest
	}()
}

// stop ends the watching and gives the longest pause.
func (w *watcher) stop() time.Duration {
	w.cancel()
	<-w.done
	return <-w.pause
}

// planned is a cycle of gc up to its plan, which moves fences and deletes nothing. Brakes are no error of it.
func planned(ctx context.Context, conn *natsio.Conn) error {
	c, err := service.NewCollector(conn, gc.Safe(), nil)
	if err == nil {
		_, err = c.Plan(ctx)
	}
	return err
}
