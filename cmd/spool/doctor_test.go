package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/pkg/events"
)

// spool runs the command, and gives what it writes to its standard output and error, and its exit code.
func spool(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var b bytes.Buffer
	code = run(args, strings.NewReader(""), &b, &b)
	return b.String(), code
}

func tenant(t *testing.T) *authDir {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	for _, args := range [][]string{{"auth", "init", dir}, {"auth", "tenant", "add", dir, "acme"}} {
		if out, code := spool(t, args...); code != service.ExitOK {
			t.Fatalf("%v = %d: %s", args, code, out)
		}
	}
	d := must.Get(openAuth(dir))(t)
	return d
}

// serve starts a server with the tenants of a directory.
func serve(t *testing.T, d *authDir) *embedded.Server {
	t.Helper()
	s := must.Get(embedded.Start(embedded.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute, Auth: d.conf(),
	}))(t)
	t.Cleanup(s.Stop)
	return s
}

func TestDoctorTellsRefusedCredentials(t *testing.T) {
	s := serve(t, tenant(t))
	for _, args := range [][]string{{"doctor"}, {"session", "ls"}} {
		out, code := spool(t, append(args, "--nats", s.ClientURL(), "--user", "nobody", "--password", "x")...)
		if code != service.ExitFailure || !strings.Contains(out, "refused the credentials") ||
			strings.Contains(out, "spool up") {
			t.Errorf("%v = %d: %s; want 1, and that the credentials were refused", args, code, out)
		}
	}
	out, code := spool(t, "doctor", "--nats", "127.0.0.1:1")
	if code != service.ExitFailure || !strings.Contains(out, "start that server (spool up") || strings.Count(out, "--nats") != 1 {
		t.Errorf("doctor without a server = %d: %s; want 1, and once how to start one, or name another", code, out)
	}
}

// TestDoctorSaysWhatCheckSays: whatever a check is not content with, doctor has it too. Nobody serves a partition here, a letter is there,
// and what gc said last is that it refused.
func TestDoctorSaysWhatCheckSays(t *testing.T) {
	s, conn := plain(t)
	must.Get(conn.JetStream().Publish(t.Context(), "spool.v1.dead.s.main.entry", []byte("?")))(t)
	must.Do(t, service.StoreReport(t.Context(), conn, &gc.Report{Refused: "there was a reason"}, nil))
	out, _ := spool(t, "check", "--format", "json", "--nats", s.ClientURL())
	said, code := spool(t, "doctor", "--json", "--nats", s.ClientURL())
	if code != service.ExitFailure {
		t.Errorf("doctor exits with %d", code)
	}
	named := map[string]string{"dead": events.DeadStream, "events": events.EventsStream}
	bad := 0
	for line := range strings.Lines(out) {
		var c struct{ Check, Status string }
		must.Do(t, json.Unmarshal([]byte(line), &c))
		if c.Status == "OK" {
			continue
		}
		bad++
		want := fmt.Sprintf(`{"name":%q,"ok":false,`, cmp.Or(named[c.Check], c.Check))
		if !strings.Contains(said, want) {
			t.Errorf("check says that %s is %s, doctor has no %s:\n%s", c.Check, c.Status, want, said)
		}
	}
	if bad != 3 {
		t.Errorf("%d checks are not content, want partitions, dead and gc:\n%s", bad, out)
	}
}

// TestDoctorKnowsTheSchedule: gc is late by its own schedule, whatever that is.
func TestDoctorKnowsTheSchedule(t *testing.T) {
	s, conn := plain(t)
	check := func(want string, wantCode int) {
		t.Helper()
		out, code := spool(t, "check", "gc", "--nats", s.ClientURL())
		if code != wantCode || !strings.Contains(out, want) {
			t.Errorf("check gc = %d: %s; want %d and %q", code, out, wantCode, want)
		}
	}
	check("none is scheduled", service.ExitOK)
	var weekly service.Schedule
	must.Do(t, weekly.Set("30 3 * * 0"))
	must.Get(gcnats.Of(conn).Schedule(t.Context(), weekly))(t)
	due := weekly.After(time.Now()).Format(time.RFC3339)
	check("no cycle has run yet, the next one is due at "+due, service.ExitOK)
	must.Do(t, service.StoreReport(t.Context(), conn, &gc.Report{}, nil))
	check("0 B freed, the next one is due at "+due, service.ExitOK)
	must.Same(t, overdue(time.Unix(100, 0), time.Unix(40, 0)), 0, "a minute ahead of its time gc is due for %v s, want %v")
	must.Same(t, overdue(time.Unix(40, 0), time.Unix(100, 0)), 60, "a minute behind its time gc is due for %v s, want %v")
}

