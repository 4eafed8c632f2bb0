package claudestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/artifactstore"
	"spool/internal/claudestore"
	"spool/internal/interchange"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id      = "5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11"
	project = "-home-ada-p"
	tag     = `{"type":"custom-title","customTitle":"Plums","sessionId":"` + id + `"}` + "\n"
	meta    = `{"type":"agent_metadata","agentType":"gardener","toolUseId":"t1"}` + "\n"
)

// line is an entry as Claude Code writes it.
func line(n int, more string) string {
	return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"cwd":"/home/ada/p","sessionId":%q,"version":"2.1.240",%s"uuid":"00000000-0000-4000-8000-%012d",`+
		`"timestamp":"2026-11-20T12:00:%02d.000Z","type":"user","message":{"role":"user","content":"line %d"}}`, id, more, n, n%60, n) + "\n"
}

func lines(from, to int) (out string) {
	for n := from; n <= to; n++ {
		out += line(n, "")
	}
	return out
}

// rig is a Spool, a store of it, and a home of Claude Code that is imported.
type rig struct {
	*testing.T
	conn  *natsio.Conn
	cl    *client.Client
	store *claudestore.Store
	home  string
}

func start(t *testing.T) *rig {
	r := &rig{T: t, conn: natstest.Conn(t), home: t.TempDir()}
	r.cl = client.New(r.conn)
	r.store = claudestore.On(r.conn, r.cl)
	return r
}

func (r *rig) persister() {
	natstest.Run(r.T, service.NewPersister(r.conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
}

func key(subpath string) claudestore.Key {
	return claudestore.Key{Project: project, Session: id, Subpath: subpath}
}

func (r *rig) append(k claudestore.Key, text string) claudestore.Appended {
	r.Helper()
	return must.Get(r.store.Append(r.Context(), k, []byte(text), func(int, int) error { return nil }))(r.T)
}

func (r *rig) load(k claudestore.Key) string {
	r.Helper()
	var out bytes.Buffer
	if err := r.store.Load(r.Context(), k, &out); err != nil && !errors.Is(err, claudestore.ErrNone) {
		r.Fatal(err)
	}
	return out.String()
}

// write writes the file of a key as Claude Code does, and imports all there are.
func (r *rig) write(k claudestore.Key, text string) transcript.Result {
	r.Helper()
	name := filepath.Join(r.home, ".claude", "projects", k.Project, k.Session)
	if k.Subpath != "" {
		name = filepath.Join(name, k.Subpath)
	}
	must.Do(r.T, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(r.T, os.WriteFile(name+".jsonl", []byte(text), 0o600))
	return r.imports()
}

func (r *rig) imports() transcript.Result {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	sources := must.Get(transcript.Find(os.DirFS(r.home), ".claude"))(r.T)
	res, _, err := interchange.Import(ctx, r.conn, sources, transcript.Config{Inbox: r.conn.Inbox(), Host: "desk"})
	must.Do(r.T, err)
	for _, f := range res.Files {
		must.Do(r.T, f.Err)
		if f.Last.Seq > 0 {
			must.Do(r.T, r.cl.Thread(f.ID()).Await(ctx, f.Last.Producer, f.Last.Epoch, f.Last.Seq))
		}
	}
	return res
}

// threads are the names of the session's threads.
func (r *rig) threads() string {
	r.Helper()
	var names []string
	for _, t := range must.Get(r.cl.Session(id).Threads(r.Context()))(r.T) {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

// export is the file of a thread.
func (r *rig) export(thread string) string {
	r.Helper()
	var out bytes.Buffer
	must.Get(r.cl.Thread(events.Thread{Session: id, Name: thread}).Export(r.Context(), &out))(r.T)
	return out.String()
}

// TestFileAndStore: an entry that comes from the SDK and from the file of Claude Code is one, whichever comes first.
func TestFileAndStore(t *testing.T) {
	r := start(t)
	r.persister()
	main, agent := key(""), key("subagents/agent-a1")

	r.append(main, lines(1, 3)+tag)
	res := r.write(main, lines(1, 3)+tag+lines(4, 5))
	must.Same(t, res.Files[0].Published, 2, "%d lines published that the SDK had not brought, want %d: %+v", res.Files[0])
	got := r.append(main, tag+lines(4, 6))
	must.Same(t, got, claudestore.Appended{Entries: 1, Repeated: 3, Total: 7}, "append behind the file = %+v, want %+v")
	all := lines(1, 3) + tag + lines(4, 6)
	res = r.write(main, all)
	must.Same(t, res.Files[0].Published, 0, "%d lines published that are there, want %d")
	must.Same(t, r.load(main), all, "load = %s, want %s")
	must.Same(t, r.export("main"), all, "export = %s, want %s")

	side := `"isSidechain":true,"agentId":"a1",`
	of := line(11, side) + line(12, side)
	r.append(agent, meta+of)
	r.write(agent, of+line(13, side))
	r.append(agent, line(13, side)+line(14, side))
	must.Same(t, r.load(agent), meta+of+line(13, side)+line(14, side), "load of a subagent = %s, want %s")
	must.Same(t, r.threads(), "agent-a1 main", "threads = %s, want %s")
	must.Same(t, strings.Join(must.Get(r.store.Subkeys(t.Context(), main))(t), " "), agent.Subpath, "subkeys = %s, want %s")

	info := must.Get(r.cl.Session(id).Info(t.Context()))(t)
	must.Same(t, info.Title+" "+info.Cwd+" "+info.File, "Plums /home/ada/p claude:projects/"+project+"/"+id+".jsonl", "the session is %s, want %s")
	r.materialized(main, all)
}

// materialized writes the session for Claude Code on another machine.
func (r *rig) materialized(k claudestore.Key, want string) {
	r.Helper()
	done, dir := r.materialize(k.Session)
	must.Same(r.T, string(must.Get(dir.ReadFile(done.File))(r.T)), want, "materialized = %s, want %s")
}

func (r *rig) materialize(session string) (interchange.Materialized, *os.Root) {
	r.Helper()
	harness, _ := interchange.HarnessOf(must.Get(r.cl.Session(session).Info(r.Context()))(r.T))
	root := must.Get(os.OpenRoot(r.TempDir()))(r.T)
	r.Cleanup(func() { _ = root.Close() })
	m := interchange.Materializer{Client: r.cl, Artifacts: artifactstore.Of(r.conn, 0), Harness: harness, Dir: root, Path: root.Name()}
	return must.Get(m.Session(r.Context(), session))(r.T), root
}

// TestAgentsOfTheSDK: what the SDK says of a subagent is the file that Claude Code keeps beside the transcript, which is without it.
func TestAgentsOfTheSDK(t *testing.T) {
	r := start(t)
	r.persister()
	r.append(key(""), lines(1, 2))
	side := line(11, `"isSidechain":true,"agentId":"a1",`)
	for _, sub := range []string{"subagents/agent-a1", "subagents/workflows/w1/agent-b2"} {
		r.append(key(sub), meta+side)
		r.append(key(sub), meta+side) // its answer was lost
	}
	r.append(key("other/log"), line(21, ""))
	calls := must.Get(r.cl.Session(id).AgentCalls(t.Context()))(t)
	must.Same(t, fmt.Sprint(calls), "map[agent-a1:t1 agent-b2:t1]", "calls = %s, want %s")
	must.Same(t, len(must.Get(artifactstore.Of(r.conn, 0).Records(t.Context(), id, ""))(t)), 2, "%d artifacts, want %d")

	done, dir := r.materialize(id)
	if len(done.Lost) != 1 || !strings.Contains(done.Lost[0], "/sub-") {
		t.Errorf("not restored: %q, want the one that is no subagent's", done.Lost)
	}
	for _, sub := range []string{"subagents/agent-a1", "subagents/workflows/w1/agent-b2"} {
		name := strings.TrimSuffix(done.File, ".jsonl") + "/" + sub
		must.Same(t, string(must.Get(dir.ReadFile(name+".jsonl"))(t)), side, "the file of "+sub+" = %s, want %s")
		must.Same(t, string(must.Get(dir.ReadFile(name+".meta.json"))(t)), `{"agentType":"gardener","toolUseId":"t1"}`,
			"what is beside "+sub+" = %s, want %s")
	}
}

// TestFileFirst: the store goes on from what was imported, and lists it; what a file says otherwise is what the session is.
func TestFileFirst(t *testing.T) {
	r := start(t)
	r.persister()
	main := key("")
	r.write(main, tag+lines(1, 4))
	r.write(key("subagents/agent-a1"), line(9, `"isSidechain":true,"agentId":"a1",`))
	listed := must.Get(r.store.List(t.Context(), project, func(string) bool { return true }))(t)
	if len(listed) != 1 || listed[0].Session != id {
		t.Errorf("List = %+v, want what was imported", listed)
	}
	must.Same(t, r.load(main), tag+lines(1, 4), "load = %s, want %s")
	must.Same(t, r.load(claudestore.Key{Project: "-other", Session: id}), "", "load of another project's = %q, want %q")
	got := r.append(main, tag+lines(1, 5))
	must.Same(t, got, claudestore.Appended{Entries: 1, Repeated: 5, Total: 6}, "append = %+v, want %+v")
	got = r.append(key("subagents/agent-a1"), line(9, "")+line(10, ""))
	must.Same(t, got, claudestore.Appended{Entries: 1, Repeated: 1, Total: 2}, "append to a subagent = %+v, want %+v")
	must.Same(t, r.threads(), "agent-a1 main", "threads = %s, want %s")

	rewritten := lines(1, 2) + line(7, "") + tag
	r.write(main, rewritten) // what it said before is in a former generation
	must.Same(t, r.load(main), rewritten, "load of a rewritten file = %s, want %s")
	got = r.append(main, lines(7, 8))
	must.Same(t, got, claudestore.Appended{Entries: 1, Repeated: 1, Total: 5}, "append behind it = %+v, want %+v")
	must.Same(t, strings.Join(must.Get(r.store.Subkeys(t.Context(), main))(t), " "), "subagents/agent-a1", "subkeys = %s, want %s")
}

// TestFileAhead: what a file brought before the SDK does is a repeat, entries without a uuid that come alone too, once each.
func TestFileAhead(t *testing.T) {
	r := start(t)
	r.persister()
	main, agent := key(""), key("subagents/agent-a1")
	mode := `{"type":"mode","mode":"plan","sessionId":"` + id + `"}` + "\n"
	all := mode + line(1, "") + mode + line(2, "") + tag + mode + line(3, "")
	r.write(main, all)
	for text := range strings.Lines(all) {
		must.Same(t, r.append(main, text), claudestore.Appended{Repeated: 1, Total: 7}, "append of "+text+" = %+v, want %+v")
	}
	r.append(main, mode)
	r.append(main, mode)
	must.Same(t, r.load(main), all+mode+mode, "load = %s, want %s")
	r.write(main, all+mode+mode+line(4, "")+tag)
	r.append(main, line(4, ""))
	r.append(main, tag)
	r.append(main, tag)
	must.Same(t, r.load(main), all+mode+mode+line(4, "")+tag+tag, "load = %s, want %s")

	r.append(agent, meta) // before the file has a line
	r.write(agent, line(11, `"isSidechain":true,"agentId":"a1",`))
	r.append(agent, line(11, ""))
	must.Same(t, r.load(agent), meta+line(11, `"isSidechain":true,"agentId":"a1",`), "load of a subagent = %s, want %s")
	must.Same(t, r.threads(), "agent-a1 main", "threads = %s, want %s")
}

// TestAtOnce: the SDK and imports bring the same entries at the same time, and each is there once.
func TestAtOnce(t *testing.T) {
	r := start(t)
	r.persister()
	main := key("")
	for n := 1; n <= 40; n += 4 {
		var all sync.WaitGroup
		all.Go(func() {
			for i := n; i < n+4; i++ {
				r.append(main, line(i, ""))
			}
		})
		all.Go(func() { r.write(main, lines(1, n+3)) })
		all.Wait()
	}
	r.imports()
	must.Same(t, r.load(main), lines(1, 40), "load = %s, want %s")
	must.Same(t, r.threads(), "main", "threads = %s, want %s")
}

// TestProjectsAtOnce: sessions of one id that two projects begin at once are two, whichever begins with a subpath.
func TestProjectsAtOnce(t *testing.T) {
	r := start(t)
	r.persister()
	for n := range 10 {
		session := fmt.Sprintf("%08x-1111-4222-8333-444455556666", n)
		var all sync.WaitGroup
		for i, of := range []string{"-a", "-b", "-c"} {
			store := claudestore.On(r.conn, r.cl)
			all.Go(func() {
				for _, sub := range []string{"subagents/agent-1", ""} {
					k := claudestore.Key{Project: of, Session: session, Subpath: sub}
					must.Get(store.Append(t.Context(), k, []byte(line(i, "")), func(int, int) error { return nil }))(t)
				}
			})
		}
		all.Wait()
		for i, of := range []string{"-a", "-b", "-c"} {
			for _, sub := range []string{"subagents/agent-1", ""} {
				k := claudestore.Key{Project: of, Session: session, Subpath: sub}
				must.Same(t, r.load(k), line(i, ""), "load = %s, want %s")
			}
		}
	}
}

// TestWithoutPersister: an append waits for a persister, and what it did not answer for is there once when it is sent again.
func TestWithoutPersister(t *testing.T) {
	r := start(t)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := r.store.Append(short, key(""), []byte(lines(1, 3)), func(int, int) error { return nil })
	if err == nil {
		t.Fatal("Append without a persister returns nil, want an error")
	}
	r.persister()
	must.Same(t, r.append(key(""), lines(1, 4)), claudestore.Appended{Entries: 1, Repeated: 3, Total: 4}, "append = %+v, want %+v")
	must.Same(t, r.load(key("")), lines(1, 4), "load = %s, want %s")
}

// TestManySessions: what a process remembers of sessions is bounded, and what it forgot it knows again.
func TestManySessions(t *testing.T) {
	r := start(t)
	r.persister()
	r.store.Bound(8, 20)
	for round := range 2 {
		for n := range 30 {
			k := claudestore.Key{Project: project, Session: fmt.Sprintf("%08x-1111-4222-8333-444455556666", n)}
			want := claudestore.Appended{Entries: 5, Total: 5}
			if round > 0 {
				want = claudestore.Appended{Repeated: 5, Total: 5}
			}
			must.Same(t, r.append(k, lines(1, 5)), want, "append = %+v, want %+v")
		}
		if states, ids := r.store.Known(); states > 8 || ids > 25 {
			t.Errorf("%d threads with %d ids are remembered, want 8 and 20 and one more at most", states, ids)
		}
	}
}
