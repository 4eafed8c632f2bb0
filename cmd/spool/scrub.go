package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/events"
)

type scrubCmd struct {
	Rate  string        `default:"50MiB/s" placeholder:"BYTES/s" help:"Bytes that are read in a second at most; 0: as fast as it goes (${default})."`
	Once  bool          `help:"One pass, then end: what is done without --every."`
	Every time.Duration `placeholder:"DURATION" help:"Go on: begin a pass whenever the last one is that old."`
	JSON  bool          `help:"The pass as one JSON object."`
}

func (c *scrubCmd) Help() string {
	return "Every byte that is stored is read and compared with its digest, every record and every message with what should be there. " +
		"A pass that is stopped goes on where it was. What is found stands, in doctor, check and metrics, and stops gc, " +
		"until a later pass or a clean fsck does not find it. Exits with 1 when something is found."
}

func (c *scrubCmd) Run(a *app) error {
	rate, err := parseRate(c.Rate)
	if err != nil {
		return err
	}
	if c.Every != 0 && (c.Once || c.Every < time.Second) {
		return service.UsageError{Err: errors.New("--every: at least 1s, and not with --once")}
	}
	a.ctx = natsio.Patient(a.ctx)
	conn, err := a.dial()
	if err != nil {
		return err
	}
	if c.Every != 0 {
		service.ScrubEvery(a.ctx, conn, c.Every, rate, a.log)
		return nil
	}
	progress := newBar(a.err, "scrubbing", true)
	pass, err := scrub.Scrub(a.ctx, natsadmin.Of(conn),
		scrub.Config{Rate: rate, Progress: func(done, total uint64) { progress.set(int64(done), int64(total), "") }})
	progress.end()
	switch {
	case errors.Is(err, record.ErrConflict):
		return fmt.Errorf("scrub: another process is at it: %w", err)
	case a.ctx.Err() != nil:
		return fmt.Errorf("scrub: stopped after %s; the next one goes on from there", text.Bytes(int64(pass.Bytes)))
	case err != nil:
		return fmt.Errorf("scrub: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(struct {
			scrub.Pass
			Began string `json:"began"`
			Ended string `json:"ended"`
		}{pass, events.Stamp(pass.Began / 1e6), events.Stamp(pass.Ended / 1e6)})
	} else {
		err = writePass(a.report(), pass)
	}
	if err == nil && pass.Found > 0 {
		err = text.Errorf("%d findings: spool fsck says what they touch, spool fsck --repair mends what can be", pass.Found)
	}
	return err
}

func writePass(t *text.Table, p scrub.Pass) error {
	for _, f := range p.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Kind, f.Record, f.Detail)
	}
	text.Fprintf(t, "scrubbed\t%s\t%d packs, %d blobs, %d artifacts, %d records, %d messages\n",
		text.Bytes(int64(p.Bytes)), p.Packs, p.Blobs, p.Files, p.Records, p.Messages)
	return t.Flush()
}

// damage tells what stands of losses.
func damage(a *app, conn *natsio.Conn) []finding {
	all, err := scrub.Alarms(a.ctx, natsadmin.Of(conn))
	if err != nil {
		return []finding{{Name: "damage", Detail: err.Error()}}
	}
	var out []finding
	for _, one := range all {
		out = append(out, finding{Name: "damage", Detail: one.Detail, Do: one.Do})
	}
	if len(out) == 0 {
		out = []finding{{Name: "damage", OK: true,
			Detail: "no stream went back, none has lost anything that its server knows of, and every head resolved when it was last looked at"}}
	}
	return out
}

func checkDamage(a *app, conn *natsio.Conn) (float64, string, error) {
	all, err := scrub.Alarms(a.ctx, natsadmin.Of(conn))
	n, details := 0, []string{}
	for _, one := range all {
		n += one.Found
		details = append(details, one.Detail)
	}
	if n == 0 {
		details = []string{"none"}
	}
	return float64(n), strings.Join(details, "; "), err
}

func checkScrub(a *app, conn *natsio.Conn) (float64, string, error) {
	st, err := scrub.ReadState(a.ctx, natsadmin.Of(conn))
	if err != nil || st.Last.Ended == 0 {
		return 0, "no pass has ended yet: spool scrub reads all that is stored and compares it with its digests", err
	}
	since := time.Since(time.Unix(0, st.Last.Ended)).Round(time.Second)
	return since.Seconds(), text.Sprintf("%s read %v ago, %d findings", text.Bytes(int64(st.Last.Bytes)), since, st.Last.Found), nil
}
