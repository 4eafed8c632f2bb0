package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// What is answered with success is in EVENTS; a full stream is the client's to know (DESIGN 3).
func TestOnAServer(t *testing.T) {
	conn := natstest.Dial(t, natstest.Server(t))
	url := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(url.Close)
	if status, _, body := do(t, url.URL, request{method: "GET", path: "/readyz"}); status != 503 {
		t.Errorf("readyz without streams = %d %s, want 503", status, body)
	}
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 256 << 10, ItemsBytes: 1 << 20}))
	if status, _, body := do(t, url.URL, request{method: "GET", path: "/readyz"}); status != 200 {
		t.Errorf("readyz = %d %s, want 200", status, body)
	}
	status, _, body := do(t, url.URL, request{path: entriesPath, kind: "application/x-ndjson", body: "{}\n{}\nbad\n{}\n"})
	if status != 200 || strings.Count(body, `"ok":true`) != 3 {
		t.Errorf("stream = %d %s, want three stored", status, body)
	}
	long := request{path: entriesPath + "&user=" + strings.Repeat("u", 2000), kind: "application/json", body: "{}"}
	if status, _, body := do(t, url.URL, long); status != 400 || !strings.Contains(body, "user") {
		t.Errorf("an entry of a user with a long name = %d %s, want 400", status, body)
	}
	stream := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	stored := 0
	for at := range must.Get(stream.Info(t.Context()))(t).State.LastSeq { // how many share a message is a matter of time
		e := must.Get(events.Decode(must.Get(stream.GetMsg(t.Context(), at+1))(t).Data))(t)
		stored += len(e.Each())
	}
	must.Same(t, stored, 3, "EVENTS has %d entries, want %d")
	full := httptest.NewServer(httpapi.New(httpapi.Config{Publisher: conn.Events(), Patience: 1}))
	t.Cleanup(full.Close)
	big := `"` + strings.Repeat("x", 200<<10) + `"`
	var header map[string][]string
	for range 3 {
		status, header, body = do(t, full.URL, request{path: entriesPath, kind: "application/json", body: big})
	}
	if status != 503 || len(header["Retry-After"]) == 0 {
		t.Errorf("entry into a full stream = %d %s, want 503 with Retry-After", status, body)
	}
}
