package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/apply"
	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// brief is how long a test waits for what must happen.
func brief(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	t.Cleanup(cancel)
	return ctx
}

// open waits until so many prompts of a session are open.
func (r *rig) open(ctx context.Context, session string, want int) []client.Prompt {
	r.t.Helper()
	for {
		ps := must.Get(r.Session(session).Prompts(ctx))(r.t)
		if len(ps) == want {
			return ps
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("%d prompts are open, want %d", len(ps), want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *rig) settled(ctx context.Context, t events.Thread, want int64) []client.Item {
	r.t.Helper()
	var out []client.Item
	for it := range must.All(r.t,
		r.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		if it.Type() == events.TypePendingPromptResolved {
			out = append(out, it)
		}
		if it.N >= want {
			return out
		}
	}
	return nil
}

type asked struct {
	events.Resolution
	err error
}

func (r *rig) ask(ctx context.Context, t events.Thread, p events.Prompt) <-chan asked {
	done := make(chan asked, 1)
	go func() {
		res, err := r.Thread(t).Ask(ctx, p)
		done <- asked{res, err}
	}()
	return done
}

// An agent asks, a person answers, the agent goes on; the thread says who, what and when (SPEC I8).
func TestPromptAnswered(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	run := r.start(nil)
	question := events.Prompt{ID: "p 1", Kind: events.PromptApproval, Text: "Deploy?", Body: []byte(`{"target":"prod"}`)}
	done := r.ask(ctx, thread(1), question)
	p := r.open(ctx, "s1", 1)[0]
	if p.Thread != thread(1) || p.ID != "p 1" || p.Text != "Deploy?" || p.Item != 1 || !p.Answerable ||
		!strings.Contains(string(p.Body), `"target":"prod"`) {
		t.Errorf("open prompt = %+v", p)
	}
	if _, err := r.Thread(thread(1)).Answer(ctx, events.Answer{Prompt: "p 1", Answer: json.RawMessage(`"maybe"`)}); err == nil {
		t.Error(`an approval was answered with "maybe"`)
	}
	before := time.Now().UnixMilli()
	res, err := r.Thread(thread(1)).Answer(ctx, events.Answer{Prompt: "p 1", Answer: json.RawMessage("true"), By: "mira"})
	if err != nil || res.Outcome != events.OutcomeApproved || res.By != "mira" || res.At < before {
		t.Fatalf("Answer = %+v, %v", res, err)
	}
	if got := <-done; got.err != nil || got.Outcome != events.OutcomeApproved || got.By != "mira" || string(got.Answer) != "true" {
		t.Errorf("Ask = %+v", got)
	}
	again, err := r.Thread(thread(1)).Answer(ctx, events.Answer{Prompt: "p 1", Answer: json.RawMessage("false"), By: "sam"})
	if !errors.Is(err, client.ErrAnswered) || again.By != "mira" || again.Outcome != events.OutcomeApproved {
		t.Errorf("second answer = %+v, %v", again, err)
	}
	r.open(ctx, "", 0)
	items := r.settled(ctx, thread(1), 2)
	var m struct {
		Prompt     struct{ ID, Kind string }
		Resolution struct {
			Outcome, By string
			At          int64
			Answer      any
		}
	}
	if len(items) != 1 || json.Unmarshal(items[0].Metadata, &m) != nil || m.Prompt.ID != "p 1" || m.Resolution.By != "mira" ||
		m.Resolution.At != res.At || m.Resolution.Answer != true || items[0].User != "mira" {
		t.Errorf("items that settle = %+v: %+v", items, m)
	}
	// Asked again after a crash it has its answer at once, and nothing is added.
	if got := <-r.ask(ctx, thread(1), question); got.err != nil || got.By != "mira" {
		t.Errorf("asked again = %+v", got)
	}
	if h := r.head(thread(1)); h.N != 2 {
		t.Errorf("%d items, want 2", h.N)
	}
	must.Same(t, run.Stats().Dead, 0, "%d dead letters, want %d")
}

// Of answers that race, one is first, and all learn which.
func TestPromptRace(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	run := r.start(nil)
	done := r.ask(ctx, thread(2), events.Prompt{ID: "q", Kind: events.PromptText, Text: "Which?"})
	r.open(ctx, "s2", 1)
	// Published ahead of their checks, as programs without the SDK do.
	var wg sync.WaitGroup
	var pubs [6]*client.Publisher
	for i := range pubs {
		pubs[i] = r.Publisher(client.PublisherConfig{User: string(rune('a' + i))})
		wg.Go(func() {
			answer, _ := json.Marshal(i)
			op := events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "q", Answer: answer}}
			if err := pubs[i].Control(ctx, thread(2), 1, op); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range pubs {
		r.await(thread(2), p.Producer(), 1)
	}
	got := <-done
	if got.err != nil || got.Outcome != events.OutcomeAnswered || len(got.By) != 1 || string(got.Answer) != string('0'+got.By[0]-'a') {
		t.Errorf("Ask = %+v", got)
	}
	must.Same(t, len(r.settled(ctx, thread(2), 2)), 1, "%d items settle it, want %d")
	if n := run.Stats().Dead; n != 0 {
		t.Errorf("%d dead letters: an answer that came second is no mistake", n)
	}
}

// An approval that nobody gives in time is denied, and no answer after that approves (SPEC I8).
func TestPromptDeadline(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	r.start(nil)
	deadline := time.Now().Add(300 * time.Millisecond).UnixMilli()
	got := <-r.ask(ctx, thread(3), events.Prompt{ID: "d", Kind: events.PromptApproval, Text: "Now?", Deadline: deadline})
	if got.err != nil || got.Outcome != events.OutcomeDenied || got.By != events.ByDeadline || got.At != deadline {
		t.Errorf("Ask = %+v, want it denied by its deadline", got)
	}
	if res, err := r.Thread(thread(3)).Answer(ctx, events.Answer{Prompt: "d", Answer: json.RawMessage("true")}); !errors.Is(err,
		client.ErrAnswered) || res.Outcome != events.OutcomeDenied {
		t.Errorf("late answer = %+v, %v", res, err)
	}

	// The agent is gone: nobody notes the deadline, and an approval that comes after it denies.
	pub := r.Publisher(client.PublisherConfig{})
	q := events.Prompt{ID: "gone", Kind: events.PromptApproval, Text: "?", Deadline: time.Now().Add(time.Minute).UnixMilli()}
	must.Get(pub.Publish(ctx, client.Entry{Thread: thread(3), Dialect: "item", Body: q.Item().JSON()}))(t)
	if open := r.open(ctx, "s3", 1)[0]; open.Overdue(time.Now()) || !open.Overdue(time.Now().Add(2*time.Minute)) {
		t.Errorf("Overdue is wrong about %+v", open)
	}
	if _, err := r.Thread(thread(3)).Answer(ctx, events.Answer{Prompt: "gone", Expired: true}); err == nil {
		t.Error("a prompt expired before its deadline")
	}
	late := events.Event{Producer: "late", Seq: 1, Kind: events.KindControl, Thread: thread(3), Time: q.Deadline + 1,
		Body: events.Control{Op: events.OpAnswer, Answer: &events.Answer{Prompt: "gone", Answer: json.RawMessage("true"), By: "mira"}}.Encode()}
	must.Do(t, r.conn.Events().PublishEvents(ctx, []*events.Event{&late}))
	r.await(thread(3), "late", 1)
	if p, err := r.Thread(thread(3)).Prompt(ctx, "gone"); err != nil || p.Resolution.Outcome != events.OutcomeDenied ||
		p.Resolution.By != events.ByDeadline {
		t.Errorf("settled late = %+v, %v, want it denied", p.Resolution, err)
	}

	// An answer that says it was given in time, and was stored when the time was over.
	q.ID, q.Deadline = "dated back", time.Now().Add(-time.Second).UnixMilli()
	must.Get(pub.Publish(ctx, client.Entry{Thread: thread(3), Dialect: "item", Body: q.Item().JSON()}))(t)
	answer := events.Answer{Prompt: q.ID, Answer: json.RawMessage("true"), By: "mira"}
	back := events.Event{Producer: "back", Seq: 1, Kind: events.KindControl, Thread: thread(3), Time: q.Deadline - 1,
		Body: events.Control{Op: events.OpAnswer, Answer: &answer}.Encode()}
	must.Do(t, r.conn.Events().PublishEvents(ctx, []*events.Event{&back}))
	r.await(thread(3), "back", 1)
	if p, err := r.Thread(thread(3)).Prompt(ctx, q.ID); err != nil || p.Resolution.Outcome != events.OutcomeDenied {
		t.Errorf("settled by an answer that is dated back = %+v, %v, want it denied", p.Resolution, err)
	}
}

// A prompt that is settled while its persister dies is settled once.
func TestPromptKilled(t *testing.T) {
	for _, step := range []persist.Step{persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			r, ctx := newRig(t), brief(t)
			first := r.start(nil)
			done := r.ask(ctx, thread(4), events.Prompt{ID: "k", Kind: events.PromptText, Text: "?"})
			r.open(ctx, "s4", 1)
			must.Do(t, first.stop())
			pub := r.Publisher(client.PublisherConfig{User: "mira"})
			must.Do(t, pub.Control(ctx, thread(4), 1, events.Control{Op: events.OpAnswer,
				Answer: &events.Answer{Prompt: "k", Answer: json.RawMessage(`"yes"`)}}))
			r.start(func(d *persist.Deps, _ *persist.Config) { d.At = dieAt(step, 1) }).killed(t)
			r.start(nil)
			if got := <-done; got.err != nil || string(got.Answer) != `"yes"` || got.By != "mira" {
				t.Errorf("Ask = %+v", got)
			}
			r.await(thread(4), pub.Producer(), 1)
			if items := r.settled(ctx, thread(4), 2); len(items) != 1 || r.head(thread(4)).N != 2 {
				t.Errorf("%d items settle it, head says %d items", len(items), r.head(thread(4)).N)
			}
		})
	}
}

// Prompts of a transcript are listed while they wait, and are not answered here; those that an agent settles itself are
// settled.
func TestPromptOfOthers(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	run := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{})
	claude := func(lines ...string) {
		for _, l := range lines {
			must.Get(pub.Publish(ctx, client.Entry{Thread: thread(5), Dialect: "claude", Body: []byte(l)}))(t)
		}
	}
	claude(`{"type":"assistant","uuid":"u1","sessionId":"x","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"assistant","id":"m1","content":[{"type":"tool_use","id":"toolu_1","name":"AskUserQuestion","input":{"questions":[{"question":"Red or blue?"}]}}]}}`)
	p := r.open(ctx, "s5", 1)[0]
	if p.Answerable || p.Text != "Red or blue?" {
		t.Errorf("prompt of a transcript = %+v", p)
	}
	if _, err := r.Thread(thread(5)).Answer(ctx, events.Answer{Prompt: p.ID, Answer: json.RawMessage(`"red"`)}); !errors.Is(err,
		client.ErrNoPrompt) {
		t.Errorf("Answer = %v, want %v", err, client.ErrNoPrompt)
	}
	claude(`{"type":"user","uuid":"u2","parentUuid":"u1","sessionId":"x","timestamp":"2026-11-20T10:00:09.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"blue"}]}}`)
	r.open(ctx, "s5", 0)

	own := events.Prompt{ID: "own", Kind: events.PromptText, Text: "?"}.Item()
	settle := events.PendingPromptResolved("own", events.PromptText,
		events.Resolution{Outcome: "answered", By: "terminal", At: 7, Answer: []byte(`"x"`)})
	for i, it := range []events.Item{own, settle} {
		must.Get(pub.Publish(ctx, client.Entry{Thread: thread(6), Dialect: "item", Body: it.JSON()}))(t)
		r.open(ctx, "s6", 1-i)
	}
	if p, err := r.Thread(thread(6)).Prompt(ctx, "own"); err != nil || p.Resolution.By != "terminal" || p.Resolution.At != 7 ||
		string(p.Resolution.Answer) != `"x"` {
		t.Errorf("settled by its agent = %+v, %v", p, err)
	}
	must.Do(t, pub.Control(ctx, thread(6), 0, events.Control{Op: events.OpAnswer,
		Answer: &events.Answer{Prompt: "none", Answer: json.RawMessage("1")}}))
	must.Is(t, r.Client.Thread(thread(6)).Await(ctx, pub.Producer(), 0, 5), client.ErrRefused, "Await of an answer to no prompt")
	must.Do(t, r.Thread(thread(6)).End(ctx, events.End{}))
	_ = run.stop() // what is committed is published first
	if n := run.Stats().Dead; n != 1 {
		t.Errorf("%d dead letters, want the answer to no prompt", n)
	}
}

// A thread in which a question waits for its answer is not renamed.
func TestRenameWithAnOpenPromptIsRefused(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := events.Thread{Session: "s", Name: "main"}
	run := r.start(nil)
	p, q := r.Publisher(client.PublisherConfig{Producer: "p"}), r.Publisher(client.PublisherConfig{Producer: "q"})
	must.Get(p.Publish(ctx, stepEntry(id, 1, "one")))(t)
	r.await(id, "p", 1)
	must.Get(r.conn.Records().Write(ctx, record.Put{Key: events.PromptKey(id, "ask"), Value: []byte("{}"), Expect: record.Any}))(t)
	must.Do(t, q.Control(ctx, id, 1, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "other"}}))
	r.through(run.Persister, 2)
	if st := run.Stats(); st.Dead != 1 {
		t.Errorf("%d dead letters, want the rename refused while its prompt is open", st.Dead)
	}
}

