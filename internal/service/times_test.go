package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"spool/internal/faulttest"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/retention"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// transcriptOf2023 is when somebody wrote what is imported today.
var transcriptOf2023 = time.Date(2023, 5, 1, 12, 0, 0, 0, time.UTC).UnixMilli()

// claims are times that agents say. Those that are believed are shown; of the others the store's time is.
var claims = []struct {
	name     string
	ms       int64
	believed bool
}{
	{"max", math.MaxInt64, false},
	{"min", math.MinInt64 + 1, false},
	{"negative", -5, false},
	{"none", 0, false},
	{"in1970", 1000, false},
	{"in9000", time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), false},
	{"tomorrow", time.Now().Add(20 * time.Hour).UnixMilli(), false},
	{"in2023", transcriptOf2023, true},
}

// ways are how an entry of a time comes in, each into a session of its own.
var ways = []struct {
	name  string
	store func(k *keeper, url, session string, ms int64)
}{
	{"sdk", func(k *keeper, _, session string, ms int64) {
		k.entry(client.Entry{Thread: mainOf(session), Dialect: "raw", Body: []byte("x"), Time: time.UnixMilli(ms)})
	}},
	{"body", func(k *keeper, _, session string, ms int64) {
		body := fmt.Appendf(nil, `{"role":"coder","content":"x","timestamp":%d}`, ms)
		k.entry(client.Entry{Thread: mainOf(session), Dialect: "step", Body: body})
	}},
	{"http", func(k *keeper, url, session string, ms int64) {
		body := fmt.Sprintf(`{"role":"coder","content":"x","timestamp":%d}`, ms)
		k.post(url+"/v1/sessions/"+session+"/threads/main/entries?dialect=step", "application/json", body)
	}},
	{"import", func(k *keeper, _, session string, ms int64) {
		file := fmt.Sprintf(`{"type":"session","version":3,"id":"%s","timestamp":%d,"cwd":"/"}
{"type":"message","id":"00000001","parentId":null,"timestamp":%[2]d,"message":{"role":"assistant","content":[]}}
`, session, ms)
		fsys := fstest.MapFS{session + ".jsonl": {Data: []byte(file)}}
		sources := must.Get(transcript.Find(fsys, "."))(k.t)
		res := transcript.New(k.cl.Internal(), k.Conn.Events(), transcript.Config{}).Import(k.t.Context(), sources)
		if len(res.Files) != 1 || res.Files[0].Err != nil {
			k.t.Fatalf("import of %s = %+v", session, res)
		}
	}},
}

func mainOf(session string) events.Thread {
	return events.Thread{Session: session, Name: events.MainThread}
}

// entry publishes an entry and waits until it is applied.
func (k *keeper) entry(e client.Entry) {
	k.t.Helper()
	k.seq++
	e.Seq = k.seq
	_, err := k.pub.Publish(k.t.Context(), e)
	if err == nil {
		err = k.cl.Thread(e.Thread).Await(k.t.Context(), "p", 0, k.seq)
	}
	must.Do(k.t, err)
}

func (k *keeper) post(url, kind, body string) {
	k.t.Helper()
	resp := must.Get(http.Post(url, kind, strings.NewReader(body)))(k.t) //nolint:noctx // a server of this test's
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode/100 != 2 {
		k.t.Fatalf("POST %s = %d %s", url, resp.StatusCode, text)
	}
}

// read decodes an answer, and sees to it that every time in it is RFC 3339.
func (k *keeper) read(url string, to any) {
	k.t.Helper()
	resp := must.Get(http.Get(url))(k.t) //nolint:noctx // a server of this test's
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		k.t.Fatalf("GET %s = %d %s, %v", url, resp.StatusCode, text, err)
	}
	var all any
	must.Do(k.t, json.Unmarshal(text, &all))
	k.checkTimes(url, all)
	must.Do(k.t, json.Unmarshal(text, to))
}

