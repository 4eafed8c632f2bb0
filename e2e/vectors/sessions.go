package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/pkg/truncate"
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
		for _, call := range items(want["log"]) { // some say beside an error that there is no result
			if c, ok := call.(map[string]any); ok && c["error"] != nil && c["result"] == nil {
				delete(c, "result")
			}
		}
		r, got, err := run(name, items(ops), items(want["contexts"]))
		if err != nil { // the scenario fails, and the others go on
			report(Case{Name: name, Got: err.Error(), Want: nil})
			return nil
		}
		r.report(want, got, report)
		return nil
	})
}

// run replays a scenario on the product and gives what it left.
func run(name string, ops, contexts []any) (*scenario, map[string]any, error) {
	p, err := running()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	l, err := replayLive(ctx, p, name, ops)
	if err != nil {
		return nil, nil, err
	}
	got, err := l.result(contexts)
	return l.scenario, got, err
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

func (r *scenario) report(want, got map[string]any, report func(Case)) {
	for _, part := range slices.Sorted(maps.Keys(want)) {
		if part == "version" {
			continue
		}
		if part == "contexts" { // one for each leaf: what excuses one excuses no other
			for i, c := range items(want[part]) {
				r.reportPart(fmt.Sprintf("%s-%02d", part, i), part, c, itemAt(got[part], i), want, got, report)
			}
			continue
		}
		r.reportPart(part, part, want[part], got[part], want, got, report)
	}
}

func itemAt(list any, i int) any {
	if i < len(items(list)) {
		return items(list)[i]
	}
	return nil
}

func (r *scenario) reportPart(name, part string, wanted, has any, want, got map[string]any, report func(Case)) {
	report(Case{
		Name: r.name + "/" + name, Got: has, Want: wanted,
		When: map[string]func() bool{
			"unknown leaf": func() bool {
				id, ok := field(wanted, "leafId").(string)
				_, err := r.tree.Entry(id)
				return ok && id != "<undefined>" && err != nil
			},
			"leaf is not the last entry": func() bool { return leafID(r.tree) != lastID(r.tree) },
			"path becomes a session":     func() bool { return r.extracted },
			"artifacts are forked":       func() bool { return r.forkedArtifacts },
			"no answer yet":              func() bool { return !r.tree.Listed() },
			"in memory":                  func() bool { return r.inMemory },
			"forgotten image":            func() bool { return len(refsOf(field(wanted, "entries"))) > 0 && len(refsOf(want["entries"])) == 0 },
			"empty label":                func() bool { return difference(withoutEmptyLabels(wanted), wanted) != "" },
		},
		Holds: map[string]func() error{
			"not found by its name": func() error {
				return notFound(field(has, "context"), field(wanted, "leafId"))
			},
			"the session is there again": func() error {
				return same(reloadOf(items(want["entries"]), want["header"], field(want["final"], "leafId")), has)
			},
			"each image is restored": func() error {
				return same(reloadOf(items(want["entries"]), want["header"], field(want["final"], "leafId")), has)
			},
			"as the oracle but for the member":        func() error { return same(withoutEmptyLabels(wanted), has) },
			"it is kept all the same":                 func() error { return r.isKept(part, want, has) },
			"the leaf is kept":                        func() error { return r.keepsLeaf(part, wanted, has, got, want) },
			"each entry once, and under its ancestor": func() error { return r.relinked(part, has, got, want) },
			"each artifact is kept":                   func() error { return r.keepsArtifacts(part, got, want) },
		},
	})
}

// refsOf are the texts in a value that are refs of blobs.
func refsOf(v any) (refs []string) {
	eachValue(v, nil, func(v any, _ place) {
		if s, ok := v.(string); ok && truncate.IsRef(s) {
			refs = append(refs, s)
		}
	})
	return refs
}

// reloadOf is what a session with such entries is when it is read again.
func reloadOf(entries []any, header, leaf any) map[string]any {
	ids := []any{}
	for _, e := range entries {
		ids = append(ids, field(e, "id"))
	}
	return map[string]any{
		"sameAsInMemory": true, "entries": "<same as .entries>", "header": header, "leafId": leaf, "entryIds": ids,
		"context": contextAt(treeOf(entries), leaf),
	}
}

// withoutEmptyLabels is a value without the labels "" of entries that take a label away.
func withoutEmptyLabels(v any) any {
	out := clone(v)
	eachValue(out, nil, func(v any, _ place) {
		if e, ok := v.(map[string]any); ok && e["type"] == "label" && e["label"] == "" {
			delete(e, "label")
		}
	})
	return out
}

// isKept: a session that the oracle keeps in memory is a session like any other.
func (r *scenario) isKept(part string, want map[string]any, has any) error {
	entries, leaf := items(want["entries"]), field(want["final"], "leafId")
	switch part {
	case "reload":
		return same(reloadOf(entries, want["header"], leaf), has)
	case "files":
		lines := append([]any{want["header"]}, entries...)
		return same(map[string]any{r.tree.Header().FileName(): lines}, has)
	case "final":
		types := []any{"session"}
		for _, e := range entries {
			types = append(types, field(e, "type"))
		}
		final := map[string]any{"fileExists": true, "physicalLines": integer(len(types)), "lineTypes": types, "leafId": leaf}
		return same(final, has)
	}
	return fmt.Errorf("%s must not differ", part)
}

// keepsLeaf: what differs is the leaf, which was stored.
func (r *scenario) keepsLeaf(part string, wanted, has any, got, want map[string]any) error {
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
	case "contexts":
		if field(wanted, "leafId") == "<undefined>" {
			return same(mustJSON(r.tree.Context(r.tree.Leaf()).JSON()), field(has, "context"))
		}
	}
	return fmt.Errorf("%s must not differ", part)
}

// relinked: the oracle leaves entries whose parent was a label without an ancestor, and writes a session that it had not
// written yet twice, or not at all.
func (r *scenario) relinked(part string, has any, got, want map[string]any) error {
	want = r.parentByID(want)
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
		return same(contextAt(tree, field(has, "leafId")), field(has, "context"))
	case "header":
		return same(want["header"], has)
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
		return same(reloadOf(entries, want["header"], field(want["reload"], "leafId")), got["reload"])
	}
	return fmt.Errorf("%s must not differ", part)
}

// parentByID is a result in which a session names the one that it came from by its id, as Spool does, not by a path.
func (r *scenario) parentByID(want map[string]any) map[string]any {
	names := map[string]string{}
	for name := range want["files"].(map[string]any) {
		id := strings.TrimSuffix(name[strings.LastIndexByte(name, '_')+1:], ".jsonl")
		names["<ROOT>/sessions/"+name] = id
	}
	parent := str(field(want["header"], "parentSession"))
	if id, ok := strings.CutSuffix(parent[strings.LastIndexByte(parent, '_')+1:], ".jsonl"); ok {
		names[parent] = id
	}
	return replace(want, names).(map[string]any)
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
		newest := strings.TrimSuffix(r.tree.Header().FileName(), ".jsonl")
		for name, content := range mine {
			older, file, ok := strings.Cut(name, "/")
			if ok && older < newest && mine[newest+"/"+file] != content {
				return fmt.Errorf("%s of the session forked is not in the fork", name)
			}
		}
		return nil
	}
	return fmt.Errorf("%s must not differ", part)
}
