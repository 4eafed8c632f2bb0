package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
)

// An entry that comes behind a later one of its producer and was never stored is a dead letter, however often the name of its
// thread was removed and used again.
func TestLateBehindRemovals(t *testing.T) {
	for removals := range 4 {
		t.Run(fmt.Sprint(removals), func(t *testing.T) {
			conn, ctx, cl, url := worldOn(t, httpapi.Config{})
			const at = "/v1/sessions/s/threads/x"
			send := func(seq int) {
				t.Helper()
				status, _, text := do(t, url, request{path: at + "/entries?dialect=item", kind: "application/json",
					body:   fmt.Sprintf(`{"content":[{"type":"text","text":"entry %d."}]}`, seq),
					header: map[string]string{"Spool-Producer": "agent", "Spool-Seq": fmt.Sprint(seq)}})
				if status != 202 {
					t.Fatalf("entry %d = %d %s", seq, status, text)
				}
				must.Do(t, faulttest.Settle(ctx, conn))
			}
			send(1)
			send(3) // 2 is late
			for i := range removals {
				if status, _, text := do(t, url, request{method: "DELETE", path: at}); status >= 300 {
					t.Fatalf("remove = %d %s", status, text)
				}
				send(10 + i)
			}
			send(2)
			letters := must.Get(cl.Session("s").DeadLetters(ctx))(t)
			_, _, items := get(t, url, at+"/items")
			if len(letters) != 1 && !strings.Contains(items, "entry 2.") {
				t.Errorf("the late entry was acknowledged and is nowhere: %d letters, items %s", len(letters), items)
			}
		})
	}
}
