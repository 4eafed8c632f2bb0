package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

func init() { groups["resolve"] = resolveGroup }

const refPrefix = "blob:sha256:"

// resolveGroup compares what comes back of persisted entries (SPEC T10): cases with a store are entries with refs, whose blobs are put
// first. Of messages what the model is sent is compared, too.
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
		if message := field(expected["entry"], "message"); message != nil {
			expected["sent"] = []any{message}
		}
		c.Name, c.Want = name, any(expected)
		report(c)
		return nil
	})
}

// resolveCase publishes an entry whose blobs are there, and resolves what is stored of it.
func resolveCase(entry, store []byte, expected map[string]any) (c Case, err error) {
	blobs, err := givenBlobs(store)
	if err != nil {
		return c, err
	}
	p, err := running()
	if err != nil {
		return c, err
	}
	putBack, err := p.plant(entry, blobs)
	defer func() { err = errors.Join(err, putBack()) }()
	if err != nil {
		return c, err
	}
	e, err := p.persist(entry)
	if err != nil {
		return c, err
	}
	var missing []rehydrate.Missing
	text, err := rehydrate.Resolve(context.Background(), e.stored, p, func(m rehydrate.Missing) { missing = append(missing, m) })
	if err != nil {
		return c, err
	}
	got := mustJSON(text)
	whole := map[string]any{"entry": got}
	if field(got, "message") != nil {
		if whole["sent"], err = p.sent(e.thread); err != nil {
			return c, err
		}
	}
	c.Got = whole
	c.When = map[string]func() bool{
		"no whole ref": func() bool { return halfRef(mustJSON(entry)) },
		"corrupt blob": blobs.anyCorrupt,
		"forgotten image": func() bool {
			return len(imageRefs(expected["entry"], blobs)) > 0
		},
	}
	byRule := func() error {
		ruled := resolvedByRule(mustJSON(entry), blobs)
		want := map[string]any{"entry": ruled}
		if message := field(ruled, "message"); message != nil {
			want["sent"] = []any{message}
		}
		return same(want, whole)
	}
	c.Holds = map[string]func() error{
		"restored":       byRule,
		"left as it was": byRule,
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

// plant stores the blobs of an entry, those under another hash than their own as a disk stores them that went bad, and hides those that
// it is to miss and another case has stored. putBack undoes what no client does.
func (p *product) plant(entry []byte, blobs refStore) (putBack func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	before := map[string][]byte{} // values of records
	putBack = func() (err error) {
		for key, value := range before {
			_, e := p.conn.Records().Write(context.Background(), record.Put{Key: key, Value: value, Expect: record.Any})
			err = errors.Join(err, e)
		}
		return err
	}
	change := func(hash string, value []byte) error {
		key := events.BlobKey(hash)
		rs, err := p.conn.Records().Records(ctx, key)
		if err != nil {
			return err
		}
		before[key] = rs[0].Value
		_, err = p.conn.Records().Write(ctx, record.Put{Key: key, Value: value, Expect: record.Any})
		return err
	}
	for ref := range artifacts.Mentions(entry) {
		if hash := strings.TrimPrefix(ref, refPrefix); blobs[hash] == nil {
			if err := change(hash, nil); err != nil {
				return putBack, err
			}
		}
	}
	for hash, b := range blobs {
		ref, err := casstore.ParseRef(refPrefix + hash)
		if err != nil {
			continue // nothing is stored under that
		}
		if ref == casstore.SumBlob(b) {
			_, err = p.PutBlob(ctx, b)
		} else {
			var stored record.Blob
			if stored, err = p.conn.Store(0).UploadBlob(ctx, ref, b); err == nil {
				err = change(ref.Hex(), stored.Encode())
			}
		}
		if err != nil {
			return putBack, fmt.Errorf("store the blob %s: %w", hash, err)
		}
	}
	return putBack, nil
}

// sent are the messages that the model is sent of a thread.
func (p *product) sent(t events.Thread) (any, error) {
	b, err := p.get(context.Background(), fmt.Sprintf("/v1/sessions/%s/threads/%s/context", t.Session, t.Name), nil)
	return field(mustJSON(b), "messages"), err
}

// halfRef tells whether an image stands for a blob by what is no whole ref.
func halfRef(entry any) (half bool) {
	eachValue(entry, nil, func(v any, at place) {
		s, ok := v.(string)
		half = half || ok && strings.HasPrefix(s, refPrefix) && !truncate.IsRef(s) && (underKey(at) == "image_url" || at[len(at)-1] == "data")
	})
	return half
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
