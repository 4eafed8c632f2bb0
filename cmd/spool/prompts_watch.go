package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"spool/internal/notify"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/events"
)

type promptsWatchCmd struct {
	Session string `arg:"" optional:"" help:"Prompts of one session (default: of all)."`
	Exec    string `xor:"to" placeholder:"COMMAND" help:"Run it in sh for each: what is told as JSON is its standard input, and in SPOOL_TYPE, SPOOL_SESSION, SPOOL_THREAD, SPOOL_PROMPT, SPOOL_RUN, SPOOL_STATE and SPOOL_TEXT; exit code 0 takes it."`
	URL     string `xor:"to" name:"url" placeholder:"URL" help:"POST each to this address, as Standard Webhooks has it; any 2xx takes it."`
	Secret  string `type:"path" name:"secret-file" placeholder:"FILE" help:"Sign with the key in this file: whsec_ and base64."`
	Private bool   `help:"The address may be one of this machine or network."`
	Name    string `placeholder:"NAME" help:"Go on where the last watch of this name stopped; the first begins with what waits. Without it a watch begins with the next prompt."`
	Failed  bool   `help:"Also threads that end with another return code than 0."`
	Runs    bool   `help:"Also runs that end, and those whose lease is over: not for readers."`
	JSON    bool   `xor:"to" help:"Each as one line of JSON."`
}

func (c *promptsWatchCmd) Help() string {
	return "Tells what needs a person until it is interrupted: on standard output, or to a command or an address, which is told again, " +
		"for a day, until it takes it, or the prompt is answered. One is told at a time; one that is not taken lets those behind it go first; " +
		"what is told twice has the same webhook-id."
}

func (c *promptsWatchCmd) Run(a *app) error {
	tell, err := c.teller(a)
	if err != nil {
		return service.UsageError{Err: err}
	}
	for what, name := range map[string]string{"name": c.Name, "session": c.Session} {
		if name == "" {
			continue
		}
		if err := events.CheckToken(what, name); err != nil {
			return service.UsageError{Err: err}
		}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if c.Session != "" {
		a.noteAwaited(cl, c.Session, "")
	}
	err = notify.Run(a.ctx, cl, c.Name, notify.Config{Session: c.Session, Failed: c.Failed, Runs: c.Runs, Tell: tell, Log: a.log})
	if a.ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *promptsWatchCmd) teller(a *app) (notify.Teller, error) {
	if c.URL == "" && (c.Secret != "" || c.Private) {
		return nil, errors.New("--secret-file and --private are for --url")
	}
	switch {
	case c.Exec != "":
		return notify.Command(c.Exec, a.out, a.err), nil
	case c.URL == "":
		return func(_ context.Context, n notify.Note, body []byte) error {
			line := string(body)
			if !c.JSON {
				line = fmt.Sprintf("%s  %s/%s  %s  %s", n.Type, n.Data.Session, n.Data.Thread,
					text.Printable(strings.TrimSpace(n.Data.Prompt+n.Data.Run+" "+n.Data.State)), text.Printable(n.Data.Text))
			}
			_, err := fmt.Fprintln(a.out, line)
			return err
		}, nil
	}
	var key []byte
	if c.Secret != "" {
		b, err := os.ReadFile(c.Secret)
		if err == nil {
			key, err = notify.Secret(string(b))
		}
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
	}
	tell, err := notify.Webhook(c.URL, key, c.Private)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return tell, nil
}
