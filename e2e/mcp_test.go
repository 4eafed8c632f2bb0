package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// peer starts spool mcp as a program does that is configured with that command, and speaks to it.
func (w *world) peer(args ...string) *sdk.ClientSession {
	w.t.Helper()
	return w.peerOf(w.command("spool", append([]string{"mcp"}, args...)...))
}

func (w *world) peerOf(cmd *exec.Cmd) *sdk.ClientSession {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*must.Patience)
	w.t.Cleanup(cancel)
	proc.EndWithParent(cmd)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s := must.Get(client.Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil))(w.t)
	w.t.Cleanup(func() { must.Do(w.t, s.Close()) })
	return s
}

// ask calls a tool, and gives what a model reads.
func (w *world) ask(s *sdk.ClientSession, tool string, args map[string]any) (said string, failed bool) {
	w.t.Helper()
	res := must.Get(s.CallTool(w.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args}))(w.t)
	return res.Content[0].(*sdk.TextContent).Text, res.IsError
}

// TestMCP: a program that speaks the protocol finds what agents of the fleet did, over the command as it is installed, with the
// connection and the prompt history of every other command.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up := w.up()
	_, errs, code := w.try(`{"content":[{"type":"text","text":"Prune the pear"}]}`, "spool", "publish", "--dialect", "item",
		"--session", "orchard-7")
	must.Same(t, code, 0, "publish = %d, want %d "+errs)
	w.awaitItems("orchard-7", 1)

	reader := w.peer()
	for tool, args := range map[string]map[string]any{"list_sessions": nil, "search_history": {"query": "pear"},
		"read_thread": {"session": "orch"}} {
		if said, failed := w.ask(reader, tool, args); failed || !strings.Contains(said, `"session":"orchard-7"`) ||
			!strings.Contains(said, "Prune the pear") {
			t.Errorf("%s = %s, want the session and what was asked for", tool, said)
		}
	}
	secret := filepath.Join(w.home, "secret")
	must.Do(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
	id := strings.TrimSpace(w.run("spool", "artifact", "put", "orchard-7", secret, "--register"))
	file := map[string]any{"session": "orchard-7", "artifact": id}
	if said, failed := w.ask(reader, "read_artifact", file); !failed || strings.Contains(said, "hunter2") {
		t.Errorf("read_artifact of a file of this machine = %s, want that it is not read", said)
	}
	asking := w.start(w.command("spool", "prompts", "ask", "orchard-7", "Which one?", "--id", "which"))
	var waits struct {
		Prompts []struct {
			Prompt string
			Life   uint64
			N      int64
		}
	}
	must.Eventually(t, "the prompt is listed", func() error {
		said, failed := w.ask(reader, "list_waiting", nil)
		if err := json.Unmarshal([]byte(said), &waits); failed || err != nil || len(waits.Prompts) != 1 || waits.Prompts[0].Prompt != "which" {
			return fmt.Errorf("list_waiting = %s", said)
		}
		return nil
	})
	answer := map[string]any{"session": "orchard-7", "prompt": "which", "answer": "the left", "life": waits.Prompts[0].Life}
	if _, err := reader.CallTool(t.Context(), &sdk.CallToolParams{Name: "answer_prompt", Arguments: answer}); err == nil {
		t.Error("spool mcp has a tool that answers without --answer")
	}
	if said, failed := w.ask(w.peer("--answer", "--by", "mira"), "answer_prompt", answer); failed || !strings.Contains(said, `"by":"mira"`) {
		t.Errorf("answer_prompt = %s, want that mira answered", said)
	}
	must.Same(t, asking.Wait(), 0, "prompts ask = %d, want %d")

	_, errs, code = w.try("no message\n", "spool", "mcp")
	must.Same(t, code, 1, "mcp = %d, want %d "+errs)
	must.Same(t, strings.Count(errs, "\n"), 1, "%d lines of what was no message, want %d: "+errs)

	up.Stop()
	if said, failed := w.ask(reader, "list_sessions", nil); !failed {
		t.Errorf("list_sessions without a server = %s, want what is wrong", said)
	}
	w.up()
	must.Eventually(t, "it serves again", func() error {
		if said, failed := w.ask(reader, "read_thread", map[string]any{"session": "orchard-7"}); failed {
			return fmt.Errorf("read_thread = %s", said)
		}
		return nil
	})
}

// TestMCPOfAReader: whoever may only read is served all that reads, and is told that it may not answer.
func TestMCPOfAReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	auth := filepath.Join(w.home, "auth")
	w.run("spool", "auth", "init", auth, "--url", w.url())
	w.run("spool", "auth", "tenant", "add", auth, "acme", "--disk", "1GiB")
	w.run("spool", "auth", "user", "add", auth, "acme/looker", "--role", "reader")
	w.up("--auth", auth, "--tenant", "acme")
	as := func(user string, cmd *exec.Cmd) *exec.Cmd {
		for line := range strings.Lines(w.run("spool", "auth", "env", auth, "acme/"+user)) {
			name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
			cmd.Env = append(cmd.Env, name+"="+strings.Trim(value, "'"))
		}
		return cmd
	}
	ask := as("admin", w.command("spool", "prompts", "ask", "orchard-7", "Which one?", "--id", "which"))
	asking := w.start(ask)
	reader := w.peerOf(as("looker", w.command("spool", "mcp", "--answer")))
	must.Eventually(t, "the prompt is listed", func() error {
		if said, failed := w.ask(reader, "list_waiting", nil); failed || !strings.Contains(said, "Which one?") {
			return fmt.Errorf("list_waiting = %s", said)
		}
		return nil
	})
	for tool, args := range map[string]map[string]any{"list_sessions": nil, "search_history": {"query": "pear"},
		"read_thread": {"session": "orch"},
		"read_item":   {"session": "orch", "n": 1}, "list_artifacts": {"session": "orch"}} {
		if said, failed := w.ask(reader, tool, args); failed {
			t.Errorf("%s by a reader = %s, want a result", tool, said)
		}
	}
	answer := map[string]any{"session": "orchard-7", "prompt": "which", "answer": "the left"}
	if said, failed := w.ask(reader, "answer_prompt", answer); !failed {
		t.Errorf("answer_prompt by a reader = %s, want that it may not", said)
	}
	asking.Stop()
}

// TestMCPByHand: requests that come and end at once are answered, a signal ends it, and without a server it says what to do.
func TestMCPByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, errs, code := w.try("", "spool", "mcp", "--by", "mira"); code != 2 || !strings.Contains(errs, "--answer") {
		t.Errorf("mcp --by = %d %s, want 2 and a word of --answer", code, errs)
	}
	if _, errs, code := w.try("", "spool", "mcp"); code == 0 || !strings.Contains(errs, w.nats) {
		t.Errorf("mcp without a server = %d %s, want an error with its address", code, errs)
	}
	w.up()
	const first = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}` + "\n"
	out, errs, code := w.try(first+`{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_sessions","arguments":{}}}
`, "spool", "mcp")
	if code != 0 || errs != "" || !strings.Contains(out, `"id":1`) || !strings.Contains(out, `"id":2`) {
		t.Errorf("mcp = %d %s %s, want two answers", code, out, errs)
	}
	cmd := w.command("spool", "mcp")
	in := must.Get(cmd.StdinPipe())(t)
	p := w.start(cmd)
	must.Get(io.WriteString(in, first))(t)
	p.Await(`"id":1`)
	p.Signal(syscall.SIGTERM)
	must.Same(t, p.Wait(), 0, "a signal ended it with %d, want %d")
}
