// Command spool is the operator's tool: it runs Spool, imports transcripts, and reads what is stored.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"spool/internal/bounded"
	"spool/internal/daemon"
	"spool/internal/interchange"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// cli is the command line. Each command is a type with a Run method, in the file of its name.
type cli struct {
	NATS      service.NATS `embed:"" group:"Connection:"`
	LogLevel  string       `group:"Connection:" default:"warn" enum:"debug,info,warn,error" help:"Least level that is logged (${enum})."`
	LogFormat string       `group:"Connection:" default:"text" enum:"text,json" help:"Form of the log (${enum})."`
	Config    string       `group:"Connection:" env:"SPOOL_CONFIG" placeholder:"FILE" help:"Configuration file (default: spool/config.toml where XDG keeps configuration)."`

	ShowVersion versionFlag `name:"version" help:"Say which version this is."`

	Up      upCmd      `cmd:"" group:"Start:" help:"Run everything in one process on a data directory."`
	Serve   serveCmd   `cmd:"" group:"Start:" help:"Serve the page and the HTTP API on a NATS system."`
	Demo    demoCmd    `cmd:"" group:"Start:" help:"Show the whole pipeline on example transcripts, and check it."`
	Import  importCmd  `cmd:"" group:"Start:" help:"Import transcripts of ${harnesses}, and exports of opencode."`
	Watch   watchCmd   `cmd:"" group:"Start:" help:"Import transcripts as they are written, for as long as it runs."`
	Publish publishCmd `cmd:"" group:"Start:" help:"Publish entries from standard input, one JSON value a line."`
	Exec    execCmd    `cmd:"" group:"Start:" help:"Run a command and stream what it prints into a thread."`

	Show    showCmd    `cmd:"" group:"Read:" help:"Read a session: who said what, what tools were asked and answered."`
	Tail    tailCmd    `cmd:"" group:"Read:" help:"Follow thread items."`
	Top     topCmd     `cmd:"" group:"Read:" help:"Watch the fleet: who needs you, who works, how fast."`
	Search  searchCmd  `cmd:"" group:"Read:" help:"Find what was said and printed, in all sessions."`
	Stats   statsCmd   `cmd:"" group:"Read:" help:"Add up turns, tokens, tools and their failures, by project, model or day."`
	History historyCmd `cmd:"" group:"Read:" help:"What people asked agents for, across sessions."`
	Export  exportCmd  `cmd:"" group:"Read:" help:"Write the raw entries of a thread, byte for byte as they were."`
	Prove   proveCmd   `cmd:"" group:"Read:" help:"Write a signed file with which others check a session without this server."`
	Verify  verifyCmd  `cmd:"" group:"Read:" help:"Check a file of spool prove, with the public key of who signed it."`
	Read    readCmd    `cmd:"" group:"Read:" help:"Read what an address leads to: an artifact, an agent's output, a blob, a thread's log."`
	Output  outputCmd  `cmd:"" group:"Read:" help:"Streaming outputs of tools."`
	Cat     catCmd     `cmd:"" group:"Read:" help:"Write a blob or a node."`

	Resume  resumeCmd  `cmd:"" group:"Sessions:" help:"Go on with a session on this machine, in its own harness."`
	Session sessionCmd `cmd:"" group:"Sessions:" help:"Sessions."`
	Thread  threadCmd  `cmd:"" group:"Sessions:" help:"Threads."`

	Prompts  promptsCmd  `cmd:"" group:"Agents:" help:"Questions of agents that wait for a person."`
	Run      runCmd      `cmd:"" group:"Agents:" help:"Runs of agents, and whether they live."`
	MCP      mcpCmd      `cmd:"" group:"Agents:" name:"mcp" help:"Serve tools that read sessions to an agent, over the Model Context Protocol."`
	Artifact artifactCmd `cmd:"" group:"Agents:" help:"Artifacts: whole outputs and files beside the entries."`
	Blob     blobCmd     `cmd:"" group:"Agents:" help:"Blobs: bytes that the refs of steps name."`
	Offline  offlineCmd  `cmd:"" group:"Agents:" help:"Entries that programs accepted while no server took them: find them, send them."`

	Doctor    doctorCmd    `cmd:"" group:"Operate:" help:"Look for what is wrong, and say what to do."`
	Check     checkCmd     `cmd:"" group:"Operate:" help:"Numbers against thresholds, for monitoring: exit code 0 ok, 1 warning, 2 critical, 3 unknown."`
	Fsck      fsckCmd      `cmd:"" group:"Operate:" help:"Check everything that is stored, and repair heads."`
	Scrub     scrubCmd     `cmd:"" group:"Operate:" help:"Read all that is stored against its digests, at a bounded rate."`
	GC        gcCmd        `cmd:"" group:"Operate:" name:"gc" help:"Garbage: find it, collect it, explain it, take it back."`
	Du        duCmd        `cmd:"" group:"Operate:" help:"What sessions take."`
	Retention retentionCmd `cmd:"" group:"Operate:" help:"Sessions that have been kept long enough, by policies."`
	Tasks     tasksCmd     `cmd:"" group:"Operate:" help:"Logs of tasks in a project's directory."`
	Backup    backupCmd    `cmd:"" group:"Operate:" help:"Copy everything that is stored into a directory, while writers go on."`
	Restore   restoreCmd   `cmd:"" group:"Operate:" help:"Put a backup into an empty system."`
	Dead      deadCmd      `cmd:"" group:"Operate:" help:"Events that could not be applied: read them, publish them again."`
	Persister daemonCmd    `cmd:"" group:"Operate:" passthrough:"" help:"Apply events to threads, as a process of its own."`
	Ingest    daemonCmd    `cmd:"" group:"Operate:" passthrough:"" help:"Take entries over HTTP, or from standard input, as a process of its own."`
	Auth      authCmd      `cmd:"" group:"Operate:" help:"Tenants and their users: who may publish, read and operate on NATS."`

	Bench      benchCmd      `cmd:"" group:"Develop:" help:"Measure Spool beside the obvious ways, in one run."`
	Completion completionCmd `cmd:"" group:"Develop:" help:"Write a script that completes command lines in bash, zsh or fish."`
	Complete   completeCmd   `cmd:"" hidden:""`
	Version    versionCmd    `cmd:"" group:"Develop:" help:"Say which version this is."`
}

