package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

func init() { groups["persist"] = persistGroup }

// oracle is the version whose outputs Spool follows in most groups (testdata/golden/omp).
const oracle = "expected.14.9.9.json"

// persistGroup publishes entries and compares what they are stored as, and which blobs they leave (SPEC T1–T8). That
// the original can be had back (SPEC T9) is part of every case.
func persistGroup(dir string, report func(Case)) error {
	p, err := running()
	if err != nil {
		return err
	}
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
		e, err := p.persist(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		got := map[string]any{
			"persisted": mustJSON(e.stored), "untouched": bytes.Equal(e.stored, e.raw), "restored": bytes.Equal(e.full, e.raw),
			"blobs": e.blobs,
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

// persisted is an entry that went through the product.
type persisted struct {
	raw, stored, full []byte // as it was published, as it is stored, as it is given back
	blobs             []any  // hashes of the blobs that it refers to and that are there, sorted
	thread            events.Thread
}

// persist publishes an entry in a session of its own, and reads it back by `spool export` and HTTP.
func (p *product) persist(raw []byte) (e persisted, err error) {
	if err := jsonscan.Valid(raw); err != nil {
		return e, err
	}
	e.raw = bytes.TrimSpace(raw)
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	p.scenarios++
	t := events.Thread{Session: fmt.Sprintf("persist-%d", p.scenarios), Name: events.MainThread}
	e.thread = t
	pub := p.Publisher(client.PublisherConfig{})
	if _, err := pub.Publish(ctx, client.Entry{Thread: t, Dialect: "omp", Body: e.raw}); err != nil {
		return e, err
	}
	if err := p.Thread(t).Await(ctx, pub.Producer(), 0, 1); err != nil {
		return e, err
	}
	for form, to := range map[rehydrate.Form]*[]byte{rehydrate.Stored: &e.stored, rehydrate.Full: &e.full} {
		var out bytes.Buffer
		if _, err := p.Internal().ExportAs(ctx, t, form, &out, nil); err != nil {
			return e, err
		}
		*to = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	}
	e.blobs = []any{}
	for ref := range artifacts.Mentions(e.stored) {
		hash := strings.TrimPrefix(ref, "blob:sha256:")
		if _, err := p.get(ctx, "/v1/blobs/"+hash, nil); err == nil {
			e.blobs = append(e.blobs, hash)
		}
	}
	e.blobs = sortedStrings(e.blobs)
	return e, nil
}

// blobHashes are the names of the oracle's blobs, sorted, without its links that also carry an extension.
func blobHashes(list any) []any {
	hashes := []any{}
	for _, b := range items(list) {
		hash, _, _ := strings.Cut(str(field(b, "name")), ".")
		hashes = append(hashes, hash)
	}
	return sortedStrings(hashes)
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
