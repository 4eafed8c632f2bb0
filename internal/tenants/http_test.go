package tenants_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/access"
	"spool/internal/dstreams"
	"spool/internal/httpapi"
	"spool/internal/metrics"
	"spool/internal/must"
	"spool/internal/tenants"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// over is a tenant's HTTP side, with a token that may do everything there.
func (s *site) over(tenant string) (url, token string) {
	s.t.Helper()
	token = "token-of-" + tenant + "-0123456789abcdef"
	path := filepath.Join(s.dir, tenant+".tokens")
	must.Do(s.t, os.WriteFile(path, []byte(token), 0o600))
	tokens := must.Get(access.ReadFile(path))(s.t) // a token that stands alone may do everything
	conn := s.conns[tenant+"/admin"]
	reg := metrics.New("up", "test", "")
	reg.System(conn, nil)
	api := httpapi.Config{Tokens: tokens, Metrics: reg.Handler(), Streams: dstreams.New(dstreams.On(conn, nil))}
	srv := httptest.NewServer(httpapi.For(conn, api))
	s.t.Cleanup(srv.Close)
	return srv.URL, token
}

// answer is what a request got, but for what differs between any two answers.
type answer struct {
	code int
	body string
}

func get(t *testing.T, method, url, token string, header http.Header) answer {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	maps.Copy(req.Header, header)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	body := must.Get(io.ReadAll(io.LimitReader(resp.Body, 1<<20)))(t)
	return answer{resp.StatusCode, string(body)}
}

// TestTenantsOverHTTP: whoever asks brook's HTTP side for what acme has gets the answer for what nobody has, in the same words,
// and acme's token opens nothing there. /metrics and /healthz tell of their own tenant.
func TestTenantsOverHTTP(t *testing.T) {
	s := newSite(t)
	s.publish("acme", tenants.Agent, "mine", marker, 1)
	ctx, thread := t.Context(), events.Thread{Session: "mine", Name: events.MainThread}
	art := must.Get(s.acme.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "mine"}}, strings.NewReader(marker)))(t)
	blob := must.Get(s.acme.PutBlob(ctx, []byte(marker)))(t)
	head := must.Get(s.acme.Thread(thread).Head(ctx))(t)
	other, nobodys := strings.Repeat("0", 64), "art_20200101_000000_0123456789ABCDEF"
	brook, brooks := s.over("brook")
	_, acmes := s.over("acme")

	// Each path, with what acme has and with what nobody has in its place.
	for path, never := range map[string]string{
		"/v1/sessions?q=mine":                               "/v1/sessions?q=none",
		"/v1/sessions/mine":                                 "/v1/sessions/none",
		"/v1/sessions/mine/graph":                           "/v1/sessions/none/graph",
		"/v1/sessions/mine/threads":                         "/v1/sessions/none/threads",
		"/v1/sessions/mine/threads/main":                    "/v1/sessions/none/threads/main",
		"/v1/sessions/mine/threads/main/items":              "/v1/sessions/none/threads/main/items",
		"/v1/sessions/mine/threads/main/items/1":            "/v1/sessions/none/threads/main/items/1",
		"/v1/sessions/mine/threads/main/context":            "/v1/sessions/none/threads/main/context",
		"/v1/sessions/mine/threads/main/outputs":            "/v1/sessions/none/threads/main/outputs",
		"/v1/sessions/mine/threads/main/prompts/q1":         "/v1/sessions/none/threads/main/prompts/q1",
		"/v1/sessions/mine/threads/main/logs/thread.log":    "/v1/sessions/none/threads/main/logs/thread.log",
		"/v1/sessions/mine/threads/main/search?q=" + marker: "/v1/sessions/none/threads/main/search?q=" + marker,
		"/v1/sessions/mine/artifacts":                       "/v1/sessions/none/artifacts",
		"/v1/artifacts/" + string(art.ID):                   "/v1/artifacts/" + nobodys,
		"/v1/blobs/" + blob.Hex():                           "/v1/blobs/" + other,
		"/v1/nodes/" + head.Head().Ref.Hex():                "/v1/nodes/" + other,
		"/v1/read?url=artifact://" + string(art.ID):         "/v1/read?url=artifact://" + nobodys,
		"/v1/read?url=agent://mine":                         "/v1/read?url=agent://none",
		"/v1/read?url=agent://mine/main":                    "/v1/read?url=agent://none/main",
		"/v1/read?session=mine&url=agent://main":            "/v1/read?session=none&url=agent://main",
		"/v1/read?url=blob:sha256:" + blob.Hex():            "/v1/read?url=blob:sha256:" + other,
		"/v1/stream/mine/main":                              "/v1/stream/none/main",
		"/v1/stream/mine/main?offset=-1":                    "/v1/stream/none/main?offset=-1",
		"/v1/stream/mine/main?offset=now&live=long-poll":    "/v1/stream/none/main?offset=now&live=long-poll",
		"/v1/prompts?session=mine":                          "/v1/prompts?session=none",
		"/v1/runs?session=mine":                             "/v1/runs?session=none",
		"/v1/history?session=mine":                          "/v1/history?session=none",
		"/v1/history?q=" + marker:                           "/v1/history?q=nothing-of-the-kind",
		"/v1/stats?session=mine":                            "/v1/stats?session=none",
		"/v1/search?session=mine":                           "/v1/search?session=none",
		"/v1/search?q=" + marker:                            "/v1/search?q=nothing-of-the-kind",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
			if method == http.MethodDelete && !strings.HasPrefix(path, "/v1/artifacts/") && !strings.HasPrefix(path, "/v1/stream/") {
				continue // a deletion of a session is an operation of its own that waits for its answer
			}
			theirs, none := get(t, method, brook+path, brooks, nil), get(t, method, brook+never, brooks, nil)
			words := strings.NewReplacer("mine", "none", string(art.ID), nobodys, blob.Hex(), other, head.Head().Ref.Hex(), other,
				marker, "nothing-of-the-kind")
			if theirs.code != none.code || words.Replace(theirs.body) != words.Replace(none.body) {
				t.Errorf("%s %s as brook = %d %s\nwhat nobody has: %d %s", method, path, theirs.code, theirs.body, none.code, none.body)
			}
			if strings.Contains(strings.ReplaceAll(theirs.body, path, ""), marker) && !strings.Contains(path, marker) {
				t.Errorf("%s %s as brook tells acme's text: %s", method, path, theirs.body)
			}
			for _, token := range []string{acmes, ""} {
				if a := get(t, method, brook+path, token, nil); a.code != http.StatusUnauthorized {
					t.Errorf("%s %s in brook with acme's token %q = %d, want 401", method, path, token, a.code)
				}
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		a := get(t, http.MethodGet, brook+path, brooks, nil)
		if strings.Contains(a.body, "mine") || strings.Contains(a.body, "acme") || strings.Contains(a.body, marker) {
			t.Errorf("%s of brook tells of acme: %s", path, a.body)
		}
	}
	if a := get(t, http.MethodGet, brook+"/metrics", brooks, nil); !strings.Contains(a.body,
		`spool_stream_messages{stream="SPOOL_EVENTS"} 0`) {
		t.Errorf("brook's own count of events, where acme has some: %s", lines(a.body, "spool_stream_messages"))
	}
}

