package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// deadCmd reads and mends what could not be applied (SPEC B1).
type deadCmd struct {
	Ls     deadLsCmd     `cmd:"" aliases:"list" help:"List the events that could not be applied, and why."`
	Show   deadShowCmd   `cmd:"" help:"Write the bytes of one as they came."`
	Replay deadReplayCmd `cmd:"" help:"Publish them again, behind what came since; those that are published are removed from the dead letters."`
	Rm     deadRmCmd     `cmd:"" aliases:"del,delete" help:"Remove them for good."`
}

type deadLsCmd struct{ listArgs }

// deadLine is a dead letter for programs.
type deadLine struct {
	At      uint64    `json:"at"` // sequence in SPOOL_DEAD
	Time    time.Time `json:"time"`
	Session string    `json:"session"`
	Thread  string    `json:"thread"`
	Kind    string    `json:"kind"`
	Seq     uint64    `json:"event_seq"` // in SPOOL_EVENTS
	Subject string    `json:"subject"`
	Bytes   int64     `json:"bytes,omitempty"` // left out where they are in the inbox
	Reason  string    `json:"reason"`
}

func (c *deadLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]client.DeadLetter, error) { return cl.Session(c.Session).DeadLetters(a.ctx) }
	return list(a, &c.listArgs, find, look[client.DeadLetter]{
		json: func(d client.DeadLetter) any {
			return deadLine{d.At, d.Time, d.Thread.Session, d.Thread.Name, d.Kind, d.Seq, d.Subject, max(d.Size, 0), d.Reason}
		},
		none:   "no dead letters",
		header: "AT\tTHREAD\tKIND\tWHEN\tBYTES\tREASON",
		row: func(d client.DeadLetter) string {
			size := "large"
			if d.Size >= 0 {
				size = text.Bytes(d.Size)
			}
			return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s", d.At, d.Thread, d.Kind, text.Ago(d.Time.UnixMilli(), time.Now()), size,
				text.Printable(d.Reason))
		},
	})
}

type deadShowCmd struct {
	At uint64 `arg:"" help:"Its number in spool dead ls."`
}

