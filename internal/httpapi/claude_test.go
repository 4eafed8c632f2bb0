package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/pkg/client"
)

// agentSDK is the API as an adapter of the Claude Agent SDK uses it.
type agentSDK struct {
	t    *testing.T
	url  string
	auth string
}

// path spells a key.
func (s agentSDK) path(names ...string) string {
	path := "/v1/claude"
	for _, name := range names {
		if strings.HasPrefix(name, "=") || name == "." || name == ".." {
			name = "=" + name
		}
		path += "/" + url.PathEscape(name)
	}
	return path
}

func (s agentSDK) ask(method, path, kind, body string, header ...string) (int, string) {
	s.t.Helper()
	h := map[string]string{}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	if s.auth != "" {
		h["Authorization"] = "Bearer " + s.auth
	}
	status, _, text := do(s.t, s.url, request{method: method, path: path, kind: kind, body: body, header: h})
	return status, text
}

func (s agentSDK) append(lines string, names ...string) (entries, repeated int) {
	s.t.Helper()
	status, text := s.ask("POST", s.path(names...), "application/x-ndjson", lines)
	var out struct{ Entries, Repeated int }
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 {
		s.t.Fatalf("POST %v = %d %s", names, status, text)
	}
	return out.Entries, out.Repeated
}

// load is the transcript, "" for none.
func (s agentSDK) load(names ...string) string {
	s.t.Helper()
	status, text := s.ask("GET", s.path(names...), "", "")
	if status == 404 {
		return ""
	}
	must.Same(s.t, status, 200, "GET = %d, want %d: %s", text)
	return text
}

func (s agentSDK) delete(names ...string) bool {
	s.t.Helper()
	status, text := s.ask("DELETE", s.path(names...), "", "")
	must.Same(s.t, status, 200, "DELETE = %d, want %d: %s", text)
	return strings.Contains(text, "true")
}

type listed struct {
	Session      string
	Mtime        int64
	Summary      json.RawMessage
	SummaryMtime int64 `json:"summary_mtime"`
}

func (s agentSDK) list(project string) (out []listed) {
	s.t.Helper()
	status, text := s.ask("GET", s.path(project), "", "")
	var got struct{ Sessions []listed }
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		s.t.Fatalf("list %q = %d %s", project, status, text)
	}
	return got.Sessions
}

func (s agentSDK) ids(project string) (ids []string) {
	s.t.Helper()
	for _, l := range s.list(project) {
		ids = append(ids, l.Session)
	}
	slices.Sort(ids)
	return ids
}

func (s agentSDK) subkeys(names ...string) (out []string) {
	s.t.Helper()
	status, text := s.ask("GET", s.path(names...)+"?subkeys", "", "")
	var got struct{ Subkeys []string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		s.t.Fatalf("subkeys of %v = %d %s", names, status, text)
	}
	return got.Subkeys
}

var sdkID atomic.Int64

func sdkIDs() string { return fmt.Sprintf("%08x-1111-4222-8333-444455556666", sdkID.Add(1)) }

// said is a line with a uuid.
func said(n int) string {
	return fmt.Sprintf(`{"type":"user","uuid":"%08d-0000-4000-8000-000000000000","sessionId":"s","timestamp":"2026-01-02T03:04:%02d.000Z",`+
		`"cwd":"/home/ada/p","message":{"role":"user","content":"m%d ü😀\u2028 <&>"}}`+"\n", n, n%60, n)
}

func lines(from, to int) (out string) {
	for n := from; n <= to; n++ {
		out += said(n)
	}
	return out
}

func claudeOn(t *testing.T, cfg httpapi.Config) (agentSDK, *natsio.Conn, context.Context, *client.Client) {
	conn, ctx, cl, url := worldOn(t, cfg)
	return agentSDK{t: t, url: url}, conn, ctx, cl
}

// another is a process beside that knows nothing of what the first one knows.
func (s agentSDK) another(conn *natsio.Conn) agentSDK {
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	s.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	s.url = srv.URL
	return s
}