func (k *keeper) checkTimes(at string, v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			k.checkTimes(at, one)
		}
	case map[string]any:
		for key, one := range v {
			text, _ := one.(string)
			isTime := key == "created" || key == "modified" || strings.HasSuffix(key, "_at")
			if text != "" && isTime {
				if _, err := time.Parse(time.RFC3339, text); err != nil {
					k.t.Errorf("%s: %s: %v", at, key, err)
				}
			}
			k.checkTimes(at+" "+key, one)
		}
	}
}

type sessionLine struct {
	ID, Created, Modified string
}

// TestClaimedTimes: whatever time an entry says, however it comes, a listing shows and orders by times that can be,
// nothing is removed for it, an ended thread is filed under today, and every time in JSON is RFC 3339. A transcript of
// years ago shows when it was written.
func TestClaimedTimes(t *testing.T) {
	k := newKeeper(t)
	srv := httptest.NewServer(httpapi.For(k.Conn, httpapi.Config{}))
	t.Cleanup(srv.Close)
	begin := time.Now().Add(-time.Second)
	believed := map[string]bool{}
	for _, way := range ways {
		for _, c := range claims {
			session := way.name + "-" + c.name
			way.store(k, srv.URL, session, c.ms)
			believed[session] = c.believed
		}
	}
	all := k.listed(t, srv.URL, len(believed))
	for _, s := range all {
		for _, text := range []string{s.Created, s.Modified} {
			at, err := time.Parse(time.RFC3339, text)
			switch {
			case err != nil:
				t.Errorf("%s: %+v: %v", s.ID, s, err)
			case believed[s.ID] && at.UnixMilli() != transcriptOf2023:
				t.Errorf("%s is listed with %s, want what it says", s.ID, text)
			case !believed[s.ID] && (at.Before(begin) || at.After(time.Now().Add(time.Second))):
				t.Errorf("%s is listed with %s, want when it was stored", s.ID, text)
			}
		}
	}
	k.say("newest", time.Now())
	if all = k.listed(t, srv.URL, len(believed)+1); all[0].ID != "newest" {
		t.Errorf("the first of the listing is %+v, want the newest", all[0])
	}
	k.entry(client.Entry{Thread: mainOf("newest"), Dialect: "raw", Body: []byte("x"), Time: time.UnixMilli(1000)})
	k.Policies = []retention.Policy{{Name: "age", MaxAge: time.Hour}}
	if rep, err := k.Report(t.Context()); err != nil || len(rep.Due) > 0 {
		t.Errorf("due by age: %+v, %v, want nothing", rep.Due, err)
	}
	k.Policies = []retention.Policy{{Name: "bytes", KeepLast: 1}}
	rep, err := k.Report(t.Context())
	if err != nil || len(rep.Due) != len(believed)-1 || // one more stays: imports are of "/"
		slices.ContainsFunc(rep.Due, func(d retention.Due) bool { return d.Session == "newest" }) {
		t.Errorf("due but for the newest: %+v, %v", rep.Due, err)
	}
	for session := range believed {
		k.checkThread(t, srv.URL, session, begin)
	}
}

// listed is the listing, once everything is applied.
func (k *keeper) listed(t *testing.T, url string, want int) []sessionLine {
	t.Helper()
	must.Do(t, faulttest.Settle(t.Context(), k.Conn))
	var page struct{ Sessions []sessionLine }
	if k.read(url+"/v1/sessions?limit=500", &page); len(page.Sessions) != want {
		t.Fatalf("%d sessions are listed, want %d: %+v", len(page.Sessions), want, page.Sessions)
	}
	return page.Sessions
}

// checkThread reads all of a thread, and ends it.
func (k *keeper) checkThread(t *testing.T, url, session string, begin time.Time) {
	t.Helper()
	path := url + "/v1/sessions/" + session
	var any any
	k.read(path, &any)
	k.read(path+"/threads/main", &any)
	k.read(path+"/threads/main/items", &any)
	if err := k.cl.Thread(mainOf(session)).End(t.Context(), events.End{}); err != nil {
		t.Errorf("%s: %v", session, err)
		return
	}
	list, err := k.cl.Session(session).Threads(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("threads of %s = %v, %v", session, list, err)
	}
	day, err := time.Parse(time.DateOnly, list[0].Ended)
	if err != nil || day.Before(begin.Add(-24*time.Hour)) || day.After(time.Now()) {
		t.Errorf("%s ended on %q, want today", session, list[0].Ended)
	}
}

