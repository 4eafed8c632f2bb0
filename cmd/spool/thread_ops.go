package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type threadForkCmd struct {
	From  string  `arg:"" name:"session[/thread]" help:"The thread to fork."`
	Name  string  `arg:"" help:"Name of the new thread, or session/thread."`
	Index *int64  `xor:"at" least:"1" placeholder:"N" help:"At the N-th entry, from 1."`
	Item  *int64  `xor:"at" short:"n" least:"1" placeholder:"N" help:"At the entry of item N, from 1; the n of the HTTP API."`
	Node  *string `xor:"at" placeholder:"REF" help:"At this state; the beginning of its digits is enough, as thread log shows them."`
	Entry *string `xor:"at" placeholder:"ID" help:"At the entry that has this id in its source."`
	Role  *string `xor:"at" placeholder:"ROLE" help:"At the first step of this role."`
	Time  moment  `xor:"at" placeholder:"TIME" help:"At the newest entry not after this: a time, as 2026-11-20T10:00:00Z, a date, or how long ago (36h, 7d)."`
	Whole bool    `help:"All of it, with its branches and its leaf; with a point as it was there."`
}

func (c *threadForkCmd) Help() string {
	return "Without a point the fork begins at the step before the last: the last one can be tried again."
}

func (c *threadForkCmd) Run(a *app) error {
	from, to, err := threadPair(c.From, c.Name)
	if err != nil {
		return err
	}
	point, err := c.point(from)
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	_, err = a.reach(cl, from, a.changed, func(t events.Thread) error {
		point.Session = t.Session
		if to.Session == from.Session {
			to.Session = t.Session
		}
		from = t
		if err := c.find(a, cl, from, &point); err != nil {
			return err
		}
		return a.entry(cl, from, point.Entry, func(id string) error {
			point.Entry = id
			return cl.Thread(to).Fork(a.ctx, point)
		})
	})
	if err != nil {
		return err
	}
	head, err := cl.Thread(to).Head(a.ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s begins at entry %d of %s\n", to, head.Entries-1, from)
	return err
}

// find finds the state that a time, or the beginning of a state's digits, means.
func (c *threadForkCmd) find(a *app, cl *client.Client, from events.Thread, point *events.Fork) error {
	if c.Time != 0 {
		step, err := atTime(a, cl, from, int64(c.Time))
		point.Node = step.At.Ref.String()
		return err
	}
	digits, short := shortState(point.Node)
	if _, err := casstore.ParseRef(point.Node); !short && point.Node != "" && err != nil {
		return service.UsageError{Err: fmt.Errorf("--node %q: %w", point.Node, err)}
	}
	if !short {
		return nil
	}
	head, err := cl.Thread(from).AwaitHead(a.ctx)
	if err != nil {
		return err
	}
	ref, err := cl.Reader().FindState(a.ctx, head, digits)
	point.Node = ref.String()
	return err
}

// point is where the fork begins. One that is given and says nothing is none by mistake: it does not stand for the usual point.
func (c *threadForkCmd) point(from events.Thread) (events.Fork, error) {
	f := events.Fork{Session: from.Session, Thread: from.Name, Whole: c.Whole}
	for flag, text := range map[string]*string{"node": c.Node, "entry": c.Entry, "role": c.Role} {
		if text != nil && *text == "" {
			return f, service.UsageError{Err: fmt.Errorf("--%s is empty: name a point, or leave it out", flag)}
		}
	}
	f.Index, f.Item, f.Node, f.Entry, f.Role = given(c.Index), given(c.Item), given(c.Node), given(c.Entry), given(c.Role)
	return f, nil
}

// given is a flag's value; zero where it was left out.
func given[T any](flag *T) (v T) {
	if flag != nil {
		v = *flag
	}
	return v
}

type threadStartCmd struct {
	Thread    string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Prompt    string `arg:"" optional:"" help:"Its initial task."`
	Name      string `placeholder:"NAME" help:"Of the workflow or agent."`
	Bundle    string `placeholder:"HASH" help:"Of the workflow's bundle."`
	MaxRounds int    `placeholder:"N" help:"Rounds after which the workflow stops."`
	Depth     int    `placeholder:"N" help:"How many workflows started each other before this one."`
}

func (c *threadStartCmd) Run(a *app) error {
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s has begun", t), cl.Thread(t).Start(a.ctx, events.Start{
			Name: c.Name, Hash: c.Bundle, MaxRounds: c.MaxRounds, Depth: c.Depth, Prompt: c.Prompt,
		})
	})
}

