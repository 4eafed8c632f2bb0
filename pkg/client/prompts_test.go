package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// resolved is what whoever asked was told.
type resolved struct {
	events.Resolution
	err error
}

// ask asks in the background, and returns once the question waits for its answer.
func (r *rig) ask(ctx context.Context, t *testing.T, th events.Thread, p events.Prompt) <-chan resolved {
	t.Helper()
	done := make(chan resolved, 1)
	go func() {
		res, err := r.Thread(th).Ask(ctx, p)
		done <- resolved{res, err}
	}()
	for {
		got, err := r.Thread(th).Prompt(ctx, p.ID)
		if err == nil && got.Text == p.Text && got.Resolution.Outcome == "" {
			return done
		}
		select {
		case early := <-done:
			t.Fatalf("Ask = %+v, want that it waits", early)
		case <-ctx.Done():
			t.Fatalf("prompt %q is not open: %+v, %v", p.ID, got, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// begin makes a thread with one entry.
func (r *rig) begin(ctx context.Context, t *testing.T, th events.Thread) {
	t.Helper()
	pub := r.Publisher(client.PublisherConfig{})
	must.Do(t, must.Get(pub.Publish(ctx, post(th, "1")))(t).Applied(ctx))
}

// TestAnswerOfAnotherLife: who asked in a session that was deleted is not told the answer of the session that has its name
// now, whether that asks something else under the id or the same (SPEC P12).
func TestAnswerOfAnotherLife(t *testing.T) {
	for text, anew := range map[string]string{"Drop the database?": "May I say hello?", "Deploy?": "Deploy?"} {
		t.Run(anew, func(t *testing.T) {
			t.Parallel()
			r, th := newRig(t), thread("s")
			ctx := limited(t)
			old := r.ask(ctx, t, th, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: text})
			must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
			q := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: anew}
			now := r.ask(ctx, t, th, q)
			must.Get(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage("true"), By: "mira"}))(t)
			if got := <-now; got.err != nil || got.Outcome != events.OutcomeApproved {
				t.Errorf("who asks now = %+v, want an approval", got)
			}
			if got := <-old; got.Outcome != "" || !errors.Is(got.err, client.ErrRemoved) {
				t.Errorf("who asked in the deleted session = %+v, %v, want ErrRemoved", got.Resolution, got.err)
			}
		})
	}
}

// TestAskerOfARemovedSession: whoever waits in a session that is deleted learns it at the deadline, at the latest.
func TestAskerOfARemovedSession(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	p := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?", Deadline: time.Now().Add(2 * time.Second).UnixMilli()}
	old := r.ask(ctx, t, th, p)
	must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
	if got := <-old; got.Outcome != "" || !errors.Is(got.err, client.ErrRemoved) {
		t.Errorf("who asked in the deleted session = %+v, %v, want ErrRemoved", got.Resolution, got.err)
	}
}

// TestAskedInTheNextThread: how a question was settled in a thread that was removed says nothing of the same question in the next thread of
// its name (SPEC P12).
func TestAskedInTheNextThread(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	r.begin(ctx, t, events.Thread{Session: "s", Name: "other"})
	approve := events.Answer{Prompt: "p", Answer: json.RawMessage("true"), By: "mira"}
	deploy := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"}
	first := r.ask(ctx, t, th, deploy)
	must.Get(r.Thread(th).Answer(ctx, approve))(t)
	if got := <-first; got.err != nil || got.Outcome != events.OutcomeApproved {
		t.Fatalf("Ask = %+v, want an approval", got)
	}
	must.Do(t, r.Thread(th).Remove(ctx))
	must.Is(t, must.Err(r.Thread(th).Prompt(ctx, "p")), client.ErrNoPrompt, "Prompt of a removed thread")
	again := r.ask(ctx, t, th, deploy)
	if res := must.Get(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage("false"), By: "sam"}))(t); res.By != "sam" {
		t.Errorf("Answer = %+v, want that of sam", res)
	}
	if got := <-again; got.err != nil || got.Outcome != events.OutcomeDenied {
		t.Errorf("asked in the next thread = %+v, %v, want a denial", got.Resolution, got.err)
	}
	must.Do(t, r.Thread(th).Remove(ctx))
	other := r.ask(ctx, t, th, events.Prompt{ID: "p", Kind: events.PromptText, Text: "Which?"}) // another question may have the id
	must.Get(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage(`"that"`), By: "mira"}))(t)
	if got := <-other; got.err != nil || got.Outcome != events.OutcomeAnswered {
		t.Errorf("another question = %+v, %v, want an answer", got.Resolution, got.err)
	}
}

