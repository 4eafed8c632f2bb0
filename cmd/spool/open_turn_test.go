package main

import (
	"encoding/json"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestOpenTurn: the tokens of a turn that is open, or was cut off, are in every figure, which says so, and once when its end has come.
func TestOpenTurn(t *testing.T) {
	url, cl := whole(t)
	th := events.Thread{Session: "orchard", Name: events.MainThread}
	p := cl.Publisher(client.PublisherConfig{})
	say := func(line string) {
		must.Get(p.Publish(t.Context(), client.Entry{Thread: th, Dialect: "claude", Body: []byte(line)}))(t)
		must.Do(t, cl.Thread(th).Settled(t.Context()))
	}
	answer := func(id, stop string) string {
		return `{"type":"assistant","uuid":"` + id + `","sessionId":"orchard","cwd":"/w","timestamp":"2026-11-20T12:00:01.000Z","message":{"id":"` + id +
			`","role":"assistant","model":"opus-4","content":[{"type":"text","text":"` + id + `"}],"stop_reason":` + stop +
			`,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":7}}}`
	}
	figures := func(turns, in, open int64) {
		t.Helper()
		type tokens struct{ In, Cached, Out int64 }
		type figures struct {
			Turns    int64
			Tokens   tokens
			OpenTurn tokens    `json:"open_turn"`
			Threads  []figures `json:"thread_list"`
		}
		for _, line := range [][]string{{"session", "resume", "orchard"}, {"session", "ls", "--all", "--unanswered"}, {"thread", "ls", "orchard"}} {
			out, code := spool(t, append(line, "--json", "--nats", url)...)
			var got figures
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Turns != turns || got.Tokens.In != in ||
				got.OpenTurn.In != open {
				t.Errorf("spool %v = %d %s %v, want %d turns, %d tokens, %d of them of an open one", line, code, out, err, turns, in, open)
			}
		}
		for _, by := range []string{"project", "model", "day"} {
			out, code := spool(t, "stats", "--by", by, "--data", t.TempDir(), "--json", "--nats", url)
			var got struct {
				Turns    int64
				TokensIn int64 `json:"input_tokens"`
				Open     int64 `json:"open_turns"`
				Groups   []struct {
					TokensIn int64 `json:"input_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Turns != turns || got.TokensIn != in ||
				(got.Open == 1) != (open > 0) || len(got.Groups) != 1 || got.Groups[0].TokensIn != in {
				t.Errorf("spool stats --by %s = %d %s %v, want %d turns, %d tokens, open: %t", by, code, out, err, turns, in, open > 0)
			}
		}
	}
	say(`{"type":"user","uuid":"u1","sessionId":"orchard","cwd":"/w","timestamp":"2026-11-20T12:00:00.000Z","message":{"role":"user","content":"prune"}}`)
	figures(0, 0, 0)
	say(answer("a1", "null"))
	figures(0, 100, 100)
	say(answer("a2", `"end_turn"`))
	figures(1, 200, 0)
	say(`{"type":"user","uuid":"u2","sessionId":"orchard","timestamp":"2026-11-20T12:00:02.000Z","message":{"role":"user","content":"more"}}`)
	say(answer("a3", "null"))
	figures(1, 300, 100)
	fork := events.Thread{Session: "fork", Name: events.MainThread}
	must.Do(t, cl.Thread(fork).Fork(t.Context(), events.Fork{Session: th.Session, Thread: th.Name}))
	must.Do(t, cl.Thread(fork).Settled(t.Context()))
	out, _ := spool(t, "stats", "--data", t.TempDir(), "--nats", url)
	if !strings.Contains(out, "300 ") || !strings.Contains(out, "without an end: 1 turn, whose tokens count") {
		t.Errorf("stats with a fork = %s, want the tokens of the open turn once, and that it is open", out)
	}
}
