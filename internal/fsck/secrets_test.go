package fsck_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/redact"
	"spool/internal/service"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// leaked is nobody's.
const leaked = "AKIA" + "Q3EGRZ7MXL2TVB5D"

// What was masked is made again with the same masks: under the same hashes, and without the secret. Without them nothing is made
// of it, because what would come out is another node, and the secret is in it.
func TestGapOfMaskedEntries(t *testing.T) {
	for _, c := range []struct {
		dialect string
		body    func(i int) []byte
	}{
		{"step", func(i int) []byte {
			return fmt.Appendf(nil, `{"id":"m%d","role":"coder","content":"step %d: %s","timestamp":%d}`, i, i, leaked, 1795176000000+int64(i))
		}},
		{"raw", func(i int) []byte { return fmt.Appendf(nil, "step %d: %s", i, leaked) }}, // without ids: found by what it says
	} {
		t.Run(c.dialect, func(t *testing.T) {
			mask := redact.New(redact.Default(), true)
			w := newWorld(t)
			w.stop()
			w.startWith(service.PersisterConfig{Secrets: mask})
			id := events.Thread{Session: "s", Name: "main"}
			p := w.cl.Publisher(client.PublisherConfig{Producer: "agent"})
			for i := 1; i <= 12; i++ {
				e := client.Entry{Thread: id, Dialect: c.dialect, Body: c.body(i), Seq: uint64(i)}
				must.Do(w, must.Get(p.Publish(t.Context(), e))(w).Applied(t.Context()))
			}
			w.stop()
			want := w.path(id)
			lost := map[string]bool{}
			for _, l := range want[4:7] {
				lost[events.PackKey(l.Pack.String())] = true
			}
			for key := range lost {
				w.lose(key)
			}
			if done, ok := w.fix(id, fsck.Config{}); !ok || done.To != "" || done.Remade != 0 {
				t.Fatalf("repair without masks = %+v, %v, want it refused", done, ok)
			}
			if done, ok := w.fix(id, fsck.Config{Secrets: mask}); !ok || done.Remade < 3 {
				t.Fatalf("repair = %+v, %v, want the gap filled", done, ok)
			}
			w.wantClean()
			w.cl = client.New(w.conn) // nothing cached
			if got := w.path(id); !slices.EqualFunc(got, want, func(a, b casstore.Located) bool { return a.Ref == b.Ref }) {
				t.Error("the states are others")
			}
			var out bytes.Buffer
			if n, err := w.cl.Thread(id).Export(t.Context(), &out); err != nil || n != 12 {
				t.Fatalf("export = %d entries, %v, want 12", n, err)
			}
			if bytes.Contains(out.Bytes(), []byte(leaked)) || bytes.Count(out.Bytes(), []byte("[redacted:aws-access-key]")) != 12 {
				t.Errorf("export = %s", out.Bytes())
			}
		})
	}
}
