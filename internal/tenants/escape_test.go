package tenants_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/embedded"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// site is a server with two tenants, acme and brook, each with a user of every role and a persister.
type site struct {
	t     *testing.T
	dir   string
	urls  []string // of the server, or of those of a cluster, which are asked in turn
	conf  tenants.Directory
	seeds map[string]string // tenant/user: file
	acme  *client.Client    // its admin
	brook *client.Client
	conns map[string]*natsio.Conn
}

const auditor = "auditor" // a second reader

const wait = 20 * time.Second // for what comes at once when all is well

// newUsers makes both tenants with their users, and their configuration, and starts nothing.
func newUsers(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), seeds: map[string]string{}, conns: map[string]*natsio.Conn{}}
	s.conf = tenants.Directory{Version: tenants.Version, System: s.key("system")}
	for _, name := range []string{"acme", "brook"} {
		must.Do(t, s.conf.AddTenant(tenants.Tenant{Name: name, Disk: 1 << 30}))
		tenant := must.Get(s.conf.Tenant(name))(t)
		for _, role := range tenants.Roles {
			u := tenants.User{Name: string(role), Role: role}
			if role == tenants.Agent {
				u.Sessions = []string{"mine", "mine-too"}
			}
			u.Key = s.key(name + "/" + u.Name)
			must.Do(t, tenant.Add(u))
		}
		second := tenants.User{Name: auditor, Role: tenants.Reader, Key: s.key(name + "/" + auditor)}
		must.Do(t, tenant.Add(second))
	}
	must.Do(t, os.WriteFile(s.accounts(), s.conf.Conf(), 0o600))
	return s
}

// accounts is the configuration that newUsers writes.
func (s *site) accounts() string { return filepath.Join(s.dir, "accounts.conf") }

func newSite(t *testing.T) *site {
	s := newUsers(t)
	srv := must.Get(embedded.Start(embedded.Config{Dir: filepath.Join(s.dir, "data"), Listen: "127.0.0.1:0", Sync: time.Minute, Auth: s.accounts()}))(t)
	t.Cleanup(srv.Stop)
	s.urls = []string{srv.ClientURL()}
	s.begin(1)
	return s
}

// begin makes the streams of both tenants, with so many copies, and runs their persisters.
func (s *site) begin(copies int) {
	for _, name := range []string{"acme", "brook"} {
		must.Eventually(s.t, "streams", func() error {
			admin, err := s.try(name, tenants.Admin, nil)
			if err == nil {
				err = admin.Ensure(s.t.Context(), natsio.Limits{Replicas: copies, EventsBytes: 64 << 20, ItemsBytes: 64 << 20})
			}
			return err
		})
		s.persist(name)
	}
	s.acme, s.brook = client.New(s.conns["acme/admin"]), client.New(s.conns["brook/admin"])
}

// url is that of the server whose turn it is.
func (s *site) url() string {
	s.urls = append(s.urls[1:], s.urls[0])
	return s.urls[0]
}

func (s *site) key(name string) (public string) {
	seed, public := must.Two(natsadmin.NewKey())(s.t)
	s.seeds[name] = filepath.Join(s.dir, strings.ReplaceAll(name, "/", "-")+".nk")
	must.Do(s.t, os.WriteFile(s.seeds[name], seed, 0o600))
	return public
}

// dial connects as a user. Complaints of the server are written to log.
func (s *site) dial(tenant string, role tenants.Role, log io.Writer) *natsio.Conn {
	s.t.Helper()
	c, err := s.try(tenant, role, log)
	if err != nil {
		s.t.Fatalf("dial as %s/%s: %v", tenant, role, err)
	}
	return c
}

