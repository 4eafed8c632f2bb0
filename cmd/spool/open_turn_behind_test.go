package main

import (
	"encoding/json"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOpenTurnBehindTheEnd: what an agent counts behind the end of a turn is in all figures alike, though no item tells of it yet.
func TestOpenTurnBehindTheEnd(t *testing.T) {
	url, cl := whole(t)
	th := events.Thread{Session: "orchard", Name: events.MainThread}
	p := cl.Publisher(client.PublisherConfig{})
	for _, payload := range []string{
		`{"type":"task_started"}`, `{"type":"token_count","info":{"last_token_usage":{"input_tokens":100,"output_tokens":7},"total_token_usage":{"total_tokens":107}}}`,
		`{"type":"task_complete"}`, `{"type":"token_count","info":{"last_token_usage":{"input_tokens":30,"output_tokens":5},"total_token_usage":{"total_tokens":142}}}`,
	} {
		line := `{"timestamp":"2026-11-20T12:00:01.000Z","type":"event_msg","payload":` + payload + `}`
		must.Get(p.Publish(t.Context(), client.Entry{Thread: th, Dialect: "codex", Body: []byte(line)}))(t)
	}
	must.Do(t, cl.Thread(th).Settled(t.Context()))
	var row struct{ Tokens struct{ In int64 } }
	out, code := spool(t, "session", "resume", "orchard", "--json", "--nats", url)
	if err := json.Unmarshal([]byte(out), &row); err != nil || code != 0 || row.Tokens.In != 130 {
		t.Fatalf("spool session resume = %d %s %v, want 130 tokens", code, out, err)
	}
	var got struct {
		TokensIn int64 `json:"input_tokens"`
		Open     int64 `json:"open_turns"`
	}
	out, code = spool(t, "stats", "--data", t.TempDir(), "--json", "--nats", url)
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.TokensIn != 130 || got.Open != 1 {
		t.Errorf("spool stats = %d %s %v, want the 130 tokens that the session has, 30 of a turn without an end", code, out, err)
	}
}
