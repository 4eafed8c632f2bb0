package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"spool/pkg/client"
	"spool/pkg/events"
)

// Sessions by what is done to them. In calm ones nothing is ever refused or removed, whatever dies.
var (
	calm    = []string{"calm-0", "calm-1", "calm-2"}
	wild    = []string{"wild-0", "wild-1", "wild-2", "wild-3"}
	retired = []string{"ret-0", "ret-1"} // retention removes them when they are idle
	threads = []string{"main", "t0", "t1"}
)

// answerIn is how long a client waits for an ack before it sends again.
const answerIn = 1500 * time.Millisecond

var errGivenUp = errors.New("the client gave up")

// agent publishes as one producer over NATS and HTTP.
type agent struct {
	a        *attack
	r        *rand.Rand
	nc       *nats.Conn
	http     *http.Client
	producer string
	epoch    uint64
	seq      uint64
	said     []*nats.Msg // some of what was published before, which may come again
}

func (g *agent) pick(from ...[]string) string {
	all := from[g.r.IntN(len(from))]
	return all[g.r.IntN(len(all))]
}

func (g *agent) thread(session string) events.Thread {
	return events.Thread{Session: session, Name: g.pick(threads)}
}

func (g *agent) entry(t events.Thread) *entry {
	g.seq += 1 + uint64(g.r.IntN(2))
	padding := g.r.IntN(300)
	switch k := g.r.IntN(400); {
	case k == 0:
		padding = 600_000
	case k < 12:
		padding = 30_000 + g.r.IntN(60_000)
	}
	return g.a.l.try(name{t, g.producer, g.epoch, g.seq}, padding)
}

// message is the event of an entry, linked to the one before it.
func message(e *entry, prev uint64) *nats.Msg {
	body := map[string]any{"producer": e.name.producer, "epoch": e.name.epoch, "seq": e.name.seq, "dialect": "item"}
	body["body"] = json.RawMessage(e.body)
	if prev > 0 {
		body["prev"] = prev
	}
	return &nats.Msg{Subject: events.EventSubject(e.name.thread, events.KindEntry), Data: encode(body)}
}

func encode(v any) []byte {
	b := &bytes.Buffer{}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false) // bodies keep their spelling
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// send publishes messages that are linked, and sends those again that are not acked, with all behind them. acked is
// told how many from the first one on are. errGivenUp: it stopped trying; nobody knows of the rest.
func (g *agent) send(ctx context.Context, patience int, msgs []*nats.Msg, acked func(n int)) error {
	done := 0
	for try := 0; done < len(msgs); try++ {
		if ctx.Err() != nil || try > patience {
			return errGivenUp
		}
		n := g.round(ctx, msgs[done:])
		done += n
		acked(done)
		if n == 0 {
			pause(ctx, time.Duration(10<<min(try, 7))*time.Millisecond)
		}
	}
	return nil
}

