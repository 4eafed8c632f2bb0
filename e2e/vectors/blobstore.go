package main

import (
	"context"
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
	p, err := running()
	if err != nil {
		return err
	}
	delete(expected, "version")
	for _, key := range []string{"put", "files", "getMissing", "has", "parseBlobRef", "isImageDataUrl"} {
		if _, ok := expected[key]; !ok {
			return fmt.Errorf("%s: there is no %q", dir, key)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	hashes, err := p.putCases(ctx, items(expected["put"]), report)
	if err != nil {
		return err
	}
	there := func(hash string) bool {
		_, err := p.get(ctx, "/v1/blobs/"+hash, nil)
		return err == nil
	}
	missing := casstore.BlobRef([32]byte{1}).Hex()
	report(Case{Name: "files", Got: sortedStrings(hashes), Want: expected["files"]})
	report(Case{Name: "has", Got: []any{there(str(hashes[0])), there(missing)}, Want: expected["has"]})
	var got any
	if _, err := p.get(ctx, "/v1/blobs/"+missing, nil); err == nil || !strings.Contains(err.Error(), "404") {
		got = fmt.Sprint(err)
	}
	report(Case{Name: "getMissing", Got: got, Want: expected["getMissing"]})
	parseCases(items(expected["parseBlobRef"]), report)
	if err := p.urlCases(items(expected["isImageDataUrl"]), report); err != nil {
		return err
	}
	for _, key := range []string{"put", "files", "getMissing", "has", "parseBlobRef", "isImageDataUrl"} {
		delete(expected, key)
	}
	for key := range expected {
		report(Case{Name: key, Got: "not supported", Want: expected[key]})
	}
	return nil
}

// putCases stores bytes and reads them back. An extension that the caller suggests names nothing: the hash alone does.
func (p *product) putCases(ctx context.Context, list []any, report func(Case)) (hashes []any, err error) {
	for i, v := range list {
		b, err := base64.StdEncoding.DecodeString(str(field(v, "base64")))
		if err != nil {
			return nil, err
		}
		ref, err := p.PutBlob(ctx, b)
		if err != nil {
			return nil, err
		}
		back, err := p.get(ctx, "/v1/blobs/"+ref.Hex(), nil)
		if err != nil {
			return nil, err
		}
		got := map[string]any{
			"base64": base64.StdEncoding.EncodeToString(back), "hash": ref.Hex(), "ref": ref.String(), "path": ref.Hex(),
		}
		if options := field(v, "options"); options != nil {
			got["options"] = options
		}
		hashes = append(hashes, ref.Hex())
		report(Case{Name: fmt.Sprintf("put-%02d", i), Got: got, Want: v})
	}
	return hashes, nil
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
func (p *product) urlCases(list []any, report func(Case)) error {
	for i, v := range list {
		want, _ := v.(map[string]any)
		e, err := p.persist(encodeJSON(map[string]any{"image_url": want["input"]}))
		if err != nil {
			return err
		}
		got := map[string]any{"input": want["input"], "isImageDataUrl": len(e.blobs) == 1}
		report(Case{Name: fmt.Sprintf("url-%02d", i), Got: got, Want: v})
	}
	return nil
}
