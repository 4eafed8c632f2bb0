package spooltest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// open is an output that is being sent.
type open struct {
	r    *run
	w    *io.PipeWriter
	req  *http.Request
	done chan answer
}

// output begins to send one. trailer is what comes behind it.
func (r *run) output(path string, trailer ...string) *open {
	in, w := io.Pipe()
	c := call{method: "POST", path: r.fill(path)}
	o := &open{r, w, r.request(r.ctx, c, in), make(chan answer, 1)}
	if len(trailer) > 0 {
		o.req.Trailer = http.Header{trailer[0]: nil}
	}
	go func() {
		a := answer{call: c}
		res, err := http.DefaultClient.Do(o.req)
		if err == nil {
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			a.status, a.header, a.body = res.StatusCode, res.Header, string(b)
		} else {
			a.body = err.Error()
		}
		_ = in.CloseWithError(io.ErrClosedPipe) // who prints on is not held up
		o.done <- a
	}()
	return o
}

func (o *open) print(text string) { _, _ = io.WriteString(o.w, text) }

func (o *open) end(status int, trailer ...string) answer {
	for i := 0; i < len(trailer); i += 2 {
		o.req.Trailer.Set(trailer[i], trailer[i+1])
	}
	_ = o.w.Close()
	a := <-o.done
	o.r.is(a.status == status, "POST %s = %d %.300s, want %d", a.path, a.status, a.body, status)
	return a
}

var outputs = []Case{
	{"output: as it is printed", "The body of an output is sent in chunks as they come; each goes to subscribers at once.", func(r *run) {
		r.say("first")
		s := r.follow("{t}/live", "")
		s.until("open")
		o := r.output("{t}/outputs?tool=make&id=o1")
		o.print("compiling\n")
		r.is(strings.Contains(s.until("live").data, `compiling\n`), "what is printed is not told while the output is open")
		r.get("{t}/outputs", `"o1"`)
		o.print("done\n")
		o.end(201)
		for text := ""; !strings.Contains(text, `done\n`); {
			text = s.until("live").data
		}
		s.stop()
	}},
	{"output: its answer", "The answer comes when the result is in the thread, and names it", func(r *run) {
		a := as[struct {
			OK     bool
			Output string
			Bytes  int64
			N      int64
			Node   string
		}](r, r.want(201, call{method: "POST", path: "{t}/outputs?tool=make&id=o1", body: "compiling\ndone\n"}))
		r.is(a.OK && a.Output == "o1" && a.Bytes == 15 && a.N > 0 && a.Node != "", "answer = %+v", a)
		r.get(fmt.Sprintf("{t}/items/%d", a.N), `compiling\ndone\n`, a.Node)
	}},
	{"output: how it ended", "How the tool ended is said by the trailers `Spool-Exit-Code` and `Spool-Is-Error`, or by headers of",
		func(r *run) {
			o := r.output("{t}/outputs?tool=make", "Spool-Exit-Code")
			o.print("built\n")
			n := as[struct{ N int64 }](r, o.end(201, "Spool-Exit-Code", "3")).N
			r.get(fmt.Sprintf("{t}/items/%d", n), `"exit_code":3`)
			c := call{method: "POST", path: "{t}/outputs?tool=make", body: "built\n", header: []string{"Spool-Exit-Code", "4"}}
			n = as[struct{ N int64 }](r, r.want(201, c)).N
			r.get(fmt.Sprintf("{t}/items/%d", n), `"exit_code":4`)
		}},
	{"output: a wrong trailer", "A trailer that is no whole number, or not `true` or `false`, gets 400, and the output has ended as",
		func(r *run) {
			for i, trailer := range [][]string{{"Spool-Exit-Code", "two"}, {"Spool-Is-Error", "perhaps"}} {
				o := r.output("{t}/outputs?tool=make", trailer[0])
				o.print("built by half\n")
				a := o.end(400, trailer...)
				r.is(strings.Contains(a.body, trailer[0]) && strings.Contains(a.body, "aborted"),
					"answer = %s, want the trailer and that it is aborted", a.body)
				r.until(fmt.Sprintf("{t}/items/%d", i+1), "built by half", `"aborted":"`)
				r.want(400, call{method: "POST", path: "{t}/outputs?tool=make", body: "x", header: trailer})
			}
			r.is(!strings.Contains(r.get("{t}/outputs").body, `"output":`), "an output is open")
		}},
	{"output: an id is for one request", "a second one, while the output is open or when it has ended, gets 409, which says what is",
		func(r *run) {
			o := r.output("{t}/outputs?tool=make&id=o")
			o.print("AAAA\n")
			r.until("{t}/outputs", `"o"`)
			r.want(409, call{method: "POST", path: "{t}/outputs?tool=make&id=o", body: strings.Repeat("BBBB\n", 100_000)})
			o.print("CCCC\n")
			o.end(201)
			r.want(409, call{method: "POST", path: "{t}/outputs?tool=make&id=o", body: "DDDD\n"})
			r.want(409, call{method: "POST", path: "{s}/threads/other/outputs?tool=make&id=o", body: "DDDD\n"})
			r.get("{t}/items/1", `AAAA\nCCCC\n`)
			r.want(201, call{method: "POST", path: "{t}/outputs?tool=make&id=next", body: "EEEE\n"})
		}},
	{"output: broken off", "A body that breaks off leaves the output open; what arrived is durable, and it closes as aborted at most",
		func(r *run) {
			o := r.output("{t}/outputs?tool=make&id=o&lease_ms=1000")
			o.print("built by half\n")
			r.until("{t}/outputs", `"o"`)
			_ = o.w.CloseWithError(errors.New("its machine is gone"))
			r.until("{t}/items/1", `built by half\n`, `"aborted":"`)
		}},
	{"output: kept", "with `keep` an artifact has all of it, however short; `run` names a run of the session, else 404", func(r *run) {
		id := func(query string) string {
			a := r.want(201, call{method: "POST", path: "{t}/outputs" + query, body: "short\n"})
			return as[struct {
				ID string `json:"artifact_id"`
			}](r, a).ID
		}
		r.is(id("?tool=make") == "", "a short output has an artifact")
		kept := id("?tool=make&keep=1")
		r.is(kept != "" && r.get("/v1/artifacts/"+kept).body == "short\n", "artifact %q of a kept output", kept)
		r.want(404, call{method: "POST", path: "{t}/outputs?tool=make&run=none", body: "x"})
	}},
	{"output: cut", "with `artifact_id` when the result was cut", func(r *run) {
		text := strings.Repeat("a line of what a tool prints\n", 50_000)
		a := as[struct {
			ID string `json:"artifact_id"`
			N  int64
		}](r, r.want(201, call{method: "POST", path: "{t}/outputs?tool=make", body: text}))
		r.is(a.ID != "" && r.get("/v1/artifacts/"+a.ID).body == text, "artifact %q has not all of it", a.ID)
		r.is(len(r.get(fmt.Sprintf("{t}/items/%d", a.N)).body) < len(text), "the result is not cut")
	}},
	{"output: of a thread that has ended", "A thread that has ended or was renamed gets 409, too", func(r *run) {
		r.say("first")
		r.post(200, "{t}/end", `{"return_code":0}`)
		r.want(409, call{method: "POST", path: "{t}/outputs?tool=make", body: "late"})
	}},
}
