package tenants_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/tenants"
	"spool/pkg/client"
	"spool/pkg/events"
)

// target is a running system with a tenant acme, which has the users of newSite, and the sessions mine, mine-too and other.
type target struct {
	*testing.T
	urls  []string          // of its servers
	seeds map[string]string // of acme's users: file
	admin *natsio.Conn
}

// connect is a user without Spool.
func (s *target) connect(user string, server int) *nats.Conn {
	s.Helper()
	opt := must.Get(nats.NkeyOptionFromSeed(s.seeds["acme/"+user]))(s)
	nc := must.Get(nats.Connect(s.urls[server%len(s.urls)], opt, nats.CustomInboxPrefix("_INBOX."+user),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))(s)
	s.Cleanup(nc.Close)
	return nc
}

// spool is a user with Spool's own client.
func (s *target) spool(user string, server int) *natsio.Conn {
	s.Helper()
	c := must.Get(natsio.Dial(s.Context(), natsio.Config{
		URL: s.urls[server%len(s.urls)], NKey: s.seeds["acme/"+user], Inbox: "_INBOX." + user, Timeout: wait,
	}))(s)
	s.Cleanup(c.Close)
	return c
}

// mark is in everything that the attacker writes.
const mark = "attack-7731"

// billing is the durable subscription of the user auditor.
const billing = "billing"

// prepare stores what is attacked: threads with items, an artifact, a dead letter, a deleted session, and a durable subscription.
func (s *target) prepare() (durable string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	ingest, cl := s.spool("ingest", 0), client.New(s.admin)
	for _, session := range []string{"other", "gone"} {
		for i := range uint64(4) {
			must.Do(s, ingest.Events().PublishEvents(ctx, []*events.Event{event(session, strings.Repeat("kept ", 1000), i+1)}))
		}
		must.Do(s, cl.Thread(events.Thread{Session: session, Name: "main"}).Await(ctx, "p-"+session, 0, 4))
	}
	must.Get(cl.Session("gone").Delete(ctx, client.Deletion{}))(s)
	must.Do(s, s.spool("agent", 0).Events().PublishEvents(ctx, []*events.Event{event("mine", "hello", 1)}))
	for item, err := range s.spool(auditor, 1).Items().FollowDurable(ctx, billing,
		[]string{events.ItemFilter("other", "", "")}, natsio.Position{All: true}, nil) {
		must.Do(s, err)
		if item.N == 2 { // the first one is acked
			break
		}
	}
	must.Do(s, faulttest.Settle(ctx, s.admin))
	for name := range s.consumers(events.ItemsStream) {
		if ok, tagged := events.ReaderDurable(name); ok && tagged {
			return name
		}
	}
	s.Fatal("the durable subscription has no consumer with a secret in its name")
	return ""
}

// consumers are the durable ones of a stream: what they are configured to and, of subscriptions, where they stand.
func (s *target) consumers(stream string) map[string]string {
	s.Helper()
	st := must.Get(s.admin.JetStream().Stream(s.Context(), stream))(s)
	all, list := map[string]string{}, st.ListConsumers(s.Context())
	for info := range list.Info() {
		if info.Config.Durable == "" {
			continue
		}
		cfg := must.Get(json.Marshal(info.Config))(s)
		all[info.Name] = string(cfg)
		if stream == events.ItemsStream {
			all[info.Name] += fmt.Sprint(info.Delivered.Consumer, info.AckFloor.Consumer)
		}
	}
	must.Do(s, list.Err())
	return all
}

// ours reports what the attacker may write, or the system writes by itself all the time.
func ours(stream, subject string) bool {
	if strings.Contains(subject+".", ".mine.") || stream == events.GCStream {
		return true
	}
	key, ok := strings.CutPrefix(subject, events.RecordSubject(""))
	if !ok {
		return false
	}
	class, err := record.ClassOf(key)
	return err == nil && class.Own
}

// store is everything that is stored, and what consumers there are. No message may be an answer of the server, or hold what the
// attacker wrote outside of its own sessions.
func (s *target) store() map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		for name, at := range s.consumers(cfg.Name) {
			all["consumer "+cfg.Name+" "+name] = at
		}
		st := must.Get(s.admin.JetStream().Stream(s.Context(), cfg.Name))(s)
		got := st.CachedInfo().Config
		got.Metadata = nil
		text := must.Get(json.Marshal(got))(s)
		all["config "+cfg.Name] = string(text)
		must.Eventually(s.T, "read "+cfg.Name, func() error { // on a machine that is busy the server may drop the consumer meanwhile
			return s.admin.Streams().Each(s.Context(), cfg.Name, jetstream.OrderedConsumerConfig{},
				func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
					if at, sum := s.stored(cfg.Name, m, meta); at != "" {
						all[at] = sum
					}
					return nil
				})
		})
	}
	return all
}

