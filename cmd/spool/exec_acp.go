package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"spool/internal/acp"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

// acp runs an agent of the Agent Client Protocol between its editor and Spool. Who records is never in the way: the agent starts without
// a server, too, and what is recorded meanwhile is on disk.
func (c *execCmd) acp(a *app, path string) error {
	cl, err := c.recorder(a)
	if err != nil {
		return fmt.Errorf("the agent was not started: %w", err)
	}
	defer cl.Close()
	cmd := &exec.Cmd{Path: path, Args: c.Command, Stderr: a.err}
	agent, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	keepPipes()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	p := acp.New(acp.Config{
		Log: acp.NewSpool(cl, client.PublisherConfig{User: c.UserID, Host: hostname()}), Command: filepath.Base(path), Name: c.Tool,
		Editor: a.out, Agent: agent,
		Warn: func(format string, values ...any) { fmt.Fprintf(a.err, "spool exec: "+format+"\n", values...) },
	})
	cmd.Stdout = p
	go func() {
		if err := p.FromEditor(a.in); err != nil && !gone(err) && !errors.Is(err, os.ErrClosed) {
			fmt.Fprintf(a.err, "spool exec: %s\n", text.Printable(err.Error()))
		}
	}()
	code := a.wait(cmd, signals) // p is no file: it has the agent's last words before this returns
	if err := p.End(fmt.Sprintf("the agent ended with exit code %d", code)); err != nil && !gone(err) {
		fmt.Fprintf(a.err, "spool exec: %s\n", text.Printable(err.Error()))
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// recorder connects for --acp, with a directory for what no server takes: one for each system, so that nothing gets into another one.
func (c *execCmd) recorder(a *app) (*client.Client, error) {
	cfg, err := a.nats.Config("spool exec --acp", a.log)
	if err != nil {
		return nil, err
	}
	if cfg.Offline = c.Offline; cfg.Offline == "" {
		state, err := service.StateDir()
		if err != nil {
			return nil, err
		}
		place := sha256.Sum256([]byte(cmp.Or(a.nats.Context, a.nats.Server)))
		cfg.Offline = filepath.Join(state, fmt.Sprintf("acp-%x", place[:6]))
	}
	return client.Connect(a.ctx, cfg)
}
