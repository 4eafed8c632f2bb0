package memjs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natstest"
)

// trace plays a client to a server and writes down what it sees.
type trace struct {
	t     *testing.T
	ctx   context.Context
	nc    *nats.Conn
	js    jetstream.JetStream
	lines []string
	pins  map[string]string
	batch int
}

func (r *trace) note(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// plays is how often a case is played: a real server works in the real time of a machine that may be busy, and counts heartbeats and
// what is pending a moment earlier or later then, and so does this one. What differs always is a difference.
const plays = 6

// TestConformance plays every case to a real server and to this one, and compares what a client sees.
func TestConformance(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var real, mem [][]string
			for range plays {
				real = append(real, play(t, natstest.ServerIn(t, t.TempDir()), c.play))
				s := memjs.New(memjs.Config{})
				mem = append(mem, play(t, s, c.play))
				s.Close()
				if len(real[0]) == 0 {
					t.Fatal("the case saw nothing")
				}
				if slices.ContainsFunc(real, func(r []string) bool {
					return slices.ContainsFunc(mem, func(m []string) bool { return slices.Equal(r, m) })
				}) {
					return
				}
			}
			t.Errorf("what a client sees (-real server +memjs):\n%s", cmp.Diff(real[0], mem[0]))
		})
	}
}

func play(t *testing.T, s nats.InProcessConnProvider, f func(*trace)) []string {
	t.Helper()
	nc := must.Get(nats.Connect("", nats.InProcessServer(s)))(t)
	defer nc.Close()
	js := must.Get(jetstream.New(nc))(t)
	r := &trace{t: t, ctx: t.Context(), nc: nc, js: js, pins: map[string]string{}}
	f(r)
	return r.lines
}

func (r *trace) stream(cfg jetstream.StreamConfig) jetstream.Stream {
	r.t.Helper()
	return must.Get(r.js.CreateStream(r.ctx, cfg))(r.t)
}

