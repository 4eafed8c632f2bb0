// Command acpagent is an agent of the Agent Client Protocol for tests. It does what the last text of a prompt says.
//
//	say TEXT    a thought, and TEXT in three pieces
//	repeat      all texts of the prompt, as one message
//	tool        a call that needs a permission, and a plan
//	flood N     N pieces of a message
//	huge N      a message of N bytes, in one line
//	torn        half a line, and the end
//	die         a piece, and the end
//	wait        a piece, and no answer before it is cancelled
//
// With -load it keeps sessions itself for as long as it lives, and says so. What it is asked that it does not know it sends back.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
)

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

type agent struct {
	mu       sync.Mutex
	load     bool
	name     string
	sessions map[string][]any // what was said
	cancel   map[string]chan struct{}
	permit   chan json.RawMessage
}

func (a *agent) send(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	os.Stdout.Write(append(b, '\n'))
}

type object map[string]any

func (a *agent) answer(id json.RawMessage, result any) {
	a.send(object{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *agent) update(session string, update object) {
	a.mu.Lock()
	a.sessions[session] = append(a.sessions[session], update)
	a.mu.Unlock()
	params := object{"sessionId": session, "update": update, "_meta": object{"n": 1}}
	a.send(object{"jsonrpc": "2.0", "method": "session/update", "params": params})
}

func (a *agent) say(kind, session, text string) {
	a.update(session, object{"sessionUpdate": kind, "content": object{"type": "text", "text": text}})
}

func main() {
	a := &agent{sessions: map[string][]any{}, cancel: map[string]chan struct{}{}, permit: make(chan json.RawMessage)}
	flag.BoolVar(&a.load, "load", false, "keep sessions")
	flag.StringVar(&a.name, "name", "tester", "what it is called")
	ids := flag.String("ids", fmt.Sprintf("s%d", os.Getpid()), "what ids of sessions begin with")
	flag.Parse()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for n := 1; ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			fmt.Fprintf(os.Stdout, "not JSON: %s", line)
			continue
		}
		var p struct {
			SessionID string `json:"sessionId"`
			Prompt    []struct {
				Text string `json:"text"`
			} `json:"prompt"`
		}
		_ = json.Unmarshal(m.Params, &p)
		switch m.Method {
		case "":
			if m.Result != nil {
				a.permit <- m.Result
			}
		case "initialize":
			caps := object{"promptCapabilities": object{"image": true}, "_meta": object{"x": object{"unknown": true}}}
			if a.load {
				caps["loadSession"], caps["sessionCapabilities"] = true, object{"list": object{}}
			}
			a.answer(m.ID, object{"protocolVersion": 1, "agentCapabilities": caps, "agentInfo": object{"name": a.name, "version": "1"}, "extra": 1})
		case "session/new":
			id := fmt.Sprintf("%s-%d", *ids, n)
			n++
			a.mu.Lock()
			a.sessions[id] = []any{}
			a.mu.Unlock()
			a.answer(m.ID, object{"sessionId": id, "modes": object{"currentModeId": "ask", "availableModes": []any{}}})
		case "session/list":
			if !a.load {
				a.send(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32601, "message": "no list"}})
				continue
			}
			rows := []any{}
			for id := range a.sessions {
				rows = append(rows, object{"sessionId": id, "cwd": "/agents"})
			}
			a.answer(m.ID, object{"sessions": rows})
		case "session/load":
			a.mu.Lock()
			said, ok := a.sessions[p.SessionID]
			a.mu.Unlock()
			if !ok {
				a.send(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32002, "message": "the agent has no such session"}})
				continue
			}
			for _, u := range said {
				a.send(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": p.SessionID, "update": u}})
			}
			a.answer(m.ID, object{})
		case "session/cancel":
			a.mu.Lock()
			if c := a.cancel[p.SessionID]; c != nil {
				close(c)
				delete(a.cancel, p.SessionID)
			}
			a.mu.Unlock()
		case "session/prompt":
			texts := make([]string, len(p.Prompt))
			for i, b := range p.Prompt {
				texts[i] = b.Text
			}
			stop := make(chan struct{})
			a.mu.Lock()
			a.cancel[p.SessionID] = stop
			a.mu.Unlock()
			go func() { a.answer(m.ID, object{"stopReason": a.turn(p.SessionID, texts, stop)}) }()
		default:
			if m.ID != nil {
				a.answer(m.ID, object{"got": m.Params})
			} else {
				os.Stdout.Write(line)
			}
		}
	}
}

func (a *agent) turn(session string, texts []string, stop chan struct{}) string {
	do, rest, _ := strings.Cut(texts[len(texts)-1], " ")
	var n int
	fmt.Sscan(rest, &n)
	switch do {
	case "say":
		a.say("agent_thought_chunk", session, "thinking of ")
		a.say("agent_thought_chunk", session, rest)
		third := len(rest) / 3
		for _, piece := range []string{rest[:third], rest[third : 2*third], rest[2*third:]} {
			a.say("agent_message_chunk", session, piece)
		}
	case "repeat":
		a.say("agent_message_chunk", session, strings.Join(texts, "|"))
	case "tool":
		a.update(session, object{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read a.txt", "kind": "read", "status": "pending",
			"rawInput": object{"path": "/w/a.txt"}})
		a.send(object{"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": object{"sessionId": session,
			"toolCall": object{"toolCallId": "c1", "title": "Read a.txt"},
			"options": []any{object{"optionId": "y", "name": "Allow once", "kind": "allow_once"},
				object{"optionId": "n", "name": "Reject", "kind": "reject_once"}}}})
		<-a.permit
		a.update(session, object{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
			"content": []any{object{"type": "content", "content": object{"type": "text", "text": "the file's words"}}}})
		a.update(session, object{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"})
		a.update(session, object{"sessionUpdate": "plan", "entries": []any{object{"content": "Read", "priority": "high", "status": "completed"}}})
		a.update(session, object{"sessionUpdate": "current_mode_update", "currentModeId": "code"})
		a.update(session, object{"sessionUpdate": "unknown_of_tomorrow", "x": 1})
		a.say("agent_message_chunk", session, "It is read.")
	case "flood":
		for i := range n {
			a.say("agent_message_chunk", session, fmt.Sprintf("piece %d. ", i))
		}
	case "huge":
		a.say("agent_message_chunk", session, strings.Repeat("x", n))
	case "torn":
		a.say("agent_message_chunk", session, "before the torn line")
		os.Stdout.WriteString(`{"jsonrpc":"2.0","method":"session/upd`)
		os.Exit(4)
	case "die":
		a.say("agent_message_chunk", session, "last words")
		os.Exit(3)
	case "wait":
		a.say("agent_message_chunk", session, "waiting")
		<-stop
		return "cancelled"
	}
	return "end_turn"
}
