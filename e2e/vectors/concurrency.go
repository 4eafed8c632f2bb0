package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

func init() { groups["concurrency"] = concurrencyGroup }

// concurrencyGroup lets two writers append to one session, and kills a Spool whose appends have returned (SPEC S13).
func concurrencyGroup(dir string, report func(Case)) error {
	want, err := readObject(filepath.Join(dir, "expected.18.2.3.json"))
	if err != nil {
		return err
	}
	p, err := running()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.twoWriters(ctx, want, report); err != nil {
		return fmt.Errorf("two writers: %w", err)
	}
	appends, _ := number(field(want["kill9"], "appendsReturned"))
	survived := make([]any, len(items(field(want["kill9"], "survivedPerRun"))))
	for i := range survived {
		n, err := p.killed(ctx, appends)
		if err != nil {
			return fmt.Errorf("kill -9, run %d: %w", i+1, err)
		}
		survived[i] = integer(n)
	}
	got := map[string]any{"appendsReturned": integer(appends), "survivedPerRun": survived}
	report(Case{Name: "kill9", Got: got, Want: want["kill9"]})
	return nil
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

func (p *product) twoWriters(ctx context.Context, want map[string]any, report func(Case)) error {
	if err := p.say(ctx, beginning...); err != nil {
		return err
	}
	one, err := p.Thread(raced).Writer(ctx, "1")
	if err != nil {
		return err
	}
	two, err := p.Thread(raced).Writer(ctx, "2")
	if err != nil {
		return err
	}
	r := &race{product: p, want: want, report: report}
	return errors.Join(r.interleave(ctx, one, two), r.rename(ctx, two), r.rewrite(ctx), r.goOn(ctx, one))
}

// race is the scenario on its way.
type race struct {
	*product
	want   map[string]any
	report func(Case)
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
	file := filepath.Join(r.dir, "agent", "sessions", "raced.jsonl")
	if err := writeAt(file, strings.Join(own, "\n")+"\n"); err != nil {
		return err
	}
	out, err := r.run(ctx, "import", "--json", file)
	if err != nil {
		return err
	}
	after, _, err := r.file(ctx)
	got := map[string]any{"file": after}
	apart := field(mustJSON(out), "thread") != raced.Name || field(mustJSON(out), "session") != raced.Session
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
func (p *product) say(ctx context.Context, lines ...string) error {
	pub := p.Publisher(client.PublisherConfig{})
	entries := make([]client.Entry, len(lines))
	for i, line := range lines {
		entries[i] = client.Entry{Thread: raced, Dialect: "omp", Body: []byte(line)}
	}
	if _, err := pub.Publish(ctx, entries...); err != nil {
		return err
	}
	return p.Thread(raced).Await(ctx, pub.Producer(), 0, uint64(len(lines)))
}

// file is the names of what an export has, line by line, and the tree of the session.
func (p *product) file(ctx context.Context) (names []any, tree *client.Tree, err error) {
	var out bytes.Buffer
	if _, err := p.Thread(raced).Export(ctx, &out); err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out.String()) {
		names = append(names, name([]byte(line)))
	}
	tree, err = p.Thread(raced).Tree(ctx)
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

// killed appends so many entries to a Spool of its own, each acked, kills it, and counts what the next one has.
func (p *product) killed(ctx context.Context, appends int) (survived int, err error) {
	first, err := startProduct(p.bin, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, first.stop()) }()
	pub := first.Publisher(client.PublisherConfig{})
	for i := range appends {
		line := fmt.Appendf(nil, `{"type":"message","id":"%08d","timestamp":"2026-11-20T10:00:00.000Z",`+
			`"message":{"role":"user","content":"append %d"}}`, i, i)
		if _, err := pub.Publish(ctx, client.Entry{Thread: raced, Dialect: "omp", Body: line}); err != nil {
			return 0, err
		}
	}
	if err := first.up.Process.Kill(); err != nil {
		return 0, err
	}
	_ = first.up.Wait() // killed
	again, err := startProduct(p.bin, first.data)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, again.stop()) }()
	if err := again.say(ctx, `{"type":"custom","customType":"last"}`); err != nil { // behind all that was stored before
		return 0, err
	}
	tree, err := again.Thread(raced).Tree(ctx)
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