// TestSessionStore: what a session store of the Claude Agent SDK has to do (docs/http.md).
func TestSessionStore(t *testing.T) {
	s, conn, _, _ := claudeOn(t, httpapi.Config{})
	other := s.another(conn)
	tag := `{"type":"tag","tag":"x/y","nested":{"z":[1,null,{"a":1e21}]}}` + "\n"

	t.Run("append and load", func(t *testing.T) {
		id := sdkIDs()
		must.Same(t, s.load("-p", id), "", "load of nothing = %q, want %q")
		s.append("", "-p", id)
		must.Same(t, s.load("-p", id), "", "load behind an empty append = %q, want %q")
		s.append(lines(1, 2)+tag, "-p", id)
		must.Same(t, other.load("-p", id), lines(1, 2)+tag, "load at another process = %q, want %q")
		other.append(said(3), "-p", id)
		s.append(said(4), "-p", id)
		must.Same(t, s.load("-p", id), lines(1, 2)+tag+lines(3, 4), "load = %q, want %q")
	})
	t.Run("repeats", func(t *testing.T) {
		id := sdkIDs()
		all := said(1) + tag + said(2) + tag
		s.append(all, "-p", id)
		for _, by := range []agentSDK{s, other} {
			fresh, had := by.append(all, "-p", id)
			if fresh != 0 || had != 4 {
				t.Errorf("append of the same = %d new, %d repeated, want 0 and 4", fresh, had)
			}
		}
		fresh, had := other.append(said(2)+tag+said(3), "-p", id)
		if fresh != 1 || had != 2 {
			t.Errorf("append of an overlap = %d new, %d repeated, want 1 and 2", fresh, had)
		}
		s.append(tag+tag, "-p", id)
		s.append(said(4)+said(4), "-p", id)
		must.Same(t, s.load("-p", id), all+said(3)+tag+tag+said(4), "load = %q, want %q")
	})
	t.Run("writers at once", func(t *testing.T) {
		id := sdkIDs()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				by := []agentSDK{s, other}[i%2]
				for from := 1; from <= 20; from += 5 {
					by.append(lines(from, from+6), "-p", id)
				}
			})
		}
		all.Wait()
		got := strings.SplitAfter(s.load("-p", id), "\n")
		slices.Sort(got)
		want := strings.SplitAfter(lines(1, 22), "\n")
		slices.Sort(want)
		must.Same(t, strings.Join(got, ""), strings.Join(want, ""), "load = %s, want %s")
	})
	t.Run("subpaths", func(t *testing.T) {
		id := sdkIDs()
		names := []string{"subagents/agent-1", "subagents/x/agent-1", "subagents/agent-ä.b", "x", "..", "=", "../../etc/passwd",
			"subagents/" + strings.Repeat("n", 300), "subagents/" + strings.Repeat("n", 299) + "m", "summary", "a%2Fb", "a b?c#d"}
		for i, name := range names {
			s.append(said(i), "-p", id, name)
		}
		must.Same(t, len(s.ids("-p2")), 0, "%d sessions of another project, want %d")
		must.Same(t, slices.Contains(s.ids("-p"), id), false, "a session of subpaths alone is listed: %v, want %v")
		s.append(said(99), "-p", id)
		for i, name := range names {
			must.Same(t, other.load("-p", id, name), said(i), "load of "+name+" = %q, want %q")
		}
		must.Same(t, other.load("-p", id), said(99), "load of main = %q, want %q")
		got := s.subkeys("-p", id)
		slices.Sort(names)
		must.Same(t, strings.Join(got, "\n"), strings.Join(names, "\n"), "subkeys = %s, want %s")
		must.Same(t, s.delete("-p", id, "subagents/agent-1"), true, "delete = %v, want %v")
		must.Same(t, s.delete("-p", id, "subagents/agent-1"), false, "delete again = %v, want %v")
		must.Same(t, other.load("-p", id, "subagents/agent-1"), "", "load of what is deleted = %q, want %q")
		must.Same(t, other.load("-p", id, "subagents/x/agent-1"), said(1), "load beside = %q, want %q")
		s.append(said(7), "-p", id, "subagents/agent-1")
		must.Same(t, other.load("-p", id, "subagents/agent-1"), said(7), "load of what began anew = %q, want %q")
		must.Same(t, s.delete("-p", id), true, "delete = %v, want %v")
		must.Same(t, len(other.subkeys("-p", id)), 0, "%d subkeys of what is deleted, want %d")
		must.Same(t, other.load("-p", id, "x"), "", "load of a subpath of what is deleted = %q, want %q")
		must.Same(t, s.delete("-p", id), false, "delete of what is deleted = %v, want %v")
		other.append(said(1), "-p", id)
		s.append(said(2), "-p", id)
		must.Same(t, s.load("-p", id), lines(1, 2), "load of what began anew = %q, want %q")
	})
	t.Run("projects and names", func(t *testing.T) {
		id := sdkIDs()
		long := strings.Repeat("ü", 300)
		keys := [][2]string{{"-a", id}, {"-b", id}, {"-A", id}, {"..", id}, {".", id}, {"a/b", id}, {"a%2Fb", id}, {long, id}, {long + "x", id},
			{"-a", long}, {"-a", long + "x"}, {"-a", "team/1"}, {"-a", "team_1"}, {"-a", "team%2F1"}, {"-a", ".."}, {"-a", "=.."}, {"-a", "x y"}}
		for i, k := range keys {
			[]agentSDK{s, other}[i%2].append(said(i), k[0], k[1])
		}
		for i, k := range keys {
			must.Same(t, s.load(k[0], k[1]), said(i), fmt.Sprintf("load of %.20q %.20q = %%q, want %%q", k[0], k[1]))
		}
		must.Same(t, len(s.ids("-a")), 9, "%d sessions, want %d")
		for _, p := range []string{"-b", "..", ".", "a/b", "a%2Fb", long, long + "x"} {
			must.Same(t, strings.Join(s.ids(p), " "), id, "sessions of "+p+" = %s, want %s")
		}
		s.delete("-a", id)
		must.Same(t, s.load("-b", id), said(1), "load of a session beside one that is deleted = %q, want %q")
		must.Same(t, s.load("-a", id), "", "load of what is deleted = %q, want %q")
	})
	t.Run("times and summaries", func(t *testing.T) {
		id, begun := sdkIDs(), time.Now().Add(-time.Second).UnixMilli()
		s.append(`{"type":"tag","tag":"t","timestamp":"2020-01-01T00:00:00.000Z"}`+"\n", "-times", id)
		status, _ := s.ask("GET", s.path("-times", id)+"?summary", "", "")
		must.Same(t, status, 404, "summary = %d, want %d")
		put := func(by agentSDK, value, tag string) (int, string) {
			status, header, _ := do(t, by.url, request{method: "PUT", path: s.path("-times", id) + "?summary", kind: "application/json", body: value,
				header: map[string]string{"If-Match": tag}})
			return status, header.Get("ETag")
		}
		status, first := put(s, `{"title":"<a>"}`, "")
		must.Same(t, status, 200, "put = %d, want %d")
		status, _ = put(other, `{"title":"lost"}`, "")
		must.Same(t, status, 412, "put of who has not read = %d, want %d")
		status, _ = put(other, `{"title":"b"}`, first)
		must.Same(t, status, 200, "put over the first = %d, want %d")
		status, _ = put(s, `{"title":"lost"}`, first)
		must.Same(t, status, 412, "put over one that is gone = %d, want %d")
		l := s.list("-times")
		if len(l) != 1 || l[0].Mtime < begun || l[0].Mtime > time.Now().UnixMilli()+1000 || l[0].SummaryMtime < l[0].Mtime ||
			string(l[0].Summary) != `{"title":"b"}` {
			t.Errorf("list = %+v, want one that was written now", l)
		}
	})
	t.Run("large", func(t *testing.T) {
		id := sdkIDs()
		all := `{"type":"user","uuid":"big","message":{"content":"` + strings.Repeat("x", 700_000) + `"}}` + "\n" + lines(1, 1200)
		s.append(all, "-p", id)
		if got := other.load("-p", id); got != all {
			t.Errorf("load of %d bytes gives %d", len(all), len(got))
		}
		fresh, _ := other.append(all, "-p", id)
		must.Same(t, fresh, 0, "%d new entries of a large repeat, want %d")
	})
	t.Run("refused", func(t *testing.T) {
		id := sdkIDs()
		for _, c := range []struct {
			method, path, kind, body string
			want                     int
		}{
			{"POST", s.path("-p", id), "application/x-ndjson", said(1) + "nothing\n", 400},
			{"POST", s.path("-p", id), "application/x-ndjson", "[1]\n", 400},
			{"POST", s.path("-p", id), "application/json", said(1), 415},
			{"POST", s.path("-p", id) + "/", "application/x-ndjson", said(1), 400},
			{"POST", s.path("-p", strings.Repeat("x", 3000)), "application/x-ndjson", said(1), 400},
			{"POST", "/v1/claude/-p/%FF", "application/x-ndjson", said(1), 400},
			{"POST", "/v1/claude/-p/%3D", "application/x-ndjson", said(1), 400},
			{"PUT", s.path("-p", id) + "?summary", "application/json", `{}`, 404},
			{"PUT", s.path("-p", id), "application/json", `{}`, 400},
			{"GET", s.path("-p", id) + "?subkey", "", "", 400},
		} {
			status, text := s.ask(c.method, c.path, c.kind, c.body)
			must.Same(t, status, c.want, c.method+" "+c.path+" = %d, want %d: %s", text)
		}
		must.Same(t, s.load("-p", id), "", "load behind what was refused = %q, want %q")
	})
}

