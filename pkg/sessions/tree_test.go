package sessions

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// add appends a user's message under an id.
func add(t *testing.T, tree *Tree, id string) {
	t.Helper()
	must.Get(tree.Append(Message([]byte(`{"role":"user","content":"x"}`)), Stamp{ID: id, Time: noon}))(t)
}

func TestTree(t *testing.T) {
	tree := NewTree(Header{ID: "s1"})
	add(t, tree, "a")
	add(t, tree, "b")
	must.Do(t, tree.Branch("a"))
	add(t, tree, "c")
	tree.ResetLeaf()
	add(t, tree, "d")
	must.Do(t, tree.Branch("b"))
	add(t, tree, "e")
	tree.ResetLeaf()
	add(t, tree, "f")
	must.Same(t, entryIDs(tree.Entries()), "a b c d e f", "Entries = %s, want %s")
	for leaf, want := range map[Leaf]string{At("c"): "a c", At("e"): "a b e", Last: "f", Root: "", At("nobody"): "f"} {
		must.Same(t, entryIDs(tree.Path(leaf)), want, "Path(%v) = %s, want %s", leaf)
	}
	for leaf, want := range map[Leaf]string{At("a"): "b c", At("c"): "", Root: "a d f"} {
		must.Same(t, entryIDs(tree.Children(leaf)), want, "Children(%v) = %s, want %s", leaf)
	}
	must.Same(t, outline(tree.Roots()), "a(b(e()) c()) d() f()", "Roots = %s, want %s")
}

func outline(nodes []*Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Entry.ID+"("+outline(n.Children)+")")
	}
	return strings.Join(all, " ")
}

// SPEC S3, S4: an unknown id is an error in the program's words, and nothing is changed by it.
func TestTreeRefuses(t *testing.T) {
	tree := NewTree(Header{ID: "s1"})
	add(t, tree, "a")
	_, label := tree.Append(Label("x", "L"), Stamp{})
	for _, err := range []error{tree.Branch("x"), label} {
		if !errors.Is(err, ErrNotFound) || err.Error() != "Entry x not found" {
			t.Errorf("error = %v, want Entry x not found", err)
		}
	}
	must.Is(t, must.Err(tree.Append(Message([]byte(`{}`)), Stamp{ID: "a"})), ErrTaken, "Append under a taken id")
	must.Is(t, must.Err(tree.Append(Message([]byte(`{`)), Stamp{ID: "b"})), jsonscan.ErrSyntax, "Append of broken JSON")
	if tree.Leaf() != At("a") || len(tree.Entries()) != 1 {
		t.Errorf("leaf %v, %d entries after refusals, want a, 1", tree.Leaf(), len(tree.Entries()))
	}
}

// SPEC S4: the last label wins, "" clears, and a label entry moves the leaf.
func TestLabels(t *testing.T) {
	tree := NewTree(Header{ID: "s1"})
	add(t, tree, "a")
	add(t, tree, "b")
	for i, l := range [][2]string{{"a", "one"}, {"b", "two"}, {"a", "three"}, {"b", ""}} {
		e, err := tree.Append(Label(l[0], l[1]), Stamp{ID: fmt.Sprint("l", i), Time: noon})
		if err != nil || tree.Leaf() != At(e.ID) {
			t.Fatalf("Label: %v, leaf %v", err, tree.Leaf())
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "three"}, tree.Labels()); diff != "" {
		t.Errorf("Labels (-want +got):\n%s", diff)
	}
}

// SPEC S3: the leaf is stored; a program that appends without knowing of it makes what was stored void.
func TestStoredLeaf(t *testing.T) {
	tree := NewTree(Header{ID: "s1", Cwd: "/w"}.Child("s2", noon))
	add(t, tree, "a")
	add(t, tree, "b")
	for _, leaf := range []Leaf{At("a"), Root, At("b")} {
		tree.ResetLeaf()
		if leaf != Root {
			must.Do(t, tree.Branch(leaf.ID()))
		}
		text := written(t, tree)
		back := mustLoad(t, text).Tree()
		if back.Leaf() != leaf {
			t.Errorf("leaf %v became %v", leaf, back.Leaf())
		}
		if stored := strings.Contains(text, `"leaf"`); stored != (leaf != At("b")) {
			t.Errorf("leaf %v: stored is %v", leaf, stored)
		}
		if other := mustLoad(t, text+user("z", "b")+"\n").Tree(); other.Leaf() != At("z") {
			t.Errorf("after another program's entry the leaf is %v, want z", other.Leaf())
		}
		must.Do(t, back.Branch("b"))
		if text := written(t, back); strings.Contains(text, `"leaf"`) {
			t.Errorf("the leaf is the last entry again, but is stored:\n%s", text)
		}
	}
}

func written(t *testing.T, tree *Tree) string {
	t.Helper()
	var b bytes.Buffer
	must.Get(tree.WriteTo(&b))(t)
	return b.String()
}

// SPEC S12: a file of the current version keeps its bytes, damage included, and entries are added to it.
func TestWriteKeepsBytes(t *testing.T) {
	text := "\xef\xbb\xbf" + header3 + "\r\n\n" + user("a", "") + "\nrubbish\n" + user("b", "a")
	tree := mustLoad(t, text).Tree()
	must.Get(tree.Append(Message([]byte(`{"role":"user"}`)), Stamp{Time: noon}))(t)
	id := EntryID("s1", 3, 0)
	want := text + "\n" + `{"type":"message","id":"` + id +
		`","parentId":"b","timestamp":"2026-01-01T12:00:00.000Z","message":{"role":"user"}}` + "\n"
	if diff := cmp.Diff(want, written(t, tree)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	var info Info
	must.Do(t, info.Name(" a\n\x1b title ", TitleUser))
	tree.SetHeader(info.Over(tree.Header()))
	lines := strings.Split(written(t, tree), "\n")
	titled := header3[:len(header3)-1] + `,"title":"a title","titleSource":"user"}`
	if lines[0] != titled || lines[2] != "rubbish" || len(lines) != 6 {
		t.Errorf("with a title: %q", lines)
	}
}

// SPEC S7: walks end at a missing parent and on a cycle; every entry is in one tree.
func TestCycles(t *testing.T) {
	tree := mustLoad(t, strings.Join([]string{
		header3, user("a", "c"), user("b", "a"), user("c", "b"), user("d", "d"), user("e", "c"), user("f", "gone"), user("g", "f"),
	}, "\n")).Tree()
	for id, want := range map[string]string{"a": "b c a", "c": "a b c", "d": "d", "e": "a b c e", "g": "f g"} {
		must.Same(t, entryIDs(tree.Path(At(id))), want, "Path(%s) = %s, want %s", id)
	}
	must.Same(t, outline(tree.Roots()), "a(b(c(e()))) d() f(g())", "Roots = %s, want %s")
}
