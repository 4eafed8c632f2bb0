package attack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// childEnv makes this binary a program that publishes with the SDK and keeps entries offline; its value is a task.
const childEnv = "SPOOL_ATTACK_CHILD"

// task is what such a program is to do.
type task struct {
	URL, Dir, Producer string
	First              uint64 // its first sequence; also makes the ids of its entries, with Base
	Base               int
	Seed               uint64
	Flush              bool // publish nothing, and end when the directory is empty
}

// claim is a line that it writes: an entry that it is about to publish, or that is durable.
type claim struct {
	Acked           bool `json:",omitempty"`
	Session, Thread string
	Seq             uint64
	Padding         int
}

func (c claim) thread() events.Thread { return events.Thread{Session: c.Session, Name: c.Thread} }

func serveChild(text string) error {
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return err
	}
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Config{URL: k.URL, Offline: k.Dir, OfflineBytes: 64 << 20})
	if err != nil {
		return err
	}
	defer c.Close()
	if k.Flush {
		return drained(k.Dir)
	}
	out := json.NewEncoder(os.Stdout)
	p, r := c.Publisher(client.PublisherConfig{Producer: k.Producer}), rand.New(rand.NewPCG(k.Seed, 9))
	for seq := k.First; ; {
		var es []client.Entry
		var cs []claim
		session := append(calm, wild...)[r.IntN(len(calm)+len(wild))]
		for range 1 + r.IntN(8) {
			one := claim{Session: session, Thread: threads[r.IntN(len(threads))], Seq: seq, Padding: r.IntN(9000)}
			es = append(es, client.Entry{Thread: one.thread(), Dialect: "item", Seq: seq, Body: bodyOf(k.id(seq), one.Padding)})
			cs = append(cs, one)
			seq++
			if err := out.Encode(one); err != nil {
				return err
			}
		}
		some, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(6000))*time.Millisecond)
		_, err := p.Publish(some, es...)
		cancel()
		for i := range cs {
			if cs[i].Acked = true; err != nil {
				break // other entries follow: these are given up
			}
			if err := out.Encode(cs[i]); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(r.IntN(120)) * time.Millisecond) // its pace
	}
}

// drained waits until no queue of the directory holds a segment.
func drained(dir string) error {
	return must.Poll(func() error {
		found, err := exec.Command("find", dir, "-name", "*.log", "-size", "+10c").Output()
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("not drained:\n%s", found)
		}
		return err
	})
}

func (k task) id(seq uint64) string { return fmt.Sprintf("e%d~", k.Base+int(seq)) }

// laptop begins the names of producers whose entries are acknowledged once they are on a disk of their own.
const laptop = "laptop-"

// children are programs that die with a queue offline, one after another under the same producer.
func (a *attack) children(ctx context.Context, k task, r *rand.Rand) {
	for k.First = 1; ctx.Err() == nil; k.Seed++ {
		cmd, err := childOf(k)
		if err != nil {
			a.t.Errorf("child: %v", err)
			return
		}
		lines, stdout, err := os.Pipe() // one of cmd's is closed when it ends: what is not read by then is lost, and claimed by nobody
		if err != nil {
			a.t.Errorf("child: %v", err)
			return
		}
		cmd.Stdout = stdout
		p, err := proc.Begin(a.t, cmd)
		_ = stdout.Close()
		if err != nil {
			_ = lines.Close()
			a.t.Errorf("child: %v", err)
			return
		}
		var read sync.WaitGroup
		read.Go(func() {
			defer lines.Close()
			for sc := bufio.NewScanner(lines); sc.Scan(); {
				var one claim
				if json.Unmarshal(sc.Bytes(), &one) == nil {
					a.claimed(k, one)
					k.First = max(k.First, one.Seq+1)
				}
			}
		})
		pause(ctx, time.Duration(300+r.IntN(7000))*time.Millisecond)
		p.Kill()
		read.Wait()
		if log := p.Log(); strings.Contains(log, "panic:") {
			a.t.Errorf("the child of %s: %.3000s", k.Producer, log)
		}
	}
}

func (a *attack) claimed(k task, one claim) {
	if !one.Acked {
		a.l.mu.Lock()
		a.l.add(k.id(one.Seq), name{one.thread(), k.Producer, 0, one.Seq}, one.Padding)
		a.l.mu.Unlock()
		return
	}
	a.l.mu.Lock()
	e := a.l.byID[k.id(one.Seq)]
	a.l.mu.Unlock()
	a.l.ack(e)
}

func childOf(k task) (*exec.Cmd, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	return cmd, nil
}

// flush has what dead programs left published.
func (a *attack) flush(k task) {
	k.Flush, k.URL = true, "nats://"+a.w.nats
	cmd, err := childOf(k)
	if err == nil {
		var b []byte
		if b, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, b)
		}
	}
	if err != nil {
		a.t.Errorf("what was left offline in %s is not published: %v", k.Dir, err)
	}
}