// stored is where a message is, and a hash of it; "" when the attacker may write there.
func (s *target) stored(stream string, m jetstream.Msg, meta *jetstream.MsgMetadata) (at, sum string) {
	what := string(m.Data()) + fmt.Sprint(m.Headers())
	if bytes.HasPrefix(m.Data(), []byte(`{"stream":`)) || strings.Contains(what, "io.nats.") || strings.Contains(what, `"err_code"`) {
		s.Errorf("%s holds an answer of the server under %s: %s", stream, m.Subject(), what)
	}
	if ours(stream, m.Subject()) {
		return "", ""
	}
	if strings.Contains(what, mark) {
		s.Errorf("%s holds what the attacker wrote under %s: %s", stream, m.Subject(), what)
	}
	return fmt.Sprint(stream, " ", meta.Sequence.Stream, " ", m.Subject()), fmt.Sprintf("%x", sha256.Sum256([]byte(what)))
}

// victims are subjects of the system: one at least of each that a stream listens on, of each class of records, and those that the server
// itself listens on.
func (s *target) victims(durable string) []string {
	s.Helper()
	list := []string{
		"spool.v1.event.other.main.entry", "spool.v1.event.other.main.control", "spool.v1.p.0.other.main.entry",
		"spool.v1.item.other.main.message", "spool.v1.dead.other.main.entry", events.GCRunSubject, events.GCScheduleSubject,
		events.GCReportSubject, events.GCStateSubject, events.MarksSubject, events.ProbeSubject,
		events.RecordSubject(events.HeadKey(events.Thread{Session: "other", Name: "main"})),
	}
	for _, c := range record.Classes {
		list = append(list, events.RecordSubject(c.Name+".other.main"))
	}
	for _, b := range []string{events.NodesBucket, events.BlobsBucket, events.ArtifactsBucket, events.InboxBucket} {
		list = append(list, "$O."+b+".C.x", "$O."+b+".M.x")
	}
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		for _, filter := range cfg.Subjects {
			if !slices.ContainsFunc(list, func(subject string) bool { return matches(filter, subject) }) {
				s.Errorf("nothing is tried on %s, which %s listens on", filter, cfg.Name)
			}
		}
		for _, verb := range []string{"PURGE", "DELETE", "MSG.DELETE", "UPDATE", "LEADER.STEPDOWN"} {
			list = append(list, "$JS.API.STREAM."+verb+"."+cfg.Name)
		}
	}
	for _, name := range []string{durable, events.ReaderConsumer(billing, "")} {
		list = append(list, "$JS.ACK.SPOOL_ITEMS."+name+".1.2.2.1.1")
		for _, verb := range []string{"DELETE", "RESET", "PAUSE", "UNPIN", "LEADER.STEPDOWN", "MSG.NEXT"} {
			list = append(list, "$JS.API.CONSUMER."+verb+".SPOOL_ITEMS."+name)
		}
	}
	return append(list, "$JS.ACK.SPOOL_EVENTS.p0.1.1.1.1.1", "$JS.API.CONSUMER.DELETE.SPOOL_EVENTS.p0",
		"$JS.API.CONSUMER.MSG.NEXT.SPOOL_EVENTS.p0",
		"$JS.FC.SPOOL_ITEMS.x.y", "$JS.API.STREAM.CREATE.steal",
		events.ReaderRequest(events.ItemsStream)[:len(events.ReaderRequest(events.ItemsStream))-1]+"x",
		"_R_.x", "_INBOX.admin.x", "spool.v1.live.other.main.o", "$SRV.PING")
}

func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

// compare tells what is not as it was.
func (s *target) compare(what string, before map[string]string) {
	s.Helper()
	after := s.store()
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for key := range keys {
		must.Same(s, before[key], after[key], "%s: %s was %q and is %q", what, key)
	}
}

const headersEvery = 25

// attack tries all that a user has against every victim, and looks at the store after each kind.
func (s *target) attack(user string, durable string, server int) {
	s.Helper()
	victims, before := s.victims(durable), s.store()
	nc := s.connect(user, server)
	send := func(m *nats.Msg) {
		must.Do(s, nc.PublishMsg(m))
	}
	requests := requestsOf(user)
	for _, kind := range []struct {
		name string
		try  func(victim string)
	}{
		{"publish", func(v string) { send(&nats.Msg{Subject: v, Data: []byte(mark)}) }},
		{"reply", func(v string) {
			for _, r := range requests {
				send(&nats.Msg{Subject: r.subject, Reply: v, Data: r.body, Header: r.header})
				send(&nats.Msg{Subject: r.subject, Reply: v + ".id.1.ok.1.0.$FI", Data: r.body, Header: r.header})
			}
		}},
		{"headers", func(v string) {
			for _, r := range requests {
				for _, h := range headers(v) {
					if h.Get(stopsCluster) != "" && len(s.urls) > 1 {
						continue
					}
					maps.Copy(h, r.header)
					send(&nats.Msg{Subject: r.subject, Reply: nc.NewInbox(), Data: r.body, Header: h})
				}
			}
		}},
		{"JetStream API", func(v string) {
			for _, r := range apiRequests(v, durable) {
				send(&nats.Msg{Subject: r.subject, Reply: nc.NewInbox(), Data: r.body})
			}
		}},
	} {
		for i, v := range victims {
			if kind.name != "headers" || i%headersEvery == 0 { // thousands of events that become dead letters take a persister minutes
				kind.try(v)
			}
		}
		start := time.Now()
		s.settle(nc, user)
		s.Logf("%s as %s: settled in %v", kind.name, user, time.Since(start))
		s.compare(fmt.Sprintf("%s as %s", kind.name, user), before)
	}
}