// app is what a command works with.
type app struct {
	ctx      context.Context
	nats     *service.NATS
	config   string // path of the configuration file; empty: where it is by default
	log      *slog.Logger
	flags    map[string]bool // those of the command line, by name
	model    *kong.Application
	in       io.Reader
	out, err io.Writer
	opened   []*natsio.Conn
}

// vars are what helps say of tables, and how a path is read.
func vars() kong.Option {
	said := kong.Vars{"checks": checkNamesList(), "harnesses": listed(interchange.Titles()), "dialects": listed(dialect.Names())}
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(said.Apply(k), kong.NamedMapper("path", kong.MapperFunc(pathOf)).Apply(k), something("existingfile").Apply(k),
			something("existingdir").Apply(k), kong.PostBuild(emptyIsUnset).Apply(k))
	})
}

// listed is a list in words.
func listed(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, errw io.Writer) int {
	if role := daemonOf(args); role != "" {
		return daemon.Run(role, daemon.Call{Name: "spool " + role, Args: asHelp(args)[1:], In: in, Out: out, Err: errw})
	}
	parserOf := func(cli any) (*kong.Kong, error) {
		return kong.New(cli, kong.Name("spool"), kong.Writers(out, errw),
			kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}), kong.Help(help), kong.Resolvers(&fromFile{}),
			vars(), kong.Description("Spool is the durable session log of agent fleets. Start with: spool demo"))
	}
	var c cli
	if alone := c.alone(args); alone != nil {
		parser, err := parserOf(alone)
		if err != nil {
			return service.Exit("spool", err, errw)
		}
		if kctx, err := parser.Parse(args); err == nil {
			if err := sound(kctx); err != nil {
				return service.Exit("spool", err, errw)
			}
			return c.execute(kctx, in, out, errw)
		}
		c = cli{} // what is wrong is said, and the configuration file read, with all commands in view
	}
	parser, err := parserOf(&c)
	if err != nil {
		return service.Exit("spool", err, errw)
	}
	if slices.Equal(args, []string{"help", "connection"}) {
		return service.Exit("spool", helpOfConnection(out, parser.Model), errw)
	}
	args = asHelp(args)
	kctx, err := parser.Parse(args)
	if ls := lists(err); ls != "" {
		kctx, err = parser.Parse(append(args, ls))
	}
	if err == nil {
		err = sound(kctx)
	}
	if err != nil {
		at := wrongAt(err)
		wrong := service.UsageError{Err: reworded(elsewhere(parser.Model, args, err), at), Command: strings.TrimSpace("spool " + commandOf(at))}
		errors.As(err, &wrong) // of the configuration file, without the flag that kong was at
		return service.Exit("spool", wrong, errw)
	}
	return c.execute(kctx, in, out, errw)
}

