package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"spool/pkg/casstore"
	"spool/pkg/truncate"
)

func init() { groups["blobstore"] = blobstoreGroup }

// blobstoreGroup compares the store of blobs, what a ref is, and which URLs are images (SPEC T5–T8).
func blobstoreGroup(dir string, report func(Case)) error {
	expected, err := readObject(filepath.Join(dir, oracle))
	if err != nil {
		return err
	}
	delete(expected, "version")
	first := firstRef(expected["put"])
	store := &blobStore{Memory: casstore.NewMemory(), known: map[string]bool{}}
	for _, key := range []string{"put", "files", "getMissing", "has", "parseBlobRef", "isImageDataUrl"} {
		if _, ok := expected[key]; !ok {
			return fmt.Errorf("%s: there is no %q", dir, key)
		}
		list, _ := expected[key].([]any)
		switch key {
		case "put":
			err = putCases(store, list, report)
		case "files":
			report(Case{Name: key, Got: store.hashes(), Want: expected[key]})
		case "getMissing":
			var got any
			if b, err := store.get(casstore.BlobRef([32]byte{1}).String()); !errors.Is(err, casstore.ErrNotFound) {
				got = fmt.Sprint(b, err)
			}
			report(Case{Name: key, Got: got, Want: expected[key]})
		case "has":
			_, there := store.get(first)
			_, missing := store.get(casstore.BlobRef([32]byte{1}).String())
			report(Case{Name: key, Got: []any{there == nil, missing == nil}, Want: expected[key]})
		case "parseBlobRef":
			parseCases(list, report)
		case "isImageDataUrl":
			err = urlCases(list, report)
		}
		if err != nil {
			return err
		}
		delete(expected, key)
	}
	for key := range expected {
		report(Case{Name: key, Got: "not supported", Want: expected[key]})
	}
	return nil
}

func firstRef(puts any) string {
	list, _ := puts.([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		ref, _ := m["ref"].(string)
		return ref
	}
	return ""
}

// putCases stores bytes and reads them back. An extension that the caller suggests names nothing: the hash alone does.
func putCases(store *blobStore, list []any, report func(Case)) error {
	for i, v := range list {
		m, _ := v.(map[string]any)
		text, _ := m["base64"].(string)
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		ref := store.put(b)
		back, err := store.get(ref)
		if err != nil || string(back) != string(b) {
			return fmt.Errorf("put %d: read back %d bytes, %w", i, len(back), err)
		}
		hash := strings.TrimPrefix(ref, "blob:sha256:")
		got := map[string]any{"base64": m["base64"], "hash": hash, "ref": ref, "path": hash}
		if options, ok := m["options"]; ok {
			got["options"] = options
		}
		report(Case{Name: fmt.Sprintf("put-%02d", i), Got: got, Want: v})
	}
	return nil
}

// wholeRef is a ref as SPEC T8 has it.
var wholeRef = regexp.MustCompile(`^blob:sha256:[a-f0-9]{64}$`)

func parseCases(list []any, report func(Case)) {
	for i, v := range list {
		want, _ := v.(map[string]any)
		input, _ := want["input"].(string)
		ref, err := casstore.ParseRef(input)
		isRef := truncate.IsRef(input)
		got := map[string]any{"input": want["input"], "isBlobRef": isRef, "parseBlobRef": nil}
		if err == nil {
			got["parseBlobRef"] = ref.Hex()
		}
		report(Case{Name: fmt.Sprintf("parse-%02d", i), Got: got, Want: v,
			When: map[string]func() bool{"no whole ref": func() bool { return !wholeRef.MatchString(input) }},
			Holds: map[string]func() error{"refused": func() error {
				if isRef || !errors.Is(err, casstore.ErrBadRef) {
					return fmt.Errorf("%q is taken for a ref", input)
				}
				return nil
			}},
		})
	}
}

// urlCases asks whether a URL is an image by what becomes of it in an entry.
func urlCases(list []any, report func(Case)) error {
	for i, v := range list {
		want, _ := v.(map[string]any)
		r, _, err := persisted(encodeJSON(map[string]any{"image_url": want["input"]}))
		if err != nil {
			return err
		}
		got := map[string]any{"input": want["input"], "isImageDataUrl": r.Externalized == 1}
		report(Case{Name: fmt.Sprintf("url-%02d", i), Got: got, Want: v})
	}
	return nil
}
