package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"spool/internal/backup"
	"spool/internal/embedded"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/text"
)

type backupCmd struct {
	Create backupCreateCmd `cmd:"" default:"withargs" help:"Add a snapshot of everything to a directory (the default); writers go on."`
	Ls     backupLsCmd     `cmd:"" aliases:"list" help:"List the snapshots in a directory."`
	Verify backupVerifyCmd `cmd:"" help:"Read a snapshot wholly and check every byte."`
}

type backupCreateCmd struct {
	Dir  string `type:"path" arg:"" help:"Directory of the backup; what it has already is not copied again."`
	JSON bool   `help:"The result as one line of JSON."`
}

func (c *backupCreateCmd) Run(a *app) error {
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return err
	}
	repo, err := backup.Open(c.Dir, true)
	if err != nil {
		return err
	}
	start, bar := time.Now(), a.copyBar("copying")
	m, left := backup.Create(a.ctx, conn, repo, bar.show)
	bar.end()
	if left != nil && !errors.Is(left, record.ErrClass) {
		return left
	}
	if c.JSON {
		return errors.Join(json.NewEncoder(a.out).Encode(m), left)
	}
	_, err = text.Fprintf(a.out, "snapshot %s: %d records, %d objects of %s, %d of them new (%s), %d events, %d dead letters, in %v\n",
		m.ID, m.Records, m.Objects, text.Bytes(m.Bytes), m.NewObjects, text.Bytes(m.NewBytes), m.Events, m.Dead,
		time.Since(start).Round(time.Millisecond))
	if left != nil {
		left = fmt.Errorf("the snapshot is without %w", left)
	}
	return errors.Join(err, left)
}

func (c *backupCreateCmd) Help() string {
	return "Where create is left out, a directory that is not there yet has a / in its name."
}

type backupLsCmd struct {
	Dir  string `arg:"" help:"Directory of the backup."`
	JSON bool   `help:"Each snapshot as one line of JSON."`
}

func (c *backupLsCmd) Run(a *app) error {
	repo, err := backup.Open(c.Dir, false)
	if err != nil {
		return err
	}
	all, err := repo.Snapshots()
	if err != nil {
		return err
	}
	if c.JSON {
		return jsonLines(json.NewEncoder(a.out), all, asIs)
	}
	t := a.table()
	if len(all) > 0 {
		fmt.Fprintln(t, "SNAPSHOT\tRECORDS\tOBJECTS\tBYTES\tNEW\tEVENTS\tDEAD")
	}
	for _, m := range all {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%d\t%d\n", m.ID, m.Records, m.Objects, text.Bytes(m.Bytes), text.Bytes(m.NewBytes), m.Events, m.Dead)
	}
	return t.Flush()
}

type backupVerifyCmd struct {
	Dir      string `arg:"" help:"Directory of the backup."`
	Snapshot string `help:"Which snapshot (default: the newest)."`
}

func (c *backupVerifyCmd) Run(a *app) error {
	repo, err := backup.Open(c.Dir, false)
	if err != nil {
		return err
	}
	m, err := repo.Snapshot(c.Snapshot)
	if err != nil {
		return err
	}
	bar := a.copyBar("reading")
	err = backup.Verify(a.ctx, repo, m, bar.show)
	bar.end()
	if err != nil {
		return err
	}
	_, err = text.Fprintf(a.out, "snapshot %s is whole: %d objects, %s\n", m.ID, m.Objects, text.Bytes(m.Bytes))
	return err
}

type restoreCmd struct {
	Dir         string `arg:"" help:"Directory of the backup."`
	Snapshot    string `help:"Which snapshot (default: the newest)."`
	Data        string `type:"path" placeholder:"DIR" help:"Restore into a new data directory of spool up, instead of a NATS system."`
	Replicas    int    `default:"1" help:"Copies of each stream."`
	EventsBytes size   `placeholder:"SIZE" help:"Size of EVENTS (default 4 GiB or a quarter of the disk limit)."`
	ItemsBytes  size   `placeholder:"SIZE" help:"Size of ITEMS."`
}