// TestSessionStoreTokens: a token for some sessions has no others of the SDK, and who may not delete does not.
func TestSessionStoreTokens(t *testing.T) {
	tokens := must.Get(access.Parse("all admin all-0123456789abcd\nteam read,write team-0123456789ab session=team\nblind write blind-0123456789ab\n"))(t)
	s, _, _, _ := claudeOn(t, httpapi.Config{Tokens: tokens})
	of := func(token string) agentSDK { s.auth = token; return s }
	all, team, blind := of("all-0123456789abcd"), of("team-0123456789ab"), of("blind-0123456789ab")
	uuid := sdkIDs()
	for i, id := range []string{uuid, "team-1", "team/2"} {
		all.append(said(i), "-p", id)
		all.append(said(i), "-p", id, "subagents/agent-1")
	}
	must.Same(t, team.load("-p", "team-1"), said(1), "load = %s, want %s")
	team.append(said(9), "-p", "team-1")
	must.Same(t, strings.Join(team.ids("-p"), " "), "team-1 team/2", "sessions = %s, want %s")
	blind.append(said(10), "-p", uuid)
	const nd, js = "application/x-ndjson", "application/json"
	for _, c := range []struct {
		by                       agentSDK
		method, path, kind, body string
	}{
		{team, "GET", s.path("-p", uuid), "", ""},
		{team, "GET", s.path("-p", "steam"), "", ""},
		{team, "GET", s.path("-p", uuid, "subagents/agent-1"), "", ""},
		{team, "GET", s.path("-p", uuid) + "?subkeys", "", ""},
		{team, "GET", s.path("-p", uuid) + "?summary", "", ""},
		{team, "GET", s.path("-p", sdkIDs()), "", ""},
		{team, "PUT", s.path("-p", uuid) + "?summary", js, "1"},
		{team, "POST", s.path("-p", uuid), nd, said(5)},
		{team, "POST", s.path("-p", uuid, "x"), nd, said(5)},
		{team, "DELETE", s.path("-p", "team-1"), "", ""},
		{blind, "GET", s.path("-p", uuid), "", ""},
		{blind, "GET", s.path("-p"), "", ""},
		{blind, "DELETE", s.path("-p", uuid, "subagents/agent-1"), "", ""},
	} {
		status, text := c.by.ask(c.method, c.path, c.kind, c.body)
		must.Same(t, status, 403, c.method+" "+c.path+" = %d, want %d: %s", text)
	}
}