func (s *site) try(tenant string, role tenants.Role, log io.Writer) (*natsio.Conn, error) {
	cfg := natsio.Config{
		URL: s.url(), NKey: s.seeds[tenant+"/"+string(role)], Inbox: tenants.User{Name: string(role)}.Inbox(), Timeout: wait,
	}
	if log != nil {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	c, err := natsio.Dial(s.t.Context(), cfg)
	if err == nil {
		s.t.Cleanup(c.Close)
		s.conns[tenant+"/"+string(role)] = c
	}
	return c, err
}

// persist runs a persister as the user of that role, which may do no more than it needs.
func (s *site) persist(tenant string) {
	conn := s.dial(tenant, tenants.Persister, nil)
	natstest.Run(s.t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
}

// raw connects as a user without Spool: what a hostile program does. The server's complaints come on the channel.
func (s *site) raw(tenant string, role tenants.Role, inbox string) (*nats.Conn, <-chan error) {
	s.t.Helper()
	opt := must.Get(nats.NkeyOptionFromSeed(s.seeds[tenant+"/"+string(role)]))(s.t)
	complaints := make(chan error, 100)
	nc, err := nats.Connect(s.url(), opt, nats.CustomInboxPrefix(inbox), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case complaints <- err:
		default:
		}
	}))
	must.Do(s.t, err)
	s.t.Cleanup(nc.Close)
	return nc, complaints
}

// publish stores an entry as a user and waits until it is in its thread.
func (s *site) publish(tenant string, role tenants.Role, session, text string, seq uint64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), wait)
	defer cancel()
	conn := s.dial(tenant, role, nil)
	e := event(session, text, seq)
	if err := conn.Events().PublishEvents(ctx, []*events.Event{e}); err != nil {
		s.t.Fatalf("publish as %s/%s: %v", tenant, role, err)
	}
	if err := client.New(s.conns[tenant+"/admin"]).Thread(e.Thread).Await(ctx, e.Producer, 0, seq); err != nil {
		s.t.Fatalf("entry of %s/%s: %v", tenant, role, err)
	}
}

func event(session, text string, seq uint64) *events.Event {
	body, err := json.Marshal(map[string]any{"type": "message", "id": fmt.Sprintf("%08d", seq), "message": map[string]any{"role": "user", "content": text}})
	if err != nil {
		panic(err)
	}
	return &events.Event{Producer: "p-" + session, Seq: seq, Kind: events.KindEntry, Dialect: "omp",
		Thread: events.Thread{Session: session, Name: events.MainThread}, Body: body}
}

const marker = "orchard-7391" // in what acme writes, and nowhere else

// TestTenants: brook's operator, who may do anything in brook, reads, lists and infers nothing of acme (DESIGN 13.10).
func TestTenants(t *testing.T) { tenantsApart(t, newSite(t)) }

