package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/project"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/dialect/omp"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

func init() { groups["listing"] = listingGroup }

// listingGroup compares listings of a folder of session files (SPEC S10). The oracle lists files, which it writes only after
// the first answer; so sessions without an answer are listed here too (SPEC S8).
func listingGroup(dir string, report func(Case)) error {
	input, err := readJSON(filepath.Join(dir, "input.json"))
	if err != nil {
		return err
	}
	expected, err := readObject(filepath.Join(dir, oracle))
	if err != nil {
		return err
	}
	files, _ := input.([]any)
	l := &listing{files: map[string]*listedFile{}}
	for _, f := range files {
		if err := l.add(f); err != nil {
			return err
		}
	}
	l.rows = sessions.List(l.rows, sessions.Query{Unanswered: true})
	l.listCases(expected["list"], report)
	l.nameCases(expected["recent"], report)
	l.resumeCases(expected["resolveResumable"], report)
	report(l.orderCase("mostRecent", []any{expected["mostRecent"]}, l.rows[:min(1, len(l.rows))]))
	dirCases(expected["dirNames"], report)
	return nil
}

// listing is the sessions of a folder as Spool would list them.
type listing struct {
	files map[string]*listedFile // by path as the oracle spells it
	rows  []sessions.Row         // newest first
}

type listedFile struct {
	row       sessions.Row
	listed    bool
	titleSlot bool
	lines     int
	size      int
	messages  int    // lines of type message
	prompt    string // all of the first user prompt
}

// add reads one file as an import does: line by line, each an entry of the thread main.
func (l *listing) add(v any) error {
	m, _ := v.(map[string]any)
	name, _ := m["file"].(string)
	text, _ := m["content"].(string)
	changed, err := time.Parse(time.RFC3339, fmt.Sprint(m["mtime"]))
	if err != nil {
		return err
	}
	f := &listedFile{size: len(text)}
	l.files["<DIR>/"+name] = f
	if _, err := sessions.ParseHeader([]byte(text)); err != nil || !strings.HasSuffix(name, ".jsonl") {
		return nil
	}
	var memory dialect.Memory
	s := client.Session{Threads: []client.Thread{{Thread: events.Thread{Name: events.MainThread}}}}
	head := &s.Threads[0].Head
	for line := range bytes.Lines([]byte(text)) {
		f.lines++
		line = bytes.TrimSpace(line)
		if jsonscan.Valid(line) != nil {
			continue
		}
		e, err := omp.Dialect{}.Read(line, &memory)
		if err != nil {
			return err
		}
		project.Learn(&s.Info, &e, true, false)
		project.Count(head, &e)
		head.BytesIn += int64(len(line))
		f.note(line, &e, &s)
	}
	head.Updated = changed.UnixMilli()
	f.row, f.listed = s.Row(), true
	l.rows = append(l.rows, f.row)
	return nil
}

// note takes from a line what the cases compare with.
func (f *listedFile) note(line []byte, e *dialect.Entry, s *client.Session) {
	switch e.Type {
	case sessions.TypeTitleSlot:
		f.titleSlot = true
	case sessions.TypeHeader:
		s.Info.ID, s.Info.Created = e.Session.ID, e.Time
	case sessions.TypeMessage:
		f.messages++
		if f.prompt == "" && e.Role == dialect.RoleUser {
			f.prompt = strings.Join(textsOf(valueAt(mustJSON(line), place{"message", "content"})), "\n")
		}
	}
}