// TestAnswerPastTheClient: an answer to what was settled in a removed thread is a dead letter of the next one, though no
// client looked first.
func TestAnswerPastTheClient(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	r.begin(ctx, t, events.Thread{Session: "s", Name: "other"})
	first := r.ask(ctx, t, th, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"})
	op := events.Answer{Prompt: "p", Answer: json.RawMessage("true"), By: "mira"}
	must.Get(r.Thread(th).Answer(ctx, op))(t)
	<-first
	must.Do(t, r.Thread(th).Remove(ctx))
	r.begin(ctx, t, th)
	pub := r.Publisher(client.PublisherConfig{})
	must.Do(t, pub.Control(ctx, th, 1, events.Control{Op: events.OpAnswer, Answer: &op}))
	if err := r.Thread(th).Await(ctx, pub.Producer(), 0, 1); !errors.Is(err, client.ErrRefused) && err != nil {
		t.Errorf("Await = %v", err)
	}
	must.Do(t, r.Thread(th).Settled(ctx)) // the thread notes what it refused before the letter is out
	letters := must.Get(r.Session("s").DeadLetters(ctx))(t)
	if len(letters) != 1 {
		t.Errorf("%d dead letters, want the answer", len(letters))
	}
}

// TestRenamedBehindAnAnswer: who asked in a thread that has another name by now is told the answer.
func TestRenamedBehindAnAnswer(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	p := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"}
	first := r.ask(ctx, t, th, p)
	must.Get(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage("true"), By: "mira"}))(t)
	<-first
	must.Do(t, r.Thread(th).Rename(ctx, "elsewhere"))
	if got, err := r.Thread(th).AwaitAnswer(ctx, "p"); err != nil || got.Outcome != events.OutcomeApproved {
		t.Errorf("AwaitAnswer = %+v, %v, want an approval", got, err)
	}
}

// TestPromptOfAnEndedThread: nobody can answer it, and it says so.
func TestPromptOfAnEndedThread(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	p := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?", Deadline: time.Now().Add(2 * time.Second).UnixMilli()}
	done := r.ask(ctx, t, th, p)
	if got := must.Get(r.Thread(th).Prompt(ctx, "p"))(t); !got.Answerable {
		t.Errorf("Prompt = %+v, want that it is answerable", got)
	}
	must.Do(t, r.Thread(th).End(ctx, events.End{}))
	if got := <-done; !errors.Is(got.err, client.ErrEnded) {
		t.Errorf("Ask = %+v, want ErrEnded", got)
	}
	if got := must.Get(r.Thread(th).Prompt(ctx, "p"))(t); got.Answerable {
		t.Errorf("Prompt of an ended thread = %+v, want that it is not answerable", got)
	}
	must.Is(t, must.Err(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage("true")})), client.ErrEnded, "Answer")
}

// TestRemoveOfAnEndedThreadThatAsked: what nobody can answer any more keeps no thread, and is no prompt of the next one of its name.
func TestRemoveOfAnEndedThreadThatAsked(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	done := r.ask(ctx, t, th, events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?",
		Deadline: time.Now().Add(time.Second).UnixMilli()})
	must.Do(t, r.Thread(th).End(ctx, events.End{}))
	<-done
	must.Do(t, r.Thread(th).Remove(ctx))
	r.begin(ctx, t, th)
	if open := must.Get(r.Session("s").Prompts(ctx))(t); len(open) > 0 {
		t.Errorf("Prompts = %+v, want none", open)
	}
	if got, err := r.Thread(th).Prompt(ctx, "p"); !errors.Is(err, client.ErrNoPrompt) {
		t.Errorf("Prompt = %+v, %v, want none", got, err)
	}
}

