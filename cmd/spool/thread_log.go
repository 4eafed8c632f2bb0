package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/project"
	"spool/internal/rehydrate"
	"spool/internal/show"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type threadLogCmd struct {
	Thread  string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Limit   int    `short:"n" default:"50" least:"1" placeholder:"N" help:"At most so many entries (${default}); with --graph of each thread."`
	Skip    int    `placeholder:"N" help:"Leave out the newest N entries."`
	Context bool   `name:"model-context" help:"Only what a model is sent: from the newest summary on, oldest first; of a session of omp entries as session context shows it."`
	Graph   bool   `help:"Draw the thread with its branches, and the threads of its session that share entries with it."`
	JSON    bool   `help:"Each entry as one line of JSON."`
}

func (c *threadLogCmd) Run(a *app) error {
	return a.readThread(c.Thread, func(cl *client.Client, t events.Thread) error { return c.show(a, cl, t) })
}

func (c *threadLogCmd) show(a *app, cl *client.Client, id events.Thread) error {
	head, err := cl.Thread(id).AwaitHead(a.ctx)
	if err != nil {
		return err
	}
	l := &logger{app: a, cl: cl, json: c.JSON}
	switch {
	case c.Graph:
		return l.graph(id, head, c.Limit)
	case c.Context:
		if len(head.Recent) > 0 { // of omp entries Client.Context alone knows what an agent goes on with
			err := (&sessionContextCmd{Session: c.Thread, JSON: c.JSON}).Run(a)
			if !errors.Is(err, client.ErrNoContext) {
				return err
			}
		}
		return l.context(id, head)
	case len(head.Recent) == 0:
		return nil
	}
	steps, err := cl.Reader().Page(a.ctx, head.Head(), c.Skip, c.Limit)
	if err != nil {
		return err
	}
	return l.list(id, steps)
}

// logger shows steps.
type logger struct {
	*app
	cl   *client.Client
	json bool
}

// list shows steps one below the other.
func (l *logger) list(t events.Thread, steps []threads.Step) error {
	enc := json.NewEncoder(l.out)
	w := l.table()
	for _, s := range steps {
		brief, err := l.brief(t, s)
		if err != nil {
			return err
		}
		if l.json {
			err = enc.Encode(ofLogged(s, brief))
		} else {
			_, err = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", s.At.Ref.Hex()[:12], s.Entry.Index, itemRange(s.Entry),
				clock(s.Timestamp), s.Role, brief)
		}
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

// ofLogged is a step as thread log writes it for programs.
func ofLogged(s threads.Step, brief string) stepOut {
	out := ofStep(s)
	if out.Brief = brief; !s.Compact.IsZero() {
		out.Compact, out.Kept = s.Compact.String(), s.Entry.Kept
	}
	return out
}

// maxBrief is how many characters of an entry a line shows.
const maxBrief = 80

// brief is the first text that an entry shows to its readers, in a line.
func (l *logger) brief(t events.Thread, s threads.Step) (string, error) {
	content, err := s.ReadContent(l.ctx)
	if err != nil {
		return "", err
	}
	brief, _, _ := strings.Cut(strings.TrimSpace(string(content.Text)), "\n")
	if posted, err := project.Rebuild(t, s.At.Ref, s.State, content.Text); err == nil && len(posted) > 0 {
		brief = show.Read(posted[0].Data).Brief
	} else if s.Entry.Type != "" && s.Entry.Raw == nil {
		brief = "(" + s.Entry.Type + ")"
	}
	if r := []rune(brief); len(r) > maxBrief {
		brief = string(r[:maxBrief-1]) + "…"
	}
	return text.Printable(brief), nil
}

// context shows what a model is sent.
func (l *logger) context(t events.Thread, head threads.Head) error {
	prompt, err := l.cl.Reader().Prompt(l.ctx, head.Start)
	if err == nil && prompt != "" {
		if l.json {
			err = json.NewEncoder(l.out).Encode(map[string]any{"prompt": prompt})
		} else {
			_, err = fmt.Fprintf(l.out, "task:\n%s\n\n", prompt)
		}
	}
	if err != nil || len(head.Recent) == 0 {
		return err
	}
	c, err := l.cl.Reader().Context(l.ctx, head.Head())
	if err != nil {
		return err
	}
	if c.Compacted {
		if l.json {
			err = json.NewEncoder(l.out).Encode(map[string]any{"summary": string(c.Summary.Text), "state": c.From.At.Ref.String()})
		} else {
			_, err = fmt.Fprintf(l.out, "summary of all before entry %d:\n%s\n\n", c.From.Entry.Index, c.Summary.Text)
		}
		if err != nil {
			return err
		}
	}
	return l.list(t, slices.DeleteFunc(append(c.Kept, c.Steps...), func(s threads.Step) bool { return !rehydrate.Said(head, s) }))
}

// graph draws a thread, its branches and the threads that share entries with it.
func (l *logger) graph(id events.Thread, head threads.Head, limit int) error {
	all, err := l.cl.Session(id.Session).Threads(l.ctx)
	if err != nil {
		return err
	}
	g := &graph{names: map[casstore.Ref][]string{}, steps: map[casstore.Ref]threads.Step{}}
	for _, t := range all {
		if t.Head.Start.Ref != head.Start.Ref {
			continue
		}
		if len(t.Head.Recent) > 0 {
			g.names[t.Head.Head().Ref] = append(g.names[t.Head.Head().Ref], t.Name)
		}
		for root, err := range l.cl.Reader().Newest(l.ctx, t.Head, 0) {
			if err != nil {
				return err
			}
			steps, err := l.cl.Reader().Last(l.ctx, root, limit)
			if err != nil {
				return err
			}
			for _, s := range steps {
				g.steps[s.At.Ref] = s
			}
		}
	}
	if l.json {
		return l.list(id, g.order())
	}
	return g.draw(func(lanes string, s threads.Step) error {
		brief, err := l.brief(id, s)
		if err != nil {
			return err
		}
		if names := g.names[s.At.Ref]; len(names) > 0 {
			brief = "(" + strings.Join(names, ", ") + ") " + brief
		}
		_, err = fmt.Fprintln(l.out, clip(l.columns(),
			fmt.Sprintf("%s %s %d %s: %s", lanes, s.At.Ref.Hex()[:12], s.Entry.Index, s.Role, brief), ""))
		return err
	}, func(lanes string) error {
		_, err := fmt.Fprintln(l.out, lanes)
		return err
	})
}

// graph is steps of several threads.
type graph struct {
	names map[casstore.Ref][]string // threads whose head it is
	steps map[casstore.Ref]threads.Step
}

// order lists the steps, each before its parent, newest first.
func (g *graph) order() []threads.Step {
	out := make([]threads.Step, 0, len(g.steps))
	for _, s := range g.steps {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b threads.Step) int {
		return cmp.Or(cmp.Compare(b.Entry.Index, a.Entry.Index), strings.Compare(a.At.Ref.Hex(), b.At.Ref.Hex()))
	})
	return out
}

