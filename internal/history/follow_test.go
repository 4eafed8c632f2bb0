package history_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/embedded"
	"spool/internal/history"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// spool is a server with a persister.
type spool struct {
	t    *testing.T
	conn *natsio.Conn
	*client.Client
	*client.Publisher
}

func newSpool(t *testing.T) *spool {
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	cl := client.New(conn)
	return &spool{t, conn, cl, cl.Publisher(client.PublisherConfig{Host: "build-7"})}
}

// say publishes omp entries, users' and others, and waits until their items are out. Text before a colon is the role.
func (s *spool) say(thread string, seconds int, lines ...string) {
	s.t.Helper()
	t := must.Get(events.ParseThread(thread))(s.t)
	before := int64(0)
	if head, err := s.Thread(t).Head(s.t.Context()); err == nil {
		before = head.N
	}
	var entries []client.Entry
	for i, line := range lines {
		role, text, _ := bytes.Cut([]byte(line), []byte(":"))
		body := must.Get(json.Marshal(map[string]any{
			"type": "message", "id": fmt.Sprintf("e%s%d-%d", t.Name, seconds, i),
			"timestamp": time.Unix(int64(seconds+i), 0).UTC().Format(time.RFC3339),
			"message":   map[string]any{"role": string(role), "content": []any{map[string]any{"type": "text", "text": string(text)}}}}))(s.t)
		entries = append(entries, client.Entry{Thread: t, Dialect: "omp", Body: body})
	}
	must.Get(s.Publish(s.t.Context(), entries...))(s.t)
	s.sent(t, before+int64(len(lines)))
}

// sent waits until an item of a thread is out.
func (s *spool) sent(t events.Thread, n int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for item := range must.All(s.t,
		s.Subscribe(ctx, client.Filter{Session: t.Session, Thread: t.Name}, client.Position{All: true})) {
		if item.N >= n {
			return
		}
	}
	s.t.Fatalf("item %d of %s did not come", n, t)
}

// caughtUp is what a history has once it has caught up, each prompt as "thread n text".
func (s *spool) caughtUp(db *history.DB) []string {
	s.t.Helper()
	must.Do(s.t, history.NewFollower(db, s.conn, nil).CatchUp(s.t.Context()))
	return all(s.t, db)
}

func all(t testing.TB, db *history.DB) (lines []string) {
	t.Helper()
	found := must.Get(db.Recent(t.Context(), history.Filter{}, history.MaxLimit))(t)
	for _, p := range found {
		lines = append(lines, fmt.Sprintf("%s %d %s", p.Thread, p.N, p.Text))
	}
	return lines
}

// What a history has: user posts of every session with what the sessions' records say, and no more when it is read again.
func TestCatchUp(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	if got := s.caughtUp(db); got != nil {
		t.Errorf("a history of nothing = %q", got)
	}
	s.say("one", 1_700_000_100, "user:fix the parser", "assistant:done", "user: fix the parser ", "user:now the lexer")
	s.say("two", 1_700_000_200, "assistant:hello", "user:write the docs")
	want := []string{"two/main 2 write the docs", "one/main 4 now the lexer", "one/main 1 fix the parser"}
	for range 2 {
		if diff := cmp.Diff(want, s.caughtUp(db)); diff != "" {
			t.Errorf("caught up:\n%s", diff)
		}
	}
	s.say("one", 1_700_000_300, "user:and the tests")
	if diff := cmp.Diff(append([]string{"one/main 5 and the tests"}, want...), s.caughtUp(db)); diff != "" {
		t.Errorf("caught up later:\n%s", diff)
	}
	found, err := db.Search(t.Context(), "tests", history.Filter{Session: "one"}, 9)
	wantPrompt := history.Prompt{Thread: events.Thread{Session: "one", Name: "main"}, N: 5, Time: 1_700_000_300_000,
		Text: "and the tests", Host: "build-7", Harness: "omp"}
	if err != nil || len(found) != 1 || found[0] != wantPrompt {
		t.Errorf("Search = %+v, %v, want %+v", found, err, wantPrompt)
	}
}

