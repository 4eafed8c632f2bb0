package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// live replays a scenario on a running Spool. What it is compared by is read back from there: entries, leaf and labels by the
// client, files, blobs and artifacts by `spool session export`, contexts over HTTP. Ids and times that Spool gave are called as
// the oracle's harness would have called them; nothing else is remembered here.
type live struct {
	*scenario
	*product
	ctx     context.Context
	session string
	writer  *client.SessionWriter
	older   []string          // sessions that the scenario has left
	onDisk  []string          // sessions whose files are asked for before they are listed
	renamed map[string]string // what Spool gave, by what the harness gives
	stamped map[string]string // times of entries, by their ids as the harness gives them
}

func replayLive(ctx context.Context, p *product, name string, ops []any) (*live, error) {
	p.scenarios++
	l := &live{
		scenario: &scenario{name: name, now: firstTime, ids: map[string]any{}, snapshots: map[string]any{}, own: map[string]string{}},
		product:  p, ctx: ctx, renamed: map[string]string{}, stamped: map[string]string{},
	}
	if err := l.begin("<ROOT>/proj", ""); err != nil {
		return nil, err
	}
	for _, op := range ops {
		result, err := l.call(op)
		leaf, lerr := l.leaf()
		if lerr != nil {
			return nil, fmt.Errorf("%v: %w", field(op, "op"), lerr)
		}
		l.note(op, result, leaf, err)
	}
	return l, nil
}

// begin makes a session and goes on in it.
func (l *live) begin(cwd, parent string) error {
	id := l.newID()
	if err := l.Session(id).New(l.ctx, cwd, parent); err != nil {
		return err
	}
	return l.enter(id)
}

// newID is a session id of this run, called as the harness calls it.
func (l *live) newID() string {
	called := l.sessionID()
	id := fmt.Sprintf("%s-%d", called, l.scenarios)
	l.renamed[id] = called
	return id
}

// enter goes on in a session.
func (l *live) enter(id string) (err error) {
	l.session = id
	tree, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return err
	}
	l.renamed[tree.Header().Timestamp] = sessions.FormatTime(l.tick())
	l.writer, err = l.Thread(l.thread()).Writer(l.ctx, "")
	return err
}

func (l *live) thread() events.Thread {
	return events.Thread{Session: l.session, Name: events.MainThread}
}

func (l *live) leaf() (any, error) {
	tree, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return nil, err
	}
	return l.called(leafID(tree.Tree)), nil
}

// call does one call and returns what the oracle logs as its result.
func (l *live) call(op any) (any, error) {
	arg := func(name string) any { return field(op, name) }
	switch arg("op") {
	case "appendLabelChange":
		return l.appended(l.Thread(l.thread()).Label(l.ctx, l.id(arg("target")), str(arg("label"))))
	case "branch":
		if err := l.Thread(l.thread()).Branch(l.ctx, l.id(arg("to"))); err != nil {
			return nil, err
		}
		l.writer.GoTo(l.id(arg("to")))
		return nil, nil
	case "resetLeaf":
		l.writer.GoTo("")
		return nil, l.Thread(l.thread()).Reset(l.ctx)
	case "branchWithSummary":
		return l.appended(l.Thread(l.thread()).BranchWithSummary(l.ctx, l.id(arg("to")), summarized(op)))
	case "snapshot":
		snapshot, err := l.snapshot()
		l.snapshots[str(arg("name"))] = snapshot
		return nil, err
	case "flush": // every entry is durable as soon as it is appended
		return nil, nil
	case "ensureOnDisk": // an export writes the file before there is an answer
		l.onDisk = append(l.onDisk, l.session)
		return nil, nil
	case "inMemory":
		l.older, l.inMemory = append(l.older, l.session), true
		return nil, l.begin("<ROOT>/proj", "")
	case "newSession":
		l.older = append(l.older, l.session)
		return nil, l.begin("<ROOT>/proj", str(arg("parentSession")))
	case "saveArtifact":
		tool := str(arg("tool"))
		a := client.NewArtifact{Tool: tool}
		a.Session = l.session
		rec, err := l.Artifacts().Put(l.ctx, a, strings.NewReader(str(arg("content"))))
		return string(rec.Seq), err
	case "allocateArtifactPath":
		n, file, err := l.Session(l.session).TakeNumber(l.ctx, str(arg("tool")))
		return map[string]any{"id": string(n), "file": file}, err
	case "setSessionName": // false: it is none, or the user gave one
		err := l.Session(l.session).Name(l.ctx, str(arg("name")), arg("source") == "auto")
		if errors.Is(err, client.ErrTitled) || errors.Is(err, events.ErrControl) {
			return false, nil
		}
		return err == nil, err
	case "fork":
		return l.forked(client.SessionFork{})
	case "createBranchedSession":
		l.extracted = true
		both, err := l.forked(client.SessionFork{Path: true, Leaf: l.id(arg("leaf"))})
		return field(both, "new"), err
	}
	if d, ok := l.draft(op); ok {
		return l.appended(l.writer.Append(l.ctx, d))
	}
	return nil, fmt.Errorf("there is no call %v", arg("op"))
}

