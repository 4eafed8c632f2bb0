//go:build !serverless

package client_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A client that was asked before knows of the calls of subagents what one knows that asks for the first time.
func TestAgentCallsAskedAgain(t *testing.T) {
	r := newRig(t)
	ctx, main := t.Context(), events.Thread{Session: "s", Name: events.MainThread}
	said := func(agent, call string) {
		body := fmt.Sprintf(`{"id":"m-%s","type":"gemini","content":"","toolCalls":[{"id":%q,"name":"scout","args":{},"agentId":%q}]}`,
			call, call, agent)
		must.Get(r.Publisher(client.PublisherConfig{}).Publish(ctx, client.Entry{Thread: main, Dialect: "gemini", Body: []byte(body)}))(t)
		must.Do(t, r.Thread(main).Settled(ctx))
	}
	file := func(agent, call string) artifacts.ID {
		return must.Get(r.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s", Filename: "agent.meta.json",
			ToolCall: call,
			Place:    "claude:subagents/agent-" + agent + ".meta.json"}}, strings.NewReader("{}")))(t).ID
	}
	asked := func(want map[string]string) {
		t.Helper()
		for name, cl := range map[string]*client.Client{"a client that was asked before": r.Client, "a new client": client.New(r.conn)} {
			if got := must.Get(cl.Session("s").AgentCalls(ctx))(t); !maps.Equal(got, want) {
				t.Errorf("%s: AgentCalls = %v, want %v", name, got, want)
			}
		}
	}
	asked(map[string]string{})
	said("a", "call-1")
	asked(map[string]string{"agent-a": "call-1"})
	one := file("b", "call-2")
	said("c", "call-3")
	asked(map[string]string{"agent-a": "call-1", "agent-b": "call-2", "agent-c": "call-3"})
	for i := range 120 { // more than are read by their keys
		file(fmt.Sprint("n", i), "")
	}
	file("d", "call-4")
	asked(map[string]string{"agent-a": "call-1", "agent-b": "call-2", "agent-c": "call-3", "agent-d": "call-4"})
	must.Do(t, r.Artifacts().Delete(ctx, one))
	file("b", "call-5")
	asked(map[string]string{"agent-a": "call-1", "agent-b": "call-5", "agent-c": "call-3", "agent-d": "call-4"})

	head := must.Get(r.Thread(main).AwaitHead(ctx))(t) // its source was rewritten
	must.Get(r.Internal().Retire(ctx, main, head))(t)
	said("e", "call-6")
	asked(map[string]string{"agent-b": "call-5", "agent-d": "call-4", "agent-e": "call-6"})
}