func tenantsApart(t *testing.T, s *site) {
	spy, _ := s.raw("brook", tenants.Admin, "_INBOX.spy")
	heard := make(chan *nats.Msg, 10_000)
	for _, subject := range []string{">", "$SYS.>", "$JS.>", "$KV.>", "$SRV.>", "spool.v1.>"} {
		must.Get(spy.ChanSubscribe(subject, heard))(t)
	}
	must.Do(t, spy.Flush())
	before := account(t, spy)
	s.publish("acme", tenants.Agent, "mine", marker, 1)
	thread := events.Thread{Session: "mine", Name: events.MainThread}
	blob := must.Get(s.acme.PutBlob(t.Context(), []byte(marker)))(t)
	art, err := s.acme.Artifacts().Put(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "mine"}}, strings.NewReader(marker))
	must.Do(t, err)
	head := must.Get(s.acme.Thread(thread).Head(t.Context()))(t)
	var out bytes.Buffer
	if _, err := s.acme.Thread(thread).Export(t.Context(), &out); err != nil || !strings.Contains(out.String(), marker) {
		t.Fatalf("acme's own export = %q, %v, want its entry", out.String(), err)
	}

	// What acme's bytes and names lead to in brook: all the same as what was never anywhere.
	for what, try := range map[string]func() error{
		"blob":     func() error { _, err := s.brook.Blob(t.Context(), blob); return err },
		"artifact": func() error { _, err := s.brook.Artifacts().Record(t.Context(), art.ID); return err },
		"thread":   func() error { _, err := s.brook.Thread(thread).Head(t.Context()); return err },
		"node":     func() error { _, err := s.conns["brook/admin"].Store(0).Find(t.Context(), head.Head().Ref); return err },
		"pack": func() error {
			_, err := s.conns["brook/admin"].Store(0).Pack(t.Context(), head.Head().Pack)
			return err
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s of acme as brook's admin: found", what)
		}
	}
	for what, list := range map[string]func() (int, error){
		"sessions": func() (int, error) { l, err := s.brook.Sessions(t.Context(), ""); return len(l), err },
		"page": func() (int, error) {
			p, err := s.brook.SessionPage(t.Context(), client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 9}})
			return len(p.Sessions), err
		},
		"begin": func() (int, error) {
			l, err := s.brook.Internal().SessionsBeginning(t.Context(), "mi")
			return len(l), err
		},
		"threads":   func() (int, error) { l, err := s.brook.EverySession().Threads(t.Context()); return len(l), err },
		"artifacts": func() (int, error) { l, err := s.brook.Session("mine").Artifacts(t.Context()); return len(l), err },
		"dead":      func() (int, error) { l, err := s.brook.EverySession().DeadLetters(t.Context()); return len(l), err },
		"outputs":   func() (int, error) { l, err := s.brook.EverySession().Outputs(t.Context()); return len(l), err },
	} {
		if n, err := list(); err != nil || n != 0 {
			t.Errorf("brook lists %d %s, %v, want none", n, what, err)
		}
	}
	for _, req := range []struct{ subject, body string }{
		{"$JS.API.DIRECT.GET.SPOOL_ITEMS", `{"last_by_subj":"spool.v1.item.mine.main.message"}`},
		{"$JS.API.STREAM.MSG.GET.SPOOL_EVENTS", `{"seq":1}`},
		{"$JS.API.STREAM.MSG.GET.KV_spool", `{"last_by_subj":"$KV.spool.thread.mine.main"}`},
		{"$JS.API.STREAM.INFO.SPOOL_ITEMS", `{"subjects_filter":">"}`},
		{"$JS.API.STREAM.CREATE.steal", `{"name":"steal","sources":[{"name":"SPOOL_EVENTS","external":{"api":"$JS.acme.API","deliver":""}}]}`},
		{"$JS.acme.API.STREAM.INFO.SPOOL_EVENTS", ``}, {"$SYS.REQ.SERVER.PING.JSZ", `{"accounts":true}`}, {"$SYS.REQ.ACCOUNT.acme.CONNZ", ``},
		{"$SYS.REQ.ACCOUNT.PING.STATZ", ``}, {"$SRV.PING", ``},
	} {
		if m, err := spy.Request(req.subject, []byte(req.body), time.Second); err == nil && (strings.Contains(string(m.Data), marker) || strings.Contains(string(m.Data), "mine")) {
			t.Errorf("%s as brook's admin = %s", req.subject, m.Data)
		}
	}
	js := must.Get(jetstream.New(spy))(t)
	if err := js.DeleteStream(t.Context(), "steal"); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if after := account(t, spy); !maps.Equal(after, before) || len(before) < 8 {
		t.Errorf("brook's account was %v and is %v: what acme does shows in it", before, after)
	}
	s.overHTTP(string(art.ID), blob)
	must.Do(t, spy.Flush())
	for len(heard) > 0 {
		m := <-heard
		if strings.Contains(string(m.Data)+m.Subject, marker) || strings.HasPrefix(m.Subject, "spool.v1.") && strings.Contains(m.Subject, "mine") {
			t.Errorf("brook's admin heard %s: %s", m.Subject, m.Data)
		}
	}
}