// appended calls the entry that an append made as the harness would have.
func (l *live) appended(id string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	called := l.stamp()
	l.renamed[id], l.own[called.ID] = called.ID, id
	l.stamped[id] = sessions.FormatTime(called.Time)
	l.writer.GoTo(id)
	return called.ID, nil
}

func (l *live) forked(how client.SessionFork) (any, error) {
	old, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return nil, err
	}
	before, _ := l.Session(l.session).Artifacts(l.ctx)
	to := l.newID()
	if err := l.Session(l.session).Fork(l.ctx, to, how); err != nil {
		return nil, err
	}
	l.older = append(l.older, l.session)
	l.forkedArtifacts = l.forkedArtifacts || !how.Path && len(before) > 0
	if err := l.enter(to); err != nil {
		return nil, err
	}
	fork, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range fork.Entries() { // labels that the fork made again
		if l.renamed[e.ID] == "" {
			_, _ = l.appended(e.ID, nil)
		}
	}
	name := func(h sessions.Header) any { return l.fileName(h.FileName()) }
	return map[string]any{"old": name(old.Header()), "new": name(fork.Header())}, nil
}

// called is a value with ids and times as the harness gives them.
func (l *live) called(v any) any {
	switch v := v.(type) {
	case string:
		if name, ok := l.renamed[v]; ok {
			return name
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = l.called(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = l.called(e)
		}
		if at, ok := l.stamped[str(v["id"])]; ok && v["timestamp"] != nil {
			out["timestamp"] = at
		}
		return out
	}
	return v
}

// fileName is the name of a session's file, or of what is beside it.
func (l *live) fileName(name string) string {
	for given, called := range l.renamed {
		name = strings.ReplaceAll(name, given, called)
		stamp := sessions.Header{Timestamp: given}.FileName()
		at := sessions.Header{Timestamp: called}.FileName()
		name = strings.ReplaceAll(name, strings.TrimSuffix(stamp, "_.jsonl")+"_", strings.TrimSuffix(at, "_.jsonl")+"_")
	}
	return name
}

// snapshot is the oracle's look at the file of the session, which appears when the session is listed (SPEC S8).
func (l *live) snapshot() (any, error) {
	files, _, err := l.exported(l.session)
	if err != nil {
		return nil, err
	}
	leaf, err := l.leaf()
	if err != nil {
		return nil, err
	}
	types := []any{}
	for name, lines := range files {
		if strings.HasSuffix(name, ".jsonl") && !strings.Contains(name, "/") {
			for _, line := range items(lines) {
				types = append(types, field(line, "type"))
			}
		}
	}
	return map[string]any{
		"leafId": leaf, "fileExists": len(types) > 0, "physicalLines": integer(len(types)), "lineTypes": types,
	}, nil
}

// listed tells whether `spool session ls` shows a session.
func (l *live) listed(session string) (bool, error) {
	out, err := l.run(l.ctx, "session", "ls", "--all", "--json")
	return bytes.Contains(out, []byte(`"`+session+`"`)), err
}

// exported is what `spool session export` writes of a session: its file, if it is listed, and artifacts; and its blobs.
func (l *live) exported(session string) (files map[string]any, blobs []any, err error) {
	dir, err := os.MkdirTemp(l.dir, "export-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := l.run(l.ctx, "session", "export", session, "--dir", dir); err != nil {
		return nil, nil, err
	}
	listed, err := l.listed(session)
	if err != nil {
		return nil, nil, err
	}
	files, blobs = map[string]any{}, []any{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		switch {
		case parts[0] == "blobs":
			hash, _, _ := strings.Cut(parts[len(parts)-1], ".")
			blobs = append(blobs, hash)
		case strings.HasSuffix(rel, ".jsonl"):
			if listed || slices.Contains(l.onDisk, session) { // the oracle writes no file before (SPEC S8)
				files[l.fileName(strings.Join(parts[2:], "/"))] = l.called(linesOf(string(b)))
			}
		case strings.HasSuffix(rel, ".spool.json"): // an export's own note of what its rules moved; no file of the program's
		case len(parts) > 2:
			files[l.fileName(strings.Join(parts[2:], "/"))] = string(b)
		}
		return err
	})
	slices.SortFunc(blobs, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return files, slices.Compact(blobs), err
}

// whole is the session's entries as its agent wrote them.
func (l *live) whole() (*sessions.Tree, error) {
	var b bytes.Buffer
	if _, err := l.Thread(l.thread()).Export(l.ctx, &b); err != nil {
		return nil, err
	}
	f, err := sessions.Load(b.Bytes())
	if err != nil {
		return nil, err
	}
	return f.Tree(), nil
}

// result is what a replay left, in the shape of the oracle's result.
func (l *live) result(contexts []any) (map[string]any, error) {
	tree, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return nil, err
	}
	whole, err := l.whole()
	if err != nil {
		return nil, err
	}
	final, err := l.snapshot()
	if err != nil {
		return nil, err
	}
	files, blobs := map[string]any{}, []any{}
	for _, session := range append(slices.Clone(l.older), l.session) {
		some, its, err := l.exported(session)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, some)
		blobs = append(blobs, its...)
	}
	at := make([]any, len(contexts))
	for i, c := range contexts {
		leaf := field(c, "leafId")
		context, err := l.contextAt(leaf)
		if err != nil {
			context = err.Error()
		}
		at[i] = map[string]any{"leafId": leaf, "context": context}
	}
	reload, err := l.reload(tree, whole)
	if err != nil {
		return nil, err
	}
	labels := map[string]any{}
	for id, label := range tree.Labels() {
		labels[str(l.called(id))] = label
	}
	if err := l.remember(tree, whole); err != nil {
		return nil, err
	}
	u := whole.Usage()
	return map[string]any{
		"ids": mustJSON(encodeJSON(l.ids)), "log": l.log, "snapshots": l.snapshots, "final": final,
		"header": l.called(mustJSON(tree.Header().JSON())), "entries": l.called(entriesOf(whole)), "tree": l.called(nodesOf(tree.Roots())),
		"labels": labels, "usage": usageOf(u), "contexts": at, "files": files, "blobs": sortedStrings(blobs), "reload": reload,
	}, nil
}

