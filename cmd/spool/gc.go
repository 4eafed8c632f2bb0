package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"spool/internal/gc"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

// gcCmd is the collector at hand; with --every or --once it is the daemon gc.
type gcCmd struct {
	Run      gcRunCmd      `cmd:"" default:"withargs" help:"Say what is garbage, or with --apply collect it."`
	Apply    gcApplyCmd    `cmd:"" help:"Carry out a plan that was kept with --plan."`
	Explain  gcExplainCmd  `cmd:"" help:"Say what keeps a node, a blob or a pack."`
	Undelete gcUndeleteCmd `cmd:"" help:"Take back what was condemned and is still in quarantine."`
}

func (c *gcCmd) Help() string {
	return "Without a command it is spool gc run, and takes its flags (--apply, --plan, --json and others): " +
		"spool gc run --help says them all. With --every WHEN it is a process that collects so often, and with --once one cycle of it, " +
		"with retention: spool gc --once --help says its flags. Both act, and are the program gc."
}

// collector connects.
func (a *app) collector(cfg gc.Config) (*natsio.Conn, *gc.Collector, error) {
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return nil, nil, err
	}
	c, err := service.NewCollector(conn, cfg, a.log)
	return conn, c, err
}

type gcRunCmd struct {
	service.Collecting
	DoApply bool   `name:"apply" help:"Collect; otherwise nothing is deleted."`
	Plan    string `type:"path" placeholder:"FILE" help:"Keep the plan in a file, for spool gc apply."`
	JSON    bool   `name:"json" help:"The report as one JSON object."`
}

func (c *gcRunCmd) Run(a *app) error {
	conn, col, err := a.collector(c.Config())
	if err != nil {
		return err
	}
	p, r, err := c.collect(a, conn, col)
	if p != nil && c.Plan != "" {
		b, e := json.MarshalIndent(p, "", " ")
		if e == nil {
			e = os.WriteFile(c.Plan, append(b, '\n'), 0o600)
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, writeReport(a, r, c.JSON))
}

// lean keeps the memory of this process near what it holds, until end is called.
func lean(ctx context.Context) (end func()) {
	ctx, end = context.WithCancel(ctx)
	go service.StayLean(ctx)
	return end
}

// collect runs the cycle. Beside a daemon it takes its turn.
func (c *gcRunCmd) collect(a *app, conn *natsio.Conn, col *gc.Collector) (*gc.Plan, gc.Report, error) {
	defer lean(a.ctx)()
	if !c.DoApply {
		return service.Collect(a.ctx, conn, col, false)
	}
	p, r, err := service.CollectInTurn(a.ctx, conn, col, func(wait time.Duration) {
		fmt.Fprintf(a.err, "spool: another gc cycle has begun meanwhile, of spool up or of the daemon gc: beginning anew in %v\n", wait)
	})
	if errors.Is(err, gc.ErrStale) {
		err = errors.New("gc cycles of spool up or of the daemon gc begin again and again: run spool gc --apply when they are over, " +
			"or leave the garbage to them")
	}
	return p, r, err
}

func writeReport(a *app, r gc.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(r)
	}
	return r.Write(a.report())
}

type gcApplyCmd struct {
	service.Collecting
	File string `arg:"" type:"existingfile" help:"The plan."`
	JSON bool   `name:"json" help:"The report as one JSON object."`
}

func (c *gcApplyCmd) Run(a *app) error {
	b, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	p, err := gc.ReadPlan(b)
	if err != nil {
		return service.UsageError{Err: fmt.Errorf("%s is %w", c.File, err)}
	}
	cfg := c.Config()
	p.Allow(cfg.Allow...)
	conn, col, err := a.collector(cfg)
	if err != nil {
		return err
	}
	r := col.Report(p)
	r.Done, err = service.Apply(a.ctx, conn, col, p)
	if errors.Is(err, gc.ErrNotBegun) { // a mistake with a file, and no state of the system
		if r.Fail(err); c.JSON {
			return errors.Join(fmt.Errorf("%s: %w", c.File, err), writeReport(a, r, true))
		}
		return fmt.Errorf("%s: %w", c.File, err)
	}
	r.Applied = true
	err = service.StoreReport(a.ctx, conn, &r, err)
	return errors.Join(err, writeReport(a, r, c.JSON))
}

type gcExplainCmd struct {
	Ref  string `arg:"" help:"A node's or blob's ref, or a pack's id."`
	JSON bool   `name:"json" help:"One JSON object."`
}

func (c *gcExplainCmd) Help() string { return "What is missing is exit code 1." }

func (c *gcExplainCmd) Run(a *app) error {
	_, col, err := a.collector(gc.Safe())
	if err != nil {
		return err
	}
	e, err := col.Explain(a.ctx, c.Ref)
	if err != nil {
		return fullState(err)
	}
	var missing error
	if e.State == "missing" {
		missing = fmt.Errorf("%s is missing: %s", e.Ref, e.Why)
	}
	if c.JSON {
		return errors.Join(json.NewEncoder(a.out).Encode(e), missing)
	}
	if missing != nil {
		return missing
	}
	fmt.Fprintf(a.out, "%s: %s: %s\n", e.Ref, e.State, e.Why)
	if e.In != "" {
		fmt.Fprintf(a.out, "  in %s\n", e.In)
	}
	for _, step := range e.Chain {
		fmt.Fprintf(a.out, "  → %s\n", step)
	}
	return nil
}

type gcUndeleteCmd struct {
	Names []string `arg:"" optional:"" help:"Refs of nodes or blobs, ids of packs; with them comes what they lead to."`
	All   bool     `help:"Everything that is in quarantine."`
}

func (c *gcUndeleteCmd) Run(a *app) error {
	if c.All == (len(c.Names) > 0) {
		return service.UsageError{Err: errors.New("undelete: name what to take back, or say --all")}
	}
	conn, col, err := a.collector(gc.Safe())
	if err != nil {
		return err
	}
	done, err := col.Undelete(a.ctx, c.Names...)
	for _, key := range done.Restored {
		fmt.Fprintln(a.out, key)
	}
	if done.Unburied > 0 {
		text.Fprintf(a.err, "%d nodes in packs that stayed are back\n", done.Unburied)
	}
	for _, what := range done.Lost {
		fmt.Fprintf(a.err, "lost: %s\n", what)
	}
	return errors.Join(fullState(err), tellStates(a, client.New(conn), done.States))
}

type duCmd struct {
	Session string `arg:"" optional:"" help:"Session; default: all."`
	JSON    bool   `name:"json" help:"A JSON object a line; the last one is what is stored by class."`
}

func (c *duCmd) Run(a *app) error {
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if c.Session != "" {
		if c.Session, err = a.session(client.New(conn), c.Session); err != nil {
			return err
		}
	}
	defer lean(a.ctx)()
	use, all, left := gc.DiskUse(a.ctx, conn.Records(), c.Session)
	if left != nil && !errors.Is(left, record.ErrClass) {
		return left
	}
	if !c.JSON {
		t := a.table()
		t.Short = a.short(client.New(conn), nil)
		return errors.Join(gc.WriteUse(t, use, all), left)
	}
	if err := jsonLines(json.NewEncoder(a.out), use, asIs); err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(a.out).Encode(map[string]gc.Classes{"stored": all}), left)
}