type threadEndCmd struct {
	Thread  string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Code    int    `least:"-255" default:"0" placeholder:"N" help:"Return code (${default})."`
	Summary string `placeholder:"TEXT" help:"What came of it."`
}

func (c *threadEndCmd) Run(a *app) error {
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s is completed", t), cl.Thread(t).End(a.ctx, events.End{ReturnCode: c.Code, Summary: c.Summary})
	})
}

// threadPair reads the names of two threads. The second one can be a name in the session of the first.
func threadPair(first, second string) (a, b events.Thread, err error) {
	if a, err = events.ParseThread(first); err == nil {
		b = events.Thread{Session: a.Session, Name: second}
		if b.Validate() != nil {
			b, err = events.ParseThread(second)
		}
	}
	if err != nil {
		err = service.UsageError{Err: err}
	}
	return a, b, err
}

// atTime finds the newest entry of a thread that is not after a time.
func atTime(a *app, cl *client.Client, t events.Thread, when int64) (threads.Step, error) {
	head, err := cl.Thread(t).AwaitHead(a.ctx)
	if err != nil {
		return threads.Step{}, err
	}
	return cl.Reader().At(a.ctx, head, threads.Point{Time: when})
}

// operate runs one operation on a thread and says what came of it.
func (a *app) operate(name string, op func(*client.Client, events.Thread) (done string, err error)) error {
	return a.onThread(name, a.said(op))
}

func (a *app) said(op func(*client.Client, events.Thread) (done string, err error)) func(*client.Client, events.Thread) error {
	return func(cl *client.Client, t events.Thread) error {
		done, err := op(cl, t)
		if err == nil {
			_, err = fmt.Fprintln(a.out, done)
		}
		return err
	}
}

type threadCompactCmd struct {
	Thread  string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Summary string `arg:"" optional:"" help:"The summary; standard input if it is left out."`
	Keep    string `placeholder:"ENTRY" help:"First entry that stays in context beside the summary, by its id or its node."`
}

func (c *threadCompactCmd) Run(a *app) error {
	if c.Summary == "" {
		b, err := io.ReadAll(io.LimitReader(a.stdin(), maxSummary+1))
		if err != nil {
			return err
		}
		if len(b) > maxSummary {
			return service.UsageError{Err: text.Errorf("the summary has more than %d bytes", maxSummary)}
		}
		c.Summary = strings.TrimSuffix(string(b), "\n")
	}
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s is compacted; all of it is still there", t), a.entry(cl, t, c.Keep, func(id string) error {
			return cl.Thread(t).Compact(a.ctx, c.Summary, id)
		})
	})
}

// maxSummary is the most bytes of a summary on standard input.
const maxSummary = 16 << 20

type threadReopenCmd struct {
	Thread string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
}

func (c *threadReopenCmd) Run(a *app) error {
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s is active again", t), cl.Thread(t).Reopen(a.ctx)
	})
}

type threadRenameCmd struct {
	Thread string `arg:"" name:"session/thread" help:"The thread."`
	Name   string `arg:"" help:"Its new name in the session."`
	Force  bool   `short:"f" help:"Do not mind runs and outputs that are live; open outputs go with the thread."`
}

func (c *threadRenameCmd) Run(a *app) error {
	return a.operate(c.Thread, func(cl *client.Client, t events.Thread) (string, error) {
		return fmt.Sprintf("%s is %s/%s now", t, t.Session, c.Name), cl.Thread(t).Rename(a.ctx, c.Name, client.Force(c.Force))
	})
}

