package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

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
		tree := treeOf(entries)
		contexts, _ := expected[name].([]any)
		for i, want := range contexts {
			want, ok := want.(map[string]any)
			if !ok {
				return fmt.Errorf("%s: context %d is no object", name, i)
			}
			report(Case{Name: fmt.Sprintf("%s/%d", name, i), Got: contextAt(tree, want["leafId"]), Want: want["context"]})
		}
	}
	return nil
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
