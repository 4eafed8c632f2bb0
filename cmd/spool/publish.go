package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/ingest"
	"spool/internal/service"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type publishCmd struct {
	Input     string `arg:"" default:"-" name:"file" help:"File of entries, one JSON value a line; - is standard input, published as it comes."`
	Session   string `placeholder:"S" help:"Session that the entries go to."`
	Thread    string `default:"main" placeholder:"T" help:"Thread that the entries go to (${default})."`
	Dialect   string `placeholder:"D" help:"What the entries are: claude, codex, item, omp, raw or step."`
	Envelopes bool   `help:"Each line is {\"session\",\"thread\",\"dialect\",\"body\",\"time\",\"user\",\"seq\"}; the flags above are defaults."`
	UserID    string `name:"user-id" placeholder:"U" help:"user_id stamped on the items."`
	Producer  string `placeholder:"P" help:"Identity of the source: the same lines published again under it add nothing."`
	Epoch     uint64 `placeholder:"E" help:"Incarnation of the producer; a greater one fences the lower ones."`
	StartSeq  uint64 `default:"1" placeholder:"N" help:"Sequence of the first line (${default})."`
}

func (c *publishCmd) Run(a *app) error {
	cfg, err := c.config()
	if err != nil {
		return service.UsageError{Err: err}
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

func (c *publishCmd) config() (ingest.Config, error) {
	cfg := ingest.Config{
		Thread: events.Thread{Session: c.Session, Name: c.Thread}, Dialect: c.Dialect, Envelopes: c.Envelopes,
		Producer: c.Producer, Epoch: c.Epoch, Start: c.StartSeq, User: c.UserID, Host: hostname(),
	}
	if cfg.Producer == "" {
		cfg.Producer = threads.Ephemeral + ulid.Make().String()
	}
	return cfg, cfg.Validate()
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