// overHTTP asks brook's HTTP side for what is acme's.
func (s *site) overHTTP(artifact string, blob casstore.Ref) {
	srv := httptest.NewServer(httpapi.For(s.conns["brook/admin"], httpapi.Config{}))
	defer srv.Close()
	for _, path := range []string{
		"/v1/sessions", "/v1/sessions/mine", "/v1/sessions/mine/threads", "/v1/sessions/mine/threads/main", "/v1/sessions/mine/threads/main/items",
		"/v1/artifacts/" + artifact, "/v1/sessions/mine/artifacts", "/v1/blobs/" + blob.String(), "/v1/prompts",
	} {
		resp := must.Get(http.Get(srv.URL + path))(s.t)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		found := strings.Contains(strings.ReplaceAll(string(body), path, ""), marker) || resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"mine"`)
		if err != nil || found {
			s.t.Errorf("GET %s as brook = %d %s, %v", path, resp.StatusCode, body, err)
		}
	}
}

// account is what an account's server says it uses, but for what its own persister writes every few seconds: how far its streams are.
func account(t *testing.T, nc *nats.Conn) map[string]uint64 {
	t.Helper()
	js := must.Get(jetstream.New(nc))(t)
	info := must.Get(js.AccountInfo(t.Context()))(t)
	used := map[string]uint64{"streams": uint64(info.Streams), "consumers": uint64(info.Consumers)}
	streams := js.ListStreams(t.Context())
	for s := range streams.Info() {
		if s.Config.Name != events.RecordsStream && s.Config.Name != events.GCStream {
			used[s.Config.Name] = s.State.Bytes
		}
	}
	must.Do(t, streams.Err())
	return used
}

// TestRoles: what users of a tenant may not publish, and may not hear.
func TestRoles(t *testing.T) { rolesRefused(t, newSite(t)) }

func rolesRefused(t *testing.T, s *site) {
	s.publish("acme", tenants.Agent, "mine", "hello", 1)
	other := "spool.v1.event.other.main.entry"
	everybody := []string{"$JS.API.STREAM.DELETE.SPOOL_EVENTS", "$JS.API.STREAM.UPDATE.SPOOL_EVENTS", "$JS.API.STREAM.CREATE.steal", "$JS.API.STREAM.SNAPSHOT.SPOOL_EVENTS",
		"$JS.API.STREAM.RESTORE.SPOOL_EVENTS", "$SYS.REQ.SERVER.PING", "_INBOX.admin.x", "spool.v1.p.0.other.main.entry"}
	reader := append([]string{"$KV.spool.thread.mine.main", "$O.spool_blobs.M.x", "spool.v1.item.mine.main.message", "spool.v1.dead.x.x.x", "spool.v1.gc.run",
		"$JS.API.STREAM.PURGE.SPOOL_ITEMS", "$JS.API.STREAM.MSG.DELETE.KV_spool", "$JS.API.CONSUMER.DELETE.SPOOL_EVENTS.p0", "$JS.ACK.SPOOL_EVENTS.p0.1.1.1.1.1"}, everybody...)
	for role, c := range map[tenants.Role]struct{ publish, subscribe []string }{
		tenants.Agent: {append([]string{other, "spool.v1.event.mine-t.main.entry", "spool.v1.event.mine", "spool.v1.live.mine.main.o", "$O.spool_inbox.M.x", "$O.spool_inbox.C.x",
			"$JS.API.INFO", "$JS.API.STREAM.INFO.SPOOL_EVENTS", "$JS.API.DIRECT.GET.SPOOL_ITEMS", "$JS.API.STREAM.MSG.GET.KV_spool",
			"$JS.API.CONSUMER.CREATE.SPOOL_ITEMS", "$JS.API.CONSUMER.MSG.NEXT.SPOOL_EVENTS.p0", "$SRV.PING", "spool.v1.service.persister.stats"}, reader...),
			[]string{">", "*", "_INBOX.>", "_INBOX.*.x", "_INBOX.reader.>", "spool.v1.>", "spool.v1.event.mine.>", "spool.v1.live.>", "spool.v1.item.mine.>", "$KV.>", "$O.>", "$JS.>", "$SRV.>", "$SYS.>"}},
		tenants.Reader: {append([]string{other, "$O.spool_inbox.M.x", "$JS.API.STREAM.MSG.GET.SPOOL_EVENTS", "$JS.API.DIRECT.GET.OBJ_spool_inbox", "$JS.API.CONSUMER.CREATE.SPOOL_EVENTS"}, reader...),
			[]string{">", "_INBOX.>", "_INBOX.agent.>", "spool.v1.event.>", "$KV.>", "$SRV.>", "$SYS.>"}},
		tenants.Ingest:    {reader, []string{">", "_INBOX.>", "spool.v1.event.>", "$KV.>"}},
		tenants.Persister: {append([]string{other, "spool.v1.gc.run"}, everybody...), []string{">", "_INBOX.>", "spool.v1.event.>"}},
		tenants.Collector: {append([]string{other, "spool.v1.item.mine.main.message"}, everybody...), []string{">", "_INBOX.>", "spool.v1.event.>"}},
	} {
		nc, complaints := s.raw("acme", role, tenants.User{Name: string(role)}.Inbox())
		for _, subject := range c.publish {
			must.Do(t, nc.Publish(subject, []byte("{}")))
			denied(t, complaints, fmt.Sprintf("publish %s as %s", subject, role), subject)
		}
		for _, subject := range c.subscribe {
			must.Get(nc.SubscribeSync(subject))(t)
			must.Do(t, nc.Flush())
			denied(t, complaints, fmt.Sprintf("subscribe %s as %s", subject, role), subject)
		}
	}
}

func denied(t *testing.T, complaints <-chan error, what, subject string) {
	t.Helper()
	select {
	case err := <-complaints:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`) {
			t.Errorf("%s = %v, want a permissions violation", what, err)
		}
	case <-time.After(wait):
		t.Errorf("%s: allowed", what)
	}
}

