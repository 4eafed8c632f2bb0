package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/retention"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// keeper is a system with sessions, and policies for them.
type keeper struct {
	service.Retention
	t   *testing.T
	cl  *client.Client
	pub *client.Publisher
	seq uint64
}

func newKeeper(t *testing.T, policies ...retention.Policy) *keeper {
	conn := natstest.Conn(t)
	run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, slog.New(slog.DiscardHandler)))
	cl := client.New(conn)
	return &keeper{
		t: t, cl: cl, pub: cl.Publisher(client.PublisherConfig{Producer: "p"}),
		Retention: service.Retention{Conn: conn, Policies: policies, By: "gc", Log: slog.New(slog.DiscardHandler)},
	}
}

// say publishes an entry that says that it was written at a time, and waits until it is applied.
func (k *keeper) say(session string, at time.Time) {
	k.t.Helper()
	k.seq++
	id := events.Thread{Session: session, Name: events.MainThread}
	body := fmt.Appendf(nil, `{"role":"coder","content":"x","timestamp":%d}`, at.UnixMilli())
	_, err := k.pub.Publish(k.t.Context(), client.Entry{Thread: id, Dialect: "step", Body: body, Seq: k.seq})
	if err == nil {
		err = k.cl.Thread(id).Await(k.t.Context(), "p", 0, k.seq)
	}
	must.Do(k.t, err)
}

func (k *keeper) sessions() string {
	k.t.Helper()
	list := must.Get(k.cl.Sessions(k.t.Context(), ""))(k.t)
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

func (k *keeper) dead() uint64 {
	k.t.Helper()
	s := must.Get(k.Conn.JetStream().Stream(k.t.Context(), events.DeadStream))(k.t)
	return s.CachedInfo().State.Msgs
}

// Policies are only reported the first time, applied from then on, and reported again when they change. A session in which
// somebody works is never taken. The newest is the one in which something happened last, whatever its entries say.
func TestRetention(t *testing.T) {
	k := newKeeper(t, retention.Policy{Name: "p", KeepLast: 1})
	k.say("old", time.Now())
	k.say("busy", time.Now().Add(-100*time.Hour))
	live := events.Thread{Session: "busy", Name: events.MainThread}
	out := must.Get(k.cl.Thread(live).Output(t.Context(), client.OutputConfig{}))(t)
	defer func() { _ = out.Close(client.OutputEnd{}) }()
	r, err := k.cl.Thread(live).StartRun(t.Context(), client.RunConfig{Lease: time.Hour})
	if err == nil {
		err = r.Wait(t.Context())
	}
	must.Do(t, err)
	k.say("new", time.Now().Add(-200*time.Hour))
	for i, want := range []string{"busy new old", "busy new", "busy new"} {
		must.Do(t, k.Run(t.Context(), false))
		must.Same(t, k.sessions(), want, "after run %d: %s, want %s", i+1)
	}
	k.Policies = []retention.Policy{{Name: "age", MaxAge: 72 * time.Hour}}
	if rep, err := k.Report(t.Context()); err != nil || len(rep.Due) > 0 {
		t.Errorf("a session of this minute with entries of last week: %+v, %v, want nothing due", rep, err)
	}
	k.Policies = []retention.Policy{{Name: "none", Session: "new", MaxAge: time.Nanosecond}}
	must.Do(t, k.Run(t.Context(), false))
	rep, err := service.LastRetention(t.Context(), k.Conn.Records())
	if err != nil || rep.Applied || len(rep.Due) != 1 || rep.Due[0].Session != "new" || k.sessions() != "busy new" {
		t.Errorf("other policies: report %+v, %v, sessions %s; want new to be reported alone", rep, err, k.sessions())
	}
}

// A session in which something happens after it was found due stays, whole, and nothing of it is a dead letter.
func TestRetentionSparesWhatIsTakenUp(t *testing.T) {
	const n = 5
	k := newKeeper(t, retention.Policy{Name: "p", MaxAge: time.Nanosecond})
	for i := range n {
		k.say(fmt.Sprint("s", i), time.Now())
	}
	k.Log = slog.New(onRecord(func(r slog.Record) { // the first one is removed: the plan was made long ago
		if r.Message == "session removed" && !strings.Contains(k.sessions(), "taken") {
			k.say("s3", time.Now())
			k.say("taken", time.Now())
		}
	}))
	rep, err := k.Apply(t.Context())
	if err != nil || len(rep.Due) != n || len(rep.Removed) != n-1 || rep.Taken != 1 {
		t.Errorf("Apply() = %+v, %v, want %d removed and one spared", rep, err, n-1)
	}
	if got := k.sessions(); got != "s3 taken" {
		t.Errorf("sessions: %s, want s3 and taken", got)
	}
	h, err := k.cl.Thread(events.Thread{Session: "s3", Name: events.MainThread}).Head(t.Context())
	if err != nil || h.Entries != 2 || k.dead() != 0 {
		t.Errorf("s3 has %d entries, %v, and there are %d dead letters; want both entries and none", h.Entries, err, k.dead())
	}
	k.Log = slog.New(slog.DiscardHandler)
	if rep, err := k.Apply(t.Context()); err != nil || len(rep.Removed) != 2 { // nothing happens in them any more
		t.Errorf("Apply() again = %+v, %v, want both removed", rep, err)
	}
}

// onRecord is a log that is read as it is written.
type onRecord func(slog.Record)

func (f onRecord) Enabled(context.Context, slog.Level) bool      { return true }
func (f onRecord) Handle(_ context.Context, r slog.Record) error { f(r); return nil }
func (f onRecord) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f onRecord) WithGroup(string) slog.Handler                 { return f }

