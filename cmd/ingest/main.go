// Command ingest takes entries from agents that have no Spool client: over HTTP, or from standard input with "ingest -".
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/oklog/ulid/v2"

	"spool/internal/access"
	"spool/internal/httpapi"
	"spool/internal/ingest"
	"spool/internal/service"
	"spool/pkg/events"
	"spool/pkg/threads"
)

func main() { os.Exit(service.Exit("ingest", run(os.Args[1:]), os.Stderr)) }

func run(args []string) error {
	var (
		nats   service.NATS
		cfg    ingest.Config
		fs     = flag.NewFlagSet("ingest", flag.ContinueOnError)
		addr   = fs.String("http", "127.0.0.1:7717", "`address` to listen on")
		file   = fs.String("token-file", "", "`file` with the bearer tokens that requests must carry; needed to listen beyond loopback")
		cert   = fs.String("http-cert", "", "certificate `file`: clients then must use TLS")
		key    = fs.String("http-key", "", "its key `file`")
		origin = fs.String("cors-origin", "", "`origins` of web pages that may use the API, joined by commas")
		level  = fs.String("log-level", "info", "least `level` that is logged: debug, info, warn, error")
		format = fs.String("log-format", "text", "`form` of the log: text, json")
	)
	nats.Flags(fs)
	fs.StringVar(&cfg.Thread.Session, "session", "", "with -: `session` that the entries go to")
	fs.StringVar(&cfg.Thread.Name, "thread", events.MainThread, "with -: `thread` that the entries go to")
	fs.StringVar(&cfg.Dialect, "dialect", "", "with -: what the entries are")
	fs.BoolVar(&cfg.Envelopes, "envelopes", false, "with -: each line is an envelope")
	fs.StringVar(&cfg.User, "user-id", "", "with -: user_id stamped on the items")
	fs.StringVar(&cfg.Producer, "producer", "", "with -: identity of the source; the same lines again add nothing")
	fs.Uint64Var(&cfg.Epoch, "epoch", 0, "with -: incarnation of the producer")
	fs.Uint64Var(&cfg.Start, "start-seq", 1, "with -: sequence of the first line")
	if err := service.Parse(fs, args); err != nil {
		return err
	}
	cfg.Producer = cmp.Or(cfg.Producer, threads.Ephemeral+ulid.Make().String())
	stdin := fs.NArg() == 1 && fs.Arg(0) == "-"
	if fs.NArg() > 0 && !stdin {
		return service.UsageError{Err: fmt.Errorf("unexpected %q: flags come first, then nothing or -", fs.Args())}
	}
	if err := cfg.Validate(); stdin && err != nil {
		return service.UsageError{Err: err}
	}
	log, err := service.Log(os.Stderr, *format, *level)
	if err != nil {
		return err
	}
	ctx, cancel := service.Signals()
	defer cancel()
	nats.Scope = cmp.Or(nats.Scope, string(events.Everywhere)) // what it publishes deletes nothing
	conn, err := nats.Dial(ctx, "spool ingest", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	if stdin {
		cfg.Host, _ = os.Hostname()
		cfg.Inbox = conn.Inbox()
		return ingest.Pipe(ctx, os.Stdin, conn.Events(), cfg, os.Stderr)
	}
	var api httpapi.Config
	if *file != "" {
		if api.Tokens, err = access.ReadFile(*file); err != nil {
			return service.UsageError{Err: err}
		}
	}
	api.Log = log
	if *origin != "" {
		api.Origins = strings.Split(*origin, ",")
		if err := httpapi.CheckOrigins(api.Origins); err != nil {
			return service.UsageError{Err: err}
		}
	}
	l, err := httpapi.Listen(*addr, httpapi.Doors{Tokens: api.Tokens, Cert: *cert, Key: *key, Log: log})
	if err != nil {
		return err
	}
	log.Info("ingest listens", "http", l.Addr().String())
	reg := service.Metrics("ingest")
	api.Metrics = reg.Handler()
	defer service.Observed(conn, reg, "ingest", "takes entries and gives what is stored, over HTTP", nil, log)()
	return httpapi.Serve(ctx, l, httpapi.Server(reg.HTTP(httpapi.For(conn, api))))
}
