package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"spool/internal/ingest"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type publishCmd struct {
	Input string `arg:"" default:"-" name:"file" help:"File of entries, one JSON value a line; - is standard input, published as it comes."`
	service.Publishing
}

func (c *publishCmd) Run(a *app) error {
	cfg, err := c.Config()
	if err != nil {
		return err
	}
	in := a.in
	if c.Input != "-" {
		f, err := os.Open(c.Input)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if err := haveStreams(a.ctx, conn); err != nil {
		return err
	}
	cl := client.New(conn)
	cfg.Retry, cfg.Inbox = noteRetries(a.err), conn.Inbox()
	cfg.Takes, cfg.Check = takesOf(cl), service.Check(cl)
	if c.Producer == "" || c.Envelopes {
		return ingest.Pipe(a.ctx, in, conn.Events(), cfg, a.err)
	}
	newest, blind := newestLetter(a.ctx, cl, c.Session)
	if err := ingest.Pipe(a.ctx, in, conn.Events(), cfg, a.err); err != nil || blind != nil { // who may not look publishes nevertheless
		return err
	}
	came, err := lettersSince(a.ctx, cl, cfg.Thread, newest, func(e *events.Event) bool {
		return e.Producer == c.Producer && e.Epoch == c.Epoch
	})
	if err != nil { // what was published is stored
		fmt.Fprintf(a.err, "whether all of it could be applied is not known yet (spool dead ls %s): %v\n", c.Session, err)
		return nil
	}
	if len(came) > 0 {
		return text.Errorf("%d dead letters came meanwhile of what is published under the name %s (spool dead ls %s), the first because: %s; "+
			"for lines behind those that it has published give --start-seq, to another program a --producer of its own",
			len(came), c.Producer, c.Session, text.Printable(came[0].Reason))
	}
	return nil
}

// lookTime is how long a look at a thread may take.
const lookTime = 5 * time.Second

// haveStreams is record.ErrNoStream where Spool never ran: there nothing takes events. Who may not look finds out nothing.
func haveStreams(ctx context.Context, conn *natsio.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := natsio.StoreIDOf(ctx, conn); errors.Is(err, record.ErrNoStream) {
		return err
	}
	return nil
}

// takesOf refuses entries for threads that take nothing more, but for those that they have. It looks at each thread once,
// before the first entry for it: what ends while entries are published makes dead letters of them. After a look that
// failed there is none: a producer may lack the right to look, and publishes nevertheless.
func takesOf(cl *client.Client) func(context.Context, *events.Event) error {
	looked, blind := map[events.Thread]error{}, false
	return func(ctx context.Context, e *events.Event) error {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		err, known := looked[e.Thread]
		if !known && !blind {
			err = cl.Thread(e.Thread).Takes(ctx)
			if err != nil && !errors.Is(err, client.ErrEnded) && !errors.Is(err, client.ErrLatched) {
				err, blind = nil, true
			}
			looked[e.Thread] = err
		}
		if err == nil || !strings.HasPrefix(e.Producer, threads.Ephemeral) && cl.Internal().Has(ctx, e) {
			return nil
		}
		return err
	}
}

// hostname is the machine's name, "" if it has none.
func hostname() string {
	name, _ := os.Hostname()
	return name
}

// noteAgain is how long a reason that was told is not told again.
const noteAgain = time.Minute

// noteRetries tells why publishing does not go on: each reason when it is a new one, and how often it was tried in
// vain when that goes on for noteAgain.
func noteRetries(w io.Writer) func(error, time.Duration) {
	var told string
	var last time.Time
	tries := 0
	return func(err error, _ time.Duration) {
		tries++
		switch now := time.Now(); {
		case err.Error() != told:
			told, last, tries = err.Error(), now, 1
			fmt.Fprintf(w, "trying again: %v\n", err)
		case now.Sub(last) >= noteAgain:
			last = now
			text.Fprintf(w, "still trying, %d times in vain: %v\n", tries, err)
		}
	}
}
