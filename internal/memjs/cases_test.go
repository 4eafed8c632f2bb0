package memjs_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
)

const (
	expectLast = "Nats-Expected-Last-Sequence"
	expectSubj = "Nats-Expected-Last-Subject-Sequence"
	expectOf   = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// cases are what both servers are asked.
var cases = []struct {
	name string
	play func(*trace)
}{
	{"NoResponders", func(r *trace) {
		r.ask("nobody.listens", nil, "")
		r.ask("$JS.API.STREAM.INFO.NONE", nil, "")
		r.ask("$JS.API.CONSUMER.MSG.NEXT.NONE.NONE", nil, "")
		r.ask("$JS.API.DIRECT.GET.NONE", nil, `{"seq":1}`)
		r.ask("$JS.API.NONSENSE", nil, "")
	}},
	{"QueueGroups", func(r *trace) {
		got := make(chan string, 100)
		for range 3 {
			must.Get(r.nc.QueueSubscribe("q.*", "group", func(m *nats.Msg) { got <- m.Subject }))(r.t)
		}
		must.Get(r.nc.Subscribe("q.>", func(m *nats.Msg) { got <- m.Subject }))(r.t)
		for range 5 {
			must.Do(r.t, r.nc.Publish("q.a", nil))
		}
		for range 10 {
			r.note("%s", <-got)
		}
		must.Do(r.t, r.nc.Flush())
		r.note("%d more", len(got))
	}},
	{"Streams", func(r *trace) {
		s := r.stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}})
		r.stream(jetstream.StreamConfig{Name: "B", Subjects: []string{"b.*", "c"}, FirstSeq: 100, MaxMsgsPerSubject: 2})
		r.state("A")
		r.state("B")
		r.put("b.1", "x")
		r.put("a.1", "x")
		for _, body := range []string{"", `{"subject":"b.1"}`, `{"subject":"a.x.y"}`, `{"offset":1}`} {
			r.ask("$JS.API.STREAM.NAMES", nil, body)
		}
		r.ask("$JS.API.STREAM.LIST", nil, "")
		r.ask("$JS.API.STREAM.CREATE.C", nil, `{"name":"C","subjects":["a.b"]}`)
		r.ask("$JS.API.STREAM.CREATE.C", nil, `{"name":"D","subjects":["d"]}`)
		r.ask("$JS.API.STREAM.CREATE.A", nil, `{"name":"A","subjects":["a.>"],"max_msgs":7}`)
		r.ask("$JS.API.STREAM.CREATE.A", nil,
			`{"name":"A","subjects":["a.>"],"retention":"limits","max_consumers":-1,"storage":"file","num_replicas":1}`)
		cfg := s.CachedInfo().Config
		cfg.MaxMsgs = 1
		_, err := r.js.UpdateStream(r.ctx, cfg)
		r.note("update: %v", err)
		r.state("A")
		r.ask("$JS.API.STREAM.DELETE.A", nil, "")
		r.ask("$JS.API.STREAM.DELETE.A", nil, "")
		r.put("a.1", "x")
	}},
	{"Expectations", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true})
		r.put("s.a", "1", expectSubj, "0")
		r.put("s.a", "2", expectSubj, "0")
		r.put("s.a", "2", expectSubj, "1")
		r.put("s.b", "1", expectSubj, "7")
		r.put("s.b", "1", expectLast, "1")
		r.put("s.b", "1", expectLast, "2")
		r.put("s.c", "1", expectSubj, "3", expectOf, "s.b")
		r.put("s.c", "1", expectSubj, "2", expectOf, "s.b")
		r.put("s.c", "1", expectSubj, "4", expectOf, "s.*")
		r.put("s.c", "1", expectSubj, "3", expectOf, "s.*")
		r.put("s.c", "1", expectOf, "s.b")
		r.put("s.c", "1", "Nats-Expected-Stream", "T")
		r.put("s.c", "1", "Nats-TTL", "1s")
		r.put("s.c", "1", "Nats-Rollup", "sub")
		r.put("s.c", "1", "Nats-Schedule", "@every 5s", "Nats-Schedule-Target", "s.d")
		r.put("s.d", "1", "Nats-Msg-Id", "m1")
		r.put("s.d", "2", "Nats-Msg-Id", "m1")
		r.put("s.d", "2", "Nats-Expected-Last-Msg-Id", "m2")
		r.put("s.d", "2", "Nats-Expected-Last-Msg-Id", "m1")
		r.put("s.d", "2", "Nats-Batch-Id", "x", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1")
		r.state("S")
	}},
	{"Limits", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "N", Subjects: []string{"n.*"}, Discard: jetstream.DiscardNew,
			MaxBytes: 1000, AllowAtomicPublish: true, AllowBatchPublish: true})
		big := strings.Repeat("x", 400)
		for range 3 {
			r.put("n.a", big)
		}
		r.put("n.a", "small")
		r.atomic(msg("n.a", "small"), msg("n.a", big))
		r.fast("fail", msg("n.a", "1"), msg("n.a", big), msg("n.a", "3"))
		r.state("N")
		r.stream(jetstream.StreamConfig{Name: "M", Subjects: []string{"m.*"}, Discard: jetstream.DiscardNew,
			MaxMsgs: 3, MaxMsgsPerSubject: 1})
		for _, s := range []string{"m.a", "m.b", "m.c", "m.d", "m.a"} {
			r.put(s, "")
		}
		r.state("M")
		r.stream(jetstream.StreamConfig{Name: "P", Subjects: []string{"p.*"}, Discard: jetstream.DiscardNew,
			DiscardNewPerSubject: true, MaxMsgsPerSubject: 1})
		r.put("p.a", "")
		r.put("p.a", "")
		r.stream(jetstream.StreamConfig{Name: "O", Subjects: []string{"o.*"}, MaxBytes: 1000, MaxMsgs: 5,
			MaxMsgSize: 600})
		r.put("o.a", strings.Repeat("x", 700))
		for i := range 7 {
			r.put(fmt.Sprintf("o.%d", i%3), strings.Repeat("x", 100*(i%4)))
		}
		r.state("O")
	}},
	{"PurgeAndDelete", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
		r.ask("$JS.API.STREAM.PURGE.S", nil, "")
		r.state("S")
		fill := func() {
			for i := range 10 {
				r.put(fmt.Sprintf("s.%d", i%3), "data")
			}
		}
		fill()
		for _, body := range []string{
			`{"filter":"s.1","keep":1}`, `{"seq":4}`, `{"filter":"s.*","seq":6}`, `{"filter":"s.9"}`, `{"seq":1}`,
			`{"seq":3,"keep":2}`,
			`{"filter":"s.1","seq":1}`, `{"keep":2}`, `{"filter":">","keep":1}`,
		} {
			r.ask("$JS.API.STREAM.PURGE.S", nil, body)
			r.state("S")
		}
		fill()
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, `{"seq":15}`)
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, `{"seq":15,"no_erase":true}`)
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, `{"seq":999}`)
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, ``)
		r.state("S")
		r.ask("$JS.API.STREAM.PURGE.S", nil, `{"seq":50}`)
		r.state("S")
		r.put("s.1", "x")
		r.ask("$JS.API.STREAM.PURGE.S", nil, "")
		r.state("S")
		r.stream(jetstream.StreamConfig{Name: "D", Subjects: []string{"d"}, DenyDelete: true, DenyPurge: true})
		r.put("d", "")
		r.ask("$JS.API.STREAM.PURGE.D", nil, "")
		r.ask("$JS.API.STREAM.MSG.DELETE.D", nil, `{"seq":1}`)
		r.put("d", "", "Nats-Rollup", "all")
	}},
	{"Gets", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true})
		for i := range 9 {
			r.put(fmt.Sprintf("s.%d.x", i%3), fmt.Sprint(i), "K", fmt.Sprint(i))
		}
		r.put("s.plain", "p")
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, `{"seq":4}`)
		for _, body := range []string{
			`{"seq":1}`, `{"seq":4}`, `{"seq":99}`, `{"last_by_subj":"s.1.x"}`, `{"last_by_subj":"s.*.x"}`,
			`{"last_by_subj":"s.9"}`, `{"last_by_subj":">"}`,
			`{"next_by_subj":"s.1.x"}`, `{"seq":3,"next_by_subj":"s.0.x"}`, `{"seq":3,"next_by_subj":"s.*.x"}`,
			`{"seq":11,"next_by_subj":">"}`, `{}`, ``,
			`{"seq":3,"last_by_subj":"s.1.x"}`, `nonsense`, `{"seq":10,"no_hdr":true}`, `{"seq":1,"no_hdr":true}`,
		} {
			r.ask("$JS.API.STREAM.MSG.GET.S", nil, body)
			r.ask("$JS.API.DIRECT.GET.S", nil, body)
		}
		r.ask("$JS.API.DIRECT.GET.S.s.2.x", nil, "")
		r.ask("$JS.API.DIRECT.GET.S.s.plain", nil, "")
		r.ask("$JS.API.DIRECT.GET.S.s.none", nil, "")
		r.ask("$JS.API.DIRECT.GET.S.s.2.x", nil, `{"seq":1}`)
		for _, b := range []struct {
			body string
			n    int
		}{
			{`{"seq":2,"batch":3}`, 4}, {`{"batch":3,"next_by_subj":"s.1.x"}`, 4},
			{`{"seq":1,"batch":100,"next_by_subj":"s.*.x"}`, 9},
			{`{"seq":100,"batch":3}`, 1}, {`{"seq":1,"batch":100,"max_bytes":20}`, 4}, {`{"multi_last":["s.*.x"]}`, 4},
			{`{"multi_last":["s.0.x","s.plain"],"up_to_seq":6}`, 2}, {`{"multi_last":["s.none"]}`, 1},
			{`{"multi_last":[">"],"batch":2}`, 3},
			{`{"multi_last":["s.1.x","s.2.x"],"up_to_seq":5}`, 3},
		} {
			inbox := nats.NewInbox()
			sub := must.Get(r.nc.SubscribeSync(inbox))(r.t)
			must.Do(r.t, r.nc.PublishRequest("$JS.API.DIRECT.GET.S", inbox, []byte(b.body)))
			r.note("%s", b.body)
			r.receive(sub, b.n)
		}
	}},
	{"TransformAndRollup", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, AllowRollup: true,
			AllowAtomicPublish: true, AllowBatchPublish: true,
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "t.*.*",
				Destination: "p.{{partition(64,1)}}.{{wildcard(1)}}.{{wildcard(2)}}"}})
		for i := range 5 {
			r.put(fmt.Sprintf("t.s%d.x", i), "")
		}
		r.put("t.untransformed", "")
		r.ask("$JS.API.STREAM.INFO.T", nil, `{"subjects_filter":"p.*.s3.>"}`)
		r.put("t.s1.x", "1", expectSubj, "0", expectOf, "p.*.s1.y")
		r.put("t.s1.x", "1", expectSubj, "0", expectOf, "p.*.s1.x")
		r.atomic(msg("t.s1.x", "1", expectSubj, "7", expectOf, "p.*.s1.x"), msg("t.s1.x", "2"))
		r.fast("fail", msg("t.s2.x", "1", expectSubj, "3"), msg("t.s2.x", "2"))
		r.put("t.s1.x", "new", "Nats-Rollup", "sub")
		r.state("T")
		r.put("t.s9.x", "new", "Nats-Rollup", "all")
		r.put("t.s9.x", "new", "Nats-Rollup", "some")
		r.state("T")
	}},
	{"AtomicBatches", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowAtomicPublish: true,
			MaxMsgsPerSubject: 1, AllowRollup: true})
		r.atomic(msg("s.a", "1", expectSubj, "0"), msg("s.b", "2", expectSubj, "0"))
		r.atomic(msg("s.a", "1", expectSubj, "1"), msg("s.b", "2", expectSubj, "1"))
		r.atomic(msg("s.a", "1", expectSubj, "1"), msg("s.a", "2", expectSubj, "1"))
		r.atomic(msg("s.a", "1"), msg("s.c", "2", expectSubj, "1", expectOf, "s.a"))
		r.atomic(msg("s.c", "2", expectSubj, "1", expectOf, "s.a"), msg("s.d", "2", expectSubj, "1", expectOf, "s.a"))
		r.atomic(msg("s.c", "2", expectSubj, "1", expectOf, "s.a"), msg("s.d", "2", expectSubj, "2", expectOf, "s.a"))
		r.atomic(msg("s.l", "1", expectLast, "4"), msg("s.l", "2"))
		r.atomic(msg("s.l", "1"), msg("s.l", "2", expectLast, "7"))
		r.atomic(msg("s.l", "1", "Nats-Expected-Last-Msg-Id", "x"))
		r.atomic(msg("s.m", "1", "Nats-Msg-Id", "a"), msg("s.m", "2", "Nats-Msg-Id", "a"))
		r.atomic(msg("s.r", "1"), msg("s.r", "2", "Nats-Rollup", "sub"))
		r.atomic(msg("s.r", "1", "Nats-Rollup", "sub"), msg("s.r", "2"))
		r.state("S")
		h := func(id, seq, commit string) nats.Header {
			h := nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {seq}}
			if commit != "" {
				h["Nats-Batch-Commit"] = []string{commit}
			}
			return h
		}
		r.ask("s.a", h("gap", "1", ""), "1")
		r.ask("s.a", h("gap", "3", "1"), "1")
		r.ask("s.a", h("unknown", "2", "1"), "1")
		r.ask("s.a", h("unknown", "1002", "1"), "1")
		r.ask("s.a", h("bad", "1", "no"), "1")
		r.ask("s.a", h(strings.Repeat("x", 65), "1", "1"), "1")
		r.ask("s.a", nats.Header{"Nats-Batch-Id": {"noseq"}}, "1")
		r.ask("s.e", h("eob", "1", ""), "1")
		r.ask("s.f", h("eob", "2", ""), "2")
		r.ask("s.g", h("eob", "3", "eob"), "")
		r.ask("s.g", h("eob2", "1", "eob"), "")
		r.state("S")
		many := make([]*nats.Msg, 1000)
		for i := range many {
			many[i] = msg("s.many", "")
		}
		r.atomic(many...)
		r.atomic(append(many, msg("s.many", ""))...)
		for i := range 51 {
			r.ask("s.a", h(fmt.Sprint("open", i), "1", ""), "1")
		}
		r.stream(jetstream.StreamConfig{Name: "O", Subjects: []string{"o"}})
		r.atomic(msg("o", "1"), msg("o", "2"))
		r.state("S")
	}},
	{"FastBatches", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowBatchPublish: true})
		r.fast("fail", msg("s.a", "1"))
		r.fast("fail", msg("s.a", "1"), msg("s.b", "2"), msg("s.c", "3"))
		r.fast("fail", msg("s.a", "1", expectSubj, "9"), msg("s.b", "2"))
		r.fast("fail", msg("s.a", "1"), msg("s.b", "2", expectSubj, "9"), msg("s.c", "3"))
		r.fast("ok", msg("s.a", "1"), msg("s.b", "2", expectSubj, "9"), msg("s.c", "3"))
		r.fast("fail", msg("s.a", "1"), msg("s.b", "2"), msg("s.c", "3", expectSubj, "9"))
		r.fast("fail", msg("s.i", "1", "Nats-Msg-Id", "i"), msg("s.i", "2", "Nats-Msg-Id", "i"), msg("s.i", "3"))
		r.state("S")
		inbox := nats.NewInbox()
		sub := must.Get(r.nc.SubscribeSync(inbox + ".>"))(r.t)
		send := func(id string, seq, op int) {
			must.Do(r.t, r.nc.PublishMsg(&nats.Msg{Subject: "s.x", Reply: fmt.Sprintf("%s.%s.2.fail.%d.%d.$FI", inbox, id,
				seq, op)}))
		}
		for seq := 1; seq <= 7; seq++ { // reports come every two messages
			send("flow", seq, min(seq-1, 1))
		}
		send("flow", 7, 4) // a ping
		send("flow", 8, 3) // the end
		r.receive(sub, 6)
		send("gap", 1, 0)
		send("gap", 3, 1)
		r.receive(sub, 3)
		send("none", 5, 1)
		send("bad", 5, 0)
		r.receive(sub, 2)
		must.Do(r.t, sub.Unsubscribe())
		r.stream(jetstream.StreamConfig{Name: "O", Subjects: []string{"o"}})
		r.fast("fail", msg("o", "1"))
		r.state("S")
	}},
	{"Schedules", func(r *trace) {
		r.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowMsgSchedules: true,
			AllowRollup: true})
		at := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
		r.put("s.other", "x")
		m := nats.NewMsg("s.when")
		m.Data, m.Header = []byte("hello"), nats.Header{"Nats-Schedule": {"@at " + at},
			"Nats-Schedule-Target": {"s.then"}, "Own": {"1"}}
		ack := must.Get(r.nc.RequestMsg(m, time.Second))(r.t)
		r.note("%s", r.show(ack))
		r.put("s.bad", "", "Nats-Schedule", "@never", "Nats-Schedule-Target", "s.then")
		r.put("s.bad", "", "Nats-Schedule", "@every 5s")
		r.put("s.bad", "", "Nats-Schedule", "@every 5s", "Nats-Schedule-Target", "elsewhere")
		r.put("s.bad", "", "Nats-Schedule", "@every 5s", "Nats-Schedule-Target", "s.bad")
		r.put("s.bad", "", "Nats-Scheduler", "s.when")
		sub := must.Get(r.js.OrderedConsumer(r.ctx, "S",
			jetstream.OrderedConsumerConfig{FilterSubjects: []string{"s.then"}}))(r.t)
		got := must.Get(sub.Next(jetstream.FetchMaxWait(5 * time.Second)))(r.t)
		r.note("%s %s %s", got.Subject(), headers(got.Headers()), got.Data())
		r.state("S")
		r.put("s.every", "e", "Nats-Schedule", "@every 1s", "Nats-Schedule-Target", "s.tick")
		sub = must.Get(r.js.OrderedConsumer(r.ctx, "S", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"s.tick"}}))(r.t)
		for range 2 {
			got := must.Get(sub.Next(jetstream.FetchMaxWait(5 * time.Second)))(r.t)
			h := got.Headers()
			h.Del("Nats-Schedule-Next")
			r.note("%s %s %s", got.Subject(), headers(h), got.Data())
		}
		r.put("s.every", "stop")
		r.ask("$JS.API.STREAM.MSG.GET.S", nil, `{"last_by_subj":"s.every"}`)
	}},
}
