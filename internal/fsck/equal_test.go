package fsck_test

import (
	"fmt"
	"io"
	"maps"
	"slices"
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
			must.Do(w, must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step", Body: body, Seq: i + 1}))(w).Applied(w.Context()))
		}
		ids = append(ids, id)
	}
	w.stop()
	start := func(id events.Thread) string {
		return must.Get(w.cl.Thread(id).Head(t.Context()))(w).Start.Ref.String()
	}
	pack := must.Get(w.cl.Thread(ids[1]).Head(t.Context()))(w).Start.Pack
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
		must.Get(client.New(w.conn).Thread(id).Export(t.Context(), io.Discard))(t)
	}
}

// What is lost of one thread is told of it, and of no other that has equal states in packs of its own; a repair loses nothing of what is
// there in those, also where the events are gone.
func TestEqualThreads(t *testing.T) {
	for _, at := range []int{0, 14, 23} { // the newest, one behind those that the head names, the oldest
		for _, purged := range []bool{false, true} {
			for _, cfg := range []fsck.Config{{}, {Cut: true}} {
				t.Run(fmt.Sprintf("state %d, purged %v, cut %v", at, purged, cfg.Cut), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					a, b := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "u", Name: "main"}
					w.steps(a, 1, 25)
					w.steps(b, 1, 25)
					w.stop()
					want := w.texts()
					w.lose(events.PackKey(w.path(a)[at].Pack.String()))
					if purged {
						must.Do(t, must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(t).Purge(t.Context()))
					}
					told := w.check().Findings
					of := func(id events.Thread) bool {
						return slices.ContainsFunc(told, func(f fsck.Finding) bool { return f.Record == events.HeadKey(id) })
					}
					if !of(a) || of(b) {
						t.Errorf("findings %v, want some of %s and none of %s", told, a, b)
					}
					if done, ok := w.fix(a, cfg); !ok || done.To == "" || done.Lost != 0 {
						t.Errorf("repair = %+v, %v", done, ok)
					}
					w.wantClean()
					if got := w.texts(); !maps.Equal(got, want) {
						t.Error("the exports are others")
					}
				})
			}
		}
	}
}
