// Package archtest keeps the dependency rules of DESIGN 12 true: rules_test.go has them as data.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spool/internal/must"
)

const module = "spool"

// pkg is what go list says about a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// list asks for every package of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	root := must.Get(exec.Command("go", "env", "GOMOD").Output())(t)
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(root)))
	out := must.Get(cmd.Output())(t)
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == any_ {
			return true
		}
		below, tree := strings.CutSuffix(p, "/...")
		return name == below || tree && strings.HasPrefix(name, below+"/")
	})
}

// ruleOf is the rule that names the package most exactly.
func ruleOf(name string) (rule, bool) {
	for _, exact := range []bool{true, false} {
		for _, r := range rules {
			if exact && slices.Contains(r.pkgs, name) || !exact && matches(name, r.pkgs) {
				return r, true
			}
		}
	}
	return rule{}, false
}

// check is what is wrong with one import, or "".
func check(r rule, name, imp string) string {
	if in, ok := strings.CutPrefix(imp, module+"/"); ok {
		to, _ := ruleOf(in)
		switch {
		case matches(in, r.spool):
		case to.layer == test:
			return "is for tests"
		default:
			return fmt.Sprintf("its rule does not list: it is in layer %s, that in layer %s (internal/archtest/rules_test.go, DESIGN 12)", r.layer, to.layer)
		}
		return ""
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		if _, some := except[name][imp]; !some && matches(imp, forbidden[r.layer]) {
			return fmt.Sprintf("is forbidden in layer %s", r.layer)
		}
		return ""
	}
	for _, res := range reserved {
		if matches(imp, []string{res.mod}) {
			if matches(name, res.by) {
				return ""
			}
			return "is reserved for " + strings.Join(res.by, ", ")
		}
	}
	if !matches(imp, r.mods) {
		return fmt.Sprintf("is no module of its list: %s", strings.Join(r.mods, ", "))
	}
	return ""
}

func TestImports(t *testing.T) {
	for _, p := range list(t) {
		r, ok := ruleOf(p.name())
		if !ok {
			t.Errorf("%s is in no layer: give it a rule in internal/archtest/rules_test.go", p.name())
			continue
		}
		for _, imp := range p.Imports {
			if wrong := check(r, p.name(), imp); wrong != "" {
				t.Errorf("%s imports %s, which %s", p.name(), imp, wrong)
			}
		}
		// Not by a detour either.
		if r.layer == pure || r.layer == decide {
			for _, dep := range p.Deps {
				if matches(dep, []string{"github.com/nats-io/...", module + "/internal/natsio"}) {
					t.Errorf("%s depends on %s: layers 0 and 1 know no NATS", p.name(), dep)
				}
			}
		}
	}
}

// TestAdapters holds the modules of adapters/ to their rule: they build on what anybody can import, and have a README.
func TestAdapters(t *testing.T) {
	mods := must.Get(filepath.Glob("../../adapters/*/go.mod"))(t)
	if len(mods) == 0 {
		t.Fatal("no adapter was found")
	}
	for _, mod := range mods {
		dir := filepath.Dir(mod)
		must.Get(os.Stat(filepath.Join(dir, "README.md")))(t)
		name := "adapters/" + filepath.Base(dir)
		r, _ := ruleOf(name)
		for _, file := range must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t) {
			f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly))(t)
			for _, i := range f.Imports {
				imp := must.Get(strconv.Unquote(i.Path.Value))(t)
				if wrong := check(r, name, imp); wrong != "" && !strings.HasSuffix(file, "_test.go") {
					t.Errorf("%s imports %s, which %s", file, imp, wrong)
				}
			}
		}
	}
}

// TestExceptions holds the packages with an exception to the names that it gives them.
func TestExceptions(t *testing.T) {
	for _, p := range list(t) {
		for imp, names := range except[p.name()] {
			for _, file := range p.GoFiles {
				fset := token.NewFileSet()
				f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
				if err != nil {
					t.Errorf("%s: %v", p.name(), err)
					continue
				}
				for pos, name := range uses(f, imp) {
					if !slices.Contains(names, name) {
						t.Errorf("%s/%s:%d uses %s.%s: of that package it may use %s", p.name(), file, fset.Position(pos).Line, imp, name,
							strings.Join(names, ", "))
					}
				}
			}
		}
	}
}

func TestPureCodeHasNoClockAndNoGoroutine(t *testing.T) {
	for _, p := range list(t) {
		if r, ok := ruleOf(p.name()); !ok || r.layer != pure && !slices.Contains(timeless, p.name()) {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s: %v", p.name(), err)
				continue
			}
			for pos, what := range impure(f) {
				at := fset.Position(pos)
				t.Errorf("%s/%s:%d uses %s: the package is given times and starts nothing", p.name(), file, at.Line, what)
			}
		}
	}
}

// impure finds go statements and the clock.
func impure(f *ast.File) map[token.Pos]string {
	found := map[token.Pos]string{}
	for pos, name := range uses(f, "time") {
		if slices.Contains(clocks, name) {
			found[pos] = "time." + name
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			found[g.Pos()] = "a goroutine"
		}
		return true
	})
	return found
}

// uses finds the names of a package that a file mentions. The package's name must be the last part of its path.
func uses(f *ast.File, imp string) map[token.Pos]string {
	local := ""
	for _, i := range f.Imports {
		if i.Path.Value == strconv.Quote(imp) {
			local = path.Base(imp)
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	found := map[token.Pos]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && local != "" {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				found[sel.Pos()] = sel.Sel.Name
			}
		}
		return true
	})
	return found
}

// TestRulesBite plants what the rules are there to find.
func TestRulesBite(t *testing.T) {
	for _, c := range []struct{ pkg, imp string }{
		{"pkg/events", "net/http"}, {"pkg/events", "log/slog"}, {"pkg/truncate", "spool/pkg/events"},
		{"pkg/threads", "github.com/vmihailenco/msgpack/v5"}, {"pkg/dialect/omp", "spool/internal/natsio"},
		{"internal/persist", "github.com/nats-io/nats.go"}, {"internal/persist", "spool/internal/natsio"},
		{"internal/apply", "spool/internal/persist"}, {"internal/apply", "spool/internal/natsio"},
		{"internal/apply", "golang.org/x/sync/errgroup"},
		{"pkg/client", "spool/internal/persist"}, {"internal/fsck", "spool/internal/persist"},
		{"internal/gc", "os"}, {"internal/ingest", "spool/internal/persist"}, {"pkg/client", "github.com/nats-io/nats.go/jetstream"},
		{"pkg/client", "spool/internal/service"}, {"internal/natsio", "github.com/nats-io/nats-server/v2/server"},
		{"cmd/spool", "spool/internal/natstest"}, {"internal/service", "spool/internal/bench"}, {"internal/persist", "testing"},
	} {
		r, ok := ruleOf(c.pkg)
		if !ok {
			t.Errorf("ruleOf(%s) found none", c.pkg)
			continue
		}
		if check(r, c.pkg, c.imp) == "" {
			t.Errorf("check(%s, %s) = allowed, want a refusal", c.pkg, c.imp)
		}
	}
	f := must.Get(parser.ParseFile(token.NewFileSet(), "x.go", `package x; import tm "time"; func f() { go f(); tm.Now() }`, 0))(t)
	if found := impure(f); len(found) != 2 {
		t.Errorf("impure = %v, want a goroutine and time.Now", found)
	}
}
