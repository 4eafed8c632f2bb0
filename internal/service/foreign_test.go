package service_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// foreign is what no persister writes: an answer of the server, and bytes.
var foreign = []string{`{"stream":"SPOOL_EVENTS","seq":21}`, "\x00\xff garbage"}

// foreignKeys are keys of a class of records, of the session bad where it has one.
func foreignKeys(class string) []string {
	switch class {
	case "history":
		return []string{"history.2026-11-20.bad.old"}
	case "session", "deleted", "deleting":
		return []string{class + ".bad"}
	case "prompt", "answered":
		return []string{class + ".bad.main.q"}
	case "blob":
		return []string{"blob." + strings.Repeat("0123456789abcdef", 4)}
	case "pack", "moved":
		return []string{class + "." + strings.Repeat("0123456789abcdef", 2)}
	case "letters":
		return []string{events.LettersKey}
	case "gc":
		return []string{events.GCReportKey, events.MarksKey, events.HeadsKey, events.ScrubKey, events.EndedKey}
	}
	return []string{class + ".bad.main"}
}

// keepsSomething reports whether a collector has to know what a record of a class says.
func keepsSomething(class record.Class) bool { return class.Keeps != record.Nothing }

// TestForeignRecords: a record that no persister wrote, of any class, stops no listing, persister or check, and no collector that need
// not know what it keeps; one that does says which record it is, and collects again once that is gone. An artifact's record stops
// no collector: it is named, and what may be the artifact's stays.
func TestForeignRecords(t *testing.T) {
	for _, class := range record.Classes {
		if class.Name == "fence" || class.Name == "lane" { // their values say nothing
			continue
		}
		for _, key := range foreignKeys(class.Name) {
			for _, value := range foreign {
				t.Run(key, func(t *testing.T) { testForeign(t, class, key, value) })
			}
		}
	}
}

func testForeign(t *testing.T, class record.Class, key, value string) {
	conn := natstest.Conn(t)
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	say := func(session string, seq uint64) {
		t.Helper()
		id := events.Thread{Session: session, Name: events.MainThread}
		_, err := cl.Publisher(client.PublisherConfig{Producer: "p-" + session}).Publish(ctx, client.Entry{
			Thread: id, Dialect: "step", Body: []byte(`{"role":"coder","content":"x"}`), Seq: seq,
		})
		if err == nil {
			err = cl.Thread(id).Await(ctx, "p-"+session, 0, seq)
		}
		must.Is(t, err, nil, "entry %d of %s", seq, session)
	}
	say("good", 1)
	say("bad", 1)
	was, err := conn.Records().Records(ctx, key)
	must.Do(t, err)
	must.Get(conn.Records().Write(ctx, record.Put{Key: key, Value: []byte(value), Expect: record.Any}))(t)
	listed(t, cl)
	say("good", 2)
	say("fresh", 1)
	must.Is(t, must.Err(fsck.Check(ctx, natsadmin.Of(conn), fsck.Config{})), nil, "fsck")
	rep, err := collect(t, conn)
	switch {
	case !keepsSomething(class):
		must.Is(t, err, nil, "gc")
		return
	case class.Name == "artifact": // it keeps the artifacts' bucket as it is, and nothing else
		if err != nil || !strings.Contains(strings.Join(rep.Anomalies, "\n"), key) {
			t.Errorf("gc = %v, %q; want it to go on and to name %s", err, rep.Anomalies, key)
		}
	case err == nil || !strings.Contains(err.Error(), key):
		t.Errorf("gc = %v, want that it names %s: what that keeps is not known", err, key)
	}
	must.Get(conn.Records().Write(ctx, record.Put{Key: key, Value: was[0].Value, Expect: record.Any}))(t)
	if _, err := collect(t, conn, gc.BrakeDamage); err != nil { // the damage may have been noted while it was there
		t.Errorf("gc once it is gone = %v", err)
	}
}

// listed: every listing has the session good.
func listed(t *testing.T, cl *client.Client) {
	t.Helper()
	ctx := t.Context()
	all, err := cl.Sessions(ctx, "")
	var names []string
	for _, s := range all {
		names = append(names, s.ID)
	}
	if err != nil || !strings.Contains(strings.Join(names, " "), "good") {
		t.Errorf("Sessions = %v, %v", names, err)
	}
	for what, list := range map[string]func() error{
		"threads":   func() error { _, err := cl.EverySession().Threads(ctx); return err },
		"heads":     func() error { _, err := cl.EverySession().HeadsSince(ctx, 0); return err },
		"outputs":   func() error { _, err := cl.EverySession().Outputs(ctx); return err },
		"prompts":   func() error { _, err := cl.EverySession().Prompts(ctx); return err },
		"runs":      func() error { _, err := cl.EverySession().Runs(ctx); return err },
		"artifacts": func() error { _, err := cl.Session("good").Artifacts(ctx); return err },
		"dead":      func() error { _, err := cl.EverySession().DeadLetters(ctx); return err },
	} {
		must.Is(t, list(), nil, "listing of %s", what)
	}
}

func collect(t *testing.T, conn *natsio.Conn, allow ...gc.Brake) (gc.Report, error) {
	t.Helper()
	cfg := gc.Safe()
	cfg.Allow = allow
	c, err := service.NewCollector(conn, cfg, nil)
	must.Do(t, err)
	_, rep, err := service.Collect(t.Context(), conn, c, true)
	return rep, err
}