// TestRolesSuffice: each role does what it is for, and the server never complains.
func TestRolesSuffice(t *testing.T) { rolesSuffice(t, newSite(t)) }

func rolesSuffice(t *testing.T, s *site) {
	s.publish("acme", tenants.Agent, "mine", marker, 1)
	s.publish("acme", tenants.Ingest, "other", strings.Repeat("long ", 400_000), 1) // by the inbox
	var complaints natstest.Log
	reader := client.New(s.dial("acme", tenants.Reader, &complaints))
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for item, err := range reader.Subscribe(ctx, client.Filter{Session: "mine"}, client.Position{All: true}) {
		if err != nil || !strings.Contains(fmt.Sprintf("%+v", item), marker) {
			t.Fatalf("item as reader = %+v, %v", item, err)
		}
		break
	}
	if l, err := reader.EverySession().Threads(ctx); err != nil || len(l) != 2 {
		t.Errorf("threads as reader = %v, %v, want two", l, err)
	}
	page, err := reader.SessionPage(ctx, client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: 1}})
	if err != nil || len(page.Sessions) != 1 || page.Next == "" {
		t.Errorf("a page of one of two sessions as reader = %+v, %v", page, err)
	}
	if l, err := reader.Internal().SessionsBeginning(ctx, "oth"); err != nil || len(l) != 1 {
		t.Errorf("sessions that begin with oth as reader = %v, %v, want one", l, err)
	}
	var out bytes.Buffer
	if _, err := reader.Thread(events.Thread{Session: "mine", Name: events.MainThread}).Export(ctx, &out); err != nil ||
		!strings.Contains(out.String(), marker) {
		t.Errorf("export as reader = %q, %v", out.String(), err)
	}
	api := httptest.NewServer(httpapi.For(s.dial("acme", tenants.Ingest, &complaints), httpapi.Config{}))
	defer api.Close()
	resp := must.Get(http.Get(api.URL + "/v1/sessions/mine/threads/main/items"))(t)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), marker) {
		t.Errorf("items over HTTP as ingest = %d %s, %v", resp.StatusCode, body, err)
	}
	sdk := api.URL + "/v1/claude/-w/5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11"
	for _, c := range []struct {
		path string
		want int
	}{{"", 200}, {"/subagents/agent-1", 200}, {"/subagents/x/agent-2", 403}, {"/other", 403}, {"?summary", 403}} {
		method := http.MethodPost
		if c.path == "?summary" {
			method = http.MethodPut
		}
		req := must.Get(http.NewRequestWithContext(ctx, method, sdk+c.path, strings.NewReader(`{"type":"user","uuid":"u"}`)))(t)
		req.Header.Set("Content-Type", map[string]string{http.MethodPost: "application/x-ndjson", http.MethodPut: "application/json"}[method])
		resp := must.Get(http.DefaultClient.Do(req))(t)
		body := must.Get(io.ReadAll(resp.Body))(t)
		must.Do(t, resp.Body.Close())
		must.Same(t, resp.StatusCode, c.want, method+" "+c.path+" as ingest = %d, want %d: %s", string(body))
	}
	collector := s.dial("acme", tenants.Collector, &complaints)
	must.Is(t, collector.Verify(ctx), nil, "Verify as gc")
	if text := complaints.String(); strings.Contains(text, "ermission") {
		t.Errorf("the server complained:\n%s", text)
	}
}

