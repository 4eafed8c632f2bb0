package service_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/retention"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Policies are only reported the first time, applied from then on, and reported again when they change. A session in which
// somebody works is never taken.
func TestRetention(t *testing.T) {
	conn := natstest.Conn(t)
	ctx := t.Context()
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
	for i, name := range []string{"old", "busy", "new"} {
		at := time.Now().Add(-100 * time.Hour)
		if name == "new" {
			at = time.Now()
		}
		id := events.Thread{Session: name, Name: "main"}
		body := fmt.Appendf(nil, `{"role":"coder","content":"x","timestamp":%d}`, at.UnixMilli())
		if err := pub.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
		if err := cl.Await(ctx, id, "p", 0, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := cl.Output(ctx, events.Thread{Session: "busy", Name: "main"}, client.OutputConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close(client.OutputEnd{}) }()
	live := events.Thread{Session: "busy", Name: "main"}
	r, err := cl.StartRun(ctx, live, client.RunConfig{Lease: time.Hour})
	if err == nil {
		err = r.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	names := func() string {
		t.Helper()
		list, err := cl.Sessions(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return strings.Join(ids, " ")
	}
	ret := service.Retention{Conn: conn, Policies: []retention.Policy{{Name: "p", MaxAge: 72 * time.Hour}}, By: "gc", Log: slog.New(slog.DiscardHandler)}
	for i, want := range []string{"busy new old", "busy new", "busy new"} {
		if err := ret.Run(ctx, false); err != nil {
			t.Fatal(err)
		}
		if got := names(); got != want {
			t.Errorf("after run %d: %s, want %s", i+1, got, want)
		}
	}
	ret.Policies = []retention.Policy{{Name: "none", Session: "new", MaxAge: time.Nanosecond}}
	if err := ret.Run(ctx, false); err != nil {
		t.Fatal(err)
	}
	rep, err := service.LastRetention(ctx, conn)
	if err != nil || rep.Applied || len(rep.Due) != 1 || rep.Due[0].Session != "new" || names() != "busy new" {
		t.Errorf("other policies: report %+v, %v, sessions %s; want new to be reported alone", rep, err, names())
	}
}

func TestPolicies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nats = \"nats://x:1\"\n[[retention]]\nname = \"scratch\"\nsession = \"tmp-*\"\nmax-age = \"24h\"\nkeep-last = 2\n[[retention]]\nname = \"all\"\nmax-bytes = 1000\n")
	got, err := service.OpenPolicies(path)
	want := []retention.Policy{{Name: "scratch", Session: "tmp-*", MaxAge: 24 * time.Hour, KeepLast: 2}, {Name: "all", MaxBytes: 1000}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("OpenPolicies = %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"max-age = 3", "max_age = \"3h\"", "name = \"\"", "max-age = \"-1h\""} {
		write("[[retention]]\nname = \"x\"\n" + strings.Replace(bad, "name =", "title = \"\"\n[[retention]]\nname =", 1) + "\n")
		var usage service.UsageError
		if _, err := service.OpenPolicies(path); !errors.As(err, &usage) || !strings.Contains(err.Error(), "retention") {
			t.Errorf("%s: OpenPolicies = %v, want a UsageError", bad, err)
		}
	}
}
