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
				letters := must.Get(w.cl.DeadLetters(t.Context(), ""))(w)
				if len(letters) != 2 {
					t.Fatalf("%d dead letters, want 2", len(letters))
				}
				must.Get(w.cl.PutBlob(t.Context(), blob))(w)
				replay := func() {
					for _, d := range letters {
						must.Get(w.cl.ReplayDeadLetter(t.Context(), d.At))(w)
						must.Do(w, w.cl.RemoveDeadLetters(t.Context(), d.At))
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
				if got := must.Get(client.New(w.conn).Thread(t.Context(), id))(w); got.Entries != 9 {
					t.Errorf("the thread has %d entries, want 9", got.Entries)
				}
				if acc := w.account(fsck.Config{}); len(acc.Findings) > 0 {
					t.Errorf("accounts: %+v", acc)
				}
				w.stop()
				w.wantClean()
			})
		}
	}
}