// remember makes of what was read back the tree that deviations look at.
func (l *live) remember(tree *client.Tree, whole *sessions.Tree) error {
	header, err := sessions.ParseHeader(encodeJSON(l.called(mustJSON(tree.Header().JSON()))))
	if err != nil {
		return err
	}
	var entries []sessions.Entry
	for _, e := range entriesOf(whole) {
		entries = append(entries, sessions.ParseEntry(encodeJSON(l.called(e))))
	}
	l.tree = sessions.NewTree(header, entries...)
	if leaf, ok := l.called(leafID(tree.Tree)).(string); ok {
		return l.tree.Branch(leaf)
	}
	l.tree.ResetLeaf()
	return nil
}

func sortedStrings(list []any) []any {
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return slices.Compact(list)
}

func usageOf(u sessions.Usage) any {
	return mustJSON(fmt.Appendf(nil, `{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":%d,"premiumRequests":%d,"cost":%v}`,
		u.Input, u.Output, u.CacheRead, u.CacheWrite, u.PremiumRequests, u.Cost))
}

// contextAt asks for the context at a leaf as the vectors name it: over HTTP; that before the first entry has no address there.
func (l *live) contextAt(leaf any) (any, error) {
	id, named := leaf.(string)
	if !named {
		c, err := l.Thread(l.thread()).Context(l.ctx, sessions.Root, nil)
		return mustJSON(c.JSON()), err
	}
	query := url.Values{}
	if id != "<undefined>" {
		if own := l.own[id]; own != "" {
			id = own
		}
		query.Set("leaf", id)
	}
	b, err := l.get(l.ctx, "/v1/sessions/"+l.session+"/threads/main/context", query)
	if err != nil {
		return nil, err
	}
	if whole := jsonscan.Get(b, "context"); whole != nil {
		b = whole
	}
	return l.contextCalled(mustJSON(b)), nil
}

// contextCalled is a context with times as the harness gives them: summaries have those of their entries, in milliseconds.
func (l *live) contextCalled(c any) any {
	times := map[json.Number]json.Number{}
	tree, err := l.Thread(l.thread()).Tree(l.ctx)
	if err != nil {
		return err.Error()
	}
	for _, e := range tree.Entries() {
		given, _ := time.Parse(time.RFC3339, str(field(mustJSON(e.JSON()), "timestamp")))
		called, err := time.Parse(time.RFC3339, l.stamped[e.ID])
		if err == nil {
			times[integer(int(given.UnixMilli()))] = integer(int(called.UnixMilli()))
		}
	}
	for _, m := range items(field(c, "messages")) {
		if n, ok := field(m, "timestamp").(json.Number); ok && times[n] != "" {
			m.(map[string]any)["timestamp"] = times[n]
		}
	}
	return l.called(c)
}

// reload reads the session by another client.
func (l *live) reload(tree *client.Tree, whole *sessions.Tree) (any, error) {
	out, err := l.run(l.ctx, "export", l.session)
	if err != nil {
		return nil, err
	}
	f, err := sessions.Load(out)
	if err != nil {
		return nil, err
	}
	again := f.Tree()
	ids := []any{}
	for _, e := range again.Entries() {
		ids = append(ids, e.ID)
	}
	entries, context := l.called(entriesOf(again)), any(nil)
	equal := difference(entriesOf(whole), entriesOf(again)) == ""
	if equal {
		entries = "<same as .entries>"
	}
	if context, err = l.contextAt("<undefined>"); err != nil {
		return nil, err
	}
	return map[string]any{
		"leafId": l.called(leafID(tree.Tree)), "sameAsInMemory": equal, "header": l.called(mustJSON(f.Header.JSON())),
		"entryIds": l.called(ids), "entries": entries, "context": context,
	}, nil
}
