package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

func init() { groups["legacy"] = legacyGroup }

// legacyGroup loads session files that are old or damaged (SPEC S5, S6). Each gives four cases: load (the records), migrate
// (the same in the current version), open (header, entries, leaf, branch), append (the file with one more entry). Ids that
// a migration gave are compared by the position of their entry. What open says of entries, leaf and branch is of the session that
// `spool import` makes of the file; the others are of the library.
func legacyGroup(dir string, report func(Case)) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := readFile(filepath.Join(dir, f.Name(), "input.jsonl"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // where there is no file, a program finds what an empty one holds
			return err
		}
		want, err := readObject(filepath.Join(dir, f.Name(), "expected.14.9.9.json"))
		if err != nil {
			return err
		}
		l, err := loadLegacy(f.Name(), text, want)
		if err != nil {
			return err
		}
		l.report(report)
	}
	return nil
}

// legacy is one file, loaded by both programs.
type legacy struct {
	name string
	text []byte
	want map[string]any

	file    *sessions.File // nil with an error
	err     error
	tree    *sessions.Tree
	opened  *sessions.Tree // of the session that the product made of the file; in the library's run the same as tree
	records [][]byte       // as loaded
	objects []any          // the same, decoded
	current []any          // as written
	after   []byte
}

// appendedAt is when the oracle appended, on its own clock.
var appendedAt = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

func loadLegacy(name string, text []byte, want map[string]any) (_ *legacy, err error) {
	l := &legacy{name: name, text: text, want: want}
	if l.file, l.err = sessions.Load(text); l.err != nil {
		return l, nil
	}
	l.tree = l.file.Tree()
	if l.opened, err = l.imported(); err != nil {
		return nil, fmt.Errorf("%s: import: %w", name, err)
	}
	l.records, l.objects = slices.Collect(l.file.Objects()), objectsOf(l.file)
	written, err := write(l.tree)
	if err != nil {
		return nil, err
	}
	again, err := sessions.Load(written)
	if err != nil {
		return nil, fmt.Errorf("%s: what was written: %w", name, err)
	}
	l.current = objectsOf(again)

	longer := l.file.Tree()
	_, err = longer.Append(sessions.Message([]byte(`{"role":"user","content":"APPENDED","timestamp":9}`)), sessions.Stamp{Time: appendedAt})
	if err != nil {
		return nil, err
	}
	l.after, err = write(longer)
	return l, err
}

func (l *legacy) report(report func(Case)) {
	got := map[string]any{}
	if l.err == nil {
		got = l.parts(l.replayed(l.objects, l.current, l.open(), string(l.after)), l.positions)
	}
	want := l.parts(l.want, l.positions)
	for _, part := range []string{"load", "migrate", "open", "append"} {
		// exactly compares the part with what Spool promises instead of the oracle's.
		exactly := func(promised map[string]any, names func([]any) map[string]string) error {
			return same(l.parts(promised, names)[part], got[part])
		}
		report(Case{
			Name: l.name + "/" + part, Got: got[part], Want: want[part],
			When: map[string]func() bool{
				"oracle finds no header": func() bool { return len(items(l.want["loadEntriesFromFile"])) == 0 },
				"lines are damaged":      l.damaged,
				"version 1 with ids":     l.hasOldIDs,
				"circle of parents":      l.hasCircle,
				"no final newline": func() bool {
					return !bytes.HasSuffix(l.text, []byte("\n")) && l.err == nil && !l.file.Migrated
				},
			},
			Holds: map[string]func() error{
				"refused with the line, or read behind the title slot": func() error {
					if err := l.refused(); err != nil || l.err != nil {
						return errors.Join(err, same(nil, got[part]))
					}
					return exactly(l.promised(), l.positions)
				},
				"every record is kept, and no other": func() error {
					return errors.Join(l.keepsRecords(), l.addsNothing(), exactly(l.promised(), l.positions))
				},
				"the path ends in the circle":   func() error { return exactly(l.promised(), l.positions) },
				"as the oracle but for the ids": func() error { return exactly(l.want, l.ownIDs) },
				"the appended entry stands alone": func() error {
					return exactly(l.promised(), l.positions)
				},
			},
		})
	}
}

