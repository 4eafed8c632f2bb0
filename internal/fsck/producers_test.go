package fsck_test

import (
	"fmt"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// turns appends steps to a thread, each as the next of several producers, in a commit of its own.
func (w *world) turns(id events.Thread, from, to int) {
	w.Helper()
	for i := from; i < to; i++ {
		p := w.cl.Publisher(client.PublisherConfig{Producer: fmt.Sprint("agent.", i%3), Epoch: uint64(i / 10)})
		body := fmt.Appendf(nil, `{"id":"%s%d","role":"coder","content":"step %d","timestamp":%d}`, id.Name, i, i, 1795176000000+int64(i))
		e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i)}
		must.Do(w, must.Get(p.Publish(w.Context(), e))(w).Applied(w.Context()))
	}
}

// What several producers wrote is applied again whole, from its beginning or from where a head went back to.
func TestRepairOfSeveralProducers(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	for name, lose := range map[string]func(w *world, old record.Record){
		"a head without items": func(w *world, _ record.Record) {
			w.dropItems(id, func(int64) bool { return true })
			w.loseHead(id)
		},
		"a head behind items": func(w *world, _ record.Record) {
			w.dropItems(id, func(n int64) bool { return n > 6 })
			w.loseHead(id)
		},
		"an older head": func(w *world, old record.Record) {
			_, err := w.conn.Records().Write(w.Context(), record.Put{Key: old.Key, Value: old.Value, Expect: record.Any})
			must.Do(w, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.turns(id, 1, 7)
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			rs := must.Get(w.conn.Records().Records(t.Context(), events.HeadKey(id)))(w)
			w.turns(id, 7, 19)
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
			if want.N != 18 {
				t.Fatalf("the thread has %d items, want 18", want.N)
			}
			w.stop()
			lose(w, rs[0])
			w.wantWhole(id, want.N)
		})
	}
}

// A producer that was told of a failure published an event again, behind the one before it, which was not stored the first time.
// A repair applies the events as they were applied: the second copy counts, and nothing is passed over.
func TestRepairOfRepeatedEvents(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	w.stop()
	var all []*events.Event
	for i := range uint64(4) {
		body := fmt.Appendf(nil, `{"id":"e%d","role":"coder","content":"step %d","timestamp":%d}`, i+1, i+1, 1795176000001+i)
		e := events.Event{Producer: "agent", Seq: i + 1, Kind: events.KindEntry, Dialect: "step", Thread: id, Trace: fmt.Sprint(i), Body: body}
		all = append(all, &e)
	}
	must.Do(w, w.conn.Events().PublishEvents(t.Context(), all[:3]))
	must.Do(w, stream.DeleteMsg(t.Context(), 1)) // as if it had never come
	must.Do(w, w.conn.Events().PublishEvents(t.Context(), all))
	w.start()
	must.Do(w, w.cl.Thread(id).Await(t.Context(), "agent", 0, 4))
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	w.stop()
	w.dropItems(id, func(n int64) bool { return n > 1 })
	w.loseHead(id)
	w.wantWhole(id, want.N)
}

// wantWhole repairs a thread and waits until it has its items again.
func (w *world) wantWhole(id events.Thread, items int64) {
	w.Helper()
	done, ok := w.fix(id, fsck.Config{})
	if !ok || done.To == "" || done.Replayed == 0 {
		w.Fatalf("repair = %+v, %v, want events applied again", done, ok)
	}
	w.start()
	must.Do(w, faulttest.Settle(w.Context(), w.conn))
	got := must.Get(client.New(w.conn).Thread(id).Head(w.Context()))(w)
	if got.N != items || got.Entries != items {
		w.Errorf("repair = %+v: the thread has %d items, %d entries, want %d", done, got.N, got.Entries, items)
	}
	w.stop()
	w.wantClean()
}
