package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spool/internal/fsck"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

type fsckCmd struct {
	Repair bool `help:"Make again from SPOOL_EVENTS what is missing inside of threads; move heads whose newest state is gone back to the last one that is there, and publish again what SPOOL_EVENTS still has of what they lose; make lost heads and missing items again."`
	Cut    bool `help:"With --repair: move heads back also before a gap that cannot be filled; the entries behind it leave their thread."`
	Events bool `help:"Account for every event of SPOOL_EVENTS instead: applied, repeated, in the dead letters, superseded or removed; what is none of these was acked and lost."`
	Items  bool `help:"Make every item of SPOOL_ITEMS again from its node and compare; without, the newest of each thread."`
	Seal   bool `help:"From now on a record without a check is foreign. Only when all that write are of this version."`
	Trust  bool `name:"trust-clock" help:"The server's clock, and this host's, are right now, although the server's has said more before: what says that it was stored later counts as stored now, and ages count on from now. Only when that is so: gc and retention go by it."`
	unasked
	JSON bool `help:"One JSON object."`
	service.Secrets
	service.Artifacts
	did ordered
}

// ordered is what was done on an operator's word before anything was looked at.
type ordered struct {
	Sealed  uint64     `json:"sealed_above,omitempty"` // sequence of the last record that may have no check
	Trusted *time.Time `json:"clock_trusted,omitempty"`
}

func (c *fsckCmd) Help() string {
	return "Everything is read and derived anew: bytes against digests, nodes against hashes, states against their parents, " +
		"heads against states, items against heads and nodes. Exits with 1 when something differs."
}

func (c *fsckCmd) Run(a *app) error {
	if c.Cut && !c.Repair {
		return service.UsageError{Err: errors.New("--cut: only with --repair")}
	}
	if c.Events && (c.Repair || c.Items) {
		return service.UsageError{Err: errors.New("--events: not together with --repair or --items; run them one after the other")}
	}
	secrets, err := c.Secrets.Open()
	if err != nil {
		return err
	}
	large, err := c.Thresholds()
	if err != nil {
		return err
	}
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if c.Repair {
		if err := a.confirm(c.Yes, "change heads of threads"); err != nil {
			return err
		}
	}
	if err := c.orders(a, conn); err != nil {
		return err
	}
	if c.Events {
		return c.account(a, conn)
	}
	bar := newBar(a.err, "checking", true)
	cfg := fsck.Config{Progress: func(done, all int64) { bar.set(done, all, "") }, Cut: c.Cut, Items: c.Items,
		Secrets: secrets, Artifacts: large}
	rep, failed := service.Fsck(a.ctx, conn, cfg, c.Repair)
	bar.end()
	if rep == nil {
		return fmt.Errorf("fsck: %w", failed)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(struct {
			*fsck.Report
			*ordered
		}{rep, &c.did})
	} else {
		err = writeFsck(a.report(), rep)
	}
	err = errors.Join(err, failed)
	if err == nil && len(rep.Findings) > 0 {
		err = text.Errorf("%d findings", len(rep.Findings))
	}
	return err
}

// orders carries out what needs an operator's word, and says so.
func (c *fsckCmd) orders(a *app, conn *natsio.Conn) (err error) {
	say := func(format string, args ...any) {
		if !c.JSON {
			fmt.Fprintf(a.out, format+"\n", args...)
		}
	}
	if c.Seal {
		if c.did.Sealed, err = natsadmin.New(conn).Seal(a.ctx); err != nil {
			return err
		}
		say("sealed: of the records behind number %d, one without a check is foreign; who is connected knows it within a minute",
			c.did.Sealed)
	}
	if c.Trust {
		now, err := service.TrustClock(a.ctx, conn)
		if err != nil {
			return fmt.Errorf("trust the clock: %w", err)
		}
		c.did.Trusted = &now
		say("the server's clock is trusted: it is %s, and what says that it was stored later counts as stored now",
			now.UTC().Format(time.RFC3339))
	}
	return nil
}

