package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/pkg/client"
	"spool/pkg/dialect"
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
	shared, err := running()
	if err != nil {
		return err
	}
	p, err := startProduct(shared.bin, "") // prefixes of ids are of all sessions
	if err != nil {
		return err
	}
	l := &listing{product: p, files: map[string]*listedFile{}}
	err = l.read(items(input))
	if err == nil {
		l.rows = sessions.List(l.rows, sessions.Query{Unanswered: true})
		l.listCases(expected["list"], report)
		l.nameCases(expected["recent"], report)
		l.resumeCases(expected["resolveResumable"], report)
		report(l.orderCase("mostRecent", []any{expected["mostRecent"]}, l.rows[:min(1, len(l.rows))]))
		dirCases(expected["dirNames"], report)
	}
	return errors.Join(err, p.stop())
}

// listing is the sessions of a folder as Spool lists them.
type listing struct {
	*product
	files map[string]*listedFile // by path as the oracle spells it
	rows  []sessions.Row         // newest first
}

type listedFile struct {
	row       sessions.Row
	listed    bool
	titleSlot bool
	title     string // of the slot
	lines     int
	size      int
	messages  int    // lines of type message
	prompt    string // all of the first user prompt
}

// read imports a folder of files, and takes the rows of their sessions. The oracle orders files by when they were changed, Spool sessions
// by their newest entries: these have the times of the files here.
func (l *listing) read(files []any) error {
	dir, names := filepath.Join(l.dir, "listing"), map[string]string{}
	for i, v := range files {
		name, text := str(field(v, "file")), str(field(v, "content"))
		f := &listedFile{size: len(text)}
		l.files["<DIR>/"+name] = f
		f.note(text)
		path := filepath.Join(dir, fmt.Sprint(i), name) // a folder each: no file is another one's version
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		names[path] = "<DIR>/" + name
	}
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	told, err := l.run(ctx, "import", "--json", dir)
	if err != nil {
		return err
	}
	all, err := l.Sessions(ctx, "")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(told) {
		path, session := str(field(mustJSON(line), "file")), str(field(mustJSON(line), "session"))
		f := l.files[names[path]]
		k := slices.IndexFunc(all, func(s client.Session) bool { return s.ID == session })
		if f == nil || k < 0 {
			continue
		}
		f.row, f.listed = all[k].Row(), true
		for _, v := range files {
			if changed, err := time.Parse(time.RFC3339, str(field(v, "mtime"))); err == nil && "<DIR>/"+str(field(v, "file")) == names[path] {
				f.row.Modified = changed.UnixMilli()
			}
		}
		l.rows = append(l.rows, f.row)
	}
	return nil
}

// note takes from a file what the cases compare with.
func (f *listedFile) note(text string) {
	for line := range bytes.Lines([]byte(text)) {
		f.lines++
		if jsonscan.Valid(bytes.TrimSpace(line)) != nil {
			continue
		}
		e := mustJSON(line)
		switch str(field(e, "type")) {
		case sessions.TypeTitleSlot:
			f.titleSlot, f.title = true, str(field(e, "title"))
		case sessions.TypeMessage:
			f.messages++
			if f.prompt == "" && valueAt(e, place{"message", "role"}) == dialect.RoleUser {
				f.prompt = strings.Join(textsOf(valueAt(e, place{"message", "content"})), "\n")
			}
		}
	}
}

// shownPrompt is what a listing has of the first user prompt: 200 characters.
func (f *listedFile) shownPrompt() string {
	cut := []rune(f.prompt)
	return string(cut[:min(len(cut), 200)])
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
			"no time":        func() bool { return row != nil && row["created"] == nil },
			"title slot":     func() bool { return f.titleSlot && row == nil },
			"long file":      func() bool { return f.size > window && row != nil },
			"several blocks": func() bool { return strings.Contains(f.prompt, "\n") && row != nil },
		}
		c.Holds = map[string]func() error{
			"stored": func() error {
				if since := time.Since(time.UnixMilli(f.row.Created)); since < 0 || since > time.Hour {
					return fmt.Errorf("created %v ago, want when it was stored", since)
				}
				row["created"] = field(c.Got, "created")
				return same(c.Want, c.Got)
			},
			"listed": func() error {
				return same([]any{f.title, mustJSON(fmt.Append(nil, f.messages)), f.shownPrompt()},
					[]any{f.row.Title, mustJSON(fmt.Append(nil, f.row.Messages)), f.row.Prompt})
			},
			"whole": func() error {
				row["messageCount"], row["firstMessage"] = mustJSON(fmt.Append(nil, f.messages)), f.shownPrompt()
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
					line, _, _ := strings.Cut(f.shownPrompt(), "\n")
					return same(cmp.Or(strings.TrimSpace(line), "Untitled"), got)
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
		told, err := l.run(context.Background(), "session", "resume", "--json", arg)
		var got any
		if err == nil {
			got = field(mustJSON(told), "id")
		}
		report(Case{Name: fmt.Sprintf("resume-%02d", i), Got: got, Want: valueAt(v, place{"match", "id"}),
			When: map[string]func() bool{
				"several ids": func() bool { return l.matching(arg) > 1 },
				"file name":   func() bool { return l.matching(arg) == 0 },
			},
			Holds: map[string]func() error{
				"candidates": func() error {
					if arg == "" {
						return says(err, "spool session latest")
					}
					for _, r := range l.rows {
						if strings.HasPrefix(r.ID, strings.ToLower(arg)) {
							if err := says(err, r.ID); err != nil {
								return err
							}
						}
					}
					return nil
				},
				"not found": func() error { return says(err, client.ErrSessionNotFound.Error()) },
			},
		})
	}
}

// says returns an error where one does not say something.
func says(err error, what string) error {
	if err == nil || !strings.Contains(err.Error(), what) {
		return fmt.Errorf("the command says %v, want %q", err, what)
	}
	return nil
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
				rest := strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(path.Clean(cwd))
				if !strings.HasSuffix(strings.TrimSuffix(dir, "--"), "-"+rest) {
					return fmt.Errorf("the oracle says %q", dir)
				}
				return same("--base-"+rest+"--", sessions.DirName(path.Join("/base", cwd), "<HOME>", "/tmp"))
			}},
		})
	}
}