// times and ids that differ from run to run.
var (
	clock   = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|"pause_remaining":\d+`)
	ackTime = regexp.MustCompile(`\.1[0-9]{18}\.`)
)

// ask sends a request and notes the answer.
func (r *trace) ask(subject string, hdr nats.Header, body string) *nats.Msg {
	r.t.Helper()
	m, err := r.nc.RequestMsg(&nats.Msg{Subject: subject, Header: hdr, Data: []byte(body)}, 5*time.Second)
	if err != nil {
		r.note("%s %s: %v", subject, body, err)
		return nil
	}
	r.note("%s %s %s: %s", subject, headers(hdr), clock.ReplaceAllString(body, "<time>"), r.show(m))
	return m
}

func headers(h nats.Header) string {
	keys := make([]string, 0, len(h))
	for k, vs := range h {
		if k != "Nats-Time-Stamp" {
			keys = append(keys, k+"="+strings.Join(vs, ","))
		}
	}
	slices.Sort(keys)
	return "[" + strings.Join(keys, " ") + "]"
}

// show is a message without what differs from run to run: times, pins, and which server it was.
func (r *trace) show(m *nats.Msg) string {
	data := clock.ReplaceAllString(string(m.Data), "<time>")
	var v map[string]any
	if json.Unmarshal(m.Data, &v) == nil {
		drop(v)
		b, _ := json.Marshal(v)
		data = clock.ReplaceAllString(string(b), "<time>")
	}
	h := headers(m.Header)
	if pin := m.Header.Get("Nats-Pin-Id"); pin != "" {
		h = strings.ReplaceAll(h, pin, r.pin(pin))
	}
	return h + " " + data
}

func (r *trace) pin(id string) string {
	if id == "" {
		return ""
	}
	if r.pins[id] == "" {
		r.pins[id] = "pin" + strconv.Itoa(len(r.pins)+1)
	}
	return r.pins[id]
}

// drop takes out of an answer what says only who answered and when.
func drop(v map[string]any) {
	for _, k := range []string{"ts", "created", "metadata", "description", "first_ts", "last_ts", "time", "limits",
		"api", "last_active", "pinned_ts", "leader"} {
		if s, ok := v[k].(string); ok && k == "description" && strings.Contains(s, "sequence") {
			continue
		}
		delete(v, k)
	}
	if _, ok := v["pinned_client_id"]; ok {
		v["pinned_client_id"] = "<pin>"
	}
	for _, x := range v {
		if m, ok := x.(map[string]any); ok {
			drop(m)
		}
		if l, ok := x.([]any); ok {
			for _, e := range l {
				if m, ok := e.(map[string]any); ok {
					drop(m)
				}
			}
		}
	}
}

// put publishes with headers, as pairs, and notes the ack.
func (r *trace) put(subject, data string, hdr ...string) {
	r.t.Helper()
	h := nats.Header{}
	for i := 0; i < len(hdr); i += 2 {
		h[hdr[i]] = []string{hdr[i+1]}
	}
	r.ask(subject, h, data)
}

// atomic sends a batch, the answers of all but the last ignored.
func (r *trace) atomic(msgs ...*nats.Msg) {
	r.t.Helper()
	r.batch++
	for i, m := range msgs {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header["Nats-Batch-Id"] = []string{"b" + strconv.Itoa(r.batch)}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		if i == len(msgs)-1 {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			r.ask(m.Subject, m.Header, string(m.Data))
		} else {
			must.Do(r.t, r.nc.PublishMsg(m))
		}
	}
}

func msg(subject, data string, hdr ...string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i < len(hdr); i += 2 {
		m.Header[hdr[i]] = []string{hdr[i+1]}
	}
	return m
}

// fast sends a fast batch and notes all that comes back, until the ack.
func (r *trace) fast(gap string, msgs ...*nats.Msg) {
	r.t.Helper()
	r.batch++
	inbox := nats.NewInbox()
	sub := must.Get(r.nc.SubscribeSync(inbox + ".>"))(r.t)
	defer func() { _ = sub.Unsubscribe() }()
	for i, m := range msgs {
		op := 1
		switch i {
		case len(msgs) - 1:
			op = 2
		case 0:
			op = 0
		}
		m.Reply = fmt.Sprintf("%s.f%d.100.%s.%d.%d.$FI", inbox, r.batch, gap, i+1, op)
		must.Do(r.t, r.nc.PublishMsg(m))
	}
	for {
		m, err := sub.NextMsg(5 * time.Second)
		if err != nil {
			r.note("fast batch: %v", err)
			return
		}
		r.note("fast batch: %s", r.show(m))
		if strings.Contains(string(m.Data), `"stream"`) {
			return
		}
	}
}

// state notes how a stream is.
func (r *trace) state(name string) {
	r.ask("$JS.API.STREAM.INFO."+name, nil, `{"subjects_filter":">","deleted_details":true}`)
}

// pull asks a consumer, and notes what comes: at most so many, until the request is over.
func (r *trace) pull(stream, consumer, request string, most int) []*nats.Msg {
	r.t.Helper()
	inbox := nats.NewInbox()
	sub := must.Get(r.nc.SubscribeSync(inbox))(r.t)
	defer func() { _ = sub.Unsubscribe() }()
	must.Do(r.t, r.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, inbox, []byte(request)))
	return r.receive(sub, most)
}

func (r *trace) receive(sub *nats.Subscription, most int) (got []*nats.Msg) {
	r.t.Helper()
	for len(got) < most {
		m, err := sub.NextMsg(3 * time.Second)
		if errors.Is(err, nats.ErrTimeout) {
			r.note("nothing")
			return got
		}
		must.Do(r.t, err)
		reply := ackTime.ReplaceAllString(m.Reply, ".<time>.")
		subject := m.Subject
		if strings.HasPrefix(subject, "_INBOX") {
			subject = "_INBOX"
		}
		r.note("%s (%s) %s", subject, reply, r.show(m))
		got = append(got, m)
		if status := m.Header.Get("Status"); status != "" && status != "100" {
			break // nothing more comes
		}
	}
	return got
}

// ack answers a delivery, and waits until the server took it.
func (r *trace) ack(m *nats.Msg, body string) {
	r.t.Helper()
	if _, err := r.nc.Request(m.Reply, []byte(body), time.Second); err != nil {
		r.note("ack %q of %s: %v", body, m.Subject, err)
	}
}

func (r *trace) consumer(stream string, cfg string) {
	r.t.Helper()
	var c struct{ Name string }
	must.Do(r.t, json.Unmarshal([]byte(cfg), &c))
	r.ask("$JS.API.CONSUMER.CREATE."+stream+"."+c.Name, nil, `{"stream_name":"`+stream+`","config":`+cfg+`}`)
}

func (r *trace) info(stream, consumer string) {
	r.t.Helper()
	r.ask("$JS.API.CONSUMER.INFO."+stream+"."+consumer, nil, "")
}

// pending waits until so many messages of a consumer are on their way, for as long as a busy machine may take.
func (r *trace) pending(stream, consumer string, n int) {
	r.t.Helper()
	must.Until(r.t, "messages are on their way", func() bool {
		return must.Get(r.js.Consumer(r.ctx, stream, consumer))(r.t).CachedInfo().NumAckPending == n
	})
}