// draw gives each step to line, with a column for each path that is open there, and to join the lines in between, where a
// path ends in another one.
func (g *graph) draw(line func(lanes string, s threads.Step) error, join func(lanes string) error) error {
	var open []casstore.Ref // the step that each column waits for
	for _, s := range g.order() {
		at := slices.Index(open, s.At.Ref)
		if at < 0 {
			at = len(open)
			open = append(open, s.At.Ref)
		}
		for i := len(open) - 1; i > at; i-- { // the others that wait for it were forked here
			if open[i] != s.At.Ref {
				continue
			}
			open = slices.Delete(open, i, i+1)
			if err := join(strings.Repeat("| ", i-1) + "|/"); err != nil {
				return err
			}
		}
		lanes := strings.Repeat("| ", at) + "*" + strings.Repeat(" |", len(open)-1-at)
		if err := line(lanes, s); err != nil {
			return err
		}
		if open[at] = s.Parent; s.Parent.IsZero() {
			open = slices.Delete(open, at, at+1)
		}
	}
	return nil
}

type threadDiffCmd struct {
	A    string `arg:"" name:"session[/thread]" help:"A thread."`
	B    string `arg:"" name:"other" help:"Another one: a name in the same session, or session/thread."`
	JSON bool   `help:"One JSON object."`
}

func (c *threadDiffCmd) Run(a *app) error {
	ta, tb, err := threadPair(c.A, c.B)
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	var heads [2]casstore.Located
	for i, t := range []*events.Thread{&ta, &tb} {
		here := ta.Session
		if *t, err = a.reachToRead(cl, *t, func(t events.Thread) error {
			h, err := cl.Thread(t).AwaitHead(a.ctx)
			if err == nil && len(h.Recent) > 0 {
				heads[i] = h.Head()
			}
			return err
		}); err != nil {
			return err
		}
		if tb.Session == here {
			tb.Session = ta.Session
		}
	}
	d, err := cl.Reader().Diff(a.ctx, heads[0], heads[1])
	if err != nil {
		return err
	}
	return c.show(&logger{app: a, cl: cl}, d, ta, tb)
}

func (c *threadDiffCmd) show(l *logger, d threads.Difference, ta, tb events.Thread) error {
	sides := []struct {
		t      events.Thread
		places []casstore.Located
	}{{ta, d.A}, {tb, d.B}}
	if c.JSON {
		out := map[string]any{"base": d.Base.Ref.String()}
		for i, name := range []string{"a", "b"} {
			list := []any{}
			for _, at := range sides[i].places {
				list = append(list, at.Ref.String())
			}
			out[name] = list
		}
		return json.NewEncoder(l.out).Encode(out)
	}
	base := "nothing is common"
	if !d.Base.IsZero() {
		s, err := l.cl.Reader().Step(l.ctx, d.Base)
		if err != nil {
			return err
		}
		base = fmt.Sprintf("common up to entry %d, %s", s.Entry.Index, d.Base.Ref.Hex()[:12])
	}
	if _, err := fmt.Fprintln(l.out, base); err != nil {
		return err
	}
	for _, side := range sides {
		text.Fprintf(l.out, "\nonly in %s: %d entries\n", side.t, len(side.places))
		steps := make([]threads.Step, len(side.places))
		for i, at := range side.places {
			s, err := l.cl.Reader().Step(l.ctx, at)
			if err != nil {
				return err
			}
			steps[i] = s
		}
		if err := l.list(side.t, steps); err != nil {
			return err
		}
	}
	return nil
}