type threadRmCmd struct {
	Threads []string `arg:"" name:"session/thread" help:"The threads; of a session alone, its main one."`
	Yes     bool     `short:"y" help:"Do not ask."`
	Force   bool     `short:"f" help:"Do not ask, and do not mind runs and outputs that are live."`
}

func (c *threadRmCmd) Run(a *app) error {
	if err := a.confirm(c.Yes || c.Force, "remove "+strings.Join(c.Threads, ", ")); err != nil {
		return err
	}
	var errs []error
	for _, name := range c.Threads {
		errs = append(errs, a.withThread(name, a.wholeSession, a.said(func(cl *client.Client, t events.Thread) (string, error) {
			said := fmt.Sprintf("removed thread %s", t)
			if head, err := cl.Thread(t).AwaitHead(a.ctx); err == nil && len(head.Recent) > 0 {
				said += text.Sprintf("; its %d entries, until gc takes them: spool export %s -o FILE", head.Entries, head.Head().Ref)
			}
			return said, cl.Thread(t).Remove(a.ctx, client.Force(c.Force))
		})))
	}
	return errors.Join(errs...)
}

type threadVerifyCmd struct {
	Thread string `arg:"" optional:"" name:"session[/thread]" help:"One thread, or all of a session; all there are if it is left out."`
	JSON   bool   `help:"Each thread as one line of JSON."`
}

func (c *threadVerifyCmd) Help() string { return "Blobs and records are checked by spool fsck." }

func (c *threadVerifyCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	list, err := c.threads(a, cl)
	if err != nil {
		return err
	}
	bad, enc := 0, json.NewEncoder(a.out)
	for _, t := range list {
		found := []string{}
		err := threads.Verify(a.ctx, cl.Reader(), t.Head)
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if err != nil {
			bad++
			found = strings.Split(err.Error(), "\n")
		}
		if c.JSON {
			err = enc.Encode(map[string]any{"session": t.Session, "thread": t.Name, "entries": t.Head.Entries,
				"ok": len(found) == 0, "findings": found})
		} else {
			verdict := "ok"
			if len(found) > 0 {
				verdict = "LOOK\n\t" + strings.Join(found, "\n\t")
			}
			_, err = text.Fprintf(a.out, "%s\t%d entries\t%s\n", t.Thread, t.Head.Entries, verdict)
		}
		if err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d threads are not as they must be; spool fsck says where it comes from", bad, len(list))
	}
	return nil
}

// threads are those that the command is about.
func (c *threadVerifyCmd) threads(a *app, cl *client.Client) ([]client.Thread, error) {
	if !strings.Contains(c.Thread, "/") {
		if c.Thread != "" {
			if err := checkNames(c.Thread, ""); err != nil {
				return nil, service.UsageError{Err: err}
			}
		}
		list, err := cl.Session(c.Thread).Threads(a.ctx)
		if err == nil && len(list) == 0 && c.Thread != "" {
			session, err := a.session(cl, c.Thread)
			if err != nil {
				return nil, err
			}
			return cl.Session(session).Threads(a.ctx)
		}
		return list, err
	}
	id, err := events.ParseThread(c.Thread)
	if err != nil {
		return nil, service.UsageError{Err: err}
	}
	var head threads.Head
	id, err = a.reachToRead(cl, id, func(t events.Thread) (err error) {
		head, err = cl.Thread(t).AwaitHead(a.ctx)
		return err
	})
	return []client.Thread{{Thread: id, Head: head}}, err
}

type threadWatchCmd struct {
	listArgs
	Current bool `help:"Begin with the threads as they are."`
}

func (c *threadWatchCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if c.Session != "" {
		a.noteAwaited(cl, c.Session, "")
	}
	enc := json.NewEncoder(a.out)
	for t, err := range cl.Heads(a.ctx, client.HeadFilter{Session: c.Session, Current: c.Current}, nil) {
		if err != nil {
			return err
		}
		if c.JSON {
			err = enc.Encode(view.OfThread(t))
		} else {
			_, err = text.Fprintf(a.out, "%s\t%s\t%s\t%d entries\t%d items\n", t.Thread, t.Head.Status,
				t.Head.Head().Ref.Hex()[:12], t.Head.Entries, t.Head.N)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
