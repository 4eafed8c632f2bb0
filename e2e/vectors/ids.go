package main

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spool/internal/record"
	"spool/pkg/artifacts"
)

func init() { groups["ids"] = idVectors }

// idVectors gives out numbers and names after those that are there (SPEC A1, A9).
func idVectors(dir string, report func(Case)) error {
	return eachExpected(dir, func(all map[string]any) error {
		for kind, run := range map[string]func(string, map[string]any, func(Case)) error{
			"artifactManager": artifactIDs, "agentOutputManager": agentIDs,
		} {
			cases, err := memberAs[[]any](all, kind)
			if err != nil {
				return err
			}
			for _, c := range cases {
				name, err := memberAs[string](c, "name")
				if err == nil {
					err = run(kind+"."+name, c.(map[string]any), report)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	})
}

// texts are the strings of an array; nil for anything else.
func texts(v any) []string {
	var out []string
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// anys is the array that decodeJSON would give.
func anys(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// artifactIDs runs one case of numbers: what each operation gives, then what the folder holds.
func artifactIDs(name string, c map[string]any, report func(Case)) error {
	switch {
	case c["ids"] != nil:
		concurrentIDs(name, texts(c["ids"]), report)
		return nil
	case c["results"] == nil:
		missingDir(name, c, report)
		return nil
	}
	folder := artifactDir{}
	var counter artifacts.Counter
	for _, file := range texts(c["existing"]) {
		folder[file] = ""
		counter.See(file)
	}
	results, err := memberAs[[]any](c, "results")
	if err != nil {
		return err
	}
	before := texts(c["existing"])
	for i, r := range results {
		op, err := memberAs[[]any](r, "op")
		if err != nil {
			return err
		}
		tool := fmt.Sprint(op[len(op)-1])
		id := counter.Take()
		file := artifacts.ToolFile(id, tool)
		key := "relPath"
		if op[0] == "save" {
			key = "file"
			folder[file] = fmt.Sprint(op[1])
		}
		want := withoutKey(r.(map[string]any), "op")
		report(idCase(fmt.Sprintf("%s.%02d", name, i), want, map[string]any{"id": string(id), key: file}, tool, key, slices.Clone(before)))
		before = append(before, file)
	}
	report(folderCase(name, c, folder))
	return nil
}

// folderCase compares what lies in the folder afterwards, and whether artifact://0 and a number that nobody has lead
// anywhere.
func folderCase(name string, c map[string]any, folder artifactDir) Case {
	want := map[string]any{"listAfter": c["listAfter"], "exists0": c["exists0"], "getPathMissing": c["getPathMissing"]}
	names, _ := folder.Names(context.Background())
	slices.Sort(names)
	sources := artifacts.Sources{Dirs: []artifacts.Dir{folder}}
	_, _, err := resolveText(sources, "artifact://0")
	got := map[string]any{"listAfter": anys(names), "exists0": err == nil, "getPathMissing": nil}
	if res, _, err := resolveText(sources, "artifact://999999"); err == nil {
		got["getPathMissing"] = res.Name
	}
	return Case{Name: name + ".folder", Got: got, Want: want}
}

var safeFile = regexp.MustCompile(`^[0-9]+\.[A-Za-z0-9_-]{1,64}\.log$`)

// idCase compares one number and file name.
func idCase(name string, want, got map[string]any, tool, key string, before []string) Case {
	wantID, _ := want["id"].(string)
	return Case{
		Name: name, Got: got, Want: want,
		When: map[string]func() bool{
			"unsafe tool":     func() bool { return !safeFile.MatchString("0." + tool + ".log") },
			"beyond a double": func() bool { return beyondDouble(wantID) },
		},
		Holds: map[string]func() error{
			"safe file name": func() error {
				if got["id"] != want["id"] || !safeFile.MatchString(fmt.Sprint(got[key])) {
					return fmt.Errorf("got %v", got)
				}
				return nil
			},
			"higher than all": func() error { return higher(fmt.Sprint(got["id"]), before) },
		},
	}
}

// higher checks that id is a number above those that the files begin with.
func higher(id string, files []string) error {
	n, ok := new(big.Int).SetString(id, 10)
	if !ok {
		return fmt.Errorf("%q is no number", id)
	}
	for _, f := range files {
		digits, _, _ := strings.Cut(f, ".")
		if m, ok := new(big.Int).SetString(digits, 10); ok && m.Cmp(n) >= 0 {
			return fmt.Errorf("%s was given out after %s", id, f)
		}
	}
	return nil
}

// concurrentIDs asks for as many numbers as the oracle gave out at once. The case does not say what was in the folder; the
// first of the oracle's numbers tells the highest there.
func concurrentIDs(name string, ids []string, report func(Case)) {
	first, err := strconv.Atoi(ids[0])
	if err != nil {
		report(Case{Name: name, Want: anys(ids), Got: err.Error()})
		return
	}
	var counter artifacts.Counter
	if first > 0 {
		counter.See(artifacts.ToolFile(artifacts.Seq(strconv.Itoa(first-1)), "x"))
	}
	var got []string
	for range ids {
		got = append(got, string(counter.Take()))
	}
	report(Case{
		Name: name, Want: anys(ids), Got: anys(got),
		Holds: map[string]func() error{"distinct": func() error {
			if got[0] != ids[0] || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(ids) {
				return fmt.Errorf("got %v", got)
			}
			return nil
		}},
	})
}

// missingDir compares what a folder that does not exist yet gives. That it is made by the first write is a matter of file
// systems; Spool has no folders to make.
func missingDir(name string, c map[string]any, report func(Case)) {
	var folder artifactDir
	names, _ := folder.Names(context.Background())
	_, _, err := resolveText(artifacts.Sources{Dirs: []artifacts.Dir{folder}}, "artifact://0")
	var counter artifacts.Counter
	report(Case{
		Name: name,
		Got:  map[string]any{"listBefore": anys(names), "exists": err == nil, "id": string(counter.Take())},
		Want: withoutKey(withoutKey(c, "name"), "createdLazily"),
	})
}

// agentIDs runs one case of agents' names.
func agentIDs(name string, c map[string]any, report func(Case)) error {
	parent, _ := c["parentPrefix"].(string)
	var counter record.Counter
	for _, file := range texts(c["existing"]) {
		if id, agent := strings.CutSuffix(file, ".md"); agent {
			counter.SeeAgent(id)
		}
	}
	results, err := memberAs[[]any](c, "results")
	if err != nil {
		return err
	}
	before := texts(c["existing"])
	n := 0
	take := func(want, requested string) {
		got := counter.TakeAgent(parent, requested)
		report(agentCase(fmt.Sprintf("%s.%02d", name, n), want, got, parent, slices.Clone(before)))
		before = append(before, got+".md")
		n++
	}
	for _, r := range results {
		switch r := r.(type) {
		case string: // the id alone: what was asked for is what follows the index
			_, requested, _ := strings.Cut(r, "-")
			take(r, requested)
		case map[string]any:
			take(fmt.Sprint(r["id"]), fmt.Sprint(r["requested"]))
		}
	}
	for i, id := range texts(c["batch"]) {
		take(id, string(rune('p'+i)))
	}
	return nil
}

// agentCase compares one agent's name.
func agentCase(name, want, got, parent string, before []string) Case {
	index := func(id string) string {
		digits, _, _ := strings.Cut(strings.TrimPrefix(id, parent+"."), "-")
		return digits
	}
	return Case{
		Name: name, Got: got, Want: want,
		When: map[string]func() bool{"beyond a double": func() bool { return beyondDouble(index(want)) }},
		Holds: map[string]func() error{"higher than all": func() error {
			var taken []string
			for _, file := range before {
				taken = append(taken, index(file))
			}
			return higher(index(got), taken)
		}},
	}
}

// beyondDouble tells whether a double cannot count on from these digits.
func beyondDouble(digits string) bool {
	n, err := strconv.ParseUint(digits, 10, 64)
	return err != nil || n >= 1<<53
}