// hasCircle tells whether the way up from an entry comes back to it.
func (l *legacy) hasCircle() bool {
	parents := map[any]any{}
	for _, o := range l.objects {
		parents[field(o, "id")] = field(o, "parentId")
	}
	for id := range parents {
		seen := map[any]bool{}
		for at := id; at != nil && !seen[at]; at = parents[at] {
			if seen[at] = true; parents[at] != nil && seen[parents[at]] {
				return true
			}
		}
	}
	return false
}

// parts are what the four cases compare, of a result in the oracle's shape. names says which ids of its entries are called
// otherwise.
func (l *legacy) parts(of map[string]any, names func(entries []any) map[string]string) map[string]any {
	renamed := func(v any, entries []any) any { return replace(v, names(entries)) }
	opened := any(map[string]any{"openError": of["openError"]})
	if open, ok := of["open"].(map[string]any); ok {
		open = withoutKey(open, "sessionFile") // the name of the oracle's scratch file
		opened = renamed(open, items(open["entries"]))
	}
	migrated := items(of["afterMigration"])
	lines := linesOf(str(of["fileAfterAppend"]))
	return map[string]any{
		"load": of["loadEntriesFromFile"], "open": opened, "append": renamed(lines, lines),
		"migrate": map[string]any{"migrated": of["migrated"], "entries": renamed(of["afterMigration"], migrated)},
	}
}

// replayed is a result in the oracle's shape.
func (l *legacy) replayed(loaded, current []any, open any, after string) map[string]any {
	return map[string]any{
		"loadEntriesFromFile": loaded, "migrated": l.file.Migrated, "afterMigration": current, "open": open,
		"fileAfterAppend": after,
	}
}

func (l *legacy) open() any {
	tree := l.opened
	entries, branch := []any{}, []any{}
	for _, e := range tree.Entries() {
		entries = append(entries, mustJSON(e.JSON()))
	}
	for _, e := range tree.Path(tree.Leaf()) {
		branch = append(branch, e.ID)
	}
	var leaf any
	if id := tree.Leaf().ID(); id != "" {
		leaf = id
	}
	header := slices.IndexFunc(l.current, func(o any) bool { return field(o, "type") == "session" })
	return map[string]any{
		"sessionId": l.file.Header.ID, "leafId": leaf, "header": l.current[header], "entries": entries, "branch": branch,
	}
}

