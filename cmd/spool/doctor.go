package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

type doctorCmd struct {
	JSON    bool     `help:"Each finding as one line of JSON."`
	Offline []string `placeholder:"DIR" help:"Look into these offline directories of programs, too (client.Config.Offline)."`
}

// finding is one thing that was looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Do     string `json:"do,omitempty"` // what to do about it
}

func (c *doctorCmd) Run(a *app) error {
	found := c.look(a)
	if len(c.Offline) > 0 {
		found = append(found, waitingOffline(c.Offline))
	}
	bad := 0
	enc := json.NewEncoder(a.out)
	t := a.report()
	for _, f := range found {
		mark := "ok"
		if !f.OK {
			mark, bad = "LOOK", bad+1
		}
		if c.JSON {
			if err := enc.Encode(f); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark, f.Name, f.Detail)
		if f.Do != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", f.Do)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d findings to look at", bad, len(found))
	}
	return nil
}

func (c *doctorCmd) look(a *app) []finding {
	conn, err := a.dial()
	if err != nil {
		f := finding{Name: "connection", Detail: err.Error()}
		if errors.Is(err, natsio.ErrNoServer) && a.nats.Given() {
			f.Do = "start that server (spool up does on this machine)"
		}
		return []finding{f}
	}
	found := []finding{connection(conn)}
	if err := conn.Verify(a.ctx); err != nil {
		f := finding{Name: "streams", Detail: err.Error(),
			Do: "a stream was made or changed by something else: compare it with docs/operations.md"}
		switch {
		case errors.Is(err, record.ErrDenied):
			f.Do = "run spool doctor as a user who may read the streams: an admin, a persister or a reader (spool auth env)"
		case errors.Is(err, record.ErrNotFound):
			f.Do = "is this system new? Then start spool up or a persister, which makes them. If it had them, start nothing that writes: " +
				"see \"A stream that is gone\" in docs/operations.md"
		}
		return append(found, f)
	}
	found = append(found, finding{Name: "streams", OK: true, Detail: "all there, as they must be"})
	found = append(found, permissions(a, conn), findingOf(a, conn, "writes"), replicas(a, conn), findingOf(a, conn, "partitions"),
		findingOf(a, conn, "backlog"), findingOf(a, conn, "clock"))
	found = append(append(found, storage(a, conn)...), findingOf(a, conn, "account"), findingOf(a, conn, "gc"))
	found = append(append(found, damage(a, conn)...), findingOf(a, conn, "scrub"), findingOf(a, conn, "prompts"), findingOf(a, conn, "quotas"))
	return append(found, daemons(a, conn)...)
}

// findingOf is what a check says, at its own thresholds: spool check and spool doctor have one word for each.
func findingOf(a *app, conn *natsio.Conn, name string) finding {
	p := probes[slices.IndexFunc(probes, func(p probe) bool { return p.name == name })]
	r := (&checkCmd{}).run(a, conn, p)
	f := finding{Name: name, OK: r.level == levelOK, Detail: r.Detail}
	if !f.OK {
		f.Do = p.do
	}
	return f
}

// minPayload is the least max_payload of a server: its own default.
const minPayload = 1 << 20

func connection(conn *natsio.Conn) finding {
	url, version := conn.Server()
	rtt, err := conn.RTT()
	f := finding{Name: "connection", OK: err == nil, Detail: fmt.Sprintf("%s, server %s, round trip %v, messages up to %s",
		url, version, rtt.Round(time.Microsecond), text.Bytes(int64(conn.MaxPayload())))}
	if conn.MaxPayload() < minPayload {
		f.OK, f.Do = false, "set max_payload of the server to 1 MB or more"
	}
	if tooOld(version) {
		f.OK = false
		f.Do = fmt.Sprintf("run nats-server %d.%d or later: this one says that it is %s", leastMajor, leastMinor, version)
	}
	return f
}

// The least nats-server that Spool is made for and tested on: README, "The NATS server must be".
const leastMajor, leastMinor = 2, 15

// tooOld reports whether a server's version, as it tells it, is none that Spool is made for.
func tooOld(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err != nil || major < leastMajor || major == leastMajor && minor < leastMinor
}

// storage is what each stream holds, and what checks say of it.
func storage(a *app, conn *natsio.Conn) []finding {
	var found []finding
	usage, err := natsadmin.New(conn).Usage(a.ctx)
	if err != nil {
		return []finding{{Name: "storage", Detail: err.Error()}}
	}
	for _, u := range usage {
		f := finding{Name: u.Stream, OK: true, Detail: text.Sprintf("%d messages, %s", u.Messages, text.Bytes(int64(u.Bytes)))}
		if check := map[string]string{events.EventsStream: "events", events.DeadStream: "dead"}[u.Stream]; check != "" {
			said := findingOf(a, conn, check)
			if f.OK, f.Do = said.OK, said.Do; !f.OK {
				f.Detail += "; " + said.Detail
			}
		}
		found = append(found, f)
	}
	return found
}
