package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func init() { groups["gc"] = gcVectors }

// gcVectors compares which blobs stay when the sessions of a folder are what is left of the world. The case's sessions
// become nodes of a pack, with the blobs that they mention as refs, and the pack's header is marked from them, as the
// collector does (DESIGN 9). What no mark reaches goes, whatever its age.
func gcVectors(dir string, report func(Case)) error {
	inputs, err := readJSON(filepath.Join(dir, "inputs.json"))
	if err != nil {
		return err
	}
	return eachExpected(dir, func(expected map[string]any) error {
		for name, want := range expected {
			input, err := memberAs[map[string]any](inputs, name)
			if err != nil {
				return err
			}
			report(gcCase(name, input, want.(map[string]any)))
		}
		return nil
	})
}

// gcCase compares one collection, as a dry run and as a real one.
func gcCase(name string, input, want map[string]any) Case {
	store := readBlobFiles(input["blobs"])
	roots, err := sessionTexts(input)
	got := map[string]any{}
	if err == nil {
		err = store.mark(roots)
	}
	if err != nil {
		// Fail closed: nothing goes. What the oracle's library says of the file is its own.
		got["dryRun"], got["apply"], got["remaining"] = "refused", "refused", store.listing(func(blobFile) bool { return true })
	} else {
		got["dryRun"], got["apply"] = store.counts(false), store.counts(true)
		got["remaining"] = store.listing(func(f blobFile) bool { return f.hash == "" || store.marked[f.hash] })
	}
	for _, run := range []string{"dryRun", "apply"} {
		if r, ok := want[run].(map[string]any); ok && r["thrown"] != nil {
			want[run] = "refused"
		}
	}
	return Case{
		Name: name, Got: got, Want: want,
		When: map[string]func() bool{
			"young garbage": func() bool {
				return slices.ContainsFunc(store.files, func(f blobFile) bool { return f.young && !store.marked[f.hash] })
			},
			"escaped ref": func() bool {
				return slices.ContainsFunc(roots, func(text []byte) bool { return bytes.Contains(text, []byte(`\u`)) })
			},
		},
		Holds: map[string]func() error{
			"what is mentioned stays and all else goes": func() error { return store.check(got["remaining"], want["remaining"]) },
		},
	}
}

// blobFile is a file in the folder of blobs.
type blobFile struct {
	name, data string
	hash       string // of the blob that it belongs to; "" for a file that is none
	young      bool   // the oracle spares it for its age
}

type blobFiles struct {
	files  []blobFile
	marked map[string]bool // hashes that a session mentions, there or not
}

const graceMinutes = 5

var blobName = regexp.MustCompile(`^([a-f0-9]{64})(\.[^/]*)?$`)

func readBlobFiles(list any) *blobFiles {
	s := &blobFiles{}
	for _, v := range list.([]any) {
		b := v.(map[string]any)
		data := fmt.Sprint(b["data"])
		sum := sha256.Sum256([]byte(data))
		f := blobFile{name: hex.EncodeToString(sum[:]), data: data}
		if ext, ok := b["ext"].(string); ok {
			f.name += "." + ext
		}
		if name, ok := b["nameOverride"].(string); ok {
			f.name = name
		}
		if m := blobName.FindStringSubmatch(f.name); m != nil {
			f.hash = m[1]
		}
		age, _ := strconv.ParseFloat(fmt.Sprint(b["ageMin"]), 64)
		f.young = f.hash != "" && age < graceMinutes
		s.files = append(s.files, f)
	}
	return s
}

// mark finds what the texts keep alive.
func (s *blobFiles) mark(texts [][]byte) error {
	b := casstore.NewPackBuilder()
	for _, text := range texts {
		content := threads.Content{Text: text}
		for mention := range artifacts.Mentions(text) {
			ref, err := casstore.ParseRef(mention)
			if err != nil {
				return err
			}
			content.Refs = append(content.Refs, ref)
		}
		node := content.Node()
		b.AddNode(&node)
	}
	raw, _, err := b.Finish()
	if err != nil {
		return err
	}
	header, err := casstore.OpenHeader(raw)
	if err != nil {
		return err
	}
	roots, outside := casstore.NewBits(header.Len()), casstore.NewBits(header.OutsideLen())
	for i := range header.Len() {
		roots.Set(i)
	}
	header.Mark(roots, outside)
	s.marked = map[string]bool{}
	for i, located := range header.Outside() {
		if outside.Has(i) {
			s.marked[located.Ref.Hex()] = true
		}
	}
	return nil
}

