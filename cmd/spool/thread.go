package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/apply"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type threadCmd struct {
	Ls   threadLsCmd   `cmd:"" aliases:"list" help:"List threads."`
	Show threadShowCmd `cmd:"" help:"Show where a thread is and its last entries."`
	Log  threadLogCmd  `cmd:"" help:"Show the entries of a thread, newest first, or with --graph those of its forks too."`
	Diff threadDiffCmd `cmd:"" help:"Show what two threads have after the newest entry that both have."`

	Start   threadStartCmd   `cmd:"" help:"Begin a thread with the task and the limits of its workflow."`
	Fork    threadForkCmd    `cmd:"" help:"Start a thread at a point of another one; nothing is copied."`
	Compact threadCompactCmd `cmd:"" help:"Make a summary stand for all so far in what a model is sent."`
	End     threadEndCmd     `cmd:"" help:"Complete a thread: it moves to the history and takes no more entries."`
	Reopen  threadReopenCmd  `cmd:"" help:"Make a failed thread active again."`
	Rename  threadRenameCmd  `cmd:"" help:"Give a thread another name in its session."`
	Rm      threadRmCmd      `cmd:"" help:"Remove threads from the index and the history; what others share with them stays."`

	Verify threadVerifyCmd `cmd:"" help:"Read all that threads lead to, and check hashes, positions and numbers."`
	Watch  threadWatchCmd  `cmd:"" help:"Follow the heads of active threads as they move."`
}

type threadLsCmd struct {
	listArgs
	Status string `default:"" enum:",pending,active,completed,failed" placeholder:"STATUS" help:"Only those that are pending, active, completed or failed."`
	From   date   `placeholder:"DATE" help:"Only those that ended on this UTC date, as 2026-11-20, or later."`
	To     date   `placeholder:"DATE" help:"Only those that ended on this UTC date or before."`
}

func (c *threadLsCmd) Run(a *app) error {
	var calls map[string]string // of the subagents of the session
	find := func(cl *client.Client) (all []client.Thread, err error) {
		if c.Session != "" {
			if calls, err = cl.Session(c.Session).AgentCalls(a.ctx); err != nil {
				return nil, err
			}
		}
		return cl.FindThreads(a.ctx, client.ThreadFilter{Session: c.Session, Status: c.Status, From: string(c.From), To: string(c.To)})
	}
	return list(a, &c.listArgs, find, look[client.Thread]{
		json: func(t client.Thread) any {
			out := view.OfThread(t)
			out.ToolCall = calls[t.Name]
			return out
		},
		none:   "no threads found",
		header: "THREAD\tSTATUS\tENTRIES\tITEMS\tUPDATED\tHEAD\tCALL",
		row: func(t client.Thread) string {
			return fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%s\t%s", t.Thread, t.Head.Status, t.Head.Entries, t.Head.N,
				text.Ago(t.Head.Updated, time.Now()), t.Head.Head().Ref.Hex()[:12], cmp.Or(text.Printable(calls[t.Name]), "-"))
		},
	})
}

type threadShowCmd struct {
	Thread string `arg:"" name:"session[/thread]" help:"The thread; main unless named."`
	Last   int    `default:"20" placeholder:"N" help:"How many entries (${default})."`
	JSON   bool   `help:"One JSON object."`
}

func (c *threadShowCmd) Run(a *app) error {
	return a.readThread(c.Thread, func(cl *client.Client, t events.Thread) error { return c.show(a, cl, t) })
}

func (c *threadShowCmd) show(a *app, cl *client.Client, id events.Thread) error {
	head, err := cl.Thread(id).AwaitHead(a.ctx)
	if err != nil {
		return err
	}
	var steps []threads.Step
	if len(head.Recent) > 0 {
		steps, err = cl.Reader().Last(a.ctx, head.Head(), c.Last)
	}
	if c.JSON && (err == nil || !apply.Passing(err)) {
		return errors.Join(c.json(a, cl, client.Thread{Thread: id, Head: head, Ended: head.Ended()}, steps), err)
	}
	if err != nil {
		return err
	}
	prompt, err := cl.Reader().Prompt(a.ctx, head.Start)
	if err != nil {
		return err
	}
	status := head.Failure
	if ended := head.Ended(); ended != "" {
		status = "on " + ended
	}
	t := text.NewTable(a.out)
	fmt.Fprintf(t, "thread\t%s\nstatus\t%s %s\nhead\t%s\nstart\t%s\n", id, head.Status, status, head.Head().Ref,
		head.Start.Ref)
	calls, err := cl.Session(id.Session).AgentCalls(a.ctx)
	if err != nil {
		return err
	}
	if call := calls[id.Name]; call != "" {
		fmt.Fprintf(t, "call\t%s\n", text.Printable(call))
	}
	if prompt != "" {
		fmt.Fprintf(t, "prompt\t%s\n", text.Cut(strings.Join(strings.Fields(prompt), " "), 200))
	}
	text.Fprintf(t, "entries\t%d, %d items, %d other branches\n", head.Entries, head.N, head.Branches())
	text.Fprintf(t, "bytes in\t%s, %d entries cut, %d values moved to blobs\n\n", text.Bytes(head.BytesIn),
		head.Truncated, head.Externalized)
	if err := t.Flush(); err != nil {
		return err
	}
	t = a.table()
	fmt.Fprintln(t, "INDEX\tITEMS\tTIME\tROLE\tTYPE\tSTATE")
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", s.Entry.Index, itemRange(s.Entry), clock(s.Timestamp), s.Role,
			s.Entry.Type, s.At.Ref.Hex()[:12])
	}
	return t.Flush()
}

func itemRange(r threads.Record) string {
	switch r.Count {
	case 0:
		return "-"
	case 1:
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.First+r.Count-1)
}

func clock(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).Local().Format("2006-01-02 15:04:05")
}

// json writes the thread as the HTTP API shows it, and those of its last entries that can be read.
func (c *threadShowCmd) json(a *app, cl *client.Client, th client.Thread, steps []threads.Step) error {
	shown, err := view.NewReader(cl).Thread(a.ctx, th)
	if err != nil {
		return err
	}
	out := struct {
		view.Thread
		Last []stepOut `json:"last"` // the newest first
	}{shown, []stepOut{}}
	for _, s := range slices.Backward(steps) {
		out.Last = append(out.Last, ofStep(s))
	}
	return json.NewEncoder(a.out).Encode(out)
}

// stepOut is an entry of a thread as programs read it.
type stepOut struct {
	Index   int64  `json:"index"`
	First   int64  `json:"first_item"`
	Items   int64  `json:"items"` // so many
	Time    string `json:"time,omitempty"`
	Role    string `json:"role"`
	Type    string `json:"type"`
	ID      string `json:"id"` // at its source
	State   string `json:"state"`
	Parent  string `json:"parent"`
	Content string `json:"content"`
	Pack    string `json:"pack"`

	// Of thread log alone.
	Brief   string `json:"brief,omitempty"`
	Compact string `json:"compact,omitempty"` // the summary, where the entry is one
	Kept    string `json:"first_kept,omitempty"`
}

func ofStep(s threads.Step) stepOut {
	return stepOut{
		Index: s.Entry.Index, First: s.Entry.First, Items: s.Entry.Count, Time: events.Stamp(s.Timestamp), Role: s.Role, Type: s.Entry.Type,
		ID: s.Entry.ID, State: s.At.Ref.String(), Parent: s.Parent.String(), Content: s.Content.String(), Pack: s.At.Pack.String(),
	}
}
