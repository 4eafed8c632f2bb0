package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// latched is a system with a thread whose record, or a part of it, cannot be read, so that its events go to the dead
// letters.
type latched struct {
	*testing.T
	conn *natsio.Conn
	cl   *client.Client
	id   events.Thread
}

// spoilt are what becomes of the record of a head.
var spoilt = map[string]func(value []byte) []byte{
	"no head": func([]byte) []byte { return []byte(`{"stream":"SPOOL_EVENTS"}`) },
	"a lost node": func(value []byte) []byte {
		h, err := threads.DecodeHead(value)
		if err != nil {
			panic(err)
		}
		h.Seen = casstore.Located{Ref: casstore.NodeRef([32]byte{7}), Pack: casstore.PackID{7}}
		return h.Encode()
	},
}

func latch(t *testing.T, spoil func(value []byte) []byte) *latched {
	conn := natstest.Conn(t)
	w := &latched{t, conn, client.New(conn), events.Thread{Session: "s", Name: "main"}}
	cfg := service.PersisterConfig{Config: persist.Config{Lane: -1}}
	run(t, service.NewPersister(conn, cfg, slog.New(slog.DiscardHandler)))
	for i := range uint64(5) {
		w.say(w.id, i+1)
	}
	rs := must.Get(conn.Records().Records(t.Context(), events.HeadKey(w.id)))(t)
	put := record.Put{Key: rs[0].Key, Value: spoil(rs[0].Value), Expect: rs[0].Seq}
	must.Get(conn.Records().Write(t.Context(), put))(t)
	w.publish(w.id, 6)
	for len(w.letters()) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no dead letter")
		}
	}
	if why := w.letters()[0].Reason; !strings.Contains(why, "latched") || !strings.Contains(why, "head") {
		t.Errorf("the letter says %q, want that the thread is latched, and over what", why)
	}
	return w
}

func (w *latched) publish(id events.Thread, seq uint64) {
	w.Helper()
	body := fmt.Appendf(nil, `{"id":"e%d","role":"coder","content":"x"}`, seq)
	e := client.Entry{Thread: id, Dialect: "step", Body: body, Seq: seq}
	must.Get(w.cl.Publisher(client.PublisherConfig{Producer: "p"}).Publish(w.Context(), e))(w)
}

// say publishes an entry, and waits until it is applied.
func (w *latched) say(id events.Thread, seq uint64) {
	w.Helper()
	w.publish(id, seq)
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	must.Do(w, w.cl.Thread(id).Await(ctx, "p", 0, seq))
}

func (w *latched) letters() []client.DeadLetter {
	w.Helper()
	all := must.Get(w.cl.EverySession().DeadLetters(w.Context()))(w)
	return all
}

// fresh: the name begins anew.
func (w *latched) fresh() {
	w.Helper()
	w.say(w.id, 100)
	if h, err := w.cl.Thread(w.id).Head(w.Context()); err != nil || h.Entries != 1 {
		w.Errorf("the new thread has %d entries, %v, want 1", h.Entries, err)
	}
	rep, err := fsck.Check(w.Context(), natsadmin.Of(w.conn), fsck.Config{})
	if err != nil || len(rep.Findings) > 0 {
		w.Errorf("fsck finds %v, %v, want nothing", rep.Findings, err)
	}
}

// A latched thread is removed by the operations that remove any other.
func TestLatchedThreadIsRemoved(t *testing.T) {
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			w := latch(t, spoil)
			if err := w.cl.Thread(w.id).Remove(t.Context()); err == nil {
				t.Error("Remove() = nil, want that it asks to be forced")
			}
			must.Do(t, w.cl.Thread(w.id).Remove(t.Context(), client.Force(true)))
			w.fresh()
		})
	}
}

func TestLatchedSessionIsDeleted(t *testing.T) {
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			w := latch(t, spoil)
			must.Get(w.cl.Session(w.id.Session).Delete(t.Context(), client.Deletion{Force: true}))(t)
			w.fresh()
		})
	}
}

// A latched thread is repaired, from its items and events, and goes on.
func TestLatchedThreadIsRepaired(t *testing.T) {
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			w := latch(t, spoil)
			admin := natsadmin.Of(w.conn)
			rep, err := fsck.Fix(t.Context(), admin, admin, w.conn.Store(0), fsck.Config{})
			if err != nil || !slices.ContainsFunc(rep.Repairs, func(r fsck.Repair) bool {
				return r.Record == events.HeadKey(w.id) && r.To != ""
			}) {
				t.Fatalf("Fix() = %+v, %v, want a repair of the thread", rep, err)
			}
			h, err := w.cl.Thread(w.id).Head(t.Context())
			if err != nil || h.Entries < 5 {
				t.Fatalf("the thread has %d entries, %v, want 5", h.Entries, err)
			}
			w.say(w.id, 200)
			if rep, err := fsck.Check(t.Context(), admin, fsck.Config{}); err != nil || len(rep.Findings) > 0 {
				t.Errorf("fsck finds %v, %v, want nothing", rep.Findings, err)
			}
		})
	}
}