// A transcript that tells of a prompt, and of its answer, under the id of one that somebody waits for here leaves that
// one as it is: it is listed as before, and answered.
func TestPromptIDOfAnother(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	r.start(nil)
	ask := func(text string) <-chan asked {
		p := events.Prompt{ID: "fixed", Kind: events.PromptApproval, Text: text}
		p.Deadline = time.Now().Add(time.Hour).UnixMilli()
		return r.ask(ctx, thread(1), p)
	}
	refused := func(when string) {
		t.Helper()
		if got := <-ask("Drop the database?"); !errors.Is(got.err, client.ErrPromptTaken) || got.Outcome != "" {
			t.Errorf("another question under the id of one that %s: %+v, want ErrPromptTaken", when, got)
		}
	}
	first := ask("Deploy?")
	r.open(ctx, "s1", 1)
	refused("waits")
	retry := ask("Deploy?")
	_ = must.Get(r.Thread(thread(1)).Answer(ctx, events.Answer{Prompt: "fixed", Answer: json.RawMessage("true")}))(t)
	for _, done := range []<-chan asked{first, retry, ask("Deploy?")} {
		if got := <-done; got.err != nil || got.Outcome != events.OutcomeApproved {
			t.Errorf("Ask = %+v, %v, want what was answered", got, got.err)
		}
	}
	refused("was answered")
	must.Do(t, r.Thread(thread(1)).End(ctx, events.End{}))
	late := <-r.ask(ctx, thread(1), events.Prompt{ID: "late", Kind: events.PromptText, Text: "Well?"})
	must.Is(t, late.err, client.ErrEnded, "Ask in a thread that has ended")
}