func textsOf(content any) (texts []string) {
	if s, ok := content.(string); ok {
		return []string{s}
	}
	blocks, _ := content.([]any)
	for _, b := range blocks {
		if s, ok := valueAt(b, place{"text"}).(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// window is how much of a file the oracle reads for its list.
const window = 4096

func (l *listing) listCases(want any, report func(Case)) {
	wanted := map[string]any{}
	list, _ := want.([]any)
	var order []any
	for _, v := range list {
		name, _ := valueAt(v, place{"path"}).(string)
		order = append(order, name)
		wanted[name] = v
	}
	report(l.orderCase("list", order, l.rows))
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		f := l.files[name]
		c := Case{Name: "list-" + strings.TrimPrefix(name, "<DIR>/")}
		row, _ := clone(wanted[name]).(map[string]any)
		if row != nil {
			for _, key := range []string{"path", "modified", "allMessagesText"} {
				delete(row, key)
			}
			c.Want = row
		}
		if f.listed {
			c.Got = f.object()
		}
		c.When = map[string]func() bool{
			"title slot":     func() bool { return f.titleSlot && row == nil },
			"long file":      func() bool { return f.size > window && row != nil },
			"several blocks": func() bool { return strings.Contains(f.prompt, "\n") && row != nil },
		}
		c.Holds = map[string]func() error{
			"listed": func() error { return same(true, f.row.ID != "" && f.row.Title != "") },
			"whole": func() error {
				cut := []rune(f.prompt)
				cut = cut[:min(len(cut), sessions.PromptRunes)]
				row["messageCount"], row["firstMessage"] = mustJSON(fmt.Append(nil, f.messages)), string(cut)
				return same(c.Want, c.Got)
			},
			"line breaks": func() error {
				row["firstMessage"] = strings.Replace(fmt.Sprint(row["firstMessage"]), strings.ReplaceAll(f.prompt, "\n", " "), f.prompt, 1)
				return same(c.Want, c.Got)
			},
		}
		report(c)
	}
}

// object is a row in the oracle's words.
func (f *listedFile) object() map[string]any {
	m := map[string]any{
		"id": f.row.ID, "cwd": f.row.Cwd, "created": nil, "messageCount": mustJSON(fmt.Append(nil, f.row.Messages)),
		"size": mustJSON(fmt.Append(nil, f.row.Size+int64(f.lines))), "firstMessage": f.row.Prompt,
	}
	if f.row.Prompt == "" {
		m["firstMessage"] = "(no messages)"
	}
	if f.row.Created != 0 {
		m["created"] = time.UnixMilli(f.row.Created).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for key, v := range map[string]string{"parentSessionPath": f.row.Parent, "title": f.row.Title} {
		if v != "" {
			m[key] = v
		}
	}
	if _, titled := m["title"]; !titled && f.row.Summary != "" {
		m["title"] = f.row.Summary
	}
	return m
}

// orderCase compares the order of sessions with the oracle's of files.
func (l *listing) orderCase(name string, paths []any, rows []sessions.Row) Case {
	want, got, slots := []any{}, []any{}, []any{}
	for _, p := range paths {
		if f := l.files[fmt.Sprint(p)]; f != nil {
			want = append(want, f.row.ID)
		}
	}
	for _, f := range l.files {
		if f.listed && f.titleSlot {
			slots = append(slots, f.row.ID)
		}
	}
	for _, r := range rows {
		got = append(got, r.ID)
	}
	return Case{Name: name + "-order", Got: got, Want: want,
		When: map[string]func() bool{"title slot": func() bool { return len(slots) > 0 }},
		Holds: map[string]func() error{"order": func() error {
			return same(want, slices.DeleteFunc(slices.Clone(got), func(id any) bool { return slices.Contains(slots, id) }))
		}},
	}
}

func (l *listing) nameCases(want any, report func(Case)) {
	list, _ := want.([]any)
	for i, v := range list {
		file, _ := valueAt(v, place{"path"}).(string)
		name, _ := valueAt(v, place{"name"}).(string)
		f := l.files[file]
		if f == nil {
			continue
		}
		got := f.row.Name()
		report(Case{Name: fmt.Sprintf("name-%02d", i), Got: got, Want: name,
			When: map[string]func() bool{
				"untitled": func() bool { return strings.HasPrefix(name, "Untitled") },
				"summary":  func() bool { return f.row.Title == "" && f.row.Summary != "" },
			},
			Holds: map[string]func() error{
				"prompt": func() error {
					if f.prompt == "" {
						return same("Untitled", got)
					}
					return same(true, strings.HasPrefix(f.prompt, got))
				},
				"summary": func() error { return same(f.row.Summary, got) },
			},
		})
	}
}

func (l *listing) resumeCases(want any, report func(Case)) {
	list, _ := want.([]any)
	for i, v := range list {
		arg, _ := valueAt(v, place{"arg"}).(string)
		row, err := sessions.Resume(l.rows, "", arg)
		var got any
		if err == nil {
			got = row.ID
		}
		var several *sessions.AmbiguousError
		report(Case{Name: fmt.Sprintf("resume-%02d", i), Got: got, Want: valueAt(v, place{"match", "id"}),
			When: map[string]func() bool{
				"several ids": func() bool { return l.matching(arg) > 1 },
				"file name":   func() bool { return l.matching(arg) == 0 },
			},
			Holds: map[string]func() error{
				"candidates": func() error {
					if !errors.As(err, &several) || len(several.Candidates) != l.matching(arg) || !strings.Contains(err.Error(), several.Candidates[0].ID) {
						return fmt.Errorf("Resume(%q) = %w, want an error that names %d sessions", arg, err, l.matching(arg))
					}
					return nil
				},
				"not found": func() error {
					if !errors.Is(err, sessions.ErrNoSession) {
						return fmt.Errorf("Resume(%q) = %w, want ErrNoSession", arg, err)
					}
					return nil
				},
			},
		})
	}
}

// matching counts the sessions whose id begins with arg.
func (l *listing) matching(arg string) (n int) {
	for _, r := range l.rows {
		if strings.HasPrefix(strings.ToLower(r.ID), strings.ToLower(arg)) {
			n++
		}
	}
	return n
}

func dirCases(want any, report func(Case)) {
	list, _ := want.([]any)
	for i, v := range list {
		cwd, _ := valueAt(v, place{"cwd"}).(string)
		dir, _ := valueAt(v, place{"dir"}).(string)
		got := sessions.DirName(cwd, "<HOME>", "/tmp")
		report(Case{Name: fmt.Sprintf("dir-%02d", i), Got: got, Want: dir,
			When: map[string]func() bool{"relative": func() bool { return !path.IsAbs(cwd) && !strings.HasPrefix(cwd, "<HOME>") }},
			Holds: map[string]func() error{"absolute": func() error {
				whole := sessions.DirName(path.Join("/base", cwd), "<HOME>", "/tmp")
				rest := strings.TrimSuffix(strings.TrimPrefix(whole, "--base"), "--")
				return same(true, strings.HasSuffix(strings.TrimSuffix(dir, "--"), rest))
			}},
		})
	}
}
