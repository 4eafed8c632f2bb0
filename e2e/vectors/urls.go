package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func init() { groups["urls"] = urlVectors }

// urlVectors has each address resolved in sessions with the folders of each setup (SPEC A8, A9).
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
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	dirs, err := memberAs[[]any](v, "dirs")
	if err != nil {
		return err
	}
	results, err := memberAs[[]any](v, "results")
	if err != nil {
		return err
	}
	var all folders
	for _, d := range dirs {
		files := map[string]string{}
		object, _ := d.(map[string]any)
		for name, text := range object {
			files[name] = fmt.Sprint(text)
		}
		session, err := imported(ctx, files)
		if err == nil && d != nil && len(files) == 0 { // a folder that is empty is of a session that had an artifact
			_, _, err = session.Session(session.session).TakeNumber(ctx, "")
		}
		if err != nil {
			return err
		}
		all = append(all, filled{session, files, d != nil})
	}
	if len(dirs) == 0 {
		nowhere, err := imported(ctx, nil)
		if err != nil {
			return err
		}
		all = folders{{folder: nowhere}}
	}
	for _, r := range results {
		address, err := memberAs[string](r, "url")
		if err != nil {
			return err
		}
		c, err := urlCase(setup, address, r.(map[string]any), all)
		if err != nil {
			return err
		}
		report(c)
	}
	return nil
}

// folders are sessions with what lies in the folders that the oracle looks through. An address is of one session here.
type folders []filled

type filled struct {
	folder
	files map[string]string
	there bool
}

// asked is the index of the session that an address is asked of: that in whose folder the oracle finds something, else
// the first that has one.
func (f folders) asked(want map[string]any) int {
	if dir, ok := want["sourceDir"].(json.Number); ok {
		at, _ := dir.Int64()
		return int(at)
	}
	return max(0, slices.IndexFunc(f, func(one filled) bool { return one.there }))
}

// urlCase compares one resolution. The address itself is left out: the oracle normalizes it. So is the order of the ids
// that it lists for agents, which is its file system's.
func urlCase(setup, address string, want map[string]any, all folders) (Case, error) {
	want = withoutKey(want, "url")
	at := all.asked(want)
	got, err := all[at].read(address)
	if err != nil {
		return Case{}, err
	}
	if got["error"] == nil {
		got["sourceDir"] = integer(at)
	}
	if message, ok := want["error"].(string); ok && strings.HasPrefix(address, "agent:") {
		want["error"] = sortedIDs(message)
	}
	u := urlFacts{address: address, want: want, got: got, folders: all}
	return Case{
		Name: setup + "." + strings.NewReplacer("://", ":", "/", "|").Replace(address), Got: got, Want: want,
		When: map[string]func() bool{
			"nested output": u.nested, "prototype": u.prototype, "spelled otherwise": u.spelledOtherwise, "no json": u.noJSON,
			"several folders": func() bool { return len(all) > 1 && want["error"] != nil },
		},
		Holds: map[string]func() error{
			"the nested output": u.isNested, "null": u.isNull, "same value": u.sameValue, "says so": u.saysNoJSON,
			"each of its own": u.eachItsOwn,
		},
	}, nil
}

// eachItsOwn: each session says that it has no such thing, and lists what it has; all of them together have what the
// oracle lists.
func (u urlFacts) eachItsOwn() error {
	head, ids, _ := strings.Cut(str(u.want["error"]), "Available: ")
	missing := strings.Split(ids, ", ")
	for _, f := range u.folders {
		if !f.there {
			continue
		}
		got, err := f.read(u.address)
		if err != nil {
			return err
		}
		said, own, _ := strings.Cut(str(got["error"]), "Available: ")
		if said != head {
			return fmt.Errorf("got %v", got)
		}
		for id := range strings.SplitSeq(own, ", ") {
			if !strings.Contains(", "+ids+", ", ", "+id+", ") {
				return fmt.Errorf("%s is listed, and the oracle has none", id)
			}
			missing = slices.DeleteFunc(missing, func(other string) bool { return other == id })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%q are not listed", missing)
	}
	return nil
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
	folders   folders
}

// nestedFile is the file of the output that a slash path names, and its content.
func (u urlFacts) nestedFile() (name, content string, ok bool) {
	id, path, _ := strings.Cut(strings.TrimPrefix(u.address, "agent://"), "/")
	name = id + "." + strings.ReplaceAll(strings.Trim(path, "/"), "/", ".") + ".md"
	for _, f := range u.folders {
		if content, ok := f.files[name]; ok && path != "" {
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
	like, _ := clone(u.want).(map[string]any) // all but the spelling
	like["content"], like["size"] = u.got["content"], integer(len(str(u.got["content"])))
	return same(like, u.got)
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