// TestAnswerToAnEarlierLife: an answer to the prompt of a thread that was removed does not answer that of the next thread
// of its name, whether its client looked before, or it was under way meanwhile.
func TestAnswerToAnEarlierLife(t *testing.T) {
	r, th := newRig(t), thread("s")
	ctx := limited(t)
	deploy := events.Prompt{ID: "p", Kind: events.PromptApproval, Text: "Deploy?"}
	r.ask(ctx, t, th, deploy)
	seen := must.Get(r.Thread(th).Prompt(ctx, "p"))(t)
	must.Get(r.Session("s").Delete(ctx, client.Deletion{}))(t)
	now := r.ask(ctx, t, th, deploy)
	approve := events.Answer{Prompt: "p", Answer: json.RawMessage("true"), By: "mira", Life: seen.Life}
	late := func(letters int) {
		t.Helper()
		pub := r.Publisher(client.PublisherConfig{})
		must.Do(t, pub.Control(ctx, th, 1, events.Control{Op: events.OpAnswer, Answer: &approve}))
		if err := r.Thread(th).Await(ctx, pub.Producer(), 0, 1); !errors.Is(err, client.ErrRefused) && err != nil {
			t.Errorf("Await = %v", err)
		}
		must.Do(t, r.Thread(th).Settled(ctx))
		must.Same(t, len(must.Get(r.Session("s").DeadLetters(ctx))(t)), letters, "%d dead letters, want %d: answers to the earlier prompt")
		must.Is(t, must.Err(r.Thread(th).Answer(ctx, approve)), client.ErrRemoved, "Answer")
	}
	late(1)
	if got := must.Get(r.Thread(th).Prompt(ctx, "p"))(t); got.Resolution.Outcome != "" || got.Life == seen.Life {
		t.Errorf("the prompt of the next life = %+v, want it open", got)
	}
	must.Get(r.Thread(th).Answer(ctx, events.Answer{Prompt: "p", Answer: json.RawMessage("false"), By: "sam"}))(t)
	if got := <-now; got.err != nil || got.By != "sam" || got.Outcome != events.OutcomeDenied {
		t.Errorf("asked in the next life = %+v, want the denial of sam", got)
	}
	late(2)
}

// Who waits for an answer waits on while the server is away, also where the deadline passes meanwhile.
func TestAskedWhileTheServerIsAway(t *testing.T) {
	dir, wire := t.TempDir(), &natstest.Wire{}
	server := natstest.ServerIn(t, dir)
	wire.Leads(server)
	conn := natstest.Dial(t, wire)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, nil).Run)
	cl, th := client.New(conn), events.Thread{Session: "s", Name: "main"}
	type outcome struct {
		events.Resolution
		err error
	}
	asks := func(p events.Prompt) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			r, err := cl.Thread(th).Ask(limited(t), p)
			done <- outcome{r, err}
		}()
		must.Eventually(t, "it is asked", func() error { return cl.Internal().CheckPrompt(t.Context(), th, p) })
		return done
	}
	deadline := time.Now().Add(2 * time.Second)
	late := asks(events.Prompt{ID: "late", Kind: events.PromptApproval, Deadline: deadline.UnixMilli()})
	open := asks(events.Prompt{ID: "open", Kind: events.PromptText})
	wire.Leads(nil)
	server.Stop()
	time.Sleep(time.Until(deadline) + time.Second)
	wire.Leads(natstest.ServerIn(t, dir))
	if got := <-late; got.err != nil || got.Outcome != events.OutcomeDenied {
		t.Errorf("Ask() = %+v, want that its deadline denied it", got)
	}
	must.Get(cl.Thread(th).Answer(limited(t), events.Answer{Prompt: "open", Answer: []byte(`"yes"`)}))(t)
	if got := <-open; got.err != nil || string(got.Answer) != `"yes"` {
		t.Errorf("Ask() = %+v, want the answer", got)
	}
}
