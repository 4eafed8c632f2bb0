package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"spool/internal/offline"
	"spool/internal/text"
	"spool/pkg/events"
)

// offlineCmd looks after what programs accepted while no server took it.
type offlineCmd struct {
	Ls   offlineLsCmd   `cmd:"" aliases:"list" help:"List what waits in offline directories, and whose it is."`
	Send offlineSendCmd `cmd:"" help:"Send what processes left that are gone. Each entry is stored once."`
}

// offlineArgs name directories of client.Config.Offline.
type offlineArgs struct {
	Dirs []string `arg:"" name:"dir" help:"Offline directories of programs (client.Config.Offline)."`
	JSON bool     `name:"json" help:"Each as one line of JSON."`
}

type offlineLsCmd struct{ offlineArgs }

// lookOffline looks into each directory. Beside an error stands what it finds in the others.
func lookOffline(dirs []string) (all []offline.Waiting, err error) {
	for _, dir := range dirs {
		found, e := offline.Look(dir)
		all, err = append(all, found...), errors.Join(err, e)
	}
	return all, err
}

func (c *offlineLsCmd) Run(a *app) error {
	all, err := lookOffline(c.Dirs)
	if c.JSON {
		return errors.Join(err, jsonLines(json.NewEncoder(a.out), all, asIs))
	}
	if len(all) == 0 {
		if err == nil {
			fmt.Fprintln(a.err, "nothing waits")
		}
		return err
	}
	t := a.table()
	fmt.Fprintln(t, "QUEUE\tSTATE\tSEGMENTS\tENTRIES\tBYTES\tOLDEST\tTHREADS\tPRODUCERS")
	for _, w := range all {
		state := string(w.State)
		if w.Damaged > 0 {
			state += text.Sprintf(", %d damaged files", w.Damaged)
		}
		if w.Unread > 0 {
			state += text.Sprintf(", %d events of a later version", w.Unread)
		}
		oldest := ""
		if !w.Oldest.IsZero() {
			oldest = text.Ago(w.Oldest.UnixMilli(), time.Now())
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n",
			w.Queue, state, w.Segments, w.Entries, text.Bytes(w.Bytes), oldest, some(w.Threads), some(w.Producers))
	}
	return errors.Join(err, t.Flush())
}

// some names the first of many.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return text.Printable(strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s and %d more", text.Printable(strings.Join(names[:most], ", ")), len(names)-most)
}

type offlineSendCmd struct {
	offlineArgs
	Refused bool `help:"Also what a server refused for good before."`
}

// offlineSent is what became of a directory.
type offlineSent struct {
	Dir  string `json:"dir"`
	Sent int    `json:"sent"` // entries that are stored
	offlineLeft
}

// offlineLeft counts the entries that are in directories.
type offlineLeft struct {
	Left    int `json:"left"`    // of processes that are gone
	Refused int `json:"refused"` // for good by a server
	Live    int `json:"live"`    // of processes that live and send them
	Damaged int `json:"damaged_files"`
}

func countLeft(all []offline.Waiting) (n offlineLeft) {
	for _, w := range all {
		n.Damaged += w.Damaged
		switch w.State {
		case offline.Ended:
			n.Left += w.Entries + w.Unread
		case offline.Refused:
			n.Refused += w.Entries + w.Unread
		case offline.Live:
			n.Live += w.Entries + w.Unread
		}
	}
	return n
}

// String is what a person reads; "" when there is nothing.
func (n offlineLeft) String() string {
	var said []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{n.Left, "entries left by processes that are gone"}, {n.Refused, "entries refused for good"},
		{n.Damaged, "damaged files"}, {n.Live, "entries of living processes, which send them"},
	} {
		if one.n > 0 {
			said = append(said, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return strings.Join(said, ", ")
}

// alone reports that something waits which nobody sends.
func (n offlineLeft) alone() bool { return n.Left+n.Refused+n.Damaged > 0 }

func (c *offlineSendCmd) Run(a *app) error {
	before := make([]offlineLeft, len(c.Dirs))
	for i, dir := range c.Dirs {
		waiting, err := offline.Look(dir)
		if err != nil { // a directory that is mistyped is not made
			return err
		}
		before[i] = countLeft(waiting)
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	var failed []error
	for i, dir := range c.Dirs {
		r, err := c.send(a, dir, before[i], conn.Events().PublishEvents)
		if left := r.String(); left != "" && err == nil {
			err = fmt.Errorf("not sent: %s", left)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", dir, err))
		}
		if c.JSON {
			err = json.NewEncoder(a.out).Encode(r)
		} else {
			_, err = text.Fprintf(a.out, "%s: %d entries sent\n", dir, r.Sent)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// publishEvents makes events durable on a server.
type publishEvents func(context.Context, []*events.Event) error

// send sends what processes left in a directory that are gone. A crash leaves what is not sent; what is sent again is a
// repeat.
func (c *offlineSendCmd) send(a *app, dir string, before offlineLeft, publish publishEvents) (r offlineSent, err error) {
	r.Dir = dir
	q, err := offline.Open(offline.Config{Dir: dir, Log: a.log})
	if err != nil {
		return r, err
	}
	progress, expected := newBar(a.err, "sending", false), before.Left
	if c.Refused {
		expected += before.Refused
	}
	counted := func(ctx context.Context, evs []*events.Event) error {
		if err := publish(ctx, evs); err != nil {
			return err
		}
		for _, e := range evs {
			r.Sent += 1 + len(e.More)
		}
		progress.set(int64(r.Sent), int64(max(expected, r.Sent)), "")
		return nil
	}
	if c.Refused { // first: it comes before what its producers kept since
		err = q.SendRefused(a.ctx, counted)
	}
	if err == nil {
		err = q.Drain(a.ctx, counted)
	}
	progress.end()
	all, e := offline.Look(dir)
	r.offlineLeft = countLeft(all)
	return r, errors.Join(err, e, q.Close())
}

// waitingOffline is what waits in the directories that somebody named. It needs no server.
func waitingOffline(dirs []string) finding {
	f := finding{Name: "offline", OK: true, Detail: "nothing waits in " + some(dirs)}
	all, err := lookOffline(dirs)
	left := countLeft(all)
	switch {
	case err != nil:
		f.OK, f.Detail = false, err.Error()
		f.Do = "name directories of client.Config.Offline, and run spool doctor as the user of their programs"
	case left.alone():
		var queues []string
		for _, w := range all {
			if w.State != offline.Live || w.Damaged > 0 {
				queues = append(queues, w.Queue)
			}
		}
		f.OK, f.Detail = false, fmt.Sprintf("%s, in %s", left, some(queues))
		f.Do = "spool offline ls DIR says whose they are, spool offline send DIR sends them"
	case left.Live > 0:
		f.Detail = left.String()
	}
	return f
}
