package archtest

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"spool/internal/must"
)

// hidden are the exported names of pkg/... that have a type of internal/ all the same, with the reason; ".*" is all methods of a type.
var hidden = map[string]string{
	"pkg/client.New":         "takes a connection that only this repository makes; others have Connect",
	"pkg/client.Internal.*":  "is for this repository alone, and says so",
	"pkg/client.Config":      alias,
	"pkg/client.DeadLetter":  alias,
	"pkg/client.Gone":        alias,
	"pkg/client.Missing":     alias,
	"pkg/client.NewArtifact": alias,
	"pkg/client.Overwritten": alias,
}

const alias = "is the name by which others have the type; all that it is made of is public"

// TestPublicNames: what pkg/... exports is of types that other modules can name.
func TestPublicNames(t *testing.T) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./pkg/...")
	cmd.Dir = "../.."
	exports := map[string]string{}
	for line := range strings.Lines(string(must.Get(cmd.Output())(t))) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	used := map[string]bool{}
	for name := range exports {
		if !strings.HasPrefix(name, module+"/pkg/") {
			continue
		}
		for what, of := range concealed(must.Get(imp.Import(name))(t)) {
			excuse := strings.TrimPrefix(what, module+"/")
			if hidden[excuse] == "" {
				excuse = excuse[:strings.LastIndex(excuse, ".")] + ".*"
			}
			if used[excuse] = true; hidden[excuse] == "" {
				t.Errorf("%s has a type that no other module can name: %s", what, of)
			}
		}
	}
	for name := range hidden {
		if !used[name] {
			t.Errorf("%s has no type of internal/ any more: take it off the list", name)
		}
	}
}

// concealed finds the exported names of a package whose type mentions one of internal/, by where that is.
func concealed(p *types.Package) map[string]types.Type {
	found := map[string]types.Type{}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		at := p.Path() + "." + name
		declared, isType := o.(*types.TypeName)
		if !isType {
			mentions(o.Type(), at, found)
			continue
		}
		if a, ok := o.Type().(*types.Alias); ok {
			mentions(a.Rhs(), at, found)
		}
		mentions(o.Type().Underlying(), at, found)
		if types.IsInterface(declared.Type()) {
			continue
		}
		set := types.NewMethodSet(types.NewPointer(o.Type()))
		for i := range set.Len() {
			if m := set.At(i).Obj(); m.Exported() {
				mentions(set.At(i).Type(), at+"."+m.Name(), found)
			}
		}
	}
	return found
}

// mentions notes the types of internal/ that a type is made of, as far as others see it.
func mentions(t types.Type, at string, found map[string]types.Type) {
	named := func(o *types.TypeName, args *types.TypeList) {
		if o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), module+"/internal/") {
			found[at] = t
		}
		for i := range args.Len() {
			mentions(args.At(i), at, found)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		named(t.Obj(), t.TypeArgs())
	case *types.Named:
		named(t.Obj(), t.TypeArgs())
	case *types.Map:
		mentions(t.Key(), at, found)
		mentions(t.Elem(), at, found)
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		mentions(t.Elem(), at, found)
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range tuple.Len() {
				mentions(tuple.At(i).Type(), at, found)
			}
		}
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() {
				mentions(f.Type(), at+"."+f.Name(), found)
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if m := t.Method(i); m.Exported() {
				mentions(m.Type(), at+"."+m.Name(), found)
			}
		}
	}
}
