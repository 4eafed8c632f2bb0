// Command gc collects garbage, every so often or once. It acts: -dry-run says what it would do.
package main

import (
	"context"
	"encoding/json"
	"errors"
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

// daemon is a collector and where it reports to.
type daemon struct {
	conn   *natsio.Conn
	c      *gc.Collector
	apply  bool
	asJSON bool
	out    io.Writer
	log    *slog.Logger
}

func run(args []string, out io.Writer) error {
	var (
		nats   service.NATS
		cfg    = gc.Safe()
		fs     = flag.NewFlagSet("gc", flag.ContinueOnError)
		once   = fs.Bool("once", false, "run one cycle and end")
		every  = fs.Duration("every", time.Hour, "time between cycles")
		dryRun = fs.Bool("dry-run", false, "say what a cycle would do, and delete nothing")
		asJSON = fs.Bool("json", false, "write each report as one line of JSON")
		level  = fs.String("log-level", "info", "least `level` that is logged: debug, info, warn, error")
		format = fs.String("log-format", "text", "`form` of the log: text, json")
	)
	nats.Flags(fs)
	service.GCFlags(fs, &cfg)
	if err := fs.Parse(args); err != nil {
		return service.UsageError{Err: err}
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
	c, err := service.NewCollector(conn, cfg, log)
	if err != nil {
		return err
	}
	d := &daemon{conn, c, !*dryRun, *asJSON, out, log}
	if *once {
		return d.cycle(ctx)
	}
	return d.schedule(ctx, *every)
}

// schedule runs a cycle now and then every so often, until ctx ends. One that fails is tried again at its next time: it left
// nothing that the next one does not finish.
func (d *daemon) schedule(ctx context.Context, every time.Duration) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := d.cycle(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("gc cycle", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// cycle runs one cycle and writes its report out.
func (d *daemon) cycle(ctx context.Context) error {
	_, r, err := service.Collect(ctx, d.conn, d.c, d.apply)
	if d.asJSON {
		return errors.Join(err, json.NewEncoder(d.out).Encode(r))
	}
	return errors.Join(err, r.Write(d.out))
}
