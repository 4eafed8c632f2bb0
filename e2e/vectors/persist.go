package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/truncate"
)

func init() { groups["persist"] = persistGroup }

// oracle is the version whose outputs Spool follows in most groups (testdata/golden/omp).
const oracle = "expected.14.9.9.json"

// persistGroup compares what an entry is persisted as, and which blobs it leaves (SPEC T1–T8). That the original can be had
// back (SPEC T9) is part of every case.
func persistGroup(dir string, report func(Case)) error {
	return eachFolder(dir, func(name, path string) error {
		raw, err := readFile(filepath.Join(path, "input.json"))
		if err != nil {
			return err
		}
		expected, err := readObject(filepath.Join(path, oracle))
		if err != nil {
			return err
		}
		want := map[string]any{
			"persisted": expected["persisted"], "untouched": expected["sameReference"], "restored": true,
			"blobs": blobHashes(expected["blobs"]),
		}
		got, err := persistEntry(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		input := mustJSON(raw)
		report(Case{Name: name, Got: got, Want: want,
			When: map[string]func() bool{"inexact image": func() bool { return len(inexact(input)) > 0 }},
			Holds: map[string]func() error{"exact": func() error {
				return same(keepInexact(input, want).(map[string]any), got)
			}},
		})
		return nil
	})
}

// persistEntry does with an entry what the persister does before it stores it.
func persistEntry(raw []byte) (map[string]any, error) {
	r, store, err := persisted(raw)
	if err != nil {
		return nil, err
	}
	base := r.Text
	if r.Full != nil {
		base = r.Full
	}
	back, err := truncate.Restore(base, r.Splices, func(ref string) ([]byte, error) { return store.get(ref) })
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"persisted": mustJSON(r.Text), "untouched": bytes.Equal(r.Text, raw), "restored": bytes.Equal(back, raw),
		"blobs": store.hashes(),
	}, nil
}

// persisted cuts an entry and puts its blobs into a store.
func persisted(raw []byte) (truncate.Result, *blobStore, error) {
	if err := jsonscan.Valid(raw); err != nil {
		return truncate.Result{}, nil, err
	}
	store := &blobStore{Memory: casstore.NewMemory(), known: map[string]bool{}}
	r, err := truncate.Entry(raw, func(b []byte) string { return store.put(b) }, truncate.Options{})
	return r, store, err
}

// blobStore is a store that knows what it holds.
type blobStore struct {
	*casstore.Memory
	known map[string]bool // by hash
}

func (s *blobStore) put(b []byte) string {
	ref, err := s.PutBlob(context.Background(), b)
	if err != nil {
		panic(err) // memory takes anything
	}
	s.known[ref.Hex()] = true
	return ref.String()
}

func (s *blobStore) get(ref string) ([]byte, error) {
	r, err := casstore.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	return s.Blob(context.Background(), r)
}

func (s *blobStore) hashes() []any {
	out := []any{}
	for _, h := range slices.Sorted(maps.Keys(s.known)) {
		out = append(out, h)
	}
	return out
}

// blobHashes are the names of the oracle's blobs, sorted, without its links that also carry an extension.
func blobHashes(list any) []any {
	names := map[string]bool{}
	blobs, _ := list.([]any)
	for _, b := range blobs {
		m, _ := b.(map[string]any)
		name, _ := m["name"].(string)
		hash, _, _ := strings.Cut(name, ".")
		names[hash] = true
	}
	return (&blobStore{known: names}).hashes()
}

// place is where a value stands in a decoded document: keys and indexes from the root.
type place []any

// inexact finds the images of an entry that decoding would change (SPEC T7): base64 in an image block of a content array
// that is not what its bytes encode to, and data URLs with characters that have no UTF-8 form.
func inexact(entry any) []place {
	var found []place
	eachValue(entry, nil, func(v any, at place) {
		s, ok := v.(string)
		if !ok || len(at) == 0 {
			return
		}
		if underKey(at) == "image_url" && strings.HasPrefix(s, "data:image/") && strings.Contains(s, ";base64,") && hasSurrogate(s) {
			found = append(found, slices.Clone(at))
		}
		if at[len(at)-1] == "data" && len(at) >= 3 && isImageBlock(entry, at[:len(at)-1]) && len(s) >= truncate.MinImage &&
			!truncate.IsRef(s) && !canonical(s) {
			found = append(found, slices.Clone(at))
		}
	})
	return found
}

// isImageBlock tells whether the object at a place is an image and an element of an array under content.
func isImageBlock(doc any, at place) bool {
	block, _ := valueAt(doc, at).(map[string]any)
	if _, isElement := at[len(at)-1].(int); !isElement || block["type"] != "image" {
		return false
	}
	return underKey(at) == "content"
}

// underKey is the key that a value stands under, of an array's element the array's.
func underKey(at place) string {
	for _, step := range slices.Backward(at) {
		if key, ok := step.(string); ok {
			return key
		}
	}
	return ""
}

func canonical(s string) bool {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if b, err := enc.DecodeString(s); err == nil && enc.EncodeToString(b) == s {
			return true
		}
	}
	return false
}

func hasSurrogate(s string) bool {
	for i := range len(s) {
		if surrogateAt(s, i) != 0 {
			return true
		}
	}
	return false
}

// keepInexact is what the oracle would give had it left the inexact images of the input alone: they stand in the persisted
// entry, and their blobs are not there unless an image that is left refers to them.
func keepInexact(input any, want map[string]any) any {
	kept := clone(want).(map[string]any)
	places := inexact(input)
	for _, at := range places {
		setAt(kept["persisted"], at, valueAt(input, at))
	}
	refs := map[string]bool{}
	eachValue(kept["persisted"], nil, func(v any, _ place) {
		if s, ok := v.(string); ok && truncate.IsRef(s) {
			refs[strings.TrimPrefix(s, "blob:sha256:")] = true
		}
	})
	var dropped []string
	for _, at := range places {
		if ref, ok := valueAt(want["persisted"], at).(string); ok {
			dropped = append(dropped, strings.TrimPrefix(ref, "blob:sha256:"))
		}
	}
	blobs, _ := kept["blobs"].([]any)
	kept["blobs"] = slices.DeleteFunc(blobs, func(b any) bool { return slices.Contains(dropped, b.(string)) && !refs[b.(string)] })
	if difference(kept["persisted"], input) == "" {
		kept["untouched"] = true
	}
	return kept
}

// same is nil when both are equal.
func same(want, got any) error {
	if diff := difference(want, got); diff != "" {
		return fmt.Errorf("%s", short(diff))
	}
	return nil
}

// eachFolder calls f for each folder of a group, in order.
func eachFolder(dir string, f func(name, path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := f(e.Name(), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
