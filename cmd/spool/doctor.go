package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

type doctorCmd struct {
	JSON bool `help:"Each finding as one line of JSON."`
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
	bad := 0
	enc := json.NewEncoder(a.out)
	t := text.NewTable(a.out)
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
		return fmt.Errorf("%d of %d findings want a look", bad, len(found))
	}
	return nil
}

func (c *doctorCmd) look(a *app) []finding {
	conn, err := a.dial()
	if err != nil {
		f := finding{Name: "connection", Detail: err.Error()}
		if errors.Is(err, natsio.ErrNoServer) && a.nats.Given() {
			f.Do = "start that server (spool up), or name another with --nats URL"
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
			f.Do = "start spool up or a persister once: it makes them, or says that something is lost"
		}
		return append(found, f)
	}
	found = append(found, finding{Name: "streams", OK: true, Detail: "all there, as they must be"})
	found = append(found, permissions(a, conn), writes(a, conn), replicas(a, conn))
	found = append(append(found, backlog(a, conn)...), storage(a, conn)...)
	found = append(found, damage(a, conn)...)
	return append(found, daemons(a, conn)...)
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

func backlog(a *app, conn *natsio.Conn) []finding {
	b, err := conn.Events().Backlog(a.ctx)
	if err != nil {
		return []finding{{Name: "persisters", Detail: err.Error(), Do: "does this user have permission to read consumers?"}}
	}
	p := finding{Name: "persisters", OK: b.Waiting == events.Partitions,
		Detail: fmt.Sprintf("%d of %d partitions are asked for", b.Waiting, events.Partitions)}
	if !p.OK {
		if idle, err := natsadmin.New(conn).Unserved(a.ctx); err == nil {
			p.Detail += fmt.Sprintf("; nobody serves %v", idle)
		}
		p.Do = "start a persister (or spool up); right after a start this takes a few seconds"
	}
	if b.Consumers < events.Partitions {
		p.Do = "a partition's consumer is gone: restart a persister, which makes it"
	}
	lag := finding{Name: "backlog", OK: b.Pending < 100_000, Detail: fmt.Sprintf("%d events wait, %d are being applied", b.Pending, b.Unacked)}
	if !lag.OK {
		lag.Do = "add persisters, or look at their logs"
	}
	skew := time.Since(b.ServerNow)
	clock := finding{Name: "clock", OK: skew.Abs() < 5*time.Second,
		Detail: fmt.Sprintf("%v apart from the server", skew.Round(time.Millisecond))}
	if !clock.OK {
		clock.Do = "set the clock: nothing is lost by it, but times that are shown are wrong"
	}
	return []finding{p, lag, clock}
}

func writes(a *app, conn *natsio.Conn) finding {
	if err := natsadmin.New(conn).Stores(a.ctx); err != nil && !errors.Is(err, record.ErrDenied) {
		return finding{Name: "writes", Detail: err.Error(),
			Do: "make room on the disk of the server, then restart it; nothing that was acked is lost by that"}
	}
	return finding{Name: "writes", OK: true, Detail: "the server stores what it is given"}
}

func storage(a *app, conn *natsio.Conn) []finding {
	var found []finding
	usage, err := natsadmin.New(conn).Usage(a.ctx)
	if err != nil {
		return []finding{{Name: "storage", Detail: err.Error()}}
	}
	for _, u := range usage {
		f := finding{Name: u.Stream, OK: true, Detail: fmt.Sprintf("%d messages, %s", u.Messages, text.Bytes(int64(u.Bytes)))}
		switch {
		case u.Stream == events.EventsStream && u.Limit > 0 && u.Bytes > uint64(u.Limit)/10*9:
			f.OK, f.Do = false, "EVENTS is nearly full: publishers will have to wait; are persisters running?"
		case u.Stream == events.DeadStream && u.Messages > 0:
			f.OK, f.Do = false, "events could not be applied: spool dead ls says which, and why"
		}
		found = append(found, f)
	}
	acc, err := natsadmin.New(conn).Account(a.ctx)
	if err != nil {
		return append(found, finding{Name: "account", Detail: err.Error()})
	}
	f := finding{Name: "account", OK: true, Detail: fmt.Sprintf("%s stored, no limit; %d streams", text.Bytes(acc.Store), acc.Streams)}
	if acc.MaxStore > 0 {
		f.Detail = fmt.Sprintf("%s stored of %s", text.Bytes(acc.Store), text.Bytes(acc.MaxStore))
		if acc.Store > acc.MaxStore/10*9 {
			f.OK, f.Do = false, "make room or raise the limit: a full account refuses every write"
		}
	}
	return append(found, f)
}