// TestUntimedEntries: an entry that says no time, nor its producer, has the time at which the server stored it, for readers
// of NATS and HTTP alike, whatever the entry before it said. In a file that is imported it has that of its neighbours.
func TestUntimedEntries(t *testing.T) {
	k := newKeeper(t)
	srv := httptest.NewServer(httpapi.For(k.Conn, httpapi.Config{}))
	t.Cleanup(srv.Close)
	begin := time.Now().Add(-time.Second)
	item := `{"content":[{"type":"text","text":"x"}],"metadata":{"type":"text"}}`
	k.entry(client.Entry{Thread: mainOf("sdk"), Dialect: "item", Body: []byte(item)})
	k.entry(client.Entry{Thread: mainOf("behind"), Dialect: "item", Time: time.UnixMilli(transcriptOf2023), Body: []byte(item)})
	k.entry(client.Entry{Thread: mainOf("behind"), Dialect: "raw", Body: []byte("x")})
	k.entry(client.Entry{Thread: mainOf("behind"), Dialect: "item", Body: []byte(item)})
	k.post(srv.URL+"/v1/sessions/http/threads/main/entries?dialect=item", "application/json", item)
	line := func(session string, members string) string {
		return `{"sessionId":"` + session + `","type":"assistant","message":{"content":[{"type":"text","text":"x"}]}` + members + "}\n"
	}
	dated := `,"timestamp":"2023-05-01T12:00:00.000Z"`
	files := fstest.MapFS{
		"open.jsonl":     {Data: []byte(strings.TrimSuffix(line("open", dated), "\n"))},
		"timeless.jsonl": {Data: []byte(line("timeless", ""))},
		"partly.jsonl": {Data: []byte(line("partly", "") + line("partly", dated) + `{"type":"last-prompt","sessionId":"partly"}` +
			"\n" + line("partly", "") + `{"torn`)},
	}
	res := transcript.New(k.cl.Internal(), k.Conn.Events(), transcript.Config{}).Import(t.Context(), must.Get(transcript.Find(files, "."))(t))
	must.Same(t, res.Failed, 0, "%d files failed, want %d")
	listed := k.listed(t, srv.URL, 6)

	now := func(at time.Time) bool { return at.After(begin) && at.Before(time.Now().Add(time.Second)) }
	then := func(at time.Time) bool { return at.UnixMilli() == transcriptOf2023 }
	for session, want := range map[string][]func(time.Time) bool{
		"sdk": {now}, "behind": {then, now}, "http": {now}, "open": {then}, "timeless": {now}, "partly": {then, then, then},
	} {
		var page struct {
			Items []struct {
				Item struct {
					CreatedAt time.Time `json:"created_at"`
				}
			}
		}
		k.read(srv.URL+"/v1/sessions/"+session+"/threads/main/items", &page)
		must.Same(t, len(page.Items), len(want), session+": %d items, want %d")
		for it, err := range k.cl.Subscribe(t.Context(), client.Filter{Session: session}, client.Position{All: true}) {
			must.Do(t, err)
			at := must.Get(time.Parse(time.RFC3339, it.CreatedAt))(t)
			if over := page.Items[it.N-1].Item.CreatedAt; !want[it.N-1](at) || !at.Equal(over) {
				t.Errorf("%s: item %d is of %s, and of %s over HTTP", session, it.N, at, over)
			}
			if it.N == int64(len(want)) {
				break
			}
		}
		i := slices.IndexFunc(listed, func(s sessionLine) bool { return s.ID == session })
		if at := must.Get(time.Parse(time.RFC3339, listed[i].Modified))(t); !want[len(want)-1](at) {
			t.Errorf("%s is listed as of %s, want the time of its newest entry", session, at)
		}
	}
}

