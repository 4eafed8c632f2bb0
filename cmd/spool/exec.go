package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

type execCmd struct {
	Session string   `env:"SPOOL_SESSION" placeholder:"S" help:"Session of the output (default: exec-HOST-YYYYMMDD; environment: SPOOL_SESSION)."`
	Thread  string   `env:"SPOOL_THREAD" default:"main" placeholder:"T" help:"Thread of the output (${default}; environment: SPOOL_THREAD)."`
	Tool    string   `placeholder:"NAME" help:"Name of the tool (default: the command's)."`
	Call    string   `placeholder:"ID" help:"Id of the call that the agent has posted itself; without it the call is posted too."`
	Head    int      `default:"12800" placeholder:"BYTES" help:"Bytes of the beginning that the result shows (${default})."`
	Columns int      `placeholder:"BYTES" help:"Longest line that the result shows."`
	Show    int      `placeholder:"BYTES" help:"Bytes that the result shows (default and most: 51200)."`
	Keep    bool     `help:"Keep the whole output as an artifact, also when the result shows all of it."`
	UserID  string   `name:"user-id" placeholder:"U" help:"user_id stamped on the items."`
	ACP     bool     `name:"acp" help:"The command is an agent of the Agent Client Protocol: record its sessions, and serve them to its editor."`
	Offline string   `type:"path" placeholder:"DIR" help:"With --acp: where what no server takes is kept (default: in $XDG_STATE_HOME/spool or ~/.local/state/spool)."`
	Command []string `arg:"" passthrough:"" help:"The command and its arguments, behind --."`
}

func (c *execCmd) Help() string {
	return "The command has the standard input, output, error, signals and exit code that it has without spool. " +
		"With --acp it is what an editor starts, spool exec --acp -- AGENT, and a session of the editor is the session acp-AGENT-ID of Spool: " +
		"prompts, answers, thoughts, tool calls, plans and permissions as they come, also while no server is there. Sessions that the agent " +
		"does not list, load or resume itself are served from there, on any machine. Of the other flags --tool gives the agent's name, and " +
		"--user-id counts; --session and those of outputs do not."
}

// exitCode ends spool as the command that it ran has ended.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// Exit codes of what could not be run, as shells have them.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
)

// Run runs the command with our standard input, output and error, and streams what it prints into a thread. It starts
// nothing unless the output could be begun; afterwards the command comes first, and what can not be recorded is told at
// the end.
func (c *execCmd) Run(a *app) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	} else if len(c.Command) > 0 && strings.HasPrefix(c.Command[0], "-") {
		return service.UsageError{Err: fmt.Errorf("there is no flag %s; the command and its arguments stand behind --", c.Command[0])}
	}
	if c.Offline != "" && !c.ACP {
		return service.UsageError{Err: errors.New("--offline is for --acp: without it nothing is run that cannot be recorded")}
	}
	t, err := c.thread()
	if err != nil {
		return service.UsageError{Err: err}
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		fmt.Fprintf(a.err, "spool exec: %v\n", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return exitCode(exitNotFound)
		}
		return exitCode(exitNotRunnable)
	}
	if c.ACP {
		return c.acp(a, path)
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	cl := client.New(conn)
	look, cancel := context.WithTimeout(a.ctx, lookTime)
	if err = cl.Thread(t).MayBegin(look, client.OutputConfig{}); err == nil {
		err = haveStreams(look, conn) // where no stream is, each thread is new
	}
	cancel()
	// who may not look, or cannot, begins
	if errors.Is(err, client.ErrEnded) || errors.Is(err, client.ErrLatched) || errors.Is(err, record.ErrNoStream) {
		return fmt.Errorf("the command was not run: %w", err)
	}
	keepPipes()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.ctx))
	defer cancel()
	waiting := context.AfterFunc(a.ctx, cancel) // nothing runs yet that a signal could be for
	out, err := cl.Thread(t).Output(ctx, c.output())
	if !waiting() {
		err = cmp.Or(err, context.Canceled)
	}
	if err != nil {
		return fmt.Errorf("the command was not run: %w", err)
	}
	cmd := &exec.Cmd{Path: path, Args: c.Command, Stdin: a.in, Stdout: &tee{to: a.out, copy: out}, Stderr: &tee{to: a.err, copy: out.Stderr()}}
	begun := time.Now()
	code := a.wait(cmd, signals)
	end := client.OutputEnd{ExitCode: code, IsError: code != 0, DurationMS: time.Since(begun).Milliseconds()}
	if err := out.Close(end); err != nil {
		fmt.Fprintf(a.err, "spool exec: the output is not recorded to its end: %v\n", err)
	} else {
		c.tellLoss(a, out)
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// verdictTime is how long a persister may take to say that an output is not kept, before the command's end is ours.
const verdictTime = 3 * time.Second

// tellLoss says that an output is not kept to its end, if that is known in time.
func (c *execCmd) tellLoss(a *app, out *client.Output) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), verdictTime)
	defer cancel()
	if _, err := out.Result(ctx); errors.Is(err, client.ErrRefused) || errors.Is(err, client.ErrRemoved) {
		fmt.Fprintf(a.err, "spool exec: the output is not kept to its end: %v\n", err)
	}
}