// counts is what a run reports: blobs mentioned, blobs there, and the files that go.
func (s *blobFiles) counts(apply bool) map[string]any {
	there := map[string]bool{}
	garbage, size := 0, 0
	for _, f := range s.files {
		if f.hash == "" {
			continue
		}
		there[f.hash] = true
		if !s.marked[f.hash] {
			garbage++
			size += len(f.data)
		}
	}
	number := func(n int) json.Number { return json.Number(strconv.Itoa(n)) }
	deleted := 0
	if apply {
		deleted = garbage
	}
	return map[string]any{
		"referenced": number(len(s.marked)), "candidates": number(len(there)), "wouldDelete": number(garbage), "deleted": number(deleted),
		"bytes": number(size), "errors": []any{},
	}
}

// listing is the files that stay, by name; nil when there never was one.
func (s *blobFiles) listing(stays func(blobFile) bool) any {
	if len(s.files) == 0 {
		return nil
	}
	out := []any{}
	for _, f := range slices.SortedFunc(slices.Values(s.files), func(a, b blobFile) int { return strings.Compare(a.name, b.name) }) {
		if stays(f) {
			out = append(out, map[string]any{"name": f.name, "data": f.data})
		}
	}
	return out
}

// check holds what stayed against the marks, and what went against the oracle, which keeps it only for its age.
func (s *blobFiles) check(got, oracle any) error {
	ours, theirs := names(got), names(oracle)
	for _, f := range s.files {
		keeps := f.hash == "" || s.marked[f.hash]
		switch {
		case keeps != slices.Contains(ours, f.name):
			return fmt.Errorf("%s: marked %v, stays %v", f.name, keeps, !keeps)
		case !keeps && slices.Contains(theirs, f.name) && !s.spared(f.hash):
			return fmt.Errorf("%s goes, but the oracle keeps it, old as it is", f.name)
		}
	}
	return nil
}

// spared tells whether a blob has a young file.
func (s *blobFiles) spared(hash string) bool {
	return slices.ContainsFunc(s.files, func(f blobFile) bool { return f.hash == hash && f.young })
}

func names(list any) []string {
	var out []string
	entries, _ := list.([]any)
	for _, e := range entries {
		out = append(out, fmt.Sprint(e.(map[string]any)["name"]))
	}
	return out
}

var sessionName = regexp.MustCompile(`\.jsonl(\.gz|(\.[^/]*)?\.bak)?$`)

// sessionTexts are the sessions of a case: those in the two folders of sessions, and those elsewhere that a registration
// or a terminal's breadcrumb (folder, then file) leads to.
func sessionTexts(input map[string]any) ([][]byte, error) {
	files, _ := input["files"].(map[string]any)
	outside, _ := input["outside"].(map[string]any)
	var out [][]byte
	for name, v := range files {
		folder, _, _ := strings.Cut(name, "/")
		content, _ := v.(string)
		switch folder {
		case "sessions", "archive":
			if !sessionName.MatchString(name) {
				continue
			}
			text, err := fileText(name, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, text)
		case "custom-session-files":
			out = append(out, outsideText(outside, "", content))
		case "terminal-sessions":
			cwd, file, _ := strings.Cut(content, "\n")
			out = append(out, outsideText(outside, cwd, file))
		}
	}
	return out, nil
}

// outsideText is the text of a file below <OUTSIDE>; empty when there is none.
func outsideText(outside map[string]any, cwd, file string) []byte {
	file = strings.TrimSpace(file)
	if !strings.HasPrefix(file, "<OUTSIDE>") {
		file = path.Join(cwd, file)
	}
	text, _ := outside[strings.TrimPrefix(file, "<OUTSIDE>/")].(string)
	return []byte(text)
}

// fileText is the text of a session file. A case has that of a gzipped one as {"gz": text}; a string is the bytes.
func fileText(name string, v any) ([]byte, error) {
	if m, ok := v.(map[string]any); ok {
		text, err := memberAs[string](m, "gz")
		return []byte(text), err
	}
	if !strings.HasSuffix(name, ".gz") {
		return []byte(fmt.Sprint(v)), nil
	}
	z, err := gzip.NewReader(strings.NewReader(fmt.Sprint(v)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
