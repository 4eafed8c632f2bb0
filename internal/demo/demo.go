// Package demo takes the example transcripts through the whole pipeline and checks what came out: published, persisted,
// followed live, read back, forked.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"spool/examples"
	"spool/internal/mapped"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Check is one thing that must hold.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Summary is what happened, in figures.
type Summary struct {
	Files        int              `json:"files"`
	Sessions     int              `json:"sessions"`
	Threads      int              `json:"threads"`
	Events       int64            `json:"events"`
	Items        int64            `json:"items"`
	ItemsByType  map[string]int64 `json:"items_by_type"`
	Nodes        int64            `json:"nodes"`
	BytesIn      int64            `json:"bytes_in"`
	BytesStored  int64            `json:"bytes_stored"`
	Truncated    int64            `json:"truncated"`
	Externalized int64            `json:"externalized"`
	Deduplicated int64            `json:"deduplicated_bytes"`
	Unknown      int64            `json:"unknown"`
	Seconds      float64          `json:"seconds"`
}

// Outcome is the result of a demo.
type Outcome struct {
	OK      bool    `json:"ok"`
	Checks  []Check `json:"checks"`
	Summary Summary `json:"summary"`

	Session string `json:"-"` // one to look at
	Fork    string `json:"-"`
}

// Demo is a run in progress.
type Demo struct {
	events natsio.Events
	admin  *natsadmin.Admin
	p      *service.Persister
	cl     *client.Client
	shown  func(client.Item)
	live   *live
	out    Outcome
	files  []file
}

// file is an example as it went in.
type file struct {
	transcript.FileResult
	raw []byte
}

// Run takes the examples through a Spool that runs on conn. shown is called with every item as it arrives.
func Run(ctx context.Context, conn *natsio.Conn, p *service.Persister, shown func(client.Item)) (Outcome, error) {
	d := &Demo{events: conn.Events(), admin: natsadmin.New(conn), p: p, cl: client.New(conn), shown: shown}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	if err := d.follow(ctx); err != nil {
		return d.out, err
	}
	for _, step := range []func(context.Context) error{
		d.importAll, d.checkLive, d.checkExport, d.checkAgain, d.checkRules, d.checkRebuild, d.checkFork, d.checkStore,
	} {
		if err := step(ctx); err != nil {
			return d.out, err
		}
	}
	d.summarize(time.Since(start))
	d.out.OK = true
	for _, c := range d.out.Checks {
		d.out.OK = d.out.OK && c.OK
	}
	return d.out, nil
}

// check notes a result; problems make it a failure.
func (d *Demo) check(name, detail string, problems ...error) {
	c := Check{Name: name, OK: true, Detail: detail}
	if err := errors.Join(problems...); err != nil {
		c.OK, c.Detail = false, err.Error()
	}
	d.out.Checks = append(d.out.Checks, c)
}

// follow subscribes before anything is published.
func (d *Demo) follow(ctx context.Context) error {
	d.live = newLive(d.shown)
	ready := make(chan struct{})
	go d.live.run(d.cl.SubscribeReady(ctx, client.Filter{}, client.Position{}, func() { close(ready) }))
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Demo) importAll(ctx context.Context) error {
	res, err := d.importOnce(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, f := range res.Files {
		raw, err := fs.ReadFile(examples.FS, f.File)
		if err != nil {
			return err
		}
		d.files = append(d.files, file{f, raw})
		if f.Err != nil || f.Published != f.Lines || f.Lines == 0 {
			problems = append(problems, fmt.Errorf("%s: %d of %d lines published: %w", f.File, f.Published, f.Lines, f.Err))
		}
	}
	d.out.Summary.Events = int64(res.Published)
	d.out.Summary.Files = len(res.Files)
	d.check("import", fmt.Sprintf("%d lines of %d files published and persisted", res.Published, len(res.Files)), problems...)
	return nil
}

// importOnce imports the examples and waits until all of it is in the threads.
func (d *Demo) importOnce(ctx context.Context) (transcript.Result, error) {
	sources, err := transcript.Find(examples.FS, ".")
	if err != nil {
		return transcript.Result{}, err
	}
	sources = slices.DeleteFunc(sources, func(s transcript.Source) bool { return transcript.IsBeside(s.Path) })
	res := transcript.New(d.cl.Internal(), d.events, transcript.Config{Host: "demo"}).Import(ctx, sources)
	for _, f := range res.Files {
		if f.Last.Seq == 0 {
			continue
		}
		for _, p := range []transcript.Position{f.Last, f.Tail} {
			if p.Seq == 0 {
				continue
			}
			if err := d.cl.Thread(f.ID()).Await(ctx, p.Producer, p.Epoch, p.Seq); err != nil {
				return res, err
			}
		}
	}
	return res, nil
}

func (d *Demo) summarize(took time.Duration) {
	s, st := &d.out.Summary, d.p.Stats()
	s.Nodes, s.BytesIn, s.BytesStored = st.Nodes, st.BytesIn, st.BytesStored
	s.Truncated, s.Externalized, s.Deduplicated, s.Unknown = st.Truncated, st.Externalized, st.Deduplicated, st.Unknown
	s.ItemsByType = d.live.types()
	for _, n := range s.ItemsByType {
		s.Items += n
	}
	s.Seconds = took.Seconds()
}

// threads lists the threads of the examples.
func (d *Demo) threads() []events.Thread {
	ts := mapped.List(d.files, func(f file) events.Thread { return f.ID() })
	return ts
}
