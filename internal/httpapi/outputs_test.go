package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOutputIDIsOfOneRequest: what is sent under the id of an output that is open, has ended, or is of another thread is
// refused, and nothing of it is put behind what is there.
func TestOutputIDIsOfOneRequest(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	const path = "/v1/sessions/s/threads/"
	send := func(thread, query, body string, want int) string {
		t.Helper()
		status, _, text := do(t, url, request{method: "POST", path: path + thread + "/outputs?tool=make" + query, body: body})
		if status != want {
			t.Errorf("output %s to %s = %d %s, want %d", query, thread, status, text, want)
		}
		return text
	}
	cut := must.Get(cl.Output(ctx, th, client.OutputConfig{ID: "retry", Tool: "make"}))(t)
	must.Get(io.WriteString(cut, "AAAA\n"))(t)
	must.Do(t, cut.Begun(ctx))
	if text := send("main", "&id=retry", strings.Repeat("BBBB\n", 100_000), http.StatusConflict); !strings.Contains(text, "is open") {
		t.Errorf("refusal = %s, want it to say that the output is open", text)
	}
	must.Get(io.WriteString(cut, "CCCC\n"))(t)
	must.Do(t, cut.Close(client.OutputEnd{}))
	must.Do(t, cut.Wait(ctx))
	if _, _, text := get(t, url, path+"main/items/1"); !strings.Contains(text, `AAAA\nCCCC\n`) {
		t.Errorf("item = %s, want what the first attempt sent", text)
	}
	send("main", "&id=retry", "DDDD\n", http.StatusConflict)
	send("other", "&id=retry", "DDDD\n", http.StatusConflict)
	send("main", "&id=next", "EEEE\n", http.StatusCreated)
	send("main", "", "FFFF\n", http.StatusCreated)
	must.Do(t, cl.End(ctx, th, events.End{}))
	send("main", "&id=late", "GGGG\n", http.StatusConflict)
	if letters := must.Get(cl.DeadLetters(ctx, "s"))(t); len(letters) != 0 {
		t.Errorf("%d dead letters, want none: %+v", len(letters), letters)
	}
}

// TestTwoAttempts: of two attempts that begin at once under one id one is kept, whole, and the other is told.
func TestTwoAttempts(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	var outs []*client.Output
	for _, text := range []string{"AAAA\n", "BBBB\n"} {
		o := must.Get(cl.Output(ctx, th, client.OutputConfig{ID: "o"}))(t)
		for range len(outs)*3 + 1 {
			must.Get(io.WriteString(o, strings.Repeat(text, 20_000)))(t)
		}
		outs = append(outs, o)
	}
	must.Do(t, outs[0].Begun(ctx))
	if err := outs[1].Begun(ctx); err == nil {
		t.Error("the second attempt is begun, too")
	}
	must.Do(t, outs[1].Close(client.OutputEnd{}))
	must.Do(t, outs[0].Close(client.OutputEnd{}))
	must.Do(t, outs[0].Wait(ctx))
	if _, _, text := get(t, url, "/v1/sessions/s/threads/main/items/1"); !strings.Contains(text, `"total_bytes":100000`) ||
		strings.Contains(text, "BBBB") {
		t.Errorf("item = %.300s, want what the first attempt sent", text)
	}
}
