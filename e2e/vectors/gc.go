package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"spool/internal/faulttest"
	"spool/pkg/client"
	"spool/pkg/events"
)

func init() { groups["gc"] = gcVectors }

// gcVectors compares which blobs stay when the sessions of a folder are what is left of the world: each case is a store
// of its own, into which the blobs are put, the files imported, and where `spool gc` runs.
func gcVectors(dir string, report func(Case)) error {
	inputs, err := readObject(filepath.Join(dir, "inputs.json"))
	if err != nil {
		return err
	}
	p, err := running()
	if err != nil {
		return err
	}
	return eachExpected(dir, func(expected map[string]any) error {
		for name, want := range expected {
			c, err := p.collected(inputs[name], want)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			c.Name = name
			report(c)
		}
		return nil
	})
}

// collected runs one case. The oracle's blobs are files: one may have several names, and others lie among them; of a
// blob that is stored there is only that it is there.
func (p *product) collected(input, want any) (c Case, err error) {
	store, err := startProduct(p.bin, "")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, store.stop()) }()
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	blobs, young, err := store.putBlobs(ctx, items(field(input, "blobs")))
	if err != nil {
		return c, err
	}
	dir := filepath.Join(store.dir, "agent")
	texts, err := layOut(dir, input)
	if err != nil {
		return c, err
	}
	var refused error
	if len(texts) > 0 {
		_, refused = store.run(ctx, "import", dir)
	}
	if err := faulttest.Settle(ctx, store.conn); err != nil { // an event that may not be applied yet claims what it names
		return c, err
	}
	got := map[string]any{"imported": refused == nil}
	out, err := store.run(ctx, "gc", "--json")
	if err != nil {
		return c, err
	}
	got["dryRun"] = field(field(mustJSON(out), "planned"), "condemn")
	if out, err = store.run(ctx, "gc", "--apply", "--json"); err != nil {
		return c, err
	}
	got["apply"] = field(field(mustJSON(out), "done"), "condemned")
	there, mentioned := []any{}, []any{}
	for _, hash := range blobs {
		if _, err := store.get(ctx, "/v1/blobs/"+hash, nil); err == nil {
			there = append(there, hash)
		}
		if slices.ContainsFunc(texts, func(text string) bool { return mentions(text, hash) }) {
			mentioned = append(mentioned, hash)
		}
	}
	got["remaining"] = there
	thrown := field(field(want, "apply"), "thrown") != nil
	return Case{Got: got, Want: gcResult(!thrown, len(blobs), among(blobs, field(want, "remaining"))),
		When: map[string]func() bool{
			"young garbage": func() bool { return young },
			"escaped ref": func() bool {
				return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, `\u`) })
			},
			"unreadable session": func() bool { return thrown },
		},
		Holds: map[string]func() error{
			"what is mentioned stays and all else goes": func() error {
				return same(gcResult(!thrown, len(blobs), mentioned), got)
			},
		},
	}, nil
}

// gcResult is what a collection says and leaves.
func gcResult(imported bool, blobs int, remaining []any) map[string]any {
	gone := integer(blobs - len(remaining))
	return map[string]any{"imported": imported, "dryRun": gone, "apply": gone, "remaining": remaining}
}

const graceMinutes = 5

// putBlobs stores the blobs of a case, behind the entry of somebody who has nothing to do with it. young tells whether
// the oracle spares one for its age.
func (p *product) putBlobs(ctx context.Context, files []any) (hashes []string, young bool, err error) {
	other := events.Thread{Session: "other", Name: events.MainThread}
	pub := p.Publisher(client.PublisherConfig{})
	hello := []byte(`{"content":[{"type":"text","text":"hello"}]}`)
	_, err = pub.Publish(ctx, client.Entry{Thread: other, Dialect: "item", Body: hello})
	if err = errors.Join(err, p.Thread(other).Await(ctx, pub.Producer(), 0, 1)); err != nil {
		return nil, false, err
	}
	for _, f := range files {
		data := str(field(f, "data"))
		sum := sha256.Sum256([]byte(data))
		hash := hex.EncodeToString(sum[:])
		if field(f, "nameOverride") != nil { // a file of another name is no blob, and has no place here
			continue
		}
		minutes, _ := number(field(f, "ageMin"))
		young = young || minutes < graceMinutes
		if !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
		if _, err := p.PutBlob(ctx, []byte(data)); err != nil {
			return nil, false, err
		}
	}
	return hashes, young, nil
}

// among are those of the hashes of which the oracle left a file.
func among(hashes []string, files any) []any {
	left := []any{}
	for _, hash := range hashes {
		if slices.ContainsFunc(items(files), func(f any) bool { return strings.HasPrefix(str(field(f, "name")), hash) }) {
			left = append(left, hash)
		}
	}
	return left
}

// mentions tells whether a text has a ref of a blob, JSON escapes and letter case aside.
func mentions(text, hash string) bool {
	ref := "blob:sha256:" + hash
	at := strings.Index(strings.ToLower(strings.ReplaceAll(text, `\u003a`, ":")), ref)
	if at < 0 {
		return false
	}
	rest := strings.ReplaceAll(text, `\u003a`, ":")[at+len(ref):]
	return rest == "" || !strings.ContainsRune("0123456789abcdefABCDEF", rune(rest[0]))
}

var sessionName = regexp.MustCompile(`\.jsonl(\.gz|(\.[^/]*)?\.bak)?$`)

// layOut writes the files of a case to be imported, and gives the texts of its sessions. Those elsewhere come to the
// others if a registration or a terminal's breadcrumb (folder, then file) leads to them.
func layOut(dir string, input any) (texts []string, err error) {
	files, _ := field(input, "files").(map[string]any)
	for name, v := range files {
		folder, _, _ := strings.Cut(name, "/")
		text, plain := v.(string)
		switch folder {
		case "sessions", "archive":
			if !plain {
				text = str(field(v, "gz"))
			}
			if sessionName.MatchString(name) {
				texts = append(texts, text)
				if stem, ending, _ := strings.Cut(name, ".jsonl"); !plain || ending != ".gz" {
					name = stem + ".jsonl"
				}
			}
		case "custom-session-files", "terminal-sessions":
			cwd, file, crumb := strings.Cut(text, "\n")
			if !crumb {
				cwd, file = "", cwd
			}
			if file = strings.TrimSpace(file); !strings.HasPrefix(file, "<OUTSIDE>") {
				file = path.Join(cwd, file)
			}
			text = str(field(field(input, "outside"), strings.TrimPrefix(file, "<OUTSIDE>/")))
			name, texts = path.Join("sessions", "elsewhere", path.Base(name)+".jsonl"), append(texts, text)
		}
		err = errors.Join(err, writeAt(filepath.Join(dir, filepath.FromSlash(name)), text))
	}
	return texts, errors.Join(err, os.MkdirAll(dir, 0o755))
}

func writeAt(name, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600))
}
