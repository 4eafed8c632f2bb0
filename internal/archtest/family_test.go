package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"spool/internal/must"
)

// alone are the errors of pkg/... that have no parent, with the reason.
var alone = map[string]string{
	"pkg/client.ErrClosed":        "the program did it",
	"pkg/client.ErrServerRefused": "is a parent: ErrDenied is one of it",
	"pkg/spooltest.ErrLeftOut":    "is for a test of a client",
}

// TestFamilies: every error that pkg/... exports has a parent of internal/family, by which a caller decides who knows nothing else of it.
func TestFamilies(t *testing.T) {
	made := map[string]made{} // by the path in the module and the name
	for _, p := range list(t) {
		for _, file := range p.GoFiles {
			declared(must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution))(t), p.name(), made)
		}
	}
	found, used := 0, map[string]bool{}
	for name := range made {
		if !strings.HasPrefix(name, "pkg/") {
			continue
		}
		found++
		if alone[name] != "" {
			used[name] = true
		}
		if ofFamily(name, made) == (alone[name] != "") {
			t.Errorf("%s: is of a family: %v; on the list of those that are not: %q", name, ofFamily(name, made), alone[name])
		}
	}
	if found < 50 || len(used) != len(alone) {
		t.Errorf("%d errors of pkg/ were found, and %d of the %d that are alone", found, len(used), len(alone))
	}
}

// made is what an error is declared as, and what the packages are called there.
type made struct {
	value   ast.Expr
	imports map[string]string
	in      string
}

// declared collects the variables of a file that are called Err….
func declared(f *ast.File, in string, all map[string]made) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		at, _ := strconv.Unquote(i.Path.Value)
		local := at[strings.LastIndex(at, "/")+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		imports[local] = strings.TrimPrefix(at, module+"/")
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				if strings.HasPrefix(name.Name, "Err") && i < len(v.Values) {
					all[in+"."+name.Name] = made{v.Values[i], imports, in}
				}
			}
		}
	}
}

// ofFamily follows what an error is made of: family.X, family.X.New(…), another error, or fmt.Errorf over one.
func ofFamily(name string, all map[string]made) bool {
	of, ok := all[name]
	is := false
	ast.Inspect(of.value, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil, *ast.BasicLit:
			return false
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok {
				at := of.imports[pkg.Name]
				is = is || at == "internal/family" || ofFamily(at+"."+n.Sel.Name, all)
				return false
			}
		case *ast.Ident:
			is = is || name != of.in+"."+n.Name && ofFamily(of.in+"."+n.Name, all)
		}
		return true
	})
	return ok && is
}