// round publishes messages once and gives how many from the first one on were acked.
func (g *agent) round(ctx context.Context, msgs []*nats.Msg) (n int) {
	inbox := g.nc.NewInbox()
	sub, err := g.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return 0
	}
	defer func() { _ = sub.Unsubscribe() }()
	for i, m := range msgs {
		if g.nc.PublishRequest(m.Subject, fmt.Sprintf("%s.%d", inbox, i), m.Data) != nil {
			break
		}
	}
	got := make([]bool, len(msgs))
	some, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	for range msgs {
		m, err := sub.NextMsgWithContext(some)
		if err != nil {
			break
		}
		var ack struct{ Stream string }
		var i int
		_, _ = fmt.Sscanf(strings.TrimPrefix(m.Subject, inbox), ".%d", &i)
		got[i] = json.Unmarshal(m.Data, &ack) == nil && ack.Stream != ""
	}
	for n < len(got) && got[n] {
		n++
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// patience is how often the next publish is tried again.
func (g *agent) patience() int {
	if g.r.IntN(12) == 0 {
		return 0
	}
	return 1000
}

// batch publishes entries of one session over NATS, all linked.
func (g *agent) batch(ctx context.Context, session string, n int) {
	var es []*entry
	var msgs []*nats.Msg
	prev := map[events.Thread]uint64{}
	ts := []events.Thread{g.thread(session), g.thread(session)}
	for range n {
		e := g.entry(ts[g.r.IntN(2)])
		msgs = append(msgs, message(e, prev[e.name.thread]))
		es, prev[e.name.thread] = append(es, e), e.name.seq
	}
	err := g.send(ctx, g.patience(), msgs, func(n int) { g.a.l.ack(es[:n]...) })
	if err == nil && len(g.said) < 200 {
		g.said = append(g.said, msgs[0])
	}
}

// repeat publishes something again that was published long ago.
func (g *agent) repeat() {
	if len(g.said) > 0 {
		m := g.said[g.r.IntN(len(g.said))]
		_ = g.nc.Publish(m.Subject, m.Data)
	}
}

// post publishes entries of one thread over HTTP: alone or a line each.
func (g *agent) post(ctx context.Context, t events.Thread, n int) {
	es, body := make([]*entry, n), &bytes.Buffer{}
	kind := "application/json"
	for i := range es {
		g.seq++
		es[i] = g.a.l.try(name{t, g.producer, g.epoch, g.seq}, g.r.IntN(2000))
		body.Write(append(es[i].body, '\n'))
	}
	if n > 1 {
		kind = "application/x-ndjson"
	}
	head := map[string]string{"Content-Type": kind, "Spool-Producer": g.producer, "Spool-Epoch": fmt.Sprint(g.epoch)}
	head["Spool-Seq"] = fmt.Sprint(es[0].name.seq)
	path := "/v1/sessions/" + t.Session + "/threads/" + t.Name + "/entries?dialect=item"
	for try := range 1 + g.patience() {
		code, answer := g.ask(ctx, "POST", path, head, body.Bytes())
		ok := bytes.Count(answer, []byte(`"ok":true`))
		if n == 1 && code == http.StatusAccepted || n > 1 && code == http.StatusOK {
			g.a.l.ack(es[:min(ok, n)]...)
			if ok >= n {
				return
			}
		} else if code == http.StatusConflict && bytes.Contains(answer, []byte(client.ErrEnded.Error())) {
			g.a.l.end(t)
			return
		} else if code >= 400 && code < 500 && code != http.StatusTooManyRequests {
			g.a.t.Errorf("POST %s: %d %.300s", path, code, answer)
			return
		}
		if ctx.Err() != nil {
			return
		}
		pause(ctx, time.Duration(10<<min(try, 7))*time.Millisecond)
	}
}

// ask sends a request; code 0: no whole answer came, but what came is given.
func (g *agent) ask(
	ctx context.Context, method, path string, head map[string]string, body []byte,
) (code int, answer []byte) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.a.w.web.addr+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	for k, v := range head {
		req.Header.Set(k, v)
	}
	began := time.Now()
	resp, err := g.http.Do(req)
	if err != nil {
		if took := time.Since(began); took > 25*time.Second {
			g.a.slow(method+" "+path, took)
		}
		return 0, nil
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil && resp.StatusCode != http.StatusOK {
		return 0, nil // an answer of one object that is cut says nothing
	}
	return resp.StatusCode, answer
}

func (g *agent) json(ctx context.Context, path string, v any) (code int, answer []byte) {
	return g.ask(ctx, "POST", path, map[string]string{"Content-Type": "application/json"}, encode(v))
}

// control publishes an operation over NATS as a producer of its own.
func (g *agent) control(ctx context.Context, t events.Thread, op events.Control) bool {
	g.seq++
	who := fmt.Sprintf("%s-op-%d", g.producer, g.seq)
	g.a.l.ask(t, who, op.Op)
	body := map[string]any{"producer": who, "seq": 1, "time": time.Now().UnixMilli(), "body": json.RawMessage(op.Encode())}
	m := &nats.Msg{Subject: events.EventSubject(t, events.KindControl), Data: encode(body)}
	return g.send(ctx, 50, []*nats.Msg{m}, func(int) {}) == nil
}

// publish goes on until ctx ends.
func (g *agent) publish(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(g.r.IntN(40))*time.Millisecond)
		session := g.pick(calm, wild, wild, retired)
		switch k := g.r.IntN(100); {
		case k < 25:
			g.batch(ctx, session, 1)
		case k < 45:
			g.batch(ctx, session, 2+g.r.IntN(40))
		case k < 65:
			g.post(ctx, g.thread(session), 1)
		case k < 75:
			g.post(ctx, g.thread(session), 2+g.r.IntN(60))
		case k < 78:
			g.repeat()
		case k < 84:
			g.output(ctx, g.thread(g.pick(calm, wild)))
		case k < 88:
			g.prompt(ctx, g.thread(g.pick(calm)))
		case k < 91:
			g.artifact(ctx, g.pick(calm, wild))
		case k < 92:
			g.epoch++ // all that is under way of the epoch before was given up or acked
			g.said = nil
		default:
			pause(ctx, time.Duration(g.r.IntN(60))*time.Millisecond)
		}
	}
}