// alone is the command line with that command alone which args begin with: kong takes as long to look at all of them as a short command
// takes for all else. Nil: they begin with none, or with one that looks at the others.
func (c *cli) alone(args []string) any {
	if len(args) == 0 || args[0] == "completion" || args[0] == "complete" {
		return nil
	}
	found := false
	var fields []reflect.StructField
	for f := range reflect.TypeFor[cli]().Fields() {
		if _, command := f.Tag.Lookup("cmd"); command && strings.ToLower(f.Name) == args[0] {
			found = true
		} else if command {
			f.Tag = `kong:"-"`
		}
		fields = append(fields, f)
	}
	if !found {
		return nil
	}
	return reflect.ValueOf(c).Convert(reflect.PointerTo(reflect.StructOf(fields))).Interface() // the same memory, with other tags
}

func (c *cli) execute(kctx *kong.Context, in io.Reader, out, errw io.Writer) int {
	log, err := service.Log(errw, c.LogFormat, c.LogLevel)
	if err != nil {
		return service.Exit("spool", err, errw)
	}
	ctx, cancel := service.Signals()
	defer cancel()
	flags := map[string]bool{}
	for _, p := range kctx.Path {
		if p.Flag != nil && !p.Resolved {
			flags[p.Flag.Name] = true
		}
	}
	switch { // a server and a context name two systems, and a flag counts more than the environment
	case flags["nats"] && !flags["context"]:
		c.NATS.Context = ""
	case flags["context"] && !flags["nats"]:
		c.NATS.Server = ""
	}
	a := &app{ctx: ctx, nats: &c.NATS, config: c.Config, log: log, flags: flags, model: kctx.Model, in: in, out: out, err: errw}
	defer a.close()
	err = kctx.Run(a)
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	if isUsage(err) {
		err = service.UsageError{Err: err, Command: "spool " + commandOf(kctx.Selected())}
	}
	return service.Exit("spool", err, errw)
}

// isUsage tells whether an error is of the command line: a name or an address that is none whatever is stored, a type that no item has and
// that looks like another one, or what a command says is so.
func isUsage(err error) bool {
	of := func(target error) bool { return errors.Is(err, target) }
	return errors.As(err, new(service.UsageError)) || slices.ContainsFunc([]error{events.ErrToken, artifacts.ErrURL, client.ErrFilter, client.ErrPlace}, of)
}

// stdin is standard input for a command that can do nothing else before it ends: a signal ends it, too.
func (a *app) stdin() io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, a.in)
		_ = w.CloseWithError(err)
	}()
	context.AfterFunc(a.ctx, func() { _ = w.CloseWithError(errors.New("interrupted")) })
	return r
}

// dial connects to the NATS system that the flags name. The connection is closed when the command ends.
func (a *app) dial() (*natsio.Conn, error) {
	conn, err := a.nats.Dial(a.ctx, "spool cli", a.log)
	if errors.Is(err, natsio.ErrNoServer) && !a.nats.Given() {
		err = fmt.Errorf("%w, spool up starts one here", err)
	}
	if err == nil {
		a.opened = append(a.opened, conn)
	}
	return conn, err
}

// close ends the connections of dial.
func (a *app) close() {
	for _, conn := range a.opened {
		conn.Close()
	}
}

// client is dial for who reads and publishes, where Spool has its streams.
func (a *app) client() (*client.Client, error) {
	conn, err := a.dial()
	if err == nil {
		err = haveStreams(a.ctx, conn)
	}
	if err != nil {
		return nil, err
	}
	return client.New(conn), nil
}

// mendable adds what to do to the error of a thread whose head cannot be read.
func mendable(err error, t events.Thread) error {
	for _, one := range []error{bounded.ErrForeign, casstore.ErrMalformed, casstore.ErrVersion, casstore.ErrCorrupt, casstore.ErrNotFound} {
		if errors.Is(err, one) {
			return fmt.Errorf("%s cannot be read: %w\nspool fsck says what else is wrong, and spool fsck --repair makes it again; "+
				"spool thread rm %s --force removes it", t, err, t)
		}
	}
	return err
}