// account holds every event against what is stored.
func (c *fsckCmd) account(a *app, conn *natsio.Conn) error {
	acc, err := fsck.Account(a.ctx, natsadmin.Of(conn), client.New(conn).Internal().Source())
	if err != nil {
		return fmt.Errorf("fsck: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(struct {
			*fsck.Accounts
			*ordered
		}{acc, &c.did})
	} else {
		err = writeAccounts(a.report(), acc)
	}
	if err == nil && len(acc.Findings) > 0 {
		err = fmt.Errorf("%d of %d events are unaccounted for: spool fsck says whether something is lost of what is stored, "+
			"and spool fsck --repair makes it again", acc.Unaccounted, acc.Events)
	}
	return err
}

func writeAccounts(t *text.Table, acc *fsck.Accounts) error {
	for _, f := range acc.Findings {
		fmt.Fprintln(t, f)
	}
	for _, row := range []struct {
		name string
		n    int64
		what string
	}{
		{"events", acc.Events, "that SPOOL_EVENTS still has and persisters have dealt with"},
		{"applied", acc.Applied, "entries are in their threads, byte for byte"},
		{"noted", acc.Noted, "operations, and pieces of outputs that are open or have a result or an artifact"},
		{"repeated", acc.Repeated, "the same again"},
		{"refused", acc.Refused, "became dead letters: spool dead ls has those that nobody removed or published again"},
		{"superseded", acc.Superseded, "their producers were told that they were not stored whole"},
		{"fenced", acc.Fenced, "of an epoch of their producer that had ended"},
		{"removed", acc.Removed, "with their thread or session"},
		{"unknown", acc.Unknown, "what they are linked to, or repeat, may have been before the oldest event that is kept"},
		{"unaccounted", acc.Unaccounted, "nobody knows: see above"},
		{"waiting", acc.Waiting, "not applied yet, and not judged"},
	} {
		if row.n > 0 || row.name == "events" {
			fmt.Fprintf(t, "%s\t%d\t%s\n", row.name, row.n, row.what)
		}
	}
	return t.Flush()
}

func writeFsck(t *text.Table, rep *fsck.Report) error {
	for _, f := range rep.Findings {
		fmt.Fprintln(t, f)
	}
	for _, f := range rep.Gone {
		fmt.Fprintln(t, f)
	}
	for _, r := range rep.Repairs {
		switch {
		case r.Name != "":
			fmt.Fprintf(t, "repaired\t%s\t%s: %s\n", r.Record, r.Detail, r.Name)
		case r.To == "":
			fmt.Fprintf(t, "not repaired\t%s\t%s\n", r.Record, r.Detail)
		case r.Items > 0:
			text.Fprintf(t, "repaired\t%s\t%s; %d items\n", r.Record, r.Detail, r.Items)
		case r.Lost == 0 && r.Remade == 0 && r.Replayed == 0:
			fmt.Fprintf(t, "repaired\t%s\t%s\n", r.Record, r.Detail)
		case r.Lost == 0 && r.Remade == 0:
			text.Fprintf(t, "repaired\t%s\tis at %s; %d events published again. %s\n", r.Record, r.To, r.Replayed, r.Detail)
		case r.Remade > 0:
			text.Fprintf(t, "repaired\t%s\t%s; %d nodes\n", r.Record, r.Detail, r.Remade)
		default:
			text.Fprintf(t, "repaired\t%s\tis at %s again, %d entries before; %d events published again. %s\n", r.Record, r.To,
				r.Lost, r.Replayed, r.Detail)
		}
	}
	text.Fprintf(t, "checked\t%d threads of %d sessions\t%d packs with %d nodes, %d blobs, %d artifacts, %s\n",
		rep.Threads, rep.Sessions, rep.Packs, rep.Nodes, rep.Blobs, rep.Artifacts, text.Bytes(rep.Bytes))
	if rep.Returned > 0 {
		text.Fprintf(t, "returned\t%d records of what was collected or moved and a killed server brought back, or of what is torn and was "+
			"made again elsewhere: gc removes them\n", rep.Returned)
	}
	if rep.Changed > 0 {
		text.Fprintf(t, "changed\t%d records were written meanwhile and are not judged\n", rep.Changed)
	}
	return t.Flush()
}