// operate changes threads and sessions of the wild until ctx ends.
func (g *agent) operate(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		pause(ctx, time.Duration(20+g.r.IntN(250))*time.Millisecond)
		t := g.thread(g.pick(wild))
		path := "/v1/sessions/" + t.Session
		other := fmt.Sprintf("n%d", g.r.IntN(6))
		if g.r.IntN(3) == 0 {
			t.Name, other = other, g.pick(threads)
		}
		switch k := g.r.IntN(100); {
		case k < 15:
			g.control(ctx, t, events.Control{Op: events.OpEnd, End: &events.End{Summary: "so far"}})
		case k < 35:
			g.control(ctx, t, events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: g.r.IntN(4) > 0}})
		case k < 50:
			g.control(ctx, t, events.Control{Op: events.OpRename, Rename: &events.Rename{To: other, Force: true}})
		case k < 65:
			from := g.thread(g.pick(calm, wild))
			body := map[string]any{"to": t.Session + "/" + other}
			if g.r.IntN(2) == 0 {
				body["whole"] = true
			} else {
				body["index"] = 1 + g.r.IntN(30)
			}
			g.json(ctx, "/v1/sessions/"+from.Session+"/threads/"+from.Name+"/fork", body)
		case k < 72:
			g.json(ctx, path+"/threads/"+t.Name+"/compact", map[string]any{"summary": "what was"})
		case k < 78:
			g.control(ctx, t, events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}})
		case k < 82:
			g.ask(ctx, "DELETE", path+"?force", nil, nil)
		case k < 84:
			g.ask(ctx, "DELETE", path, nil, nil)
		case k < 92:
			id := fmt.Sprintf("run-%s-%d", g.producer, i)
			if g.control(ctx, t, events.Control{Op: events.OpRun, Run: &events.Run{ID: id, State: "running", Lease: 2000}}) {
				g.control(ctx, t, events.Control{Op: events.OpRun, Run: &events.Run{ID: id, State: "completed"}})
			}
		case k < 96:
			_, list := g.ask(ctx, "GET", path+"/artifacts", nil, nil)
			var one struct {
				ID string `json:"artifact_id"`
			}
			if json.NewDecoder(bytes.NewReader(list)).Decode(&one) == nil && one.ID != "" {
				g.ask(ctx, "DELETE", "/v1/artifacts/"+one.ID, nil, nil)
			}
		default:
			g.json(ctx, path+"/threads/"+t.Name+"/label", map[string]any{"entry": "nobody", "label": "x"})
		}
	}
}

