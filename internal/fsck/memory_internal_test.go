package fsck

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// listed is a store of which only listings are asked.
type listed struct {
	Store
	heads int
}

func (s listed) List(_ context.Context, filter string) (rs []record.Record, err error) {
	if filter != "thread.>" {
		return nil, nil
	}
	for i := range s.heads {
		at := func(k int) casstore.Located {
			return casstore.Located{Ref: casstore.NodeRef([32]byte{byte(i), byte(i >> 8), byte(k)}), Pack: casstore.PackID{byte(i), byte(k)}}
		}
		h := threads.Head{
			Start: at(0), Producers: []threads.Producer{{ID: "~laptop:0123456789abcdef", Epoch: 1, Seq: 80, At: 4000}}, Applied: 4000,
			N: 80, Sent: 80, Entries: 50, Status: threads.StatusActive, Leaf: "019aa0d2-1780-7f03-b6c1-000000000012", Dialect: "claude",
			Memory: make([]byte, 60), Updated: 1795176000000, Created: 1795176000000, BytesIn: 100_000, Messages: 40,
		}
		for k := range threads.MaxRecent {
			h.Recent = append(h.Recent, at(k+1))
		}
		key := events.HeadKey(events.Thread{Session: fmt.Sprintf("019aa0d2-1780-7f03-b6c1-%012d", i), Name: events.MainThread})
		rs = append(rs, record.Record{Key: key, Value: h.Encode(), Seq: uint64(i + 1)})
	}
	return rs, nil
}

// What is kept of a head does not keep its record, and takes a bounded part of memory.
func TestMemoryOfHeads(t *testing.T) {
	const n = 30_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	c := newChecker(listed{heads: n}, Config{})
	must.Do(t, c.listHeads(t.Context()))
	took := (heap() - before) / n
	t.Logf("%d bytes a head, %d of them the struct", took, unsafe.Sizeof(head{}))
	if took > 1750 {
		t.Errorf("a head takes %d bytes", took)
	}
	runtime.KeepAlive(c)
}