// Whoever publishes entries without the SDK is held to the same: another question under an id that is taken is a dead letter,
// and what was asked stays as it is.
func TestPublishedPromptIDOfAnother(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	run := r.start(nil)
	pub := r.Publisher(client.PublisherConfig{Producer: "raw"})
	seq := uint64(0)
	publish := func(texts ...string) {
		t.Helper()
		var es []client.Entry
		for _, text := range texts {
			seq++
			p := events.Prompt{ID: "fixed", Kind: events.PromptApproval, Text: text}
			es = append(es, client.Entry{Thread: thread(1), Dialect: "item", Body: p.Item().JSON(), Seq: seq})
		}
		must.Get(pub.Publish(ctx, es...))(t)
		r.await(thread(1), "raw", seq)
	}
	publish("Deploy?", "Drop the database?") // in one commit, as far as the persister can
	publish("Drop the database?")
	publish("Deploy?")
	if open := r.open(ctx, "s1", 1); open[0].Text != "Deploy?" {
		t.Errorf("the open prompt asks %q", open[0].Text)
	}
	_ = must.Get(r.Thread(thread(1)).Answer(ctx, events.Answer{Prompt: "fixed", Answer: json.RawMessage("true")}))(t)
	r.open(ctx, "s1", 0)
	publish("Drop the database?")
	r.open(ctx, "s1", 0)
	var letters []client.DeadLetter
	for len(letters) < 3 && ctx.Err() == nil { // they follow their commits
		letters = must.Get(r.EverySession().DeadLetters(t.Context()))(t)
	}
	for _, l := range letters {
		if !strings.Contains(l.Reason, apply.ErrAsked.Error()) {
			t.Errorf("dead letter: %s", l.Reason)
		}
	}
	_ = run.stop() // it counts a letter behind sending it
	if n := run.Stats().Dead; n != 3 || len(letters) != 3 {
		t.Errorf("%d dead, %d letters, want the 3 of another question", n, len(letters))
	}
}