// What ITEMS has forgotten comes from the threads; a fork has only what is its own.
func TestForgottenItems(t *testing.T) {
	s := newSpool(t)
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	s.say("one", 1_700_000_100, "user:first", "assistant:done")
	s.caughtUp(db)
	s.say("one", 200, "user:second", "assistant:done", "user:third")
	fork := events.Thread{Session: "one", Name: "fork"}
	must.Do(t, s.Thread(fork).Fork(t.Context(), events.Fork{Session: "one", Thread: "main", Item: 4}))
	s.say("one/fork", 300, "user:instead")
	main, whole := events.Thread{Session: "one", Name: "main"}, events.Thread{Session: "three", Name: "main"}
	must.Do(t, s.Thread(main).Reset(t.Context())) // the branch is a tip, of the fork too
	must.Do(t, s.Session("one").Fork(t.Context(), "three", client.SessionFork{}))
	s.say("three", 350, "user:with all of it")
	must.Do(t, s.Thread(whole).Reset(t.Context()))
	s.say("three", 360, "user:anew")
	s.say("two", 400, "user:elsewhere")
	want := []string{"two/main 1 elsewhere", "three/main 7 anew", "three/main 6 with all of it", "one/fork 5 instead",
		"one/main 5 third", "one/main 3 second", "one/main 1 first"}

	items := must.Get(s.conn.JetStream().Stream(t.Context(), events.ItemsStream))(t)
	must.Do(t, items.Purge(t.Context(), jetstream.WithPurgeKeep(1)))
	fresh := open(t, filepath.Join(t.TempDir(), "fresh.db"))
	for name, h := range map[string]*history.DB{"behind": db, "fresh": fresh} {
		if diff := cmp.Diff(want, s.caughtUp(h)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	must.Do(t, items.Purge(t.Context()))
	s.say("two", 500, "user:once more")
	want = append([]string{"two/main 2 once more"}, want...)
	if diff := cmp.Diff(want, s.caughtUp(db)); diff != "" {
		t.Errorf("after everything was purged:\n%s", diff)
	}
	must.Do(t, history.NewFollower(fresh, s.conn, nil).Rebuild(t.Context()))
	if diff := cmp.Diff(want, all(t, fresh)); diff != "" {
		t.Errorf("rebuilt:\n%s", diff)
	}
}

// A history of another stream starts over, and a session that was deleted is forgotten.
func TestAnotherStream(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	a := newSpool(t)
	a.say("a", 100, "user:of a")
	a.caughtUp(db)
	b := newSpool(t)
	b.say("b", 100, "user:of b")
	b.say("c", 200, "user:of c")
	if got, want := b.caughtUp(db), []string{"c/main 1 of c", "b/main 1 of b"}; !slices.Equal(got, want) {
		t.Errorf("a history of another stream = %q, want %q", got, want)
	}
	kv := must.Get(b.conn.JetStream().KeyValue(t.Context(), events.RecordsBucket))(t)
	must.Do(t, kv.Delete(t.Context(), events.SessionKey("b")))
	names := must.Get(db.Sessions(t.Context()))(t)
	if gone, err := history.NewFollower(db, b.conn, nil).Forget(t.Context(), names); err != nil || gone != 1 {
		t.Errorf("Forget = %d, %v, want 1", gone, err)
	}
	if got, want := all(t, db), []string{"c/main 1 of c"}; !slices.Equal(got, want) {
		t.Errorf("after a session was deleted = %q, want %q", got, want)
	}
}

// Keep outlives a damaged file and stores what comes while it runs.
func TestKeep(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- history.Keep(ctx, path, s.conn, nil) }()
	defer func() {
		cancel()
		must.Is(t, <-done, nil, "Keep")
	}()
	s.say("one", 1_700_000_100, "user:first")
	awaitPrompts(t, path, 1)
	s.say("one", 200, "user:second")
	awaitPrompts(t, path, 2)
}

// What a session said is forgotten while it is deleted, and erased from the file when the session is.
func TestForgottenAsDeleted(t *testing.T) {
	s := newSpool(t)
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "history.db")
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- history.Keep(ctx, path, s.conn, nil) }()
	defer func() { stop(); <-done }()
	s.say("a/main", 1, "user: the plum trees want pruning")
	s.say("b/main", 2, "user: where is the ladder?")
	s.say("c/main", 3, "user: thank you")
	awaitPrompts(t, path, 3)
	must.Get(s.Session("a").Delete(ctx, client.Deletion{}))(t)
	awaitCount(t, path, func(n int64) bool { return n == 2 })
	must.Get(s.Session("b").Delete(ctx, client.Deletion{Erase: true}))(t)
	awaitCount(t, path, func(n int64) bool { return n == 1 })
	stop()
	must.Do(t, <-done)
	done <- nil
	for _, part := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + part)
		if err == nil && bytes.Contains(b, []byte("ladder")) {
			t.Errorf("%s holds what an erased session said", filepath.Base(path)+part)
		}
	}
}

