package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/rehydrate"
	"spool/pkg/sessions"
)

func init() { groups["sessions"] = sessionsGroup }

// sessionsGroup replays calls of the oracle's SessionManager on a Tree (SPEC S3, S4, S7–S9, S12). Each scenario gives a
// case per part of its result.
func sessionsGroup(dir string, report func(Case)) error {
	return eachFolder(dir, func(name, path string) error {
		ops, err := readJSON(filepath.Join(path, "ops.json"))
		if err != nil {
			return err
		}
		if ops, err = expand(ops); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		want, err := readObject(filepath.Join(path, "result.14.9.9.json"))
		if err != nil {
			return err
		}
		if want["files"], err = oracleFiles(filepath.Join(path, "files.14.9.9")); err != nil {
			return err
		}
		want["blobs"] = blobHashes(want["blobs"])
		r, err := replay(name, items(ops))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return r.report(want, report)
	})
}

// oracleFiles are the files that the oracle left: the lines of a session, the text of an artifact.
func oracleFiles(dir string) (map[string]any, error) {
	files := map[string]any{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(strings.TrimSuffix(name, ".gz"))
		if strings.HasSuffix(path, ".gz") {
			b, err = readFile(strings.TrimSuffix(path, ".gz"))
		}
		if strings.HasSuffix(name, ".jsonl") {
			files[name] = linesOf(string(b))
		} else {
			files[name] = string(b)
		}
		return err
	})
	if os.IsNotExist(err) { // a session that was never written
		return files, nil
	}
	return files, err
}

// result is what a replay left, in the shape of the oracle's result.
func (r *scenario) result(contexts []any) (map[string]any, error) {
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	reload, err := r.reload()
	if err != nil {
		return nil, err
	}
	u := r.tree.Usage()
	labels := map[string]any{}
	for id, label := range r.tree.Labels() {
		labels[id] = label
	}
	at := make([]any, len(contexts))
	for i, c := range contexts {
		leaf := field(c, "leafId")
		at[i] = map[string]any{"leafId": leaf, "context": contextAt(r.tree, leaf)}
	}
	return map[string]any{
		"ids": mustJSON(encodeJSON(r.ids)), "log": r.log, "snapshots": r.snapshots, "final": r.snapshot(),
		"header": mustJSON(r.tree.Header().JSON()), "entries": entriesOf(r.tree), "tree": nodesOf(r.tree.Roots()), "labels": labels,
		"usage": mustJSON(fmt.Appendf(nil, `{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":%d,"premiumRequests":%d,"cost":%v}`,
			u.Input, u.Output, u.CacheRead, u.CacheWrite, u.PremiumRequests, u.Cost)),
		"contexts": at, "files": files, "blobs": r.store.hashes(), "reload": reload,
	}, nil
}

func (r *scenario) report(want map[string]any, report func(Case)) error {
	got, err := r.result(items(want["contexts"]))
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	for _, part := range slices.Sorted(maps.Keys(want)) {
		if part == "version" {
			continue
		}
		report(Case{
			Name: r.name + "/" + part, Got: got[part], Want: want[part],
			When: map[string]func() bool{
				"leaf is not the last entry": func() bool { return leafID(r.tree) != lastID(r.tree) },
				"path becomes a session":     func() bool { return r.extracted },
				"artifacts are forked":       func() bool { return r.forkedArtifacts },
				"no answer yet":              func() bool { return !r.tree.Listed() },
			},
			Holds: map[string]func() error{
				"every entry is kept": func() error {
					return same(true, field(got["reload"], "sameAsInMemory"))
				},
				"the leaf is kept":                        func() error { return r.keepsLeaf(part, got, want) },
				"each entry once, and under its ancestor": func() error { return r.relinked(part, got, want) },
				"each artifact is kept":                   func() error { return r.keepsArtifacts(part, got, want) },
			},
		})
	}
	return nil
}

// reload reads the session back from its file.
func (r *scenario) reload() (any, error) {
	b, err := r.persisted(r.tree)
	if err != nil {
		return nil, err
	}
	var back []byte
	for line := range bytes.Lines(b) {
		line, err := rehydrate.Resolve(context.Background(), line, r.store, func(rehydrate.Missing) {})
		if err != nil {
			return nil, err
		}
		back = append(back, line...)
	}
	f, err := sessions.Load(back)
	if err != nil {
		return nil, err
	}
	tree := f.Tree()
	ids := []any{}
	for _, e := range tree.Entries() {
		ids = append(ids, e.ID)
	}
	var entries any = entriesOf(tree)
	same := difference(entriesOf(r.tree), entries) == ""
	if same {
		entries = "<same as .entries>"
	}
	return map[string]any{
		"leafId": leafID(tree), "sameAsInMemory": same, "header": mustJSON(tree.Header().JSON()), "entryIds": ids,
		"entries": entries, "context": mustJSON(tree.Context(tree.Leaf()).JSON()),
	}, nil
}