func TestPromptBesideATranscript(t *testing.T) {
	r, ctx := newRig(t), brief(t)
	r.start(nil)
	done := r.ask(ctx, thread(1), events.Prompt{ID: "toolu_1", Kind: events.PromptApproval, Text: "Deploy?"})
	want := r.open(ctx, "s1", 1)[0]
	const call = `{"type":"assistant","uuid":"a%d","message":{"role":"assistant","content":[{"type":"tool_use",` +
		`"id":"toolu_%[1]d","name":"ExitPlanMode","input":{"plan":"do it"}}]}}`
	const result = `{"type":"user","uuid":"r%d","message":{"role":"user","content":[{"type":"tool_result",` +
		`"tool_use_id":"toolu_%[1]d","content":"yes"}]}}`
	look := func() (all map[string]client.Prompt) {
		all = map[string]client.Prompt{}
		for _, p := range must.Get(r.Session("s1").Prompts(ctx))(t) {
			all[p.ID] = p
		}
		return all
	}
	same := func(when string) {
		t.Helper()
		if got := look()["toolu_1"]; !got.Answerable || got.Text != want.Text || got.Item != want.Item {
			t.Errorf("%s the prompt is listed as %+v, want %+v", when, got, want)
		}
	}
	for i, together := range []bool{true, false} { // in one commit, and in one each
		lines := []string{fmt.Sprintf(call, 1), fmt.Sprintf(call, i+2), fmt.Sprintf(result, 1)}
		if together {
			r.say(thread(1), "claude", lines...)
			same("behind the lines of a transcript")
		}
		for _, line := range lines {
			r.say(thread(1), "claude", line)
			same("behind a line of a transcript")
		}
		if _, listed := look()[fmt.Sprint("toolu_", i+2)]; !listed {
			t.Errorf("the transcript's own prompt is not listed")
		}
	}
	yes := events.Answer{Prompt: "toolu_1", Answer: json.RawMessage("true")}
	if _, err := r.Thread(thread(1)).Answer(ctx, yes); err != nil {
		t.Error(err)
	}
	if got := <-done; got.err != nil || got.Outcome != events.OutcomeApproved {
		t.Errorf("Ask = %+v", got)
	}
}
