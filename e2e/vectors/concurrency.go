package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"spool/internal/embedded"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// crashDir names, in the environment, the directory on which this program is the process that is killed.
const crashDir, crashAppends = "SPOOL_VECTORS_CRASH", "SPOOL_VECTORS_APPENDS"

func init() {
	groups["concurrency"] = concurrencyGroup
	if dir := os.Getenv(crashDir); dir != "" {
		fmt.Fprintln(os.Stderr, appendAndDie(dir))
		os.Exit(1)
	}
}

// concurrencyGroup lets two writers append to one session, and kills a process whose appends have returned (SPEC S13).
func concurrencyGroup(dir string, report func(Case)) error {
	want, err := readObject(filepath.Join(dir, "expected.18.2.3.json"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := twoWriters(ctx, want, report); err != nil {
		return fmt.Errorf("two writers: %w", err)
	}
	runs := items(field(want["kill9"], "survivedPerRun"))
	appends, _ := field(want["kill9"], "appendsReturned").(json.Number)
	survived := make([]any, len(runs))
	for i := range runs {
		n, err := killed(ctx, string(appends))
		if err != nil {
			return fmt.Errorf("kill -9, run %d: %w", i+1, err)
		}
		survived[i] = integer(n)
	}
	report(Case{Name: "kill9", Got: map[string]any{"appendsReturned": appends, "survivedPerRun": survived}, Want: want["kill9"]})
	return nil
}

// spool is Spool, running on a directory.
type spool struct {
	*client.Client
	conn *natsio.Conn
	stop func() error
}

// start runs a server, every ack of which means that the data is on the disk, and a persister.
func start(ctx context.Context, dir string) (p *spool, err error) {
	s, err := embedded.Start(embedded.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	conn, err := natsio.Dial(ctx, natsio.Config{InProcess: s})
	if err == nil {
		err = conn.Ensure(ctx, natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20})
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	died := make(chan error, 1)
	go func() { died <- service.NewPersister(conn, service.PersisterConfig{}, nil).Run(ctx) }()
	return &spool{Client: client.New(conn), conn: conn, stop: func() error {
		cancel()
		err := <-died
		conn.Close()
		s.Stop()
		return err
	}}, nil
}

// the session of the scenario.
var raced = events.Thread{Session: "raced", Name: events.MainThread}

// beginning is what both writers find: a session file with a title slot, a prompt and its answer.
var beginning = []string{
	`{"type":"title","v":1,"title":"Race","pad":"` + strings.Repeat(" ", 211) + `"}`,
	`{"type":"session","version":3,"id":"raced","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/w"}`,
	`{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-11-20T10:00:01.000Z","message":{"role":"user","content":"base"}}`,
	`{"type":"message","id":"00000002","parentId":"00000001","timestamp":"2026-11-20T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"base-a"}]}}`,
}

func twoWriters(ctx context.Context, want map[string]any, report func(Case)) (err error) {
	dir, err := os.MkdirTemp("", "spool-vectors-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := start(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.say(ctx, beginning...); err != nil {
		return err
	}
	one, err := p.SessionWriter(ctx, raced, "1")
	if err != nil {
		return err
	}
	two, err := p.SessionWriter(ctx, raced, "2")
	if err != nil {
		return err
	}
	r := &race{spool: p, want: want, report: report, dir: dir}
	return errors.Join(r.interleave(ctx, one, two), r.rename(ctx, two), r.rewrite(ctx), r.goOn(ctx, one))
}

// race is the scenario on its way.
type race struct {
	*spool
	want   map[string]any
	report func(Case)
	dir    string
}

// interleave: both append after the same entry; the second is told which entry is the leaf.
func (r *race) interleave(ctx context.Context, one, two *client.SessionWriter) error {
	first, err := one.Append(ctx, said("from-1"))
	if err != nil {
		return err
	}
	var moved *client.LeafMoved
	if _, err = two.Append(ctx, said("from-2")); !errors.As(err, &moved) {
		return fmt.Errorf("the second writer is told %v, not that the leaf has moved", err)
	}
	file, tree, err := r.file(ctx)
	if err != nil {
		return err
	}
	r.report(Case{Name: "interleaved", Got: file, Want: r.want["afterInterleavedAppends"]})
	parents := []any{}
	for _, e := range tree.Entries() {
		parent, err := tree.Entry(e.Parent)
		if err != nil {
			parents = append(parents, nil)
			continue
		}
		parents = append(parents, name(parent.Raw))
	}
	r.report(Case{Name: "parents", Got: parents, Want: r.want["parents"]})
	r.report(Case{Name: "told", Got: []any{moved.Taken, tree.Leaf().ID()}, Want: []any{first, first}})
	return nil
}

// rename appends an entry for the writer that has lost the leaf.
func (r *race) rename(ctx context.Context, two *client.SessionWriter) error {
	draft, err := sessions.ParseDraft([]byte(`{"type":"title_change","title":"Renamed"}`))
	if err != nil {
		return err
	}
	var moved *client.LeafMoved
	if _, err := two.Append(ctx, draft); err != nil && !errors.As(err, &moved) {
		return err
	}
	file, _, err := r.file(ctx)
	r.report(Case{Name: "rename2", Got: map[string]any{"file": file}, Want: r.want["rename2"]})
	return err
}

// rewrite gives Spool the file as the second writer would write it whole, without what the first one appended.
func (r *race) rewrite(ctx context.Context) error {
	before, _, err := r.file(ctx)
	if err != nil {
		return err
	}
	own := append(beginning[:len(beginning):len(beginning)], strings.Replace(beginning[2], "base", "rewritten", 1))
	if err := os.MkdirAll(filepath.Join(r.dir, "sessions"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "sessions", "raced.jsonl"), []byte(strings.Join(own, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	sources, err := transcript.Find(os.DirFS(r.dir), "sessions")
	if err != nil {
		return err
	}
	res := transcript.New(r.Client, r.conn.Events(), transcript.Config{Dialect: "omp"}).Import(ctx, sources)
	if res.Failed > 0 || len(res.Files) != 1 {
		return fmt.Errorf("import of the rewritten file: %+v", res)
	}
	last := res.Files[0].Last
	if err := r.Await(ctx, res.Files[0].ID(), last.Producer, last.Epoch, last.Seq); err != nil {
		return err
	}
	after, _, err := r.file(ctx)
	got := map[string]any{"file": after}
	apart := res.Files[0].ID() != raced
	r.report(Case{
		Name: "fullRewriteBy2", Got: got, Want: r.want["fullRewriteBy2"],
		Holds: map[string]func() error{"entries stay": func() error {
			if !apart {
				return fmt.Errorf("the rewritten file went into %s", raced)
			}
			return errors.Join(same(before, after), same(field(r.want["fullRewriteBy2"], "file"), after))
		}},
	})
	return err
}

// goOn appends after the first writer's own entry, which is the leaf still.
func (r *race) goOn(ctx context.Context, one *client.SessionWriter) error {
	if _, err := one.Append(ctx, said("from-1-again")); err != nil {
		return err
	}
	file, _, err := r.file(ctx)
	r.report(Case{Name: "appendBy1After", Got: map[string]any{"file": file}, Want: r.want["appendBy1After"]})
	return err
}

func said(text string) sessions.Draft {
	return sessions.Message(fmt.Appendf(nil, `{"role":"user","content":%q}`, text))
}

// say publishes lines as they are and waits until they are in their thread.
func (p *spool) say(ctx context.Context, lines ...string) error {
	pub := p.Publisher(client.PublisherConfig{})
	entries := make([]client.Entry, len(lines))
	for i, line := range lines {
		entries[i] = client.Entry{Thread: raced, Dialect: "omp", Body: []byte(line)}
	}
	if err := pub.Publish(ctx, entries...); err != nil {
		return err
	}
	return p.Await(ctx, raced, pub.Producer(), 0, uint64(len(lines)))
}

// file is the names of what an export has, line by line, and the tree of the session.
func (p *spool) file(ctx context.Context) (names []any, tree *client.Tree, err error) {
	var out bytes.Buffer
	if _, err := p.Export(ctx, raced, &out); err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out.String()) {
		names = append(names, name([]byte(line)))
	}
	tree, err = p.Tree(ctx, raced)
	return names, tree, err
}

// name is what the oracle calls a line: what a message says, or the type of anything else.
func name(line []byte) any {
	v, err := decodeJSON(line)
	if err != nil {
		return string(line)
	}
	switch content := field(field(v, "message"), "content").(type) {
	case string:
		return content
	case []any:
		if len(content) > 0 {
			return field(content[0], "text")
		}
	}
	return field(v, "type")
}

// killed lets another process append so many entries, each acked, and kill itself at once; it returns how many are there when
// Spool is started again.
func killed(ctx context.Context, appends string) (survived int, err error) {
	dir, err := os.MkdirTemp("", "spool-vectors-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashAppends+"="+appends)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return 0, fmt.Errorf("the process was to kill itself, and ended with %v: %s", err, out)
	}
	p, err := start(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.say(ctx, `{"type":"custom","customType":"last"}`); err != nil { // behind all that was stored before
		return 0, err
	}
	tree, err := p.Tree(ctx, raced)
	if err != nil {
		return 0, err
	}
	for i, e := range tree.Entries() {
		if name(e.Raw) != fmt.Sprintf("append %d", i) {
			break
		}
		survived++
	}
	return survived, nil
}

// appendAndDie is the process that is killed: right after its last append has returned.
func appendAndDie(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var appends int
	if _, err := fmt.Sscan(os.Getenv(crashAppends), &appends); err != nil {
		return err
	}
	p, err := start(ctx, dir)
	if err != nil {
		return err
	}
	pub := p.Publisher(client.PublisherConfig{})
	for i := range appends {
		line := fmt.Appendf(nil, `{"type":"message","id":"%08d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"append %d"}}`, i, i)
		if err := pub.Publish(ctx, client.Entry{Thread: raced, Dialect: "omp", Body: line}); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}
