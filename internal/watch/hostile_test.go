//go:build unix

package watch

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLinks: a note of a link to a directory leads no further than a walk does, and one that leads to itself is nobody's failure.
func TestLinks(t *testing.T) {
	p := newPlace(t)
	tree := p.tree()
	p.write("a.jsonl", "one\n")
	p.takes(tree, "a.jsonl 0-4")
	outside := t.TempDir()
	p.must(os.WriteFile(filepath.Join(outside, "b.jsonl"), []byte("two\n"), 0o600))
	p.must(os.WriteFile(filepath.Join(outside, "c"), []byte("three\n"), 0o600))
	for name, to := range map[string]string{
		"link": outside, "up": "..", "self": "self", "self.jsonl": "self.jsonl", "c.jsonl": filepath.Join(outside, "c"),
		"nowhere.jsonl": "nothing", "d.jsonl": outside,
	} {
		p.must(os.Symlink(to, p.path(name)))
		err := tree.Note(p.path(name), func(dir string) { p.Errorf("watches %s for the link %s", dir, name) })
		if err != nil && name != "self.jsonl" {
			p.Errorf("Note(%s) = %v", name, err)
		}
	}
	p.must(os.Remove(p.path("self.jsonl")))
	p.takes(tree, "c.jsonl 0-6")
}

// TestPipes: what is no file is not opened, which may take for ever, also where it took the place of one.
func TestPipes(t *testing.T) {
	p := newPlace(t)
	tree := p.tree()
	p.must(syscall.Mkfifo(p.path("pipe.jsonl"), 0o600))
	p.write("a.jsonl", "one\n")
	p.must(tree.Walk(nil))
	p.must(os.Remove(p.path("a.jsonl")))
	p.must(syscall.Mkfifo(p.path("a.jsonl"), 0o600))
	p.takes(tree)
	if n := tree.Files() + tree.Waiting(); n != 0 {
		p.Errorf("%d files are known or wait, want none", n)
	}
	tree = NewTree([]string{p.path("pipe.jsonl")}, isJSONL, nil)
	if err := tree.Walk(nil); err == nil || tree.Waiting() != 0 {
		p.Errorf("a pipe for a root: %v, and %d files wait", err, tree.Waiting())
	}
}

// TestOnceIntoAnotherStore: a store that takes the place of the first one meanwhile gets everything.
func TestOnceIntoAnotherStore(t *testing.T) {
	p := newPlace(t)
	p.write("a.jsonl", "one\n")
	p.write("b.jsonl", "one\n")
	cfg := p.config()
	cfg.Capture = func(ctx context.Context, changes []Change) ([]Taken, error) {
		if len(p.reads) == 0 {
			p.id = "another"
		}
		return p.capture(ctx, changes)
	}
	p.must(New(cfg).Once(t.Context()))
	if len(p.reads) != 4 {
		p.Errorf("captured %q, want both files in both stores", p.reads)
	}
}
