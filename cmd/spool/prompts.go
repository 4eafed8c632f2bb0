package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"

	"spool/internal/mapped"
	"spool/internal/service"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
)

type promptsCmd struct {
	Ls     promptsLsCmd     `cmd:"" aliases:"list" help:"List the prompts that wait for an answer."`
	Answer promptsAnswerCmd `cmd:"" help:"Answer a prompt."`
	Ask    promptsAskCmd    `cmd:"" help:"Ask, wait for the answer and print it."`
	Watch  promptsWatchCmd  `cmd:"" help:"Tell a command or an address of each prompt that waits."`
}

type promptsLsCmd struct{ listArgs }

func (c *promptsLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.Prompt, error) { return cl.Session(c.Session).Prompts(a.ctx) }
	return list(a, &c.listArgs, find, look[client.Prompt]{
		json: func(p client.Prompt) any { return client.PromptJSON(p) },
		none: "no prompt waits for an answer",
		ids: func(cl *client.Client) ([]string, error) {
			all, err := cl.Session(c.Session).Prompts(a.ctx)
			ids := mapped.List(all, func(p client.Prompt) string { return p.ID })
			return ids, err
		},
		header: "THREAD\tPROMPT\tKIND\tASKED\tDEADLINE\tTEXT",
		row: func(p client.Prompt) string {
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", p.Thread, text.Printable(p.ID), text.Printable(p.Kind),
				text.Ago(events.MillisOf(p.Asked), time.Now()), deadline(p), text.Printable(p.Text))
		},
	})
}

func deadline(p client.Prompt) string {
	switch {
	case !p.Answerable:
		return "not answered here"
	case p.Deadline == 0:
		return "-"
	case p.Overdue(time.Now()):
		return "passed"
	}
	return "in " + time.Until(time.UnixMilli(p.Deadline)).Round(time.Second).String()
}

type promptsAnswerCmd struct {
	Thread  string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Prompt  string `arg:"" help:"Id of the prompt."`
	Answer  string `arg:"" optional:"" help:"The answer, as text."`
	Approve bool   `xor:"verdict" help:"Approve."`
	Deny    bool   `xor:"verdict" help:"Deny."`
	AsJSON  bool   `xor:"verdict" name:"as-json" help:"The answer is JSON, not text."`
	By      string `placeholder:"NAME" help:"Who answers (default: the user name)."`
}

func (c *promptsAnswerCmd) Run(a *app) error {
	answer, err := c.value()
	if err != nil {
		return service.UsageError{Err: err}
	}
	c.By = cmp.Or(c.By, userName())
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		r, err := cl.Thread(t).Answer(a.ctx, events.Answer{Prompt: c.Prompt, Answer: answer, By: c.By})
		if errors.Is(err, client.ErrNoPrompt) {
			if err = c.other(a, cl, t, err); err == nil {
				r, err = cl.Thread(t).Answer(a.ctx, events.Answer{Prompt: c.Prompt, Answer: answer, By: c.By})
			}
		}
		if errors.Is(err, events.ErrControl) && c.Answer != "" {
			err = fmt.Errorf("%w\nan approval is answered with --approve or --deny", err)
		}
		return fmt.Sprintf("%s of %s is %s", text.Printable(c.Prompt), t, r.Outcome), err
	})
}

// other finds the only prompt of a thread that waits and whose id, which a program made up, begins so.
func (c *promptsAnswerCmd) other(a *app, cl *client.Client, t events.Thread, err error) error {
	if _, none := cl.Thread(t).AwaitHead(a.ctx); none != nil {
		return none
	}
	all, e := cl.Session(t.Session).Prompts(a.ctx)
	if e != nil {
		return err
	}
	var ids []string
	for _, p := range all {
		if p.Thread == t {
			ids = append(ids, p.ID)
		}
	}
	id, e := shortid.Find("prompts", ids, c.Prompt)
	switch {
	case errors.Is(e, shortid.ErrNone):
		return fmt.Errorf("%w\nspool prompts ls %s lists those that wait", err, t.Session)
	case e != nil:
		return fmt.Errorf("%w\n%w", err, e)
	case !shortid.Made(id) || len(c.Prompt) < shortid.Least:
		return fmt.Errorf("%w\nthe prompt %s begins so: to answer it, give all of its id", err, text.Printable(id))
	}
	fmt.Fprintf(a.err, "spool: %s is the prompt %s\n", c.Prompt, id)
	c.Prompt = id
	return nil
}

// userName is who answers unless it is said; "" when the system does not know.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// value is the answer as JSON.
func (c *promptsAnswerCmd) value() (json.RawMessage, error) {
	switch {
	case (c.Approve || c.Deny) == (c.Answer != ""):
		return nil, errors.New("give an answer, or --approve, or --deny")
	case c.Approve, c.Deny:
		return json.Marshal(c.Approve)
	case c.AsJSON && !json.Valid([]byte(c.Answer)):
		return nil, errors.New("the answer is not JSON")
	case c.AsJSON:
		return json.RawMessage(c.Answer), nil
	}
	return json.Marshal(c.Answer)
}

type promptsAskCmd struct {
	Thread  string        `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Text    string        `arg:"" help:"The question."`
	Kind    string        `default:"text" enum:"text,approval,ask_user_question" help:"What kind of answer it wants (${enum})."`
	ID      string        `name:"id" placeholder:"ID" help:"Id of the prompt: asked again with it, an open one is waited for and a settled one answered at once."`
	Timeout time.Duration `name:"deadline" placeholder:"DURATION" help:"From then on nobody can answer, and an approval is denied."`
}

func (c *promptsAskCmd) Help() string {
	return "It prints the resolution as one line of JSON, and exits with 1 unless the prompt was answered or approved. " +
		"A session or thread that is not there begins with the question."
}

func (c *promptsAskCmd) Run(a *app) error {
	t, err := events.ParseThread(c.Thread)
	if err != nil {
		return service.UsageError{Err: err}
	}
	if strings.TrimSpace(c.Text) == "" {
		return service.UsageError{Err: errors.New("the question is empty")}
	}
	if i := strings.IndexFunc(c.ID, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }); i >= 0 {
		return service.UsageError{Err: fmt.Errorf("--id %q has %q: use one word, as spool prompts answer is given it", c.ID, c.ID[i])}
	}
	p := events.Prompt{ID: c.ID, Kind: c.Kind, Text: c.Text}
	if c.Timeout > 0 {
		p.Deadline = time.Now().Add(c.Timeout).UnixMilli()
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	p.ID = cmp.Or(p.ID, ulid.Make().String())
	r, err := cl.Thread(t).Ask(a.ctx, p)
	if err != nil && a.ctx.Err() != nil {
		return fmt.Errorf("interrupted; where the question was stored it still waits: spool prompts ls %s lists it, "+
			"and asking again with --id %s waits on", t.Session, shellQuote(p.ID))
	}
	if err != nil {
		return err
	}
	if err := json.NewEncoder(a.out).Encode(client.ResolutionJSON(r)); err != nil {
		return err
	}
	switch r.Outcome {
	case events.OutcomeAnswered, events.OutcomeApproved:
		return nil
	case events.OutcomeExpired:
		return errors.New("nobody answered until the deadline")
	}
	return fmt.Errorf("the prompt was %s", r.Outcome)
}
