package httpapi_test

import (
	"crypto/sha256"
	"net/http/httptest"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// TestGiantEntries: what is too large for memory is in the inbox, byte for byte, and its event carries the claim check; too
// much is refused and leaves nothing.
func TestGiantEntries(t *testing.T) {
	conn := natstest.Conn(t)
	server := httptest.NewServer(httpapi.New(httpapi.Config{Publisher: conn.Events(), Inbox: conn.Inbox(), MaxBody: 12 << 20}))
	t.Cleanup(server.Close)
	giant := `"` + strings.Repeat("x", 10<<20) + `"`
	tooLong := `"` + strings.Repeat("x", 12<<20) + `"`
	if status, _, body := do(t, server.URL, request{path: entriesPath, kind: "application/json", body: giant + "\n"}); status != 202 {
		t.Errorf("one = %d %.200s, want 202", status, body)
	}
	if status, _, body := do(t, server.URL, request{path: entriesPath, kind: "application/json", body: tooLong}); status != 413 {
		t.Errorf("one that is too long = %d %.200s, want 413", status, body)
	}
	status, _, body := do(t, server.URL, request{path: entriesPath, kind: "application/x-ndjson", body: "{}\n" + giant + "\n" +
		tooLong + "\n{}\n"})
	if status != 200 || strings.Count(body, `"ok":true`) != 3 || !strings.Contains(body, "too large") {
		t.Errorf("stream = %d %.500s, want three stored and one refused", status, body)
	}
	for name, bad := range map[string]string{
		"torn": giant[:len(giant)-1], "more behind it": giant + "1", "no JSON": strings.Repeat("x", 10<<20),
		"wrong in the middle":                giant[:6<<20] + "\x01" + giant[6<<20:],
		"wrong behind more than is ever cut": `{"a":[` + strings.Repeat(`{"partialJson":1},`, 100_001) + strings.Repeat(" ", 4<<20) + "]",
		"too deep":                           strings.Repeat(" ", 5<<20) + strings.Repeat("[", 300) + strings.Repeat("]", 300),
	} {
		if status, _, body := do(t, server.URL, request{path: entriesPath, kind: "application/json", body: bad}); status != 400 {
			t.Errorf("%s = %d %.200s, want 400", name, status, body)
		}
		status, _, body := do(t, server.URL, request{path: entriesPath, kind: "application/x-ndjson", body: bad + "\n{}\n"})
		if status != 200 || strings.Count(body, `"ok":true`) != 1 || !strings.Contains(body, "byte") {
			t.Errorf("%s, as a line = %d %.500s, want that it is refused, and one behind it stored", name, status, body)
		}
	}
	checkClaims(t, conn, giant, 2)
	raw := strings.Replace(entriesPath, "dialect=claude", "dialect=raw", 1)
	if status, _, body := do(t, server.URL, request{path: raw, kind: "application/json", body: "no" + giant[2:]}); status != 202 {
		t.Errorf("bytes of the dialect raw = %d %.200s, want 202", status, body)
	}
}

// checkClaims: that many events carry a claim check for the body, and the inbox holds no other object.
func checkClaims(t *testing.T, conn *natsio.Conn, body string, want int) {
	t.Helper()
	stream := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	claims := 0
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m := must.Get(stream.GetMsg(t.Context(), seq))(t)
		e := must.Get(events.Decode(m.Data))(t)
		if e.Ref == nil {
			continue
		}
		claims++
		o := must.Get(conn.Objects().Stat(t.Context(), events.InboxBucket, e.Ref.Object))(t)
		if got, err := conn.Objects().Read(t.Context(), o); err != nil || string(got) != body || e.Ref.Sum != sha256.Sum256(got) {
			t.Errorf("the inbox holds %d bytes, %v, want %d and their hash", len(got), err, len(body))
		}
	}
	inbox := must.Get(conn.JetStream().Stream(t.Context(), events.ObjectStream(events.InboxBucket)))(t)
	const chunks = 21 // of half a mebibyte, and the meta message
	if got := inbox.CachedInfo().State.Msgs; claims != want || got != uint64(want)*(chunks+1) {
		t.Errorf("%d claim checks, %d messages in the inbox, want %d and %d", claims, got, want, want*(chunks+1))
	}
}
