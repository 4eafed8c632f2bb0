package memjs_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
)

func init() { cases = append(cases, consumerCases...) }

// fill makes a stream S with ten messages on s.0, s.1 and s.2 in turn.
func (r *trace) fill(cfg jetstream.StreamConfig) {
	r.t.Helper()
	cfg.Name, cfg.Subjects = "S", []string{"s.>"}
	r.stream(cfg)
	for i := range 10 {
		r.put(fmt.Sprintf("s.%d", i%3), fmt.Sprint("data", i))
	}
}

const pinned = `{"name":"P","durable_name":"P","ack_policy":"all","ack_wait":1000000000,"max_deliver":-1,
	"filter_subject":"s.>",	"priority_policy":"pinned_client","priority_groups":["g"],"priority_timeout":1000000000}`

var consumerCases = []struct {
	name string
	play func(*trace)
}{
	{"Configurations", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		for _, cfg := range []string{
			`{"name":"A","durable_name":"A","ack_policy":"explicit"}`,
			`{"name":"B","ack_policy":"all","filter_subject":"s.1","inactive_threshold":60000000000}`,
			`{"name":"C","ack_policy":"none","deliver_policy":"last_per_subject"}`,
			`{"name":"D","ack_policy":"none","deliver_policy":"by_start_sequence"}`,
			`{"name":"E","ack_policy":"none","filter_subjects":["s.1","s.*"]}`,
			`{"name":"F","ack_policy":"none","filter_subjects":["s.1"],"filter_subject":"s.2"}`,
			`{"name":"G","ack_policy":"explicit","priority_policy":"pinned_client"}`,
			`{"name":"H","ack_policy":"explicit","priority_groups":["g"]}`,
			`{"name":"I","durable_name":"J","ack_policy":"explicit"}`,
			`{"name":"K","ack_policy":"explicit","opt_start_seq":3}`,
			`{"name":"L","ack_policy":"explicit","idle_heartbeat":1000000000}`,
			pinned,
		} {
			r.consumer("S", cfg)
		}
		r.info("S", "A")
		r.info("S", "P")
		r.info("S", "none")
		r.ask("$JS.API.CONSUMER.NAMES.S", nil, "")
		r.ask("$JS.API.CONSUMER.LIST.S", nil, "")
		r.ask("$JS.API.CONSUMER.CREATE.S.A", nil,
			`{"stream_name":"S","action":"create","config":{"name":"A","durable_name":"A","ack_policy":"explicit"}}`)
		r.ask("$JS.API.CONSUMER.CREATE.S.A", nil,
			`{"stream_name":"S","action":"create","config":{"name":"A","durable_name":"A","ack_policy":"all"}}`)
		r.ask("$JS.API.CONSUMER.CREATE.S.A", nil,
			`{"stream_name":"S","config":{"name":"A","durable_name":"A","ack_policy":"all"}}`)
		r.ask("$JS.API.CONSUMER.CREATE.S.A", nil,
			`{"stream_name":"S","config":{"name":"A","durable_name":"A","ack_policy":"explicit","ack_wait":5000000000}}`)
		r.ask("$JS.API.CONSUMER.CREATE.S.Z", nil,
			`{"stream_name":"S","action":"update","config":{"name":"Z","ack_policy":"all"}}`)
		r.ask("$JS.API.CONSUMER.DELETE.S.A", nil, "")
		r.ask("$JS.API.CONSUMER.DELETE.S.A", nil, "")
		r.state("S")
	}},
	{"DeliverPolicies", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		now := time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
		for i, cfg := range []string{
			`"deliver_policy":"all"`, `"deliver_policy":"last"`, `"deliver_policy":"last","filter_subject":"s.1"`,
			`"deliver_policy":"new"`,
			`"deliver_policy":"by_start_sequence","opt_start_seq":6`,
			`"deliver_policy":"by_start_sequence","opt_start_seq":60`,
			`"deliver_policy":"by_start_sequence","opt_start_seq":2,"filter_subject":"s.1"`,
			`"deliver_policy":"last_per_subject","filter_subject":"s.*"`,
			`"deliver_policy":"last_per_subject","filter_subjects":["s.1","s.2"]`,
			`"deliver_policy":"by_start_time","opt_start_time":"` + now + `"`,
			`"deliver_policy":"all","filter_subjects":["s.1","s.2"],"headers_only":true`,
			`"deliver_policy":"all","filter_subject":"none"`,
		} {
			name := fmt.Sprint("C", i)
			r.consumer("S", `{"name":"`+name+`","ack_policy":"none",`+cfg+`}`)
			r.pull("S", name, `{"batch":4,"no_wait":true}`, 4)
			r.put("s.1", "later")
			r.pull("S", name, `{"batch":20,"expires":100000000}`, 30)
			r.info("S", name)
		}
	}},
	{"Explicit", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S",
			`{"name":"E","durable_name":"E","ack_policy":"explicit","ack_wait":1000000000,"max_ack_pending":4,"max_deliver":3}`)
		got := r.pull("S", "E", `{"batch":10,"expires":500000000}`, 5)
		r.info("S", "E")
		r.ack(got[1], "+ACK")
		r.info("S", "E")
		r.ack(got[0], "")
		r.info("S", "E")
		r.pull("S", "E", `{"batch":2,"expires":500000000}`, 2)
		r.info("S", "E")
		r.ask("$JS.API.STREAM.MSG.DELETE.S", nil, `{"seq":5}`)
		r.pending("S", "E", 3) // a real server tells its consumers a moment later
		r.info("S", "E")
		r.pull("S", "E", `{"batch":1,"expires":2000000000,"idle_heartbeat":400000000}`, 2)
		r.info("S", "E")
	}},
	{"Redelivery", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", `{"name":"R","durable_name":"R","ack_policy":"all","ack_wait":500000000}`)
		got := r.pull("S", "R", `{"batch":3,"expires":3000000000}`, 3)
		again := r.pull("S", "R", `{"batch":4,"expires":3000000000}`, 4)
		r.info("S", "R")
		r.ack(got[2], "+ACK")
		r.info("S", "R")
		r.ack(again[3], "+ACK")
		r.info("S", "R")
		got = r.pull("S", "R", `{"batch":2,"expires":3000000000}`, 2)
		for range 4 { // it goes on working, and is not given again
			time.Sleep(200 * time.Millisecond)
			for _, m := range got {
				r.ack(m, "+WPI")
			}
		}
		r.info("S", "R")
		r.ack(got[0], "+ACK")
		r.info("S", "R")
	}},
	{"Reset", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", `{"name":"A","durable_name":"A","ack_policy":"all"}`)
		got := r.pull("S", "A", `{"batch":5,"expires":500000000}`, 5)
		r.ack(got[1], "")
		r.ask("$JS.API.CONSUMER.RESET.S.A", nil, "")
		r.info("S", "A")
		r.ack(got[3], "") // from before the reset
		r.info("S", "A")
		again := r.pull("S", "A", `{"batch":4,"expires":500000000}`, 4)
		r.ack(got[4], "")
		r.info("S", "A")
		r.ack(again[3], "")
		r.info("S", "A")
		time.Sleep(300 * time.Millisecond) // a real server writes the state from before, and one at a time
		for _, body := range []string{`{"seq":2}`, `{"seq":7}`, `{"seq":70}`, `{"seq":1}`, "nonsense"} {
			r.ask("$JS.API.CONSUMER.RESET.S.A", nil, body)
			r.info("S", "A")
		}
		r.pull("S", "A", `{"batch":20,"no_wait":true}`, 11)
		r.consumer("S", `{"name":"N","ack_policy":"explicit","deliver_policy":"new"}`)
		r.ask("$JS.API.CONSUMER.RESET.S.N", nil, `{"seq":2}`)
		r.consumer("S", `{"name":"Q","ack_policy":"explicit","deliver_policy":"by_start_sequence","opt_start_seq":5}`)
		r.ask("$JS.API.CONSUMER.RESET.S.Q", nil, `{"seq":2}`)
		r.ask("$JS.API.CONSUMER.RESET.S.Q", nil, `{"seq":6}`)
		r.ask("$JS.API.CONSUMER.RESET.S.none", nil, `{"seq":6}`)
	}},
	{"Pulls", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", `{"name":"C","durable_name":"C","ack_policy":"none","max_waiting":2}`)
		r.pull("S", "C", `{"batch":3,"max_bytes":120}`, 2)
		r.pull("S", "C", `{"batch":3,"max_bytes":10}`, 1)
		r.pull("S", "C", `{"batch":1,"max_bytes":1000}`, 2)
		r.pull("S", "C", "2", 2)
		r.pull("S", "C", "", 1)
		r.pull("S", "C", `{"batch":100,"no_wait":true}`, 9)
		r.pull("S", "C", `{"batch":1,"no_wait":true}`, 1)
		r.pull("S", "C", `{"batch":1,"expires":300000000}`, 1)
		r.pull("S", "C", `{"batch":1,"expires":300000000,"no_wait":true}`, 1)
		r.pull("S", "C", `{"batch":1,"expires":1000000000,"idle_heartbeat":300000000}`, 4)
		r.pull("S", "C", `{"batch":1,"expires":300000000,"idle_heartbeat":300000000}`, 1)
		r.pull("S", "C", `{broken`, 1)
		inbox := nats.NewInbox()
		sub := must.Get(r.nc.SubscribeSync(inbox))(r.t)
		for range 3 {
			must.Do(r.t, r.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.S.C", inbox,
				[]byte(`{"batch":1,"expires":3000000000}`)))
		}
		r.receive(sub, 1)
		r.info("S", "C")
		r.ask("$JS.API.CONSUMER.DELETE.S.C", nil, "")
		r.receive(sub, 2)
	}},
	{"Pinned", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", pinned)
		r.pull("S", "P", `{"batch":1,"expires":500000000}`, 1)
		r.pull("S", "P", `{"batch":1,"expires":500000000,"group":"other"}`, 1)
		first := r.pull("S", "P", `{"batch":2,"expires":2000000000,"group":"g"}`, 2)
		id := first[0].Header.Get("Nats-Pin-Id")
		r.pull("S", "P", `{"batch":2,"expires":300000000,"group":"g"}`, 1) // another client waits in vain
		r.pull("S", "P", `{"batch":2,"expires":300000000,"group":"g","id":"wrong"}`, 1)
		r.pull("S", "P", `{"batch":2,"expires":300000000,"group":"g","id":"`+id+`"}`, 2)
		r.info("S", "P")
		r.ask("$JS.API.CONSUMER.UNPIN.S.P", nil, `{"group":"g"}`)
		r.ask("$JS.API.CONSUMER.UNPIN.S.P", nil, `{"group":"none"}`)
		r.ask("$JS.API.CONSUMER.UNPIN.S.P", nil, `{}`)
		r.info("S", "P")
		next := r.pull("S", "P", `{"batch":1,"expires":300000000,"group":"g"}`, 1)
		r.note("another pin: %v", next[0].Header.Get("Nats-Pin-Id") != id)
		r.pull("S", "P", `{"batch":1,"expires":300000000,"group":"g","id":"`+id+`"}`, 1)
		r.ack(next[0], "")
		r.pull("S", "P", `{"batch":1,"expires":3000000000,"group":"g"}`, 1) // gets what comes once the pin is too old
		r.info("S", "P")
	}},
	{"PurgedUnderConsumers", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", `{"name":"A","durable_name":"A","ack_policy":"all"}`)
		r.consumer("S", `{"name":"E","durable_name":"E","ack_policy":"explicit"}`)
		r.consumer("S", `{"name":"F","durable_name":"F","ack_policy":"explicit","filter_subject":"s.1"}`)
		r.pull("S", "A", `{"batch":4,"expires":500000000}`, 4)
		open := r.pull("S", "E", `{"batch":6,"expires":500000000}`, 6)
		r.pull("S", "F", `{"batch":2,"expires":500000000}`, 2)
		for _, body := range []string{`{"filter":"s.2"}`, `{"seq":3}`, `{"filter":"s.1","seq":6}`,
			`{"filter":"s.*","seq":8}`, ``} {
			r.ask("$JS.API.STREAM.PURGE.S", nil, body)
			r.info("S", "A")
			r.info("S", "E")
			r.info("S", "F")
			r.ack(open[0], "")
			open = open[1:]
			r.info("S", "E")
		}
		r.put("s.1", "after")
		r.pull("S", "A", `{"batch":9,"no_wait":true}`, 2)
		r.pull("S", "E", `{"batch":9,"no_wait":true}`, 2)
		r.pull("S", "F", `{"batch":9,"no_wait":true}`, 2)
		r.info("S", "A")
		r.info("S", "E")
		r.info("S", "F")
	}},
	{"LimitsUnderConsumers", func(r *trace) {
		r.fill(jetstream.StreamConfig{MaxMsgsPerSubject: 2})
		r.consumer("S", `{"name":"A","durable_name":"A","ack_policy":"all"}`)
		r.consumer("S", `{"name":"E","durable_name":"E","ack_policy":"explicit"}`)
		r.pull("S", "A", `{"batch":4,"expires":500000000}`, 4)
		r.pull("S", "E", `{"batch":4,"expires":500000000}`, 4)
		for range 3 {
			r.put("s.1", "new")
			r.put("s.2", "new")
		}
		time.Sleep(100 * time.Millisecond) // a real server looks at it aside
		r.info("S", "A")
		r.info("S", "E")
		r.pull("S", "A", `{"batch":9,"no_wait":true}`, 5)
		r.info("S", "A")
	}},
	{"InactiveAndOrdered", func(r *trace) {
		r.fill(jetstream.StreamConfig{})
		r.consumer("S", `{"name":"I","ack_policy":"none","inactive_threshold":500000000}`)
		time.Sleep(2 * time.Second)
		r.info("S", "I")
		s := must.Get(r.js.Stream(r.ctx, "S"))(r.t)
		cons := must.Get(s.OrderedConsumer(r.ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"s.1", "s.2"}}))(r.t)
		batch := must.Get(cons.Fetch(10, jetstream.FetchMaxWait(time.Second)))(r.t)
		for m := range batch.Messages() {
			meta := must.Get(m.Metadata())(r.t)
			r.note("%s %s %d %d %d", m.Subject(), m.Data(), meta.Sequence.Stream, meta.Sequence.Consumer,
				meta.NumPending)
		}
	}},
	{"Objects", func(r *trace) {
		os := must.Get(r.js.CreateObjectStore(r.ctx, jetstream.ObjectStoreConfig{Bucket: "O"}))(r.t)
		big := strings.Repeat("0123456789", 50_000)
		info := must.Get(os.PutString(r.ctx, "big", big))(r.t)
		r.note("%d %d %s", info.Size, info.Chunks, info.Digest)
		must.Do(r.t, os.Delete(r.ctx, "big"))
		status := must.Get(os.Status(r.ctx))(r.t)
		r.note("%d", status.Size())
	}},
	{"Account", func(r *trace) {
		r.fill(jetstream.StreamConfig{MaxBytes: 1 << 20})
		info := must.Get(r.js.AccountInfo(r.ctx))(r.t)
		r.note("%d %d %d %d", info.Store, info.Memory, info.Streams, info.Consumers)
	}},
}