// TestTimesThatNobodySet: zero, in whatever form, is no time: the entry has that at which the server stored it. A time that
// somebody said is a claim, before 1970 too, however it is spelled.
func TestTimesThatNobodySet(t *testing.T) {
	k := newKeeper(t)
	srv := httptest.NewServer(httpapi.For(k.Conn, httpapi.Config{}))
	t.Cleanup(srv.Close)
	begin := time.Now().Add(-time.Second)
	const in1969, goZero, content = -86_400_000, -62_135_596_800_000, `"content":[{"type":"text","text":"x"}],"metadata":{"type":"text"}`
	spelled := map[string]struct {
		json string
		ms   int64
		said bool
	}{
		"missing": {}, "null": {json: "null"}, "zero": {json: "0"}, "float": {json: "0.0"}, "epoch": {json: `"1970-01-01T00:00:00Z"`},
		"elsewhere": {json: `"1970-01-01T01:00:00+01:00"`}, "go": {`"0001-01-01T00:00:00Z"`, goZero, false},
		"goNumber": {"-62135596800000", goZero, false}, "number": {"-86400000", in1969, true}, "text": {`"1969-12-31T00:00:00Z"`, in1969, true},
	}
	want := map[string]bool{}
	for name, s := range spelled {
		member := func(key string) string {
			if s.json == "" {
				return ""
			}
			return `,"` + key + `":` + s.json
		}
		envelope := `{"producer":"ci","seq":1,"dialect":"item","body":{` + content + "}" + member("time") + "}"
		_ = must.Get(k.Conn.JetStream().Publish(t.Context(), events.EventSubject(mainOf("nats-"+name), events.KindEntry), []byte(envelope)))(t)
		line := `{"session":"lines-` + name + `","thread":"main","dialect":"item","body":{` + content + "}" + member("time") + "}\n"
		k.post(srv.URL+"/v1/events", "application/x-ndjson", line)
		k.post(srv.URL+"/v1/sessions/own-"+name+"/threads/main/entries?dialect=item", "application/json",
			"{"+content+member("created_at")+"}")
		k.entry(client.Entry{Thread: mainOf("sdk-" + name), Dialect: "item", Body: []byte("{" + content + "}"), Time: time.UnixMilli(s.ms)})
		file := `{"type":"session","version":3,"id":"file-` + name + `","cwd":"/"` + member("timestamp") + "}\n" +
			`{"type":"message","id":"00000001","parentId":null` + member("timestamp") +
			`,"message":{"role":"assistant","content":[{"type":"text","text":"x"}]}}` + "\n"
		sources := must.Get(transcript.Find(fstest.MapFS{name + ".jsonl": {Data: []byte(file)}}, "."))(t)
		res := transcript.New(k.cl.Internal(), k.Conn.Events(), transcript.Config{}).Import(t.Context(), sources)
		must.Same(t, res.Failed, 0, "%d files failed, want %d")
		for _, way := range []string{"nats-", "lines-", "own-", "sdk-", "file-"} {
			want[way+name] = s.said
		}
	}
	for _, s := range k.listed(t, srv.URL, len(want)) {
		if at := must.Get(time.Parse(time.RFC3339, s.Created))(t); at.Before(begin) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s is listed as of %s, want when it was stored", s.ID, s.Created)
		}
		var page struct {
			Items []struct {
				Item struct {
					CreatedAt time.Time `json:"created_at"`
				}
			}
		}
		k.read(srv.URL+"/v1/sessions/"+s.ID+"/threads/main/items", &page)
		must.Same(t, len(page.Items), 1, s.ID+": %d items, want %d")
		switch at := page.Items[0].Item.CreatedAt; {
		case want[s.ID] && at.UnixMilli() != in1969:
			t.Errorf("the item of %s is of %s, want what it says", s.ID, at)
		case !want[s.ID] && (at.Before(begin) || at.After(time.Now().Add(time.Second))):
			t.Errorf("the item of %s is of %s, want when it was stored", s.ID, at)
		}
	}
}