// TestHostileHeaders: what a client writes into the headers of its own event does nothing to other events (DESIGN 11).
func TestHostileHeaders(t *testing.T) { hostileHeaders(t, newSite(t)) }

func hostileHeaders(t *testing.T, s *site) {
	s.publish("acme", tenants.Agent, "mine", "first", 1)
	nc, _ := s.raw("acme", tenants.Agent, "_INBOX.agent")
	send := func(session string, seq uint64, header nats.Header) string {
		m := &nats.Msg{Subject: events.EventSubject(events.Thread{Session: session, Name: events.MainThread}, events.KindEntry), Header: header, Data: event(session, "x", seq).Encode()}
		answer := must.Get(nc.RequestMsg(m, wait))(t)
		return string(answer.Data)
	}
	for i, header := range []nats.Header{
		{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-TTL": {"1s"}},
		{"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"spool.v1.event.other.main.entry"}},
		{"Nats-Expected-Last-Sequence": {"99999"}}, {"Nats-Expected-Stream": {"SPOOL_ITEMS"}}, {"Nats-Incr": {"+1"}},
	} {
		if answer := send("mine", uint64(10+i), header); !strings.Contains(answer, `"error"`) {
			t.Errorf("event with %v = %s, want a refusal", header, answer)
		}
	}
	// A message id is good for nothing but against its own.
	if a, b := send("mine", 30, nats.Header{"Nats-Msg-Id": {"x"}}), send("mine-too", 1, nats.Header{"Nats-Msg-Id": {"x"}}); !strings.Contains(a, `"seq"`) || !strings.Contains(b, `"duplicate"`) {
		t.Errorf("events of one message id = %s, %s", a, b)
	}
	s.publish("acme", tenants.Ingest, "other", "after", 1)
	info := must.Get(s.conns["acme/admin"].JetStream().Stream(t.Context(), events.EventsStream))(t)
	if got := info.CachedInfo().State.Msgs; got != 3 {
		t.Errorf("EVENTS holds %d messages, want the first, one by message id and the last", got)
	}
}

// TestConfusedDeputy: an answer goes where its asker says, but in the asker's own account: no event, item or record comes of it, nor a
// dead letter.
func TestConfusedDeputy(t *testing.T) { confusedDeputy(t, newSite(t)) }

func confusedDeputy(t *testing.T, s *site) {
	s.publish("acme", tenants.Ingest, "other", "first", 1)
	victim := events.Thread{Session: "other", Name: events.MainThread}
	head := must.Get(s.conns["acme/admin"].Records().Records(t.Context(), events.HeadKey(victim)))(t)
	own := events.EventSubject(events.Thread{Session: "mine", Name: events.MainThread}, events.KindEntry)
	agent, _ := s.raw("acme", tenants.Agent, "_INBOX.agent")
	reader, _ := s.raw("acme", tenants.Reader, "_INBOX.reader")
	for _, to := range []string{
		events.EventSubject(victim, events.KindEntry), events.RecordSubject(events.HeadKey(victim)), events.RecordSubject(events.DeletingKey("other")),
		events.ItemSubject(victim, "message", ""), "$O.spool_blobs.C.x", "$JS.API.STREAM.DELETE.SPOOL_ITEMS",
	} {
		must.Do(t, errors.Join(
			agent.PublishRequest(own, to, event("mine", "x", 1).Encode()), reader.PublishRequest("$JS.API.DIRECT.GET.SPOOL_ITEMS", to, []byte(`{"seq":1}`)),
			agent.PublishMsg(&nats.Msg{Subject: own, Reply: to, Header: nats.Header{"Nats-Batch-Id": {nats.NewInbox()}, "Nats-Batch-Sequence": {"1"}}}), // answered by an empty message
		))
	}
	must.Do(t, errors.Join(agent.Flush(), reader.Flush()))
	for nc, subject := range map[*nats.Conn]string{agent: own, reader: "$JS.API.INFO"} { // what came before is answered
		must.Get(nc.Request(subject, event("mine", "x", 1).Encode(), wait))(t)
	}
	if again, err := s.conns["acme/admin"].Records().Records(t.Context(), events.HeadKey(victim), events.DeletingKey("other")); err != nil || again[0].Seq != head[0].Seq || again[1].Seq != 0 {
		t.Errorf("the victim's head is now %+v, %v", again, err)
	}
	s.publish("acme", tenants.Ingest, "other", "second", 2)
	var out bytes.Buffer
	if n, err := s.acme.Thread(victim).Export(t.Context(), &out); err != nil || n != 2 {
		t.Errorf("the victim's thread has %d entries, %v, want its own two: %s", n, err, out.String())
	}
	if dead, err := s.acme.Session("other").DeadLetters(t.Context()); err != nil || len(dead) != 0 {
		t.Errorf("dead letters of the victim = %v, %v, want none", dead, err)
	}
}

// TestDurableWithoutATag: a named subscription that was made before its user had credentials, under a name that everybody can work out, goes on
// where it was, under one that nobody else can.
func TestDurableWithoutATag(t *testing.T) {
	s := newSite(t)
	for i := range uint64(3) {
		s.publish("acme", tenants.Ingest, "other", "text", i+1)
	}
	filters, old := []string{events.ItemFilter("other", "", "")}, events.ReaderConsumer("billing", "")
	js := s.conns["acme/admin"].JetStream()
	cons := must.Get(js.CreateConsumer(t.Context(), events.ItemsStream, jetstream.ConsumerConfig{
		Durable: old, FilterSubjects: filters, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
	}))(t)
	m := must.Get(cons.Next(jetstream.FetchMaxWait(wait)))(t)
	must.Do(t, m.DoubleAck(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for item, err := range s.dial("acme", tenants.Reader, nil).Items().FollowDurable(ctx, "billing", filters, natsio.Position{All: true}, nil) {
		if err != nil || item.N != 2 {
			t.Errorf("the subscription goes on with item %d, %v, want 2", item.N, err)
		}
		break
	}
	if _, err := js.Consumer(t.Context(), events.ItemsStream, old); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("the old consumer: %v, want that it is gone", err)
	}
}

// TestReaderIsAlone: who only reads can wait to be the only one of a name.
func TestReaderIsAlone(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	for range 2 { // one after the other
		done := false
		must.Do(t, natsio.Alone(ctx, s.dial("acme", tenants.Reader, nil).Items(), "phone", "", func(context.Context) error {
			done = true
			return nil
		}))
		must.Same(t, done, true, "it was the only one: %v, want %v")
	}
}

// TestNobodyWithoutKey: no user, another server's user and a removed one are not let in.
func TestNobodyWithoutKey(t *testing.T) {
	s := newSite(t)
	stranger := s.key("stranger")
	for what, key := range map[string]string{"no key": "", "a key that nobody knows (" + stranger + ")": s.seeds["stranger"]} {
		if c, err := natsio.Dial(t.Context(), natsio.Config{URL: s.url(), NKey: key}); err == nil {
			c.Close()
			t.Errorf("with %s: let in", what)
		}
	}
}