// settle waits until the server has worked off what a user sent, and the persister what came of it.
func (s *target) settle(nc *nats.Conn, user string) {
	s.Helper()
	last := requestsOf(user)[0]
	must.Eventually(s.T, "an answer after the attack", func() error {
		m, err := nc.Request(last.subject, last.body, wait)
		if err != nil {
			return err
		}
		if !bytes.Contains(m.Data, []byte("stream")) {
			return fmt.Errorf("answer %s", m.Data)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	must.Do(s, faulttest.Settle(ctx, s.admin))
}

type request struct {
	subject string
	header  nats.Header
	body    []byte
}

// requestsOf are what a role may send: of each kind one.
func requestsOf(user string) []request {
	if user == string(tenants.Agent) {
		e := event("mine", mark, 1)
		own, body := events.EventSubject(e.Thread, e.Kind), e.Encode()
		return []request{
			{own, nil, body}, {own, nil, []byte("no event " + mark)}, {own, nil, nil}, {own, nil, bytes.Repeat([]byte("+ACK"), 10)},
			// is answered by an empty message
			{own, nats.Header{"Nats-Batch-Id": {mark}, "Nats-Batch-Sequence": {"1"}}, body},
			{own, nats.Header{"Nats-Batch-Id": {mark}, "Nats-Batch-Sequence": {"2"}, "Nats-Batch-Commit": {"1"}}, body},     // the end of it
			{own, nats.Header{"Nats-Expected-Last-Sequence": {"99999"}}, body}, {"spool.v1.event.mine.main.bad", nil, body}, // refused
		}
	}
	list := []request{{"$JS.API.STREAM.INFO.SPOOL_ITEMS", nil, nil}}
	for _, s := range events.ReaderStreams {
		list = append(list, request{"$JS.API.STREAM.MSG.GET." + s, nil, []byte(`{"seq":1}`)},
			request{"$JS.API.DIRECT.GET." + s, nil, []byte(`{"seq":1,"batch":10}`)},
			request{"$JS.API.CONSUMER.CREATE." + s + ".x", nil,
				[]byte(`{"stream_name":"` + s + `","config":{"name":"x","ack_policy":"none","inactive_threshold":1000000000}}`)},
			request{"$JS.API.CONSUMER.MSG.NEXT." + s + ".x", nil, []byte(`{"batch":10,"expires":500000000}`)},
			request{"$JS.API.CONSUMER.INFO." + s + ".x", nil, nil})
	}
	for _, subject := range []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST",
		"$JS.API.CONSUMER.LIST.SPOOL_EVENTS", "$SRV.PING", "$SRV.STATS", "spool.v1.service.persister.stats"} {
		list = append(list, request{subject, nil, nil})
	}
	return list
}

// headers are those that the server acts on, with a subject of the system where one may stand.
func headers(victim string) []nats.Header {
	return []nats.Header{
		{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-TTL": {"1s"}}, {"Nats-Msg-Id": {victim}}, {"Nats-Incr": {"+1"}},
		{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {victim}},
		{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {victim}, "Nats-Schedule-Source": {victim}},
		{"Nats-Expected-Stream": {events.RecordsStream}},
		{"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-Expected-Last-Subject-Sequence-Subject": {victim}},
		{"Nats-Trace-Dest": {victim}}, {"Nats-Trace-Dest": {victim}, "Nats-Trace-Only": {"true"}},
		{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
		{"Nats-Request-Info": {`{"acc":"acme","svc":"acme","user":"admin","reply":"` + victim + `.id.1.ok.1.0.$FI"}`}},
		{"KV-Operation": {"PURGE"}}, {"Nats-Marker-Reason": {"Purge"}}, {"Nats-Stream-Source": {"SPOOL_ITEMS 1 > >"}},
		{"Nats-Subject": {victim}}, {"Nats-Stream": {events.RecordsStream}},
		{"Nats-Schedule-Next": {"purge"}, "Nats-Scheduler": {victim}}, {"Nats-Schedule-TTL": {"1s"}},
		{"Nats-Expected-Last-Sequence": {"1"}},
		{"Nats-Batch-Id": {mark}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		{"Spool-Check": {"x"}}, {"Nats-Pin-Id": {"x"}}, {"Status": {"100"}}, {stopsCluster: {"x"}},
	}
}

// apiRequests ask JetStream to send, take or change what is the system's.
func apiRequests(victim, durable string) (list []request) {
	plain := events.ReaderConsumer(billing, "")
	for _, cfg := range []string{
		`"deliver_subject":"%s"`, `"Deliver_Subject":"%s"`, `"deliver_subject":"%[1]s","deliver_subject":""`,
		`"deliver_subject":"%s","direct":true`, `"DELIVER_SUBJECT":"%s","deliver_group":"g"`,
		`"sample_freq":"100%%","description":"%s"`,
	} {
		body := fmt.Sprintf(`{"stream_name":"SPOOL_ITEMS","config":{"name":"probe","deliver_policy":"all","ack_policy":"none","inactive_threshold":1000000000,`+cfg+`}}`, victim)
		for _, subject := range []string{"$JS.API.CONSUMER.CREATE.SPOOL_ITEMS.probe",
			"$JS.API.CONSUMER.CREATE.SPOOL_ITEMS.probe.spool.v1.item.>", "$JS.API.CONSUMER.CREATE.SPOOL_ITEMS",
			"$JS.API.CONSUMER.DURABLE.CREATE.SPOOL_ITEMS.probe", "spool.v1.reader.create.SPOOL_ITEMS.probe"} {
			list = append(list, request{subject, nil, []byte(body)})
		}
	}
	for _, name := range []string{plain, "made", "reader_" + mark, "p0"} {
		body := []byte(`{"stream_name":"SPOOL_ITEMS","config":{"durable_name":"` + name + `","name":"` + name + `","ack_policy":"explicit"}}`)
		list = append(list, request{"$JS.API.CONSUMER.CREATE.SPOOL_ITEMS." + name, nil, body},
			request{"$JS.API.CONSUMER.CREATE.SPOOL_EVENTS." + name, nil, body},
			request{"$JS.API.CONSUMER.DELETE.SPOOL_ITEMS." + name, nil, nil}, request{"$JS.API.CONSUMER.RESET.SPOOL_ITEMS." + name, nil, nil},
			request{"$JS.API.CONSUMER.MSG.NEXT.SPOOL_ITEMS." + name, nil, []byte(`{"batch":10,"group":"reader"}`)},
			request{"$JS.ACK.SPOOL_ITEMS." + name + ".1.2.2.1.1", nil, []byte("+ACK")})
	}
	return append(list, request{"$JS.API.STREAM.CREATE.steal", nil, []byte(`{"name":"steal","subjects":["` + victim + `"]}`)},
		request{"$JS.API.STREAM.UPDATE.SPOOL_ITEMS", nil,
			[]byte(`{"name":"SPOOL_ITEMS","subjects":["spool.v1.item.>"],"republish":{"src":">","dest":"` + victim + `"}}`)},
		request{"$JS.API.STREAM.PURGE.KV_spool", nil, []byte(`{"filter":"` + victim + `"}`)},
		request{"$JS.API.STREAM.MSG.DELETE.SPOOL_ITEMS", nil, []byte(`{"seq":1}`)})
}

// stopsCluster is a header that stops a replicated stream of nats-server 2.15.2 for good, whoever sends it: its servers
// store a message with it before they look at it. docs/security.md says so.
const stopsCluster = "Nats-Expected-Last-Msg-Id"

// run attacks as everybody who lives apart, through every server, and sees that the subscription that was attacked goes on.
func (s *target) run() {
	s.Helper()
	if len(s.urls) > 1 {
		s.Logf("left out: %s, which stops the stream of a cluster", stopsCluster)
	}
	durable := s.prepare()
	for i := range s.urls {
		for _, user := range []string{string(tenants.Agent), string(tenants.Reader)} {
			s.attack(user, durable, i)
		}
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for item, err := range s.spool(auditor, 0).Items().FollowDurable(ctx, billing,
		[]string{events.ItemFilter("other", "", "")}, natsio.Position{}, nil) {
		if err != nil || item.N != 2 {
			s.Errorf("the durable subscription goes on with item %d, %v, want 2", item.N, err)
		}
		break
	}
}

// TestNothingReachesTheStore: whatever an agent or a reader sends, with whatever answer subject, header or request, nothing changes of
// what is stored, but what the agent writes into its own sessions.
func TestNothingReachesTheStore(t *testing.T) {
	s := newSite(t)
	(&target{T: t, urls: s.urls, seeds: s.seeds, admin: s.conns["acme/admin"]}).run()
}
