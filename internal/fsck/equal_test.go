package fsck_test

import (
	"fmt"
	"io"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Nearly all threads begin with equal starts, each in its first pack. Where one of them is not good, its thread is told, and no other.
func TestEqualStarts(t *testing.T) {
	w := newWorld(t)
	var ids []events.Thread
	for n := range 4 {
		id := events.Thread{Session: fmt.Sprint("s", n), Name: "main"}
		p := w.cl.Publisher(client.PublisherConfig{Producer: "agent"})
		for i := range uint64(3) {
			body := fmt.Appendf(nil, `{"id":"%d.%d","role":"coder","content":"step"}`, n, i)
			must.Do(w, p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step", Body: body, Seq: i + 1}))
			must.Do(w, w.cl.Await(w.Context(), id, p.Producer(), 0, i+1))
		}
		ids = append(ids, id)
	}
	w.stop()
	start := func(id events.Thread) string { return must.Get(w.cl.Thread(t.Context(), id))(w).Start.Ref.String() }
	pack := must.Get(w.cl.Thread(t.Context(), ids[1]))(w).Start.Pack
	size := 0
	w.spoil(events.PackKey(pack.String()), func(b []byte) []byte { size = len(b); return b })
	startSpoiled := false
	for at := range min(size, 400) {
		key := events.PackKey(pack.String())
		w.spoil(key, func(b []byte) []byte { return flip(b, len(b)-1-at) })
		bad := map[string]bool{}
		for _, f := range w.check().Findings {
			bad[f.Record] = true
		}
		for n, id := range ids {
			if n != 1 && bad[events.HeadKey(id)] || start(id) != start(ids[0]) {
				t.Fatalf("byte %d of the first pack of %s is spoiled, and %s is told", at, ids[1], id)
			}
		}
		startSpoiled = startSpoiled || bad[events.HeadKey(ids[1])]
		w.spoil(key, func(b []byte) []byte { return flip(b, len(b)-1-at) })
		if startSpoiled && at > 60 {
			break
		}
	}
	if !startSpoiled {
		t.Error("nothing is told of the thread whose pack it is")
	}
	w.spoil(events.PackKey(pack.String()), func(b []byte) []byte { return flip(b, len(b)-9) })
	if _, ok := w.fix(ids[1], fsck.Config{}); !ok {
		t.Error("the thread is not repaired")
	}
	w.wantClean()
	for _, id := range ids {
		must.Get(client.New(w.conn).Export(t.Context(), id, io.Discard))(t)
	}
}