// files are the sessions and artifacts as they are kept.
func (r *scenario) files() (map[string]any, error) {
	files := map[string]any{}
	for _, s := range append(r.older, session{r.tree, r.artifacts}) {
		name := s.tree.Header().FileName()
		if s.tree.Listed() { // the oracle writes no file before (SPEC S8)
			b, err := r.persisted(s.tree)
			if err != nil {
				return nil, err
			}
			files[name] = linesOf(string(b))
		}
		for artifact, content := range s.artifacts {
			files[strings.TrimSuffix(name, ".jsonl")+"/"+artifact] = content
		}
	}
	return files, nil
}

// persisted is the file of a session with the rules for entries applied (SPEC T1–T6).
func (r *scenario) persisted(t *sessions.Tree) ([]byte, error) {
	b, err := write(t)
	if err != nil {
		return nil, err
	}
	var out []byte
	for line := range bytes.Lines(b) {
		entry, err := r.persist(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return nil, err
		}
		out = append(append(out, entry...), '\n')
	}
	return out, nil
}

// keepsLeaf: what differs is the leaf, which was stored.
func (r *scenario) keepsLeaf(part string, got, want map[string]any) error {
	switch part {
	case "files":
		name := r.tree.Header().FileName()
		lines := items(got["files"].(map[string]any)[name])
		header, ok := clone(lines[0]).(map[string]any)
		if !ok || field(header["leaf"], "id") != leafID(r.tree) {
			return fmt.Errorf("header is %v", lines[0])
		}
		delete(header, "leaf")
		files := maps.Clone(got["files"].(map[string]any))
		files[name] = append([]any{header}, lines[1:]...)
		return same(want["files"], files)
	case "reload":
		reload := maps.Clone(want["reload"].(map[string]any))
		reload["leafId"] = leafID(r.tree)
		reload["context"] = mustJSON(r.tree.Context(r.tree.Leaf()).JSON())
		return same(reload, got["reload"])
	}
	return fmt.Errorf("%s must not differ", part)
}

// relinked: the oracle leaves entries whose parent was a label without an ancestor, and writes a session that it had not
// written yet twice, or not at all.
func (r *scenario) relinked(part string, got, want map[string]any) error {
	entries := relink(items(want["entries"]))
	tree := treeOf(entries)
	if err := same(entries, got["entries"]); err != nil {
		return err
	}
	switch part {
	case "entries":
		return nil
	case "tree":
		return same(nodesOf(tree.Roots()), got["tree"])
	case "contexts":
		for _, c := range items(got["contexts"]) {
			if err := same(contextAt(tree, field(c, "leafId")), field(c, "context")); err != nil {
				return err
			}
		}
		return nil
	case "files":
		files := got["files"].(map[string]any)
		for name, lines := range want["files"].(map[string]any) {
			if err := same(relink(items(lines)), files[name]); err != nil && strings.HasSuffix(name, ".jsonl") {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case "final":
		final := maps.Clone(want["final"].(map[string]any))
		types := []any{"session"}
		for _, e := range entries {
			types = append(types, field(e, "type"))
		}
		final["lineTypes"], final["physicalLines"] = types, integer(len(types))
		return same(final, got["final"])
	case "reload":
		reload := map[string]any{"sameAsInMemory": true, "entries": "<same as .entries>"}
		for _, name := range []string{"leafId", "header"} {
			reload[name] = field(want["reload"], name)
		}
		ids := []any{}
		for _, e := range entries {
			ids = append(ids, field(e, "id"))
		}
		reload["entryIds"], reload["context"] = ids, contextAt(tree, reload["leafId"])
		return same(reload, got["reload"])
	}
	return fmt.Errorf("%s must not differ", part)
}

// relink drops records that came before, and puts an entry whose parent is not there under the one before it.
func relink(records []any) []any {
	seen, out := map[any]bool{}, []any{}
	var last any
	for _, record := range records {
		id := field(record, "id")
		if seen[id] {
			continue
		}
		e := clone(record).(map[string]any)
		if parent, ok := e["parentId"].(string); ok && !seen[parent] {
			e["parentId"] = last
		}
		if seen[id] = true; e["type"] != "session" {
			last = id
		}
		out = append(out, e)
	}
	return out
}

// keepsArtifacts: the oracle counts from 0 again in a fork and writes over the artifacts that the fork came with.
func (r *scenario) keepsArtifacts(part string, got, want map[string]any) error {
	switch part {
	case "log":
		taken := map[any]bool{}
		for i, entry := range items(got["log"]) {
			number := field(entry, "result")
			if field(entry, "op") == "saveArtifact" {
				if taken[number] {
					return fmt.Errorf("artifact %v twice", number)
				}
				taken[number] = true
				continue
			}
			if err := same(items(want["log"])[i], entry); err != nil {
				return err
			}
		}
		return nil
	case "files":
		mine := got["files"].(map[string]any)
		for name, content := range want["files"].(map[string]any) {
			if strings.HasSuffix(name, ".jsonl") && difference(content, mine[name]) == "" {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(mine)), func(file string) bool {
				return filepath.Dir(file) == filepath.Dir(name) && difference(mine[file], content) == ""
			}) {
				return fmt.Errorf("%s is lost", name)
			}
		}
		for _, s := range r.older {
			for name, content := range s.artifacts {
				if r.artifacts[name] != content {
					return fmt.Errorf("%s of the session forked is not in the fork", name)
				}
			}
		}
		return nil
	}
	return fmt.Errorf("%s must not differ", part)
}