// awaitPrompts waits until a history that another one feeds has so many.
func awaitPrompts(t testing.TB, path string, want int64) {
	t.Helper()
	awaitCount(t, path, func(n int64) bool { return n >= want })
}

// awaitCount waits until it has a number of prompts.
func awaitCount(t testing.TB, path string, enough func(int64) bool) {
	t.Helper()
	var n int64
	must.Eventually(t, "another number of prompts", func() error {
		err := history.With(path, func(db *history.DB) (err error) {
			n, err = db.Count(t.Context())
			return err
		})
		if err == nil && !enough(n) {
			err = fmt.Errorf("there are %d", n)
		}
		return err
	})
}

// In a process of its own, TestMain follows the server of this address into the file.
const serverVar, fileVar = "SPOOL_TEST_HISTORY_SERVER", "SPOOL_TEST_HISTORY_FILE"

// victim follows until it is killed. It says when it begins.
func victim() error {
	conn, err := natsio.Dial(context.Background(), natsio.Config{URL: os.Getenv(serverVar)})
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("following")
	return history.With(os.Getenv(fileVar), func(db *history.DB) error {
		return history.NewFollower(db, conn, nil).Follow(context.Background())
	})
}

// TestKilled kills a follower again and again, while items are published, some of them twice. Each prompt is in once.
func TestKilled(t *testing.T) {
	server := must.Get(embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(server.Stop)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	const prompts, kills, sessionCount = 3000, 8, 7
	for i := range sessionCount { // one without a record counts as deleted
		info := sessions.Info{ID: fmt.Sprint("s", i)}
		must.Get(conn.Records().Write(t.Context(), record.Put{Key: events.SessionKey(info.ID), Value: info.Encode(), Expect: record.Any}))(t)
	}
	published := make(chan error, 1)
	go func() {
		for i := 1; i <= prompts; i++ {
			p := postedPrompt(fmt.Sprint("s", i%sessionCount), int64(i))
			if err := conn.Items().PublishItems(t.Context(), slices.Repeat([]events.Posted{p}, 1+i%3%2)); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	path := filepath.Join(t.TempDir(), "history.db")
	for i := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), serverVar+"="+server.ClientURL(), fileVar+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		must.Do(t, err)
		must.Is(t, must.Err(bufio.NewReader(out).ReadString('\n')), nil, "the first line of follower %d", i)
		awaitPrompts(t, path, int64(i*prompts/kills/2)) // in the middle of it
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}
	must.Do(t, <-published)
	db := open(t, path)
	must.Do(t, history.NewFollower(db, conn, nil).CatchUp(t.Context()))
	if n, err := db.Count(t.Context()); err != nil || n != prompts {
		t.Errorf("Count = %d, %v, want %d", n, err, prompts)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for query, want := range map[string]int{"prompt 2999": 1, "ompt 2999": 1, "ompt": prompts} { // both indexes have what the table has
		found, err := db.Search(t.Context(), query, history.Filter{}, history.MaxLimit)
		if err != nil || len(found) != min(want, history.MaxLimit) {
			t.Errorf("Search(%s) = %d, %v, want %d", query, len(found), err, want)
		}
	}
}

func postedPrompt(session string, n int64) events.Posted {
	t := events.Thread{Session: session, Name: "main"}
	return events.Posted{Subject: events.ItemSubject(t, "", ""), N: n, Data: fmt.Appendf(nil,
		`{"id":"x","n":%d,"session":%q,"thread":"main","content":[{"type":"text","text":"prompt %d"}]}`, n, session, n)}
}

// The same prompt in one session after the other is there once; in a session by itself it is found. What an agent asks
// of its helpers nobody asked for, whether it is read live or from the threads (seed 002).
func TestWhoseAndWhichPrompts(t *testing.T) {
	s := newSpool(t)
	s.say("one", 1_700_000_100, "user:fix the parser", "user:please continue")
	s.say("two", 1_700_000_200, "user:please continue")
	s.say("three", 1_700_000_300, "user:please continue", "user:now the lexer")
	s.say("one", 1_700_000_400, "user:please continue")
	helper := events.Thread{Session: "one", Name: "0-Review"}
	start := events.Control{Op: events.OpStart, Start: &events.Start{Name: "0-Review", Depth: 1}}
	must.Do(t, s.conn.Events().PublishEvents(t.Context(), []*events.Event{
		{Thread: helper, Kind: events.KindControl, Producer: "importer", Seq: 1, Body: start.Encode()},
	}))
	s.say("one/0-Review", 1_700_000_500, "user:SUBAGENT TASK")
	side := events.Thread{Session: "two", Name: "agent-1a2b"}
	must.Get(s.Publish(t.Context(), client.Entry{Thread: side, Dialect: "claude", Body: []byte(
		`{"type":"user","uuid":"u","agentId":"1a2b","isSidechain":true,"timestamp":"2023-11-14T22:20:00.000Z",` +
			`"message":{"role":"user","content":"SIDE TASK"}}`)}))(t)
	s.sent(side, 1)
	s.say("one/second", 1_700_000_600, "user:in a thread of my own")
	db := open(t, filepath.Join(t.TempDir(), "history.db"))
	want := []string{"one/second 1 in a thread of my own", "three/main 2 now the lexer",
		"one/main 2 please continue", "one/main 1 fix the parser"}
	if diff := cmp.Diff(want, s.caughtUp(db)); diff != "" {
		t.Errorf("caught up:\n%s", diff)
	}
	found := must.Get(db.Recent(t.Context(), history.Filter{Session: "two"}, 10))(t)
	if len(found) != 1 || found[0].Text != "please continue" {
		t.Errorf("of one session: %v, want its prompt", found)
	}
	if found = must.Get(db.Search(t.Context(), "continue", history.Filter{}, 10))(t); len(found) != 1 {
		t.Errorf("search finds %d prompts, want one", len(found))
	}
	must.Do(t, history.NewFollower(db, s.conn, nil).Rebuild(t.Context()))
	if diff := cmp.Diff(want, all(t, db)); diff != "" {
		t.Errorf("made again from the threads:\n%s", diff)
	}
}

// TestKeepingUp: items that come one at a time share transactions.
func TestKeepingUp(t *testing.T) {
	s := newSpool(t)
	path := filepath.Join(t.TempDir(), "history.db")
	db := open(t, path)
	other := must.Get(sql.Open("sqlite", path))(t)
	defer other.Close()
	ctx, stop := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- history.NewFollower(db, s.conn, nil).Follow(ctx) }()
	s.say("one", 1_700_000_000, "user:the first")
	must.Until(t, "it keeps up", func() bool { return len(all(t, db)) == 1 })
	must.Get(other.Exec(`CREATE TABLE transactions(seq INTEGER);
		CREATE TRIGGER counted AFTER UPDATE ON position BEGIN INSERT INTO transactions VALUES(new.seq); END`))(t)
	const many = 100
	for i := range many {
		item := fmt.Sprintf(`{"session":"one","thread":"main","n":%d,"created_at":"2026-11-20T12:00:00Z",`+
			`"content":[{"type":"text","text":"prompt %d"}]}`, i+2, i)
		must.Get(s.conn.JetStream().Publish(t.Context(), events.ItemSubject(events.Thread{Session: "one", Name: "main"}, events.TypeMessage, ""),
			[]byte(item)))(t)
		time.Sleep(3 * time.Millisecond) // as agents do
	}
	must.Until(t, "all are in", func() bool { return len(all(t, db)) == many+1 })
	var n int
	must.Do(t, other.QueryRow("SELECT count(*) FROM transactions").Scan(&n))
	if n == 0 || n > many/2 {
		t.Errorf("%d items that came in a moment have %d transactions", many, n)
	}
	stop()
	<-following
}