// Retention removes nothing when too much would go, or when a clock is wrong.
func TestRetentionBrakes(t *testing.T) {
	k := newKeeper(t, retention.Policy{Name: "p", MaxAge: time.Nanosecond})
	for i := range 11 {
		k.say(fmt.Sprint("s", i), time.Now())
	}
	all := k.sessions()
	rep, err := k.Apply(t.Context())
	if !errors.Is(err, retention.ErrBrake) || rep.Refused == "" || k.sessions() != all {
		t.Errorf("Apply() of 11 of 11 sessions = %+v, %v, want a brake", rep, err)
	}
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		k.Now = func() time.Time { return time.Now().Add(off) }
		k.Share = 1
		if _, err := k.Apply(t.Context()); !errors.Is(err, retention.ErrBrake) || !strings.Contains(err.Error(), "clock") || k.sessions() != all {
			t.Errorf("Apply() with a clock that is %v off = %v, want a brake", off, err)
		}
	}
	k.Now = nil
	if rep, err := k.Apply(t.Context()); err != nil || len(rep.Removed) != 11 {
		t.Errorf("Apply() with the share raised = %+v, %v, want all removed", rep, err)
	}
}

func TestPolicies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
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

// A session from whose file another one's goes on, without having it, stays while that one is there, unless somebody insists.
func TestSessionThatIsNeeded(t *testing.T) {
	k := newKeeper(t, retention.Policy{Name: "p", MaxAge: time.Nanosecond})
	meta := func(id, base string) {
		t.Helper()
		k.seq++
		th := events.Thread{Session: id, Name: events.MainThread}
		body := fmt.Appendf(nil, `{"timestamp":"2026-11-20T12:00:00.000Z","type":"session_meta","payload":{"id":%q%s}}`, id, base)
		e := client.Entry{Thread: th, Dialect: "codex", Body: body, Seq: k.seq}
		must.Do(t, must.Get(k.pub.Publish(t.Context(), e))(t).Applied(t.Context()))
	}
	meta("parent", "")
	meta("fork", `,"history_base":{"thread_id":"parent","end_byte_offset":9}`)
	_, err := k.cl.Session("parent").Delete(t.Context(), client.Deletion{})
	if !errors.Is(err, client.ErrConflict) || !strings.Contains(err.Error(), "fork") {
		t.Errorf("DeleteSession = %v, want a refusal that names the fork", err)
	}
	rep := must.Get(k.Report(t.Context()))(t)
	if len(rep.Due) != 1 || rep.Due[0].Session != "fork" {
		t.Errorf("due: %+v, want the fork alone", rep.Due)
	}
	r := must.Get(k.cl.Session("parent").Delete(t.Context(), client.Deletion{Force: true}))(t)
	if !slices.ContainsFunc(r.Kept, func(kept client.Kept) bool { return strings.Contains(kept.Why, "fork goes on from parent") }) {
		t.Errorf("the receipt says %+v, and not that the fork lost its beginning", r.Kept)
	}
}
