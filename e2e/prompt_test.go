package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

// TestPromptAnsweredByEverybodyAtOnce: people on several machines answer one prompt at the same moment, on the command line, over
// HTTP and from programs. One answer counts, everybody is told which, and so is the agent (SPEC I8).
func TestPromptAnsweredByEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
	defer cancel()
	programs := []*client.Client{client.New(w.dial()), client.New(w.dial())}
	th := events.Thread{Session: "s", Name: "main"}
	for round := range 6 {
		prompt := fmt.Sprintf("p%d", round)
		asking := w.command("spool", "prompts", "ask", "s", "Which one?", "--id", prompt)
		var asked strings.Builder
		asking.Stdout = &asked
		agent := w.start(asking)
		w.awaitPrompt(ctx, programs[0], th, prompt)

		var (
			mu   sync.Mutex
			won  []string
			told = map[string]string{} // who was first, by who was told
		)
		says := func(who string, first bool, said string) {
			mu.Lock()
			defer mu.Unlock()
			if first {
				won = append(won, who)
			} else {
				told[who] = said
			}
		}
		gate := make(chan struct{})
		var all sync.WaitGroup
		everybody := []string{"cli0", "cli1", "http0", "http1", "sdk0", "sdk1"}
		for i, who := range everybody {
			all.Go(func() {
				<-gate
				switch who[:len(who)-1] {
				case "cli":
					cmd := w.command("spool", "prompts", "answer", "s", prompt, who, "--by", who)
					said, err := cmd.CombinedOutput()
					var exit *exec.ExitError
					if err != nil && !errors.As(err, &exit) {
						t.Error(err)
					}
					says(who, err == nil, string(said))
				case "http":
					status, said, err := answerHTTP("http://"+w.http, prompt, who)
					if err != nil || status != http.StatusOK && status != http.StatusConflict {
						t.Errorf("POST by %s = %d %s, %v, want 200 or 409", who, status, said, err)
					}
					says(who, status == http.StatusOK, said)
				default:
					answer, _ := json.Marshal(who)
					res, err := programs[i%2].Thread(th).Answer(ctx, events.Answer{Prompt: prompt, Answer: answer, By: who})
					if err != nil && !errors.Is(err, client.ErrAnswered) {
						t.Errorf("Answer by %s = %v, want none or ErrAnswered", who, err)
					}
					says(who, err == nil, "by "+res.By)
				}
			})
		}
		close(gate)
		all.Wait()
		if len(won) != 1 || len(told) != len(everybody)-1 {
			t.Fatalf("round %d: first were %v; the others %v; want one", round, won, told)
		}
		for who, said := range told {
			if !strings.Contains(said, won[0]) {
				t.Errorf("round %d: %s was told %q, want that %s was first", round, who, said, won[0])
			}
		}
		if code := agent.Wait(); code != 0 || !strings.Contains(asked.String(), `"`+won[0]+`"`) {
			t.Errorf("round %d: the agent was told %q, code %d, want the answer of %s", round, asked.String(), code, won[0])
		}
	}
	if head, err := programs[0].Thread(th).Head(ctx); err != nil || head.N != 12 {
		t.Errorf("%d items, %v, want a question and an answer for each of 6", head.N, err)
	}
}

func answerHTTP(url, prompt, who string) (status int, said string, err error) {
	body := fmt.Sprintf(`{"answer":%q,"by":%q}`, who, who)
	resp, err := http.Post(url+"/v1/sessions/s/threads/main/prompts/"+prompt+"/answer", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode, string(b), err
}

// awaitPrompt waits until a prompt is open.
func (w *world) awaitPrompt(ctx context.Context, c *client.Client, th events.Thread, id string) {
	w.t.Helper()
	for {
		_, err := c.Thread(th).Prompt(ctx, id)
		if err == nil {
			return
		}
		if !errors.Is(err, client.ErrNoPrompt) {
			w.t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("no prompt %s", id)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
