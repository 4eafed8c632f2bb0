package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/truncate"
)

func init() { groups["resolve"] = resolveGroup }

// resolveGroup compares what comes back of persisted entries (SPEC T10): cases with a store are entries with refs, the others
// are persisted first.
func resolveGroup(dir string, report func(Case)) error {
	return eachFolder(dir, func(name, path string) error {
		raw, err := readFile(filepath.Join(path, "input.json"))
		if err != nil {
			return err
		}
		if err := jsonscan.Valid(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		expected, err := readObject(filepath.Join(path, oracle))
		if err != nil {
			return err
		}
		delete(expected, "version")
		entry, store := jsonscan.Get(raw, "entry"), jsonscan.Get(raw, "store")
		run := roundTripCase
		if store != nil {
			run = resolveCase
		}
		c, err := run(entry, store, expected)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.Name, c.Want = name, any(expected)
		report(c)
		return nil
	})
}

// resolveCase resolves an entry against a store.
func resolveCase(entry, store []byte, expected map[string]any) (c Case, err error) {
	blobs, err := givenBlobs(store)
	if err != nil {
		return c, err
	}
	var missing []rehydrate.Missing
	text, err := rehydrate.Resolve(context.Background(), entry, blobs, func(m rehydrate.Missing) { missing = append(missing, m) })
	if err != nil {
		return c, err
	}
	got := mustJSON(text)
	c.Got = map[string]any{"entry": got}
	c.When = map[string]func() bool{
		"corrupt blob": blobs.anyCorrupt,
		"forgotten image": func() bool {
			return len(imageRefs(expected["entry"], blobs)) > 0
		},
	}
	byRule := func() error { return same(resolvedByRule(mustJSON(entry), blobs), got) }
	c.Holds = map[string]func() error{
		"restored": byRule,
		"reported": func() error {
			for _, m := range missing {
				if m.Corrupt() {
					return byRule()
				}
			}
			return errors.New("no corruption was reported")
		},
	}
	return c, nil
}

// roundTripCase publishes an entry, and resolves what is stored of it against the blobs that are there.
func roundTripCase(entry, _ []byte, expected map[string]any) (c Case, err error) {
	p, err := running()
	if err != nil {
		return c, err
	}
	e, err := p.persist(entry)
	if err != nil {
		return c, err
	}
	var missing error
	warn := func(m rehydrate.Missing) { missing = errors.Join(missing, m) }
	back, err := rehydrate.Resolve(context.Background(), e.stored, p, warn)
	if err = errors.Join(err, missing); err != nil {
		return c, err
	}
	input, resolved := mustJSON(entry), mustJSON(back)
	c.Got = map[string]any{
		"persisted": mustJSON(e.stored), "resolved": resolved, "lossless": difference(input, resolved) == "",
	}
	c.When = map[string]func() bool{"inexact image": func() bool { return len(inexact(input)) > 0 }}
	c.Holds = map[string]func() error{"exact": func() error {
		want := keepInexact(input, expected).(map[string]any)
		for _, at := range inexact(input) {
			setAt(want["resolved"], at, valueAt(input, at))
		}
		want["lossless"] = difference(want["resolved"], input) == ""
		delete(want, "blobs")
		delete(want, "untouched")
		return same(want, c.Got)
	}}
	return c, nil
}

// refStore holds blobs under the hashes that a case names, right or wrong.
type refStore map[string][]byte

func givenBlobs(list []byte) (refStore, error) {
	store := refStore{}
	var problem error
	err := jsonscan.Array(list, func(b []byte) bool {
		hash, _ := jsonscan.Text(jsonscan.Get(b, "hash"))
		text, _ := jsonscan.Text(jsonscan.Get(b, "base64"))
		store[hash], problem = base64.StdEncoding.DecodeString(text)
		return problem == nil
	})
	return store, errors.Join(err, problem)
}

// Blob implements casstore.BlobGetter.
func (s refStore) Blob(_ context.Context, ref casstore.Ref) ([]byte, error) {
	b, ok := s[ref.Hex()]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", ref, casstore.ErrNotFound)
	case casstore.SumBlob(b) != ref:
		return nil, fmt.Errorf("%s: %w", ref, casstore.ErrCorrupt)
	}
	return b, nil
}

func (s refStore) anyCorrupt() bool {
	for hash, b := range s {
		if casstore.SumBlob(b).Hex() != hash {
			return true
		}
	}
	return false
}

// imageRefs finds the refs of a decoded entry that stand where images are moved out, and whose blob is there.
func imageRefs(entry any, blobs refStore) (found []place) {
	if m, ok := entry.(map[string]any); ok && m["type"] == "session" {
		return nil
	}
	eachValue(entry, nil, func(v any, at place) {
		s, ok := v.(string)
		if !ok || !truncate.IsRef(s) {
			return
		}
		ref, err := casstore.ParseRef(s)
		if err != nil {
			return
		}
		if _, err := blobs.Blob(context.Background(), ref); err != nil {
			return
		}
		if underKey(at) == "image_url" || len(at) >= 3 && at[len(at)-1] == "data" && isImageBlock(entry, at[:len(at)-1]) {
			found = append(found, append(place{}, at...))
		}
	})
	return found
}

// resolvedByRule is what SPEC T10 wants of a decoded entry.
func resolvedByRule(entry any, blobs refStore) any {
	out := clone(entry)
	for _, at := range imageRefs(entry, blobs) {
		ref, _ := casstore.ParseRef(valueAt(entry, at).(string))
		b, _ := blobs.Blob(context.Background(), ref)
		if underKey(at) == "image_url" {
			setAt(out, at, string(b))
		} else {
			setAt(out, at, base64.StdEncoding.EncodeToString(b))
		}
	}
	return out
}
