package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
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
	cut := must.Get(cl.Thread(th).Output(ctx, client.OutputConfig{ID: "retry", Tool: "make"}))(t)
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
	send("main", "&run=none", "FFFF\n", http.StatusNotFound)
	must.Do(t, cl.Thread(th).End(ctx, events.End{}))
	send("main", "&id=late", "GGGG\n", http.StatusConflict)
	if letters := must.Get(cl.Session("s").DeadLetters(ctx))(t); len(letters) != 0 {
		t.Errorf("%d dead letters, want none: %+v", len(letters), letters)
	}
}

// TestTwoAttempts: of two attempts that begin at once under one id one is kept, whole, and the other is told.
func TestTwoAttempts(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	var outs []*client.Output
	for _, text := range []string{"AAAA\n", "BBBB\n"} {
		o := must.Get(cl.Thread(th).Output(ctx, client.OutputConfig{ID: "o"}))(t)
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

// A trailer comes behind the body, when there is nothing to refuse any more: an output whose trailer says nothing of use is
// ended with what came of it, and the answer says so.
func TestWrongTrailer(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := events.Thread{Session: "s", Name: "main"}
	for id, trailer := range map[string][2]string{"code": {"Spool-Exit-Code", "two"}, "error": {"Spool-Is-Error", "perhaps"}} {
		r, w := io.Pipe()
		req := must.Get(http.NewRequestWithContext(ctx, "POST", url+"/v1/sessions/s/threads/main/outputs?tool=make&id="+id, r))(t)
		req.Trailer = http.Header{trailer[0]: nil}
		go func() {
			_, _ = io.WriteString(w, "built by half\n")
			req.Trailer.Set(trailer[0], trailer[1])
			_ = w.Close()
		}()
		res := must.Get(http.DefaultClient.Do(req))(t)
		body := must.Get(io.ReadAll(res.Body))(t)
		must.Do(t, res.Body.Close())
		text := string(body)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(text, trailer[0]) || !strings.Contains(text, "aborted") {
			t.Errorf("answer = %d %s, want 400, the trailer and what became of the output", res.StatusCode, text)
		}
		must.Same(t, len(must.Get(cl.Thread(th).Outputs(ctx))(t)), 0, "%d outputs are open, want %d")
		header := map[string]string{trailer[0]: trailer[1]}
		status, _, text := do(t, url, request{path: "/v1/sessions/s/threads/main/outputs?tool=make", body: "x", header: header})
		if status != http.StatusBadRequest {
			t.Errorf("as a header = %d %s, want 400", status, text)
		}
	}
	for _, n := range []string{"1", "2"} {
		_, _, text := get(t, url, "/v1/sessions/s/threads/main/items/"+n)
		if !strings.Contains(text, "built by half") || !strings.Contains(text, `"aborted":"`) || !strings.Contains(text, "want") {
			t.Errorf("item %s = %s, want what came and why it was aborted", n, text)
		}
	}
	if _, err := cl.Thread(th).Head(ctx); err != nil || len(must.Get(cl.Session("s").DeadLetters(ctx))(t)) != 0 {
		t.Errorf("thread: %v, or dead letters", err)
	}
}

// TestOutputOfAThreadThatLeaves: the thread of an output that is being sent is ended, or renamed by force. Its answer is 409, and
// what arrived before is in a result that says that it is aborted, behind the end or under the thread's new name.
func TestOutputOfAThreadThatLeaves(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	th := func(name string) events.Thread { return events.Thread{Session: "s", Name: name} }
	for name, leave := range map[string]struct {
		to string
		by func() error
	}{
		"ended":   {"ended", func() error { return cl.Thread(th("ended")).End(ctx, events.End{}) }},
		"renamed": {"now", func() error { return cl.Thread(th("renamed")).Rename(ctx, "now", client.Force(true)) }},
	} {
		tool, status := sendsOutput(ctx, t, cl, url, th(name))
		must.Do(t, leave.by())
		must.Get(io.WriteString(tool, "late\n"))(t)
		must.Do(t, tool.Close())
		must.Same(t, <-status, http.StatusConflict, "%s: POST = %d, want %d", name)
		found := false
		for it := range must.All(t, cl.Subscribe(ctx, client.Filter{Session: "s", Thread: leave.to}, client.Position{All: true})) {
			if found = strings.Contains(string(it.Raw), `precious\n`); found {
				if text := string(it.Raw); !strings.Contains(text, `"aborted":"`) || strings.Contains(text, "late") {
					t.Errorf("%s: result = %s, want it aborted, with what arrived before", name, text)
				}
				break
			}
		}
		if !found {
			t.Errorf("%s: there is no result of what arrived", name)
		}
	}
}

// sendsOutput begins an output, named as its thread, of which something has arrived. status is the answer, once tool is closed.
func sendsOutput(ctx context.Context, t *testing.T, cl *client.Client, url string, th events.Thread) (tool *io.PipeWriter,
	status <-chan int) {
	t.Helper()
	body, tool := io.Pipe()
	path := url + "/v1/sessions/" + th.Session + "/threads/" + th.Name + "/outputs?tool=make&lease_ms=1000&id=" + th.Name
	req := must.Get(http.NewRequestWithContext(ctx, "POST", path, body))(t)
	answer := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			answer <- 0
			return
		}
		defer res.Body.Close()
		answer <- res.StatusCode
	}()
	must.Get(io.WriteString(tool, "precious\n"))(t)
	for f, err := range cl.Thread(th).Follow(ctx, th.Name) {
		must.Do(t, err)
		if strings.Contains(string(f.Text), "precious") {
			break
		}
	}
	return tool, answer
}

// TestOutputOfASessionThatIsDeleted: the session of an output that is being sent is deleted by force. Its sender is answered that it is
// gone, and not left to wait.
func TestOutputOfASessionThatIsDeleted(t *testing.T) {
	_, ctx, cl, url := worldOn(t, httpapi.Config{})
	for _, late := range []string{"", "late\n"} {
		th := events.Thread{Session: "s" + strconv.Itoa(len(late)), Name: "main"}
		tool, status := sendsOutput(ctx, t, cl, url, th)
		must.Get(cl.Session(th.Session).Delete(ctx, client.Deletion{Force: true}))(t)
		must.Get(io.WriteString(tool, late))(t)
		must.Do(t, tool.Close())
		got := must.Receive(t, status, "no answer, with %q behind the deletion", late)
		must.Same(t, got, http.StatusConflict, "POST = %d, want %d")
	}
}