func lines(text, with string) string {
	var out []string
	for l := range strings.Lines(text) {
		if strings.Contains(l, with) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "")
}

// TestTenantsFollowed: an event stream of brook's, whatever it asks for, has what brook publishes and nothing of acme's, though both
// have a session of that name.
func TestTenantsFollowed(t *testing.T) {
	s := newSite(t)
	brook, token := s.over("brook")
	for i, path := range []string{"/v1/live", "/v1/live?session=mine", "/v1/live?session=*", "/v1/live?session=%3E",
		"/v1/sessions/mine/threads/main/live", "/v1/heads"} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, brook+path, nil))(t)
		req.Header.Set("Authorization", "Bearer "+token)
		resp := must.Get(http.DefaultClient.Do(req))(t)
		if resp.StatusCode != http.StatusOK { // a filter that is none
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s = %d", path, resp.StatusCode)
			}
			continue
		}
		n := uint64(i + 1)
		s.publish("acme", tenants.Agent, "mine", marker, n)
		s.publish("brook", tenants.Agent, "mine", "from the brook", n)
		lines := bufio.NewScanner(resp.Body)
		for seen := false; !seen && lines.Scan(); {
			text := lines.Text()
			if strings.Contains(text, marker) {
				t.Errorf("%s as brook: %s", path, text)
			}
			seen = strings.HasPrefix(text, "data:") && (strings.Contains(text, "from the brook") || path == "/v1/heads" &&
				strings.Contains(text, "mine"))
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v before brook's own came", path, err)
		}
		_ = resp.Body.Close()
	}
}
