package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"spool/internal/must"
)

// timed are names of fields that say when something was.
var timed = regexp.MustCompile(`^(Time|At|Asked|Begun|Touched|Created|Modified|Updated|Ended|Since|Until|Back|Deadline)$|[a-z]At$`)

// dated are those that are no time.Time all the same, with the reason.
var dated = map[string]string{
	"Thread.Ended": "is a UTC date, as it stands in the thread's key and in a ThreadFilter",
}

// TestTimes: a time in a type that the package declares, and one that a method gives, is a time.Time. What is JSON by itself has it as
// JSON does.
func TestTimes(t *testing.T) {
	seen := 0
	for _, e := range must.Get(os.ReadDir("."))(t) {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		ast.Inspect(must.Get(parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0))(t), func(n ast.Node) bool {
			if m, ok := n.(*ast.FuncDecl); ok && timed.MatchString(m.Name.Name) && m.Type.Results != nil {
				if of, ok := m.Type.Results.List[0].Type.(*ast.Ident); ok && of.Name == "int64" {
					t.Errorf("%s gives no time.Time", m.Name.Name)
				}
			}
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					if !timed.MatchString(name.Name) || f.Tag != nil {
						continue
					}
					seen++
					of, ok := f.Type.(*ast.SelectorExpr)
					if at := spec.Name.Name + "." + name.Name; dated[at] == "" && (!ok || of.Sel.Name != "Time") {
						t.Errorf("%s is no time.Time", at)
					}
				}
			}
			return true
		})
	}
	if seen < 6 {
		t.Errorf("%d fields were looked at", seen)
	}
}
