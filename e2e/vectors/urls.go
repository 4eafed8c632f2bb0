package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spool/pkg/artifacts"
)

func init() { groups["urls"] = urlVectors }

// urlVectors resolves each address in each setup of folders (SPEC A8, A9).
func urlVectors(dir string, report func(Case)) error {
	return eachExpected(dir, func(all map[string]any) error {
		setups, err := memberAs[map[string]any](all, "setups")
		if err != nil {
			return err
		}
		for name, setup := range setups {
			if err := urlSetup(name, setup, report); err != nil {
				return fmt.Errorf("setup %s: %w", name, err)
			}
		}
		return nil
	})
}

func urlSetup(setup string, v any, report func(Case)) error {
	dirs, err := memberAs[[]any](v, "dirs")
	if err != nil {
		return err
	}
	results, err := memberAs[[]any](v, "results")
	if err != nil {
		return err
	}
	var sources artifacts.Sources
	var folders []artifactDir
	for _, d := range dirs {
		var folder artifactDir
		if files, ok := d.(map[string]any); ok {
			folder = artifactDir{}
			for name, text := range files {
				folder[name] = fmt.Sprint(text)
			}
		}
		folders = append(folders, folder)
		sources.Dirs = append(sources.Dirs, folder)
	}
	for _, r := range results {
		address, err := memberAs[string](r, "url")
		if err != nil {
			return err
		}
		report(urlCase(setup, address, r.(map[string]any), sources, folders))
	}
	return nil
}

// urlCase compares one resolution. The address itself is left out: the oracle normalizes it. So is the order of the ids
// that it lists for agents, which is its file system's.
func urlCase(setup, address string, want map[string]any, sources artifacts.Sources, folders []artifactDir) Case {
	want = withoutKey(want, "url")
	res, text, err := resolveText(sources, address)
	got := map[string]any{}
	if err != nil {
		got["error"] = err.Error()
	} else {
		got["content"], got["contentType"] = text, res.ContentType
		got["size"], got["sourceDir"] = json.Number(strconv.FormatInt(res.Size, 10)), json.Number(strconv.Itoa(res.Dir))
		got["sourceFile"] = res.Name
		if strings.HasPrefix(address, "agent:") {
			notes := []any{}
			for _, n := range res.Notes {
				notes = append(notes, n)
			}
			got["notes"] = notes
		}
	}
	if message, ok := want["error"].(string); ok && strings.HasPrefix(address, "agent:") {
		want["error"] = sortedIDs(message)
	}
	u := urlFacts{address: address, want: want, got: got, folders: folders}
	return Case{
		Name: setup + "." + strings.NewReplacer("://", ":", "/", "|").Replace(address), Got: got, Want: want,
		When: map[string]func() bool{
			"nested output": u.nested, "prototype": u.prototype, "spelled otherwise": u.spelledOtherwise, "no json": u.noJSON,
		},
		Holds: map[string]func() error{
			"the nested output": u.isNested, "null": u.isNull, "same value": u.sameValue, "says so": u.saysNoJSON,
		},
	}
}

func withoutKey(m map[string]any, key string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// sortedIDs sorts what stands after "Available: ".
func sortedIDs(message string) string {
	head, ids, ok := strings.Cut(message, "\nAvailable: ")
	if !ok {
		return message
	}
	sorted := strings.Split(ids, ", ")
	slices.Sort(sorted)
	return head + "\nAvailable: " + strings.Join(sorted, ", ")
}

// urlFacts is what deviations of one case go by.
type urlFacts struct {
	address   string
	want, got map[string]any
	folders   []artifactDir
}

// nestedFile is the file of the output that a slash path names, and its content.
func (u urlFacts) nestedFile() (name, content string, ok bool) {
	id, path, _ := strings.Cut(strings.TrimPrefix(u.address, "agent://"), "/")
	name = id + "." + strings.ReplaceAll(strings.Trim(path, "/"), "/", ".") + ".md"
	for _, f := range u.folders {
		if content, ok := f[name]; ok && path != "" {
			return name, content, true
		}
	}
	return "", "", false
}

func (u urlFacts) nested() bool {
	_, _, ok := u.nestedFile()
	return ok
}

func (u urlFacts) isNested() error {
	name, content, _ := u.nestedFile()
	if u.got["sourceFile"] != name || u.got["content"] != content {
		return fmt.Errorf("got %v from %v, want %s from %s", u.got["content"], u.got["sourceFile"], content, name)
	}
	return nil
}

// prototype tells whether the address names what every JavaScript object inherits.
func (u urlFacts) prototype() bool { return strings.Contains(u.address, "__proto__") }

func (u urlFacts) isNull() error {
	if u.got["content"] != "null" || u.got["contentType"] != "application/json" {
		return fmt.Errorf("got %v", u.got)
	}
	return nil
}

// spelledOtherwise tells whether both found a JSON value, but did not write the same text.
func (u urlFacts) spelledOtherwise() bool {
	return u.want["contentType"] == "application/json" && u.got["content"] != u.want["content"]
}

func (u urlFacts) sameValue() error {
	var values []any
	for _, m := range []map[string]any{u.want, u.got} {
		text, _ := m["content"].(string)
		v, err := decodeJSON([]byte(text))
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	if d := difference(values[0], values[1]); d != "" {
		return fmt.Errorf("values differ: %s", d)
	}
	if d := difference(u.want["notes"], u.got["notes"]); d != "" {
		return fmt.Errorf("notes differ: %s", d)
	}
	return nil
}

const noJSON = " is not valid JSON: "

func (u urlFacts) noJSON() bool {
	want, _ := u.want["error"].(string)
	return strings.Contains(want, noJSON)
}

func (u urlFacts) saysNoJSON() error {
	want, _ := u.want["error"].(string)
	got, _ := u.got["error"].(string)
	said, _, _ := strings.Cut(want, noJSON)
	if reason, ok := strings.CutPrefix(got, said+noJSON); !ok || reason == "" {
		return fmt.Errorf("got %q", got)
	}
	return nil
}
