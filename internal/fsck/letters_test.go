package fsck_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestRepairLeavesLetters: whatever a repair publishes again, an entry that has a dead letter is added by its replay alone, once, also
// when the letter was replayed before the repair.
func TestRepairLeavesLetters(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	for name, lose := range map[string]func(w *world, old record.Record){
		"a head without items": func(w *world, _ record.Record) {
			w.dropItems(id, func(int64) bool { return true })
			w.loseHead(id)
		},
		"a head behind items": func(w *world, _ record.Record) {
			w.dropItems(id, func(n int64) bool { return n > 2 })
			w.loseHead(id)
		},
		"an older head": func(w *world, old record.Record) {
			must.Get(w.conn.Records().Write(w.Context(), record.Put{Key: old.Key, Value: old.Value, Expect: record.Any}))(w)
		},
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replayed before %v", name, before), func(t *testing.T) {
				w := newWorld(t)
				w.steps(id, 1, 4)
				w.settle()
				old := must.Get(w.conn.Records().Records(t.Context(), events.HeadKey(id)))(w)[0]
				blob := []byte("a blob that comes later")
				refers := func(name string) []byte {
					return fmt.Appendf(nil, `{"id":%q,"role":"coder","content":%q,"refs":[%q]}`, name, name, casstore.BlobRef(sha256.Sum256(blob)))
				}
				one := entryOf(id, "alone", 1, 0, "")
				one.Body = refers("alone")
				w.raw(one)
				some := entryOf(id, "shared", 1, 0, "first")
				some.More = []events.Entry{{Seq: 2, Body: refers("second")}, {Seq: 3, Body: step("third")}}
				w.raw(some)
				w.steps(id, 4, 6)
				w.settle()
				letters := must.Get(w.cl.EverySession().DeadLetters(t.Context()))(w)
				if len(letters) != 2 {
					t.Fatalf("%d dead letters, want 2", len(letters))
				}
				must.Get(w.cl.PutBlob(t.Context(), blob))(w)
				replay := func() {
					for _, d := range letters {
						must.Get(w.cl.Admin().ReplayDeadLetter(t.Context(), d.At))(w)
						must.Do(w, w.cl.Admin().RemoveDeadLetters(t.Context(), d.At))
					}
					w.settle()
				}
				if before {
					replay()
				}
				w.stop()
				lose(w, old)
				if done, ok := w.fix(id, fsck.Config{}); !ok || done.To == "" || done.Replayed == 0 {
					t.Fatalf("repair = %+v, %v, want events applied again", done, ok)
				}
				w.start()
				must.Do(w, faulttest.Settle(t.Context(), w.conn))
				if !before {
					replay()
				}
				must.Do(w, faulttest.Settle(t.Context(), w.conn))
				if got := must.Get(client.New(w.conn).Thread(id).Head(t.Context()))(w); got.Entries != 9 {
					t.Errorf("the thread has %d entries, want 9", got.Entries)
				}
				w.wantNoFindings()
				w.stop()
				w.wantClean()
			})
		}
	}
}

// Where the dead letters are lost, an answer and a rename that were refused are not taken for lost records, and a fork that may be
// lost is refused again by the repair: then nothing is found.
func TestRefusedWithoutLetters(t *testing.T) {
	w := newWorld(t)
	thC := events.Thread{Session: thA.Session, Name: "c"}
	w.play(asks(thA, 1), opOf(thA, "m", 1, 0, events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "other"}}),
		opOf(thB, "m", 1, 0, events.Control{Op: events.OpFork, Fork: &events.Fork{Session: thA.Session, Thread: thA.Name, Index: 99}}),
		opOf(thC, "m", 1, 0, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "z"}}))
	w.settle()
	if got := w.letters(); got != 3 {
		t.Fatalf("%d dead letters, want 3", got)
	}
	must.Do(t, must.Get(w.conn.JetStream().Stream(t.Context(), events.DeadStream))(t).Purge(t.Context()))
	for _, f := range w.check().Findings {
		if f.Record != events.HeadKey(thB) {
			t.Errorf("finding: %s", f)
		}
	}
	w.stop()
	w.fix(thB, fsck.Config{})
	w.start()
	w.settle()
	if got := w.letters(); got != 1 {
		t.Errorf("%d dead letters of the fork, want 1", got)
	}
	w.wantClean()
}