// output streams what a tool prints, in linked pieces over NATS or as one request.
func (g *agent) output(ctx context.Context, t events.Thread) {
	g.seq += 2
	o := &output{thread: t, id: fmt.Sprintf("o-%s-%d", g.producer, g.seq)}
	size := g.r.IntN(4000)
	if g.r.IntN(6) == 0 {
		size = 60_000 + g.r.IntN(200_000)
	}
	for len(o.data) < size {
		o.data = fmt.Appendf(o.data, "%s line at %d\n", o.id, len(o.data))
	}
	g.a.l.say("output", t.String(), o.id, len(o.data))
	if g.r.IntN(3) == 0 {
		code, _ := g.ask(ctx, "POST", "/v1/sessions/"+t.Session+"/threads/"+t.Name+"/outputs?tool=make&id="+o.id, nil, o.data)
		o.acked = code == http.StatusCreated
	} else {
		o.acked = g.pieces(ctx, o)
	}
	g.a.l.mu.Lock()
	defer g.a.l.mu.Unlock()
	g.a.l.outputs = append(g.a.l.outputs, o)
	g.a.l.note("output ends", o.id, o.acked)
}

func (g *agent) pieces(ctx context.Context, o *output) bool {
	who := g.producer + "-" + o.id
	bodies := []map[string]any{{"op": "start", "output": o.id, "tool": "make", "lease": 60_000}}
	n := 0
	for at := 0; at < len(o.data); n++ {
		end := min(len(o.data), at+1+g.r.IntN(30_000))
		bodies = append(bodies, map[string]any{"op": "data", "output": o.id, "seq": n + 1, "bytes": o.data[at:end]})
		at = end
	}
	bodies = append(bodies, map[string]any{"op": "end", "output": o.id, "seq": n + 1})
	var msgs []*nats.Msg
	for i, b := range bodies {
		env := map[string]any{"producer": who, "seq": i + 1, "time": time.Now().UnixMilli(), "body": b}
		if i > 0 {
			env["prev"] = i
		}
		msgs = append(msgs, &nats.Msg{Subject: events.EventSubject(o.thread, events.KindChunk), Data: encode(env)})
	}
	return g.send(ctx, 1000, msgs, func(int) {}) == nil
}

// prompt asks something, and two answer it at once.
func (g *agent) prompt(ctx context.Context, t events.Thread) {
	g.seq++
	p := &prompt{thread: t, id: fmt.Sprintf("q-%s-%d", g.producer, g.seq)}
	body := events.PendingPrompt(p.id, events.PromptText, "go on?", nil).JSON()
	env := map[string]any{"producer": g.producer, "epoch": g.epoch, "seq": g.seq, "dialect": "item"}
	env["body"] = json.RawMessage(body)
	m := &nats.Msg{Subject: events.EventSubject(t, events.KindEntry), Data: encode(env)}
	g.a.l.say("prompt", t.String(), p.id)
	if g.send(ctx, 1000, []*nats.Msg{m}, func(int) {}) != nil {
		return
	}
	g.a.l.mu.Lock()
	g.a.l.prompts = append(g.a.l.prompts, p)
	g.a.l.mu.Unlock()
	path := "/v1/sessions/" + t.Session + "/threads/" + t.Name + "/prompts/" + p.id + "/answer"
	for _, who := range []string{"ann", "bob"} {
		g.a.beside.Go(func() {
			for ctx.Err() == nil {
				code, _ := g.json(ctx, path, map[string]any{"answer": who, "by": who})
				if code == http.StatusOK {
					p.mu.Lock()
					p.won = append(p.won, who)
					p.mu.Unlock()
				}
				if code == http.StatusOK || code == http.StatusConflict {
					return
				}
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
}

// artifact puts bytes. A put without an answer is not tried again: it can leave two.
func (g *agent) artifact(ctx context.Context, session string) {
	f := &artifact{data: bytes.Repeat([]byte{byte(g.r.IntN(256))}, 1+g.r.IntN(100_000))}
	head := map[string]string{"Content-Type": "application/octet-stream"}
	code, answer := g.ask(ctx, "POST", "/v1/sessions/"+session+"/artifacts?tool=t", head, f.data)
	var rec struct {
		ID string `json:"artifact_id"`
	}
	if code != http.StatusCreated || json.Unmarshal(answer, &rec) != nil {
		return
	}
	g.a.l.say("artifact", session, rec.ID, len(f.data))
	if f.id = rec.ID; strings.HasPrefix(session, "calm") {
		g.a.l.mu.Lock()
		g.a.l.files = append(g.a.l.files, f)
		g.a.l.mu.Unlock()
	}
}
