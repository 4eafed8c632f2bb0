package gc

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// crowd is a record bucket of many threads, whose records are made when they are told.
type crowd struct {
	*fake
	states [][]casstore.Located // a thread's start and state, by pack and thread
	marks  func()
}

const crowdPacks, crowdPerPack = 100, 1000

func newCrowd(t *testing.T) *crowd {
	c := &crowd{fake: newFake(t)}
	for p := range crowdPacks {
		b := casstore.NewPackBuilder()
		var states []casstore.Located
		for i := range 2 * crowdPerPack {
			n := casstore.Node{Type: "state", Payload: casstore.AppendInt(nil, int64(i*crowdPacks+p))}
			states = append(states, casstore.Located{Ref: b.AddNode(&n), Pack: packID(p)})
		}
		c.fake.pack(packID(p), b)
		c.states = append(c.states, states)
	}
	return c
}

func (c *crowd) Scan(ctx context.Context, from uint64, tell func(record.Stamped) error) (uint64, error) {
	last, err := c.fake.Scan(ctx, from, tell)
	if from > 1 || err != nil {
		return last, err
	}
	for p, states := range c.states {
		for i := range crowdPerPack {
			h := threads.Head{Start: states[2*i], Recent: states[2*i+1 : 2*i+2], Entries: 2, N: 2, BytesIn: 300}
			id := fmt.Sprintf("f%07d-0000-7000-8000-%012d", p*crowdPerPack+i, i)
			for _, r := range []record.Record{
				{Key: "thread." + id + ".main", Value: h.Encode(), Seq: 1},
				{Key: "session." + id, Value: []byte("x"), Seq: 1},
			} {
				if err := tell(record.Stamped{Record: r}); err != nil {
					return 0, err
				}
			}
		}
	}
	c.marks()
	return last, nil
}

func (c *crowd) ReadChunks(ctx context.Context, o record.Object, limit int, tell func([]byte) error) error {
	if len(c.fake.at) > 0 && o.NUID == fmt.Sprint("o", crowdPacks/2) {
		c.marks()
	}
	return c.fake.ReadChunks(ctx, o, limit, tell)
}

// TestMemoryOfThreads: a cycle keeps some words of a thread while it reads, and no more while it marks.
func TestMemoryOfThreads(t *testing.T) {
	const most = 200 // bytes a thread and its session, at either time
	c := newCrowd(t)
	before, at := heap(), []int{}
	c.marks = func() { at = append(at, int(heap()-before)/(crowdPacks*crowdPerPack)) }
	p := must.Get(New(Deps{Records: c, Bulk: c, Streams: c, Packs: c, Queue: c, Memory: c, MaxPayload: c.MaxPayload}, Config{}))(t)
	plan := must.Get(p.Plan(t.Context()))(t)
	must.Same(t, plan.Stock.Threads, crowdPacks*crowdPerPack, "threads = %d, want %d")
	must.Same(t, plan.Stock.Sessions, crowdPacks*crowdPerPack, "sessions = %d, want %d")
	must.Same(t, plan.Stock.LiveNodes, plan.Stock.Nodes, "live nodes = %d, want %d")
	if len(at) < 2 || max(at[0], at[1]) > most {
		t.Errorf("bytes a thread, behind the reading and in the midst of the marking: %v; want at most %d", at, most)
	}
	t.Logf("bytes a thread: %v", at)
	runtime.KeepAlive(plan)
}
