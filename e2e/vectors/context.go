package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"spool/pkg/client"
	"spool/pkg/sessions"
)

func init() { groups["context"] = contextGroup }

// contextGroup rebuilds the context at each leaf of each tree (SPEC S7).
func contextGroup(dir string, report func(Case)) error {
	inputs, err := readObject(filepath.Join(dir, "inputs.json"))
	if err != nil {
		return err
	}
	expected, err := readObject(filepath.Join(dir, "expected.14.9.9.json"))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		input, _ := inputs[name].(map[string]any)
		entries, _ := input["entries"].([]any)
		at, err := contextsOf(entries)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		contexts, _ := expected[name].([]any)
		for i, want := range contexts {
			want, ok := want.(map[string]any)
			if !ok {
				return fmt.Errorf("%s: context %d is no object", name, i)
			}
			got := at(want["leafId"])
			report(Case{Name: fmt.Sprintf("%s/%d", name, i), Got: got, Want: want["context"],
				When: map[string]func() bool{"unknown leaf": func() bool { return unknown(entries, want["leafId"]) }},
				Holds: map[string]func() error{"not found by its name": func() error {
					return notFound(got, want["leafId"])
				}},
			})
		}
	}
	return nil
}

// unknown tells whether a leaf is named that no entry has.
func unknown(entries []any, leaf any) bool {
	id, ok := leaf.(string)
	return ok && id != "<undefined>" && !slices.ContainsFunc(entries, func(e any) bool { return field(e, "id") == id })
}

// notFound checks that an unknown leaf is refused by its name.
func notFound(got, leaf any) error {
	if want := sessions.NotFound(str(leaf)).Error(); !strings.Contains(str(got), want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// contextsOf gives the context at each leaf of entries: of a session on the product, to which an agent published them, or of the
// library.
func contextsOf(entries []any) (func(leaf any) any, error) {
	if through == library {
		tree := treeOf(entries)
		return func(leaf any) any { return contextAt(tree, leaf) }, nil
	}
	p, err := running()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	p.scenarios++
	l := &live{scenario: &scenario{}, product: p, ctx: context.Background(), session: fmt.Sprintf("context-%d", p.scenarios)}
	if err := p.Session(l.session).New(ctx, "/w", ""); err != nil {
		return nil, err
	}
	pub := p.Publisher(client.PublisherConfig{})
	for _, e := range entries {
		if _, err := pub.Publish(ctx, client.Entry{Thread: l.thread(), Dialect: "omp", Body: encodeJSON(e)}); err != nil {
			return nil, err
		}
	}
	if len(entries) > 0 {
		if err := p.Thread(l.thread()).Await(ctx, pub.Producer(), 0, uint64(len(entries))); err != nil {
			return nil, err
		}
	}
	return func(leaf any) any {
		got, err := l.contextAt(leaf)
		if err != nil {
			return err.Error()
		}
		return got
	}, nil
}

// treeOf is the tree of decoded entries.
func treeOf(entries []any) *sessions.Tree {
	all := make([]sessions.Entry, len(entries))
	for i, e := range entries {
		all[i] = sessions.ParseEntry(encodeJSON(e))
	}
	return sessions.NewTree(sessions.Header{}, all...)
}

// contextAt is the context at a leaf as the vectors name it: null, "<undefined>" or an id.
func contextAt(tree *sessions.Tree, leaf any) any {
	return mustJSON(tree.Context(leafOf(leaf)).JSON())
}

func leafOf(leaf any) sessions.Leaf {
	id, ok := leaf.(string)
	switch {
	case !ok:
		return sessions.Root
	case id == "<undefined>":
		return sessions.Last
	}
	return sessions.At(id)
}

// eachExpected gives f what each expected.*.json of a folder holds, packed or not.
func eachExpected(dir string, f func(map[string]any) error) error {
	files, err := filepath.Glob(filepath.Join(dir, "expected.*.json*"))
	for i := 0; err == nil && i < len(files); i++ {
		var all map[string]any
		if all, err = readObject(strings.TrimSuffix(files[i], ".gz")); err == nil {
			err = f(all)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", files[i], err)
		}
	}
	return err
}

// readObject reads a file that holds an object.
func readObject(name string) (map[string]any, error) {
	v, err := readJSON(name)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: no object", name)
	}
	return object, nil
}
