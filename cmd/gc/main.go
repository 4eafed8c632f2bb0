// Command gc takes stock of what is stored. Marking and sweeping are not in this version: it says so and deletes nothing.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"spool/internal/gc"
	"spool/internal/natsio"
	"spool/internal/service"
)

func main() { os.Exit(service.Exit("gc", run(os.Args[1:], os.Stdout), os.Stderr)) }

func run(args []string, out io.Writer) error {
	var (
		nats   service.NATS
		fs     = flag.NewFlagSet("gc", flag.ContinueOnError)
		once   = fs.Bool("once", false, "report once and end")
		every  = fs.Duration("every", time.Hour, "time between reports")
		asJSON = fs.Bool("json", false, "write each report as one line of JSON")
		level  = fs.String("log-level", "info", "least `level` that is logged: debug, info, warn, error")
		format = fs.String("log-format", "text", "`form` of the log: text, json")
	)
	nats.Flags(fs)
	if err := service.Parse(fs, args); err != nil {
		return err
	}
	if *every < time.Second {
		return service.UsageError{Err: fmt.Errorf("-every %v: at least 1s", *every)}
	}
	log, err := service.Log(os.Stderr, *format, *level)
	if err != nil {
		return err
	}
	ctx, cancel := service.Signals()
	defer cancel()
	conn, err := nats.Dial(ctx, "spool gc", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	log.Warn(gc.Note)
	if *once {
		return report(ctx, conn, out, *asJSON)
	}
	return schedule(ctx, conn, out, *asJSON, *every, log)
}

// schedule reports now and then every so often, until ctx ends. A report that fails is tried again at its next time.
func schedule(ctx context.Context, conn *natsio.Conn, out io.Writer, asJSON bool, every time.Duration, log *slog.Logger) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := report(ctx, conn, out, asJSON); err != nil && ctx.Err() == nil {
			log.Error("gc report", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// report takes stock, writes it out and stores it for whoever watches.
func report(ctx context.Context, conn *natsio.Conn, out io.Writer, asJSON bool) error {
	r, err := gc.TakeStock(ctx, conn, conn)
	if err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = fmt.Fprintln(out, string(b))
	} else {
		err = r.Write(out)
	}
	if err != nil {
		return err
	}
	return conn.Report(ctx, b)
}