func (c *restoreCmd) Help() string {
	return "The system must hold nothing of Spool. Start persisters afterwards: they apply what the backup had as events."
}

func (c *restoreCmd) Run(a *app) error {
	repo, err := backup.Open(c.Dir, false)
	if err != nil {
		return err
	}
	m, err := repo.Snapshot(c.Snapshot)
	if err != nil {
		return err
	}
	limits := natsio.Limits{Replicas: c.Replicas, EventsBytes: int64(c.EventsBytes), ItemsBytes: int64(c.ItemsBytes)}
	if err := c.restore(a, repo, m, limits); err != nil {
		return err
	}
	next := "start a persister, or spool up"
	if c.Data != "" {
		next = "spool up --data " + quoted(c.Data)
	}
	_, err = text.Fprintf(a.out, "snapshot %s is restored: %d objects of %s, %d events, %d dead letters; now %s, then: spool fsck\n",
		m.ID, m.Objects, text.Bytes(m.Bytes), m.Events, m.Dead, next)
	return err
}

// restore puts the snapshot where it is to be. What it made in a directory that was not there, or was empty, it removes where it fails.
func (c *restoreCmd) restore(a *app, repo *backup.Repository, m backup.Manifest, limits natsio.Limits) (err error) {
	if c.Data != "" {
		undo, e := emptied(c.Data)
		if e != nil {
			return e
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, undo())
			}
		}()
	}
	a.ctx = natsio.Patient(a.ctx)
	conn, done, err := c.target(a, &limits)
	if err != nil {
		return err
	}
	defer done() // before undo
	bar := a.copyBar("restoring")
	err = backup.Restore(a.ctx, conn, repo, m, limits, bar.show)
	bar.end()
	switch {
	case err == nil || c.Data != "":
	case errors.Is(err, backup.ErrPart):
		err = fmt.Errorf("%w\nThe NATS system may hold a part of the snapshot now: remove its streams before you restore into it again", err)
	default:
		err = fmt.Errorf("%w\nNothing was written", err)
	}
	return err
}

// emptied makes a directory again what it is now, if that is empty or not there; otherwise it leaves the directory as it is.
func emptied(dir string) (undo func() error, err error) {
	switch there, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return func() error { return os.RemoveAll(dir) }, nil
	case err != nil:
		return nil, err
	case len(there) > 0:
		return func() error { return nil }, nil
	}
	return func() error {
		made, err := os.ReadDir(dir)
		for _, e := range made {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
		return err
	}, nil
}

// target is the system to restore into.
func (c *restoreCmd) target(a *app, limits *natsio.Limits) (*natsio.Conn, func(), error) {
	if c.Data == "" {
		conn, err := a.dial()
		return conn, func() {}, err
	}
	if a.nats.Given() {
		return nil, nil, service.UsageError{Err: fmt.Errorf("--data %s and a NATS system, by a flag, NATS_URL, NATS_CONTEXT or "+
			"the configuration file: restore into one of them", c.Data)}
	}
	s, err := embedded.Start(embedded.Config{Dir: c.Data})
	if err != nil {
		return nil, nil, err
	}
	limits.EventsBytes = cmp.Or(limits.EventsBytes, s.StreamBytes())
	limits.ItemsBytes = cmp.Or(limits.ItemsBytes, s.StreamBytes())
	conn, err := natsio.Dial(a.ctx, natsio.Config{InProcess: s, Name: "spool restore", Logger: a.log})
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	return conn, func() { conn.Close(); s.Stop() }, nil
}

// copyBar shows how far a copy is.
func (a *app) copyBar(what string) copyBar { return copyBar{newBar(a.err, what, false)} }

type copyBar struct{ *bar }

func (b copyBar) show(p backup.Progress) { b.set(int64(p.Objects), int64(p.All), text.Bytes(p.Bytes)) }
