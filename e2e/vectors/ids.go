package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"spool/pkg/artifacts"
	"spool/pkg/client"
)

func init() { groups["ids"] = idVectors }

// idVectors has numbers and names given out after those that an import found (SPEC A1, A9).
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

// besides are files without a text, by their names.
func besides(names []string) map[string]string {
	files := map[string]string{}
	for _, name := range names {
		files[name] = ""
	}
	return files
}

// artifactIDs runs one case of numbers: what each operation gives, then what the session has. The oracle was asked for
// several at once after an artifact whose number is one below its first.
func artifactIDs(name string, c map[string]any, report func(Case)) error {
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	before, ids := texts(c["existing"]), texts(c["ids"])
	if ids != nil {
		first, err := strconv.Atoi(ids[0])
		if err != nil {
			return err
		}
		before = []string{fmt.Sprintf("%d.x.log", first-1)}
	}
	session, err := imported(ctx, besides(before))
	if err != nil {
		return err
	}
	switch {
	case ids != nil:
		return concurrentIDs(name, session, ids, report)
	case c["results"] == nil:
		return missingDir(name, session, c, report)
	}
	results, err := memberAs[[]any](c, "results")
	if err != nil {
		return err
	}
	for i, r := range results {
		op, err := memberAs[[]any](r, "op")
		if err != nil {
			return err
		}
		tool := fmt.Sprint(op[len(op)-1])
		id, file, key := artifacts.Seq(""), "", "relPath"
		if op[0] == "save" {
			key = "file"
			a := client.NewArtifact{Tool: tool}
			a.Session = session.session
			rec, e := session.Artifacts().Put(ctx, a, strings.NewReader(fmt.Sprint(op[1])))
			id, file, err = rec.Seq, rec.Filename, e
		} else {
			id, file, err = session.Session(session.session).TakeNumber(ctx, tool)
		}
		if err != nil {
			return err
		}
		want, got := withoutKey(r.(map[string]any), "op"), map[string]any{"id": string(id), key: file}
		report(idCase(fmt.Sprintf("%s.%02d", name, i), want, got, tool, key, slices.Clone(before)))
		before = append(before, file)
	}
	return folderCase(name, session, c, report)
}

// folderCase compares what the session has afterwards, and whether artifact://0 and a number that nobody has lead
// anywhere.
func folderCase(name string, session folder, c map[string]any, report func(Case)) error {
	names, err := session.names()
	zero, e := session.read("artifact://0")
	missing, e2 := session.read("artifact://999999")
	report(Case{
		Name: name + ".folder",
		Got:  map[string]any{"listAfter": names, "exists0": zero["error"] == nil, "getPathMissing": missing["sourceFile"]},
		Want: map[string]any{"listAfter": c["listAfter"], "exists0": c["exists0"], "getPathMissing": c["getPathMissing"]},
	})
	return errors.Join(err, e, e2)
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

// concurrentIDs asks for as many numbers at once as the oracle was asked for.
func concurrentIDs(name string, session folder, ids []string, report func(Case)) error {
	got := make([]string, len(ids))
	var all errgroup.Group
	for i := range got {
		all.Go(func() error {
			n, _, err := session.Session(session.session).TakeNumber(session.ctx, "x")
			got[i] = string(n)
			return err
		})
	}
	err := all.Wait()
	slices.SortFunc(got, func(a, b string) int { return artifacts.Seq(a).Compare(artifacts.Seq(b)) })
	report(Case{
		Name: name, Want: anys(ids), Got: anys(got),
		Holds: map[string]func() error{"distinct": func() error {
			if got[0] != ids[0] || len(slices.Compact(slices.Clone(got))) != len(ids) {
				return fmt.Errorf("got %v", got)
			}
			return nil
		}},
	})
	return err
}

// missingDir compares what a session gives that never had an artifact. That the oracle makes the folder by its first
// write is a matter of file systems; Spool has no folders to make.
func missingDir(name string, session folder, c map[string]any, report func(Case)) error {
	names, err := session.names()
	zero, e := session.read("artifact://0")
	n, _, e2 := session.Session(session.session).TakeNumber(session.ctx, "")
	report(Case{
		Name: name,
		Got:  map[string]any{"listBefore": names, "exists": zero["error"] == nil, "id": string(n)},
		Want: withoutKey(withoutKey(c, "name"), "createdLazily"),
	})
	return errors.Join(err, e, e2)
}

// agentIDs runs one case of agents' names.
func agentIDs(name string, c map[string]any, report func(Case)) error {
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	parent, _ := c["parentPrefix"].(string)
	before := texts(c["existing"])
	session, err := imported(ctx, besides(before))
	if err != nil {
		return err
	}
	results, err := memberAs[[]any](c, "results")
	if err != nil {
		return err
	}
	n := 0
	take := func(want, requested string) error {
		got, err := session.Session(session.session).TakeAgentID(ctx, parent, requested)
		report(agentCase(fmt.Sprintf("%s.%02d", name, n), want, got, parent, slices.Clone(before)))
		before = append(before, got+".md")
		n++
		return err
	}
	for _, r := range results {
		want, requested := "", ""
		switch r := r.(type) {
		case string: // the id alone: what was asked for is what follows the index
			want = r
			_, requested, _ = strings.Cut(r, "-")
		case map[string]any:
			want, requested = fmt.Sprint(r["id"]), fmt.Sprint(r["requested"])
		}
		if err := take(want, requested); err != nil {
			return err
		}
	}
	for i, id := range texts(c["batch"]) {
		if err := take(id, string(rune('p'+i))); err != nil {
			return err
		}
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