// wait runs the command, hands our signals on to it, and gives its exit code.
func (a *app) wait(cmd *exec.Cmd, signals <-chan os.Signal) int {
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(a.err, "spool: %v\n", err)
		return exitNotRunnable
	}
	var ended atomic.Bool
	stop := make(chan struct{})
	go func() {
		terminal := service.IsTerminal(a.in)
		for {
			select {
			case s := <-signals:
				// What is typed at a terminal goes to the command as well.
				if !ended.Load() && !(terminal && typed(s)) {
					_ = cmd.Process.Signal(s)
				}
			case <-stop:
				return
			}
		}
	}()
	err := cmd.Wait()
	ended.Store(true)
	close(stop)
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && !gone(err) {
		fmt.Fprintf(a.err, "spool: %v\n", err)
	}
	return codeOf(cmd.ProcessState)
}

// thread is where the output goes.
func (c *execCmd) thread() (events.Thread, error) {
	if len(c.Command) == 0 {
		return events.Thread{}, errors.New("no command: spool exec -- COMMAND ARGUMENTS…")
	}
	c.Session = cmp.Or(c.Session, events.Token("exec-"+hostname()+"-"+time.Now().UTC().Format("20060102")))
	t := events.Thread{Session: c.Session, Name: c.Thread}
	return t, t.Validate()
}

func (c *execCmd) output() client.OutputConfig {
	cwd, _ := os.Getwd()
	cfg := client.OutputConfig{
		Tool: c.Tool, Invocation: c.Call, Cwd: cwd, User: c.UserID, Host: hostname(),
		Head: c.Head, Columns: c.Columns, Show: c.Show, Keep: c.Keep,
	}
	cfg.Tool = cmp.Or(cfg.Tool, filepath.Base(c.Command[0]))
	if c.Call == "" {
		words := mapped.List(c.Command, quoted)
		cfg.Input, _ = json.Marshal(map[string]string{"command": strings.Join(words, " "), "cwd": cwd}) // strings marshal
	}
	return cfg
}

// quoted is a word as a shell reads it.
func quoted(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r) || r > 0x7F
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// tee writes to where the command would have written, and then a copy. The copy can be late but never in the way: when it
// fails, the command goes on without.
type tee struct {
	to, copy io.Writer
	lost     bool
}

func (t *tee) Write(p []byte) (int, error) {
	n, err := t.to.Write(p)
	if !t.lost {
		_, lost := t.copy.Write(p[:n])
		t.lost = lost != nil
	}
	return n, err
}
