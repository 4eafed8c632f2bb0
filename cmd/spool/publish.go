package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"spool/internal/ingest"
	"spool/internal/service"
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
	cfg.Retry, cfg.Inbox = noteRetries(a.err), conn.Inbox()
	return ingest.Pipe(a.ctx, in, conn.Events(), cfg, a.err)
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
			fmt.Fprintf(w, "still trying, %d times in vain: %v\n", tries, err)
		}
	}
}