// TestThreadThatCannotBeRead: who looks at a thread whose head cannot be read is told what to do.
func TestThreadThatCannotBeRead(t *testing.T) {
	s, conn := plain(t)
	id := events.Thread{Session: "s", Name: "main"}
	must.Get(conn.Records().Write(t.Context(), record.Put{Key: events.HeadKey(id), Value: []byte("?"), Expect: record.Any}))(t)
	for _, args := range [][]string{{"thread", "show", "s/main"}, {"thread", "log", "s/main"}} {
		out, code := spool(t, append(args, "--nats", s.ClientURL())...)
		if code != service.ExitFailure || !strings.Contains(out, "spool fsck --repair") ||
			!strings.Contains(out, "spool thread rm s/main --force") {
			t.Errorf("%v = %d: %s; want 1, and what to do", args, code, out)
		}
	}
}

// TestPersisterWithoutStreams: one that may not make the streams of its tenant says so once.
func TestPersisterWithoutStreams(t *testing.T) {
	d := tenant(t)
	if out, code := spool(t, "auth", "user", "add", d.path, "acme/p", "--role", "persister"); code != service.ExitOK {
		t.Fatalf("auth user add = %d: %s", code, out)
	}
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{
		URL: serve(t, d).ClientURL(), NKey: d.seed("acme", "p"), Inbox: tenants.User{Name: "p"}.Inbox(),
	}))(t)
	defer conn.Close()
	err := conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28})
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "admin") {
		t.Errorf("Ensure() = %v, want one line that says who makes streams", err)
	}
}

// plain starts a server without users, with the streams of a store.
func plain(t *testing.T) (*embedded.Server, *natsio.Conn) {
	t.Helper()
	s := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(s.Stop)
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s}))(t)
	t.Cleanup(conn.Close)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	return s, conn
}

// TestDiskOfATenant: a limit that the streams do not fit into is refused before it is one, and says what to do when
// it is.
func TestDiskOfATenant(t *testing.T) {
	d := tenant(t)
	for _, args := range [][]string{{"add", d.path, "brook"}, {"set", d.path, "acme"}} {
		out, code := spool(t, append(append([]string{"auth", "tenant"}, args...), "--disk", "100MB")...)
		if code != service.ExitUsage || !strings.Contains(out, "256MiB") {
			t.Errorf("auth tenant %v --disk 100MB = %d: %s; want 2, and what is enough", args, code, out)
		}
	}
	d.Tenants[0].Disk = 100e6 // as an earlier version let it be
	must.Do(t, d.save())
	connect := func() (*natsio.Conn, error) {
		return natsio.Dial(t.Context(), natsio.Config{
			URL: serve(t, d).ClientURL(), NKey: d.seed("acme", adminUser), Inbox: tenants.User{Name: adminUser}.Inbox(),
		})
	}
	conn, err := connect()
	must.Do(t, err)
	defer conn.Close()
	if err := conn.Ensure(t.Context(), natsio.Limits{}); !errors.Is(err, record.ErrRefused) || record.Temporary(err) ||
		!strings.Contains(err.Error(), "may take 95 MiB") || !strings.Contains(err.Error(), "spool auth tenant set") {
		t.Errorf("Ensure = %v, want that 95 MiB are too little, and what to do", err)
	}
	if out, code := spool(t, "auth", "tenant", "set", d.path, "acme", "--disk", "256MiB"); code != service.ExitOK {
		t.Fatalf("auth tenant set = %d: %s", code, out)
	}
	if conn, err = connect(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	must.Is(t, conn.Ensure(t.Context(), natsio.Limits{}), nil, "Ensure within 256 MiB")
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.2": false, "2.15.0-beta.1": false, "2.16.0": false, "3.0.0": false,
		"2.14.9": true, "2.9.1": true, "1.4.1": true, "": true, "dev": true,
	} {
		must.Same(t, tooOld(version), want, "tooOld(%q) = %v, want %v", version)
	}
}
