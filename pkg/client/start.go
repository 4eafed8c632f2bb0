package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/rehydrate"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Start begins a thread with the task and the limits of its workflow (SPEC C1), and returns when it is there; it
// is pending until its first entry. Who reads it later finds the task by Reader().Prompt. ErrThreadExists: the name is
// taken.
func (t ThreadHandle) Start(ctx context.Context, start events.Start) error {
	if err := t.Validate(); err != nil {
		return err
	}
	_, err := t.AwaitHead(ctx)
	if was := (*Renamed)(nil); err == nil || errors.As(err, &was) {
		return errors.Join(fmt.Errorf("start: %w: %s", ErrThreadExists, t.Thread), err)
	}
	if !errors.Is(err, threads.ErrNoThread) {
		return err
	}
	return t.c.operate(ctx, t.Thread, events.Control{Op: events.OpStart, Start: &start})
}

// StepContext is what the agent of a workflow is sent (SPEC C6): the task, the newest summary, and the steps behind it.
type StepContext struct {
	Prompt  string        `json:"prompt,omitempty"`
	Summary string        `json:"summary,omitempty"`
	Steps   []StepMessage `json:"messages"`
}

// StepMessage is a step of a workflow's role.
type StepMessage struct {
	Role    string          `json:"role"`
	Content string          `json:"content"`
	Meta    json.RawMessage `json:"meta,omitempty"`
	Refs    []string        `json:"refs,omitempty"` // what the role produced
	Time    string          `json:"timestamp,omitempty"`
	Node    string          `json:"node"`
}

// StepContext reads the context of a thread of the dialect step, at a step or with sessions.Last at its head. Errors
// wrap ErrNoContext, threads.ErrNoThread or sessions.ErrNotFound.
func (t ThreadHandle) StepContext(ctx context.Context, leaf sessions.Leaf) (out StepContext, err error) {
	head, err := t.c.caughtUp(ctx, t.Thread)
	if err != nil {
		return out, err
	}
	if head.Dialect != "step" {
		return out, fmt.Errorf("%w: %s holds entries of the dialect %s", ErrNoContext, t.Thread, head.Dialect)
	}
	if out.Prompt, err = t.c.reader.Prompt(ctx, head.Start); err != nil {
		return out, err
	}
	if leaf == sessions.Last && len(head.Recent) == 0 {
		leaf = sessions.Root
	}
	at := head.Head()
	if leaf != sessions.Last && leaf != sessions.Root {
		step, err := t.c.entry(ctx, t.Thread, head, leaf.ID())
		if err != nil {
			return out, err
		}
		at = step.At
	}
	out.Steps = []StepMessage{}
	if leaf == sessions.Root {
		return out, nil
	}
	said, err := t.c.reader.Context(ctx, at)
	if err != nil {
		return out, err
	}
	out.Summary = string(said.Summary.Text)
	for _, s := range slices.Concat(said.Kept, said.Steps) {
		if !rehydrate.Said(head, s) {
			continue
		}
		content, err := s.ReadContent(ctx)
		if err != nil {
			return out, err
		}
		m := StepMessage{
			Role: s.Role, Content: string(content.Text), Meta: jsonscan.Get(s.Entry.Raw, "meta"), Time: events.Stamp(s.Timestamp),
			Node: s.At.Ref.String(),
		}
		for _, ref := range content.Refs {
			m.Refs = append(m.Refs, ref.String())
		}
		out.Steps = append(out.Steps, m)
	}
	return out, nil
}

// ThreadFilter chooses threads; empty fields choose all.
type ThreadFilter struct {
	Session string
	Status  string // pending, active, completed or failed
	// From and To are the first and the last UTC date, yyyy-mm-dd, of the end: with one of them, threads that ended.
	From, To string
}

func (f ThreadFilter) check() error {
	for _, date := range []string{f.From, f.To} {
		if _, err := time.Parse(time.DateOnly, date); date != "" && err != nil {
			return fmt.Errorf("%w: date %.50q: want one as 2026-11-20", ErrFilter, date)
		}
	}
	for s := threads.StatusPending; f.Status != "" && s.String() != f.Status; s++ {
		if s == threads.StatusFailed {
			return fmt.Errorf("%w: status %.50q: want pending, active, completed or failed", ErrFilter, f.Status)
		}
	}
	return nil
}

// mostDates is how many dates of the history are read one by one; for more all of it is.
const mostDates = 31

// keys match the heads that the filter may choose: of a few dates those of the threads that ended then, and no others.
func (f ThreadFilter) keys() (filters []string) {
	if f.From == "" && f.To == "" {
		return []string{events.HeadKeys(f.Session), events.HistoryKeys(f.Session)}
	}
	last := time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly) // nothing has ended later: the server's clock says when
	if f.To != "" {
		last = min(last, f.To)
	}
	if from, err := time.Parse(time.DateOnly, f.From); err == nil && from.AddDate(0, 0, mostDates).Format(time.DateOnly) > last {
		for date := from.Format(time.DateOnly); date <= last; date = from.Format(time.DateOnly) {
			filters = append(filters, events.HistoryKeysOn(date, f.Session))
			from = from.AddDate(0, 0, 1)
		}
		return filters
	}
	return []string{events.HistoryKeys(f.Session)}
}

// FindThreads is Threads of those that a filter chooses. Errors wrap ErrFilter.
func (c *Client) FindThreads(ctx context.Context, f ThreadFilter) (all []Thread, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	err = natsio.BetweenDeletions(ctx, c.records, func() (err error) {
		all, err = c.threads(ctx, f.keys()...)
		return err
	})
	return slices.DeleteFunc(all, func(t Thread) bool {
		ended := f.From == "" && f.To == "" || t.Ended != "" && t.Ended >= f.From && (f.To == "" || t.Ended <= f.To)
		return !ended || f.Status != "" && t.Head.Status.String() != f.Status
	}), err
}
