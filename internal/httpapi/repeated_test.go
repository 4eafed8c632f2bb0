package httpapi_test

import (
	"testing"

	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
)

// Who does not know whether an entry was stored sends it again, as it was. It was, and its
// thread has another name by now: it is no 409, as it is none where the thread has ended.
func TestRepeatedUnderAnOldName(t *testing.T) {
	conn, ctx, cl, url := worldOn(t, httpapi.Config{})
	const js = "application/json"
	const entry = `{"content":[{"type":"text","text":"hello"}]}`
	who := map[string]string{"Spool-Producer": "agent", "Spool-Seq": "1"}
	for _, op := range []struct{ name, path, body string }{{"e", "end", `{"return_code":0}`}, {"c", "rename", `{"to":"d"}`}} {
		at := "/v1/sessions/s/threads/" + op.name + "/"
		send := func() (int, string) {
			status, _, text := do(t, url, request{path: at + "entries?dialect=item", kind: js, body: entry, header: who})
			return status, text
		}
		if status, text := send(); status != 202 {
			t.Fatalf("%d %s", status, text)
		}
		must.Do(t, faulttest.Settle(ctx, conn))
		if status, _, text := do(t, url, request{path: at + op.path, kind: js, body: op.body}); status != 200 {
			t.Fatalf("%s = %d %s", op.path, status, text)
		}
		if status, text := send(); status != 202 {
			t.Errorf("the same entry again behind %s = %d %s, want 202: the thread has it", op.path, status, text)
		}
	}
	must.Do(t, faulttest.Settle(ctx, conn))
	if letters := must.Get(cl.Session("s").DeadLetters(ctx))(t); len(letters) != 0 {
		t.Errorf("dead letters %+v, want none", letters)
	}
}
