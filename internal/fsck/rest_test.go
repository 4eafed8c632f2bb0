package fsck_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A record of a class that is not known is left alone by a repair, but for --cut.
func TestRepairOfAnUnknownClass(t *testing.T) {
	w := newWorld(t)
	w.put("future.x", []byte("?"))
	for _, cut := range []bool{false, true} {
		rep := must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{Cut: cut}))(w)
		if len(rep.Repairs) != 1 || rep.Repairs[0].Record != "future.x" || (rep.Repairs[0].To != "") != cut {
			t.Errorf("Fix(cut %v) = %+v, want a repair of future.x", cut, rep.Repairs)
		}
	}
	w.wantClean()
}

// branch appends entries to a thread, each a root of its own in a commit of its own, and of as many producers.
func (w *world) branch(id events.Thread, from, to int) threads.Head {
	w.Helper()
	for i := from; i < to; i++ {
		p := w.cl.Publisher(client.PublisherConfig{Producer: fmt.Sprint("p", i)})
		body := fmt.Appendf(nil, `{"type":"message","id":"e%d","parentId":null,"timestamp":"2026-11-20T10:00:00.000Z",`+
			`"message":{"role":"user","content":"x"}}`, i)
		must.Do(w, must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "omp", Body: body, Seq: 1}))(w).Applied(w.Context()))
	}
	h := must.Get(w.cl.Thread(id).Head(w.Context()))(w)
	return h
}

// A head that is lost comes back with its branches, where its items and states say where it was.
func TestLostHeadOfBranches(t *testing.T) {
	for name, branches := range map[string]int{"some": 4, "more than a record holds": 100, "forgotten by SPOOL_EVENTS": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := events.Thread{Session: "s", Name: "main"}
			w := newWorld(t)
			h := w.branch(id, 0, branches)
			w.settle()
			want := w.texts()
			w.stop()
			if strings.HasPrefix(name, "forgotten") {
				must.Do(t, must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(t).Purge(t.Context()))
			}
			w.loseHead(id)
			done, _ := w.fix(id, fsck.Config{})
			if after := must.Get(w.cl.Thread(id).Head(t.Context()))(t); after.Branches() != h.Branches() || w.texts()[id] != want[id] {
				t.Errorf("it has %d branches, want %d: %+v", after.Branches(), h.Branches(), done)
			}
			w.start()
			h = w.branch(id, branches, branches+1)
			if w.settle(); h.Entries != int64(branches)+1 {
				t.Errorf("%d entries, want %d", h.Entries, branches+1)
			}
			w.wantNoFindings()
			w.wantClean()
		})
	}
}

// tell has the newest entry of a producer published once more, and gives how many entries the thread has then.
func (w *world) tell(id events.Thread, producer string) int64 {
	w.Helper()
	p := w.cl.Publisher(client.PublisherConfig{Producer: producer})
	body := []byte(`{"type":"message","id":"twice","parentId":null,"message":{}}`)
	must.Get(p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "omp", Body: body, Seq: 1}))(w)
	h := w.branch(id, 1000, 1001)
	return h.Entries
}

// What a head keeps in nodes is made again from the events when it is lost: the tips under their hash, the producers
// as the events tell of them.
func TestLostNodesOfAHead(t *testing.T) {
	for name, c := range map[string]struct {
		lost func(h threads.Head) casstore.Located
		made bool // again, under the same hash
	}{
		"tips":      {func(h threads.Head) casstore.Located { return h.Older }, true},
		"producers": {func(h threads.Head) casstore.Located { return h.Seen }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := events.Thread{Session: "s", Name: "main"}
			h := w.branch(id, 0, 100)
			if h.Older.IsZero() || h.Seen.IsZero() || h.Branches() != 99 || len(h.Producers) != 100 {
				t.Fatalf("the head %+v keeps nothing in nodes", h)
			}
			w.wantClean()
			w.stop()
			w.put(events.PackKey(c.lost(h).Pack.String()), nil)
			if rep := w.check(); len(rep.Findings) == 0 {
				t.Fatal("nothing is found")
			}
			for range 2 { // the states of the pack, then what the head keeps in it
				w.fix(id, fsck.Config{})
			}
			w.wantClean()
			w.cl = client.New(w.conn)
			after := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
			if after.Branches() != 99 || len(after.Producers) != 100 || c.made && string(after.Encode()) != string(h.Encode()) {
				t.Errorf("the head has %d branches and %d producers, want 99 and 100", after.Branches(), len(after.Producers))
			}
			must.Do(w, threads.Verify(t.Context(), w.cl.Reader(), after))
			w.start()
			must.Same(t, w.tell(id, "p3"), 101, "%d entries after an event that came before, want %d")
			w.wantClean()
		})
	}
}

// Without events the tips stay lost, until the operator says that the thread is to do without.
func TestLostTipsWithoutEvents(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	h := w.branch(id, 0, 60)
	w.stop()
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	must.Do(w, stream.Purge(t.Context()))
	broken := h.Clone()
	broken.Older.Ref, broken.Older.Pack = casstore.NodeRef([32]byte{7}), casstore.PackID{7}
	w.put(events.HeadKey(id), broken.Encode())
	done, ok := w.fix(id, fsck.Config{})
	if !ok || done.To != "" || !strings.Contains(done.Detail, "--cut") {
		t.Errorf("repair = %+v, %v, want none without being told to cut", done, ok)
	}
	if done, ok = w.fix(id, fsck.Config{Cut: true}); !ok || done.To == "" {
		t.Errorf("repair = %+v, %v, want that the thread does without", done, ok)
	}
	after := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	if !after.Older.IsZero() || after.Head() != h.Head() || len(after.Tips) != len(h.Tips) {
		t.Errorf("the head is %+v, want that of before without older tips", after)
	}
	must.Do(w, threads.Verify(t.Context(), w.cl.Reader(), after))
}
