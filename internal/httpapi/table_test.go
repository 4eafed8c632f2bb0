package httpapi_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spool/internal/httpapi"
	"spool/internal/must"
)

// The table of docs/http.md has every call of the client once, beside its routes or the reason why there is none, and
// every route of the API, but for those of the process itself.
func TestTableOfCalls(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../docs/http.md"))(t))
	_, table, ok := strings.Cut(text, "| `client.Client` | HTTP |\n|---|---|\n")
	if !ok {
		t.Fatal("docs/http.md has no table of calls")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([^`]*)`")
	calls, routes := map[string]int{}, map[string]int{}
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 2 {
			t.Fatalf("row %q has %d cells, want 2", row, len(cells))
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			calls[m[1]]++
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			if method, path, ok := strings.Cut(m[1], " "); ok && strings.HasPrefix(path, "/") {
				routes[method+" "+path]++
			}
		}
	}
	for _, call := range clientCalls(t) {
		must.Same(t, calls[call], 1, "Client.%s stands in %d rows of docs/http.md, want %d", call)
		delete(calls, call)
	}
	for call := range calls {
		t.Errorf("docs/http.md tells of Client.%s, which there is not", call)
	}
	for _, route := range documented(t) {
		_, path, _ := strings.Cut(route, " ")
		own := slices.Contains([]string{"/healthz", "/readyz", "/v1/openapi.json"}, path)
		if routes[route] == 0 && !own {
			t.Errorf("%s stands in no row of docs/http.md", route)
		}
		delete(routes, route)
	}
	for route := range maps.Keys(routes) {
		t.Errorf("docs/http.md tells of %s, which there is not", route)
	}
}

// The packages of clients/ have a method for each row of the table that has a route, by one of the row's names at least, and both have the
// same ones.
func TestClientsHaveTheTable(t *testing.T) {
	_, table, _ := strings.Cut(string(must.Get(os.ReadFile("../../docs/http.md"))(t)), "| `client.Client` | HTTP |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	methods := map[string]map[string]string{} // by language: the names without case and underscores, as they are spelt
	for language, p := range map[string]struct {
		method string
		files  []string
	}{
		"python":     {`(?m)^    def ([a-z]\w*)\(`, []string{"spool_client/client.py", "spool_client/publish.py"}},
		"javascript": {`(?m)^  (?:async )?\*?([a-z]\w*)\(.*\) \{$`, []string{"index.js", "publish.js"}},
	} {
		methods[language] = map[string]string{}
		for _, file := range p.files {
			text := string(must.Get(os.ReadFile(filepath.Join("../../clients", language, file)))(t))
			for _, m := range regexp.MustCompile(p.method).FindAllStringSubmatch(text, -1) {
				methods[language][strings.ToLower(strings.ReplaceAll(m[1], "_", ""))] = m[1]
			}
		}
	}
	rows := 0
	for row := range strings.Lines(table) {
		calls, route, _ := strings.Cut(strings.Trim(row, "| \n"), " | ")
		if !strings.Contains(route, "`GET /") && !strings.Contains(route, "`POST /") && !strings.Contains(route, "`DELETE /") || calls == "none" {
			continue
		}
		rows++
		for language, has := range methods {
			if !slices.ContainsFunc(strings.Split(calls, ", "), func(call string) bool {
				call = strings.Trim(call, "`")
				return has[strings.ToLower(call[strings.LastIndex(call, ".")+1:])] != ""
			}) {
				t.Errorf("clients/%s has none of %s", language, calls)
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows have a route", rows)
	}
	own := []string{"close", "write", "constructor", "pages", "renew"} // of files, connections and forked processes, where a language has them
	python, javascript := methods["python"], methods["javascript"]
	for _, has := range []map[string]string{python, javascript} {
		for name := range has {
			if (python[name] == "" || javascript[name] == "") && !slices.Contains(own, name) {
				t.Errorf("one of the packages of clients/ has no %s", has[name])
			}
		}
	}
}

// handles are the types whose methods the table has, with what stands before their names there. The methods of client.Internal are no
// promise to anybody.
var handles = map[string]string{
	"Client": "", "Ack": "Ack.", "ThreadHandle": "Thread.", "SessionHandle": "Session.", "ArtifactStore": "Artifacts.", "Admin": "Admin.",
}

// clientCalls are the names of the public methods of client.Client and its handles, but for those that only make a handle.
func clientCalls(t *testing.T) (names []string) {
	files := must.Get(filepath.Glob("../../pkg/client/*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			before, ok := handles[typeName(f.Recv.List[0].Type)]
			makes := ""
			if r := f.Type.Results; r != nil {
				makes = typeName(r.List[0].Type)
			}
			if ok && makes != "Internal" && handles[makes] == "" {
				names = append(names, before+f.Name.Name)
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("found %d calls of the client", len(names))
	}
	return names
}

// typeName is the name of a type of its own package, or of what a pointer to one leads to; "" of any other.
func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// documented are the routes of the document that a whole process answers with.
func documented(t *testing.T) (routes []string) {
	_, _, _, url := worldOn(t, httpapi.Config{})
	_, _, text := get(t, url, "/v1/openapi.json")
	var doc document
	must.Do(t, json.Unmarshal([]byte(text), &doc))
	for path, methods := range doc.Paths {
		for method := range methods {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	return routes
}