// imported is the tree of the session that `spool import` makes of the file.
func (l *legacy) imported() (tree *sessions.Tree, err error) {
	if through == library {
		return l.tree, nil
	}
	p, err := running()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	dir, err := os.MkdirTemp(p.dir, "legacy-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "s.jsonl")
	if err := os.WriteFile(file, l.text, 0o600); err != nil {
		return nil, err
	}
	said, err := p.run(ctx, "import", "--json", file)
	if err != nil {
		return nil, err
	}
	session := str(field(mustJSON(said), "session"))
	got, err := p.Thread(events.Thread{Session: session, Name: events.MainThread}).Tree(ctx)
	if err != nil {
		return nil, err
	}
	_, err = p.Session(session).Delete(ctx, client.Deletion{Force: true}) // others say the same id
	return got.Tree, err
}

// positions calls the entries whose ids the file did not have by their places in the list.
func (l *legacy) positions(entries []any) map[string]string {
	names := map[string]string{}
	for i, e := range entries {
		id, ok := field(e, "id").(string)
		if ok && id != "" && !bytes.Contains(l.text, []byte(`"`+id+`"`)) {
			names[id] = fmt.Sprintf("#%d", i)
		}
	}
	return names
}

// ownIDs calls the oracle's entries as the file does: each by the id that it had first there (SPEC S5), the others by place.
func (l *legacy) ownIDs(entries []any) map[string]string {
	names, own, skip, taken := map[string]string{}, l.objects, 0, map[string]bool{}
	if len(entries) > 0 && field(entries[0], "type") != sessions.TypeHeader {
		skip = 1
	}
	for i, e := range entries {
		names[str(field(e, "id"))] = fmt.Sprintf("#%d", i)
		if i+skip >= len(own) || field(e, "type") == sessions.TypeHeader {
			continue
		}
		if id := str(field(own[i+skip], "id")); id != "" && !taken[id] {
			names[str(field(e, "id"))], taken[id] = id, true
		}
	}
	delete(names, l.file.Header.ID)
	return names
}

// refused: a file whose header the oracle does not find, so that it writes a new session over it, is an error that names
// the line; unless its first object is a header all the same, behind a title slot, a byte order mark or rubbish.
func (l *legacy) refused() error {
	var slot, header any
	for line := range bytes.Lines(l.text) {
		v, err := decodeJSON(line)
		switch {
		case err != nil || !isObject(v) || header != nil:
		case field(v, "type") == "title":
			slot = v
		default:
			header = v
		}
	}
	_, isHeader := field(header, "id").(string)
	if isHeader = isHeader && field(header, "type") == "session"; !isHeader {
		if !errors.Is(l.err, sessions.ErrHeader) || !strings.HasPrefix(l.err.Error(), "line ") {
			return fmt.Errorf("error is %v, want one that names the line", l.err)
		}
		return nil
	}
	if slot != nil && (l.err != nil || l.file.Header.Title != str(field(slot, "title"))) {
		return fmt.Errorf("the title of the slot is lost: %v", l.err)
	}
	return l.keepsRecords()
}

// keepsRecords: every record of the oracle, and every line that is an object, is there in order, and all of them are
// pieces of the file.
func (l *legacy) keepsRecords() error {
	if l.err != nil {
		return l.err
	}
	var whole []any
	for line := range bytes.Lines(l.text) {
		if v, err := decodeJSON(line); err == nil && isObject(v) {
			whole = append(whole, v)
		}
	}
	for what, some := range map[string][]any{"oracle's records": objects(items(l.want["loadEntriesFromFile"])), "lines": whole} {
		if !subsequence(some, l.objects) {
			return fmt.Errorf("the %s are not among %d records", what, len(l.objects))
		}
	}
	for raw := range l.file.Objects() {
		if !bytes.Contains(l.text, raw) {
			return fmt.Errorf("%.80s is not in the file", raw)
		}
	}
	if !subsequence(items(field(l.want["open"], "branch")), items(field(l.open(), "branch"))) {
		return errors.New("the branch lost entries")
	}
	if records := items(l.want["loadEntriesFromFile"]); len(objects(records)) < len(records) && len(l.file.Skipped) == 0 {
		return errors.New("nothing was counted as skipped")
	}
	return nil
}

// damaged: the oracle lost records, or took for records what are no objects.
func (l *legacy) damaged() bool {
	want := items(l.want["loadEntriesFromFile"])
	return len(l.objects) > len(want) || len(objects(want)) < len(want)
}

func objects(values []any) []any {
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !isObject(v) })
}

func (l *legacy) hasOldIDs() bool {
	return l.err == nil && l.file.Header.Version == 1 && slices.ContainsFunc(l.objects[1:], func(o any) bool {
		return str(field(o, "id")) != ""
	})
}

func write(t *sessions.Tree) ([]byte, error) {
	var b bytes.Buffer
	_, err := t.WriteTo(&b)
	return b.Bytes(), err
}

func objectsOf(f *sessions.File) []any {
	objects := []any{}
	for raw := range f.Objects() {
		objects = append(objects, mustJSON(raw))
	}
	return objects
}

// linesOf decodes the lines of a file; one that is no JSON stays text.
func linesOf(file string) []any {
	var lines []any
	for line := range strings.Lines(file) {
		if v, err := decodeJSON([]byte(line)); err == nil {
			lines = append(lines, v)
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}

// replace exchanges texts that are names, at any depth.
func replace(v any, names map[string]string) any {
	switch v := v.(type) {
	case string:
		if name, ok := names[v]; ok {
			return name
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = replace(e, names)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = replace(e, names)
		}
		return out
	}
	return v
}

// subsequence tells that the elements of some are among all, in order.
func subsequence(some, all []any) bool {
	for _, e := range all {
		if len(some) > 0 && difference(some[0], e) == "" {
			some = some[1:]
		}
	}
	return len(some) == 0
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// field is a member of a decoded object, nil if there is none.
func field(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}

func items(v any) []any {
	a, _ := v.([]any)
	return a
}

func str(v any) string {
	s, _ := v.(string)
	return s
}