func (c *deadShowCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	d, err := cl.Admin().DeadLetter(a.ctx, c.At)
	if err != nil {
		return noLetter(err, c.At)
	}
	r, err := cl.Admin().OpenDeadLetter(a.ctx, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s, %s, event %d: %s\n", d.Thread, d.Kind, d.Seq, text.Printable(d.Reason))
	_, err = io.Copy(a.out, r)
	return err
}

func noLetter(err error, at uint64) error {
	if errors.Is(err, record.ErrNotFound) {
		return fmt.Errorf("there is no dead letter %d: spool dead ls lists them", at)
	}
	return err
}

// deadSome is which dead letters a command is for.
type deadSome struct {
	At      []uint64 `arg:"" optional:"" help:"Their numbers in spool dead ls."`
	All     bool     `help:"All of them."`
	Session string   `help:"All of this session."`
}

func (s *deadSome) which(a *app) (*client.Client, []uint64, error) {
	cl, err := a.client()
	switch {
	case err != nil:
		return nil, nil, err
	case len(s.At) > 0 && (s.All || s.Session != ""), len(s.At) == 0 && !s.All && s.Session == "":
		return nil, nil, service.UsageError{Err: errors.New("name dead letters by their numbers, or give --all, or --session")}
	case len(s.At) > 0:
		slices.Sort(s.At)
		return cl, slices.Compact(s.At), nil
	}
	list, err := cl.Session(s.Session).DeadLetters(a.ctx)
	if err == nil && len(list) == 0 && s.Session != "" {
		_, err = a.wholeSession(cl, s.Session)
	}
	return cl, mapped.List(list, func(d client.DeadLetter) uint64 { return d.At }), err
}

type deadReplayCmd struct {
	deadSome
	Keep bool `help:"Leave them in the dead letters."`
}

func (c *deadReplayCmd) Run(a *app) error {
	cl, list, err := c.which(a)
	if err != nil {
		return err
	}
	var failed []error
	published, had := 0, 0
	newest := map[events.Thread]uint64{} // letter of its session before
	for _, at := range list {
		again, err := c.replay(a.ctx, cl, at, newest)
		switch {
		case err != nil:
			failed = append(failed, noLetter(err, at))
		case again:
			had++
		default:
			published++
		}
	}
	if published > 0 || len(failed) == 0 {
		fmt.Fprintf(a.err, "%d published again\n", published)
	}
	if had > 0 {
		fmt.Fprintf(a.err, "%d had been published again before: nothing was added\n", had)
	}
	for t, at := range newest {
		came, err := lettersSince(a.ctx, cl, t, at, func(e *events.Event) bool {
			return threads.IsReplayer(e.Producer)
		})
		if err != nil {
			fmt.Fprintf(a.err, "%s: whether it could be applied is not known yet (spool dead ls %s): %v\n", t, t.Session, err)
		}
		for _, d := range came {
			failed = append(failed, fmt.Errorf("it came back as dead letter %d: %s: %s", d.At, d.Thread, text.Printable(d.Reason)))
		}
	}
	return errors.Join(failed...)
}

// replay publishes the event of one letter again, and removes it. A crash in between leaves a letter whose event is applied: replaying
// it again adds nothing.
func (c *deadReplayCmd) replay(ctx context.Context, cl *client.Client, at uint64, newest map[events.Thread]uint64) (had bool, err error) {
	d, err := cl.Admin().DeadLetter(ctx, at)
	if err != nil {
		return false, err
	}
	if _, known := newest[d.Thread]; !known {
		if newest[d.Thread], err = newestLetter(ctx, cl, d.Thread.Session); err != nil {
			return false, err
		}
	}
	if had, err = cl.Admin().ReplayDeadLetter(ctx, at); err == nil && !c.Keep {
		err = cl.Admin().RemoveDeadLetters(ctx, at)
	}
	return had, err
}

// newestLetter is the number of a session's newest dead letter; 0: it has none.
func newestLetter(ctx context.Context, cl *client.Client, session string) (at uint64, err error) {
	all, err := cl.Session(session).DeadLetters(ctx)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[len(all)-1].At, nil
}

// lettersSince are a thread's dead letters behind one that are of certain events, once persisters are done with what was published to it.
func lettersSince(ctx context.Context, cl *client.Client, t events.Thread, at uint64,
	of func(*events.Event) bool) ([]client.DeadLetter, error) {
	if err := cl.Thread(t).Settled(ctx); err != nil {
		return nil, err
	}
	all, err := cl.Session(t.Session).DeadLetters(ctx)
	return slices.DeleteFunc(all, func(d client.DeadLetter) bool {
		if d.At <= at || d.Thread != t {
			return true
		}
		r, err := cl.Admin().OpenDeadLetter(ctx, d)
		if err != nil {
			return false // of one that cannot be read nobody can say that it is another's
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return false
		}
		e, err := events.Open(d.Subject, raw)
		return err != nil || !of(&e)
	}), err
}

type deadRmCmd struct {
	deadSome
	unasked
}

func (c *deadRmCmd) Run(a *app) error {
	cl, list, err := c.which(a)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(a.err, "there are no dead letters")
		return nil
	}
	var failed []error
	list = slices.DeleteFunc(list, func(at uint64) bool {
		_, err := cl.Admin().DeadLetter(a.ctx, at) // a number that is mistyped is told
		if err != nil {
			failed = append(failed, noLetter(err, at))
		}
		return err != nil
	})
	if len(list) == 0 {
		return errors.Join(failed...)
	}
	if err := a.confirm(c.Yes, text.Sprintf("Remove %d dead letters? Their bytes are nowhere else", len(list))); err != nil {
		return errors.Join(append(failed, err)...)
	}
	if err := cl.Admin().RemoveDeadLetters(a.ctx, list...); err != nil {
		return errors.Join(append(failed, err)...)
	}
	fmt.Fprintf(a.err, "%d removed\n", len(list))
	return errors.Join(failed...)
}
