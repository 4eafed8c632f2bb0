package record_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// notRecords are constants and functions of pkg/events that are called like keys and name something else; promptKey is the
// rest of two keys.
var notRecords = []string{"ReaderConsumer", "promptKey"}

// keyPrefixes finds the first words of all record keys in the source of pkg/events: of each constant and function that is called
// a key, the first string in it.
func keyPrefixes(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("../../pkg/events/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	note := func(name string, node ast.Node) {
		if !strings.HasSuffix(name, "Key") && !strings.HasSuffix(name, "Keys") || strings.HasPrefix(name, "Parse") ||
			slices.Contains(notRecords, name) {
			return
		}
		ast.Inspect(node, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || out[name] != "" {
				return true
			}
			text := must.Get(strconv.Unquote(lit.Value))(t)
			if word, _, ok := strings.Cut(text, "."); ok && word != "" {
				out[name] = word
			}
			return true
		})
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src := must.Get(os.ReadFile(file))(t)
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, src, 0))(t)
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					note(d.Name.Name, d.Body)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == 1 {
						note(v.Names[0].Name, v.Values[0])
					}
				}
			}
		}
	}
	return out
}

// TestEveryKeyHasAClass: each key function of pkg/events has a row in the table, and each row a key function.
func TestEveryKeyHasAClass(t *testing.T) {
	prefixes := keyPrefixes(t)
	if len(prefixes) < 25 {
		t.Fatalf("%d key functions found: %v", len(prefixes), prefixes)
	}
	used := map[string]bool{}
	for name, word := range prefixes {
		must.Is(t, must.Err(record.ClassOf(word+".x")), nil, "events.%s makes keys of the class %q", name, word)
		used[word] = true
	}
	for _, c := range record.Classes {
		if !used[c.Name] {
			t.Errorf("the class %q has no key function", c.Name)
		}
	}
	if _, err := record.ClassOf("future.x"); !errors.Is(err, record.ErrClass) || !errors.Is(err, record.ErrValue) {
		t.Errorf("ClassOf of an unknown class = %v, want ErrClass", err)
	}
}

// TestClassesOfASession: the table, events.SessionOf and events.OfSession agree about what belongs to a session.
func TestClassesOfASession(t *testing.T) {
	listed := map[string]bool{}
	for _, filter := range events.OfSession("s1") {
		word, _, _ := strings.Cut(filter, ".")
		listed[word] = true
		must.Same(t, events.SessionOf(filter), "s1", "SessionOf(%q) = %q, want %q", filter)
	}
	for _, c := range record.Classes {
		if listed[c.Name] != c.Session {
			t.Errorf("class %q: Session = %v, events.OfSession lists it: %v", c.Name, c.Session, listed[c.Name])
		}
		if owned := events.SessionOf(c.Name+".a.b.c") != ""; owned != c.Session {
			t.Errorf("class %q: Session = %v, events.SessionOf names a session: %v", c.Name, c.Session, owned)
		}
	}
}
