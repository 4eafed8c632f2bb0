package httpapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"spool/internal/access"
)

// schemas are the forms of bodies, as JSON Schema: components of the document.
//
//go:embed schemas.json
var schemas []byte

// openapi gives the OpenAPI 3.1 document: made of the table of routes and the schemas.
func (a *api) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", typeJSON)
	_, _ = w.Write(a.document)
	return nil
}

type fields = map[string]any

func (a *api) describe() []byte {
	paths := fields{}
	for _, r := range a.routes() {
		path := strings.ReplaceAll(r.path, "...}", "}")
		ops, _ := paths[path].(fields)
		if ops == nil {
			ops = fields{}
			paths[path] = ops
		}
		ops[strings.ToLower(r.method)] = r.describe()
	}
	return encode(fields{
		"openapi": "3.1.0",
		"info":    fields{"title": "Spool", "version": "1", "description": "A durable session log for agent fleets."},
		"paths":   paths,
		"components": fields{
			"schemas":         json.RawMessage(schemas),
			"securitySchemes": fields{"token": fields{"type": "http", "scheme": "bearer"}},
		},
	})
}

var inPath = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)

func (r route) describe() fields {
	params := []fields{}
	for _, m := range inPath.FindAllStringSubmatch(r.path, -1) {
		params = append(params, fields{"name": m[1], "in": "path", "required": true, "schema": fields{"type": "string"}})
	}
	for _, p := range r.query {
		in := "query"
		if p.header {
			in = "header"
		}
		params = append(params, fields{"name": p.name, "in": in, "description": p.about, "schema": fields{"type": p.kind}})
	}
	out := fields{"operationId": r.id(), "summary": r.about, "parameters": params, "responses": r.responses()}
	if len(r.takes) > 0 {
		out["requestBody"] = fields{"required": true, "content": content(r.takes)}
	}
	if r.need != access.None {
		out["security"] = []fields{{"token": []string{}}}
		out["x-scope"] = r.need.String()
	}
	return out
}

// id is a name for generators: the method and the words of the path.
func (r route) id() string {
	id := strings.ToLower(r.method)
	for _, word := range strings.FieldsFunc(strings.TrimPrefix(r.path, "/v1"), func(c rune) bool { return strings.ContainsRune("/{}._", c) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// responses are those of success, and of refusal.
func (r route) responses() fields {
	status := cmp.Or(r.status, http.StatusOK)
	out := fields{strconv.Itoa(status): fields{"description": http.StatusText(status), "content": content(r.gives)}}
	if status == http.StatusAccepted { // lines are answered while they come
		out["200"] = out["202"]
	}
	refusals := r.also
	if r.need != access.None {
		refusals = append([]int{400, 401, 403, 404, 429, 500, 503}, refusals...)
	}
	for _, code := range refusals {
		if code == http.StatusNotModified {
			out["304"] = fields{"description": http.StatusText(code)}
			continue
		}
		schema := "error"
		if code == http.StatusConflict && strings.HasSuffix(r.path, "/answer") {
			schema = "answered"
		}
		out[strconv.Itoa(code)] = fields{"description": http.StatusText(code), "content": content(object(schema))}
	}
	return out
}

func content(bodies []body) fields {
	out := fields{}
	for _, b := range bodies {
		form := fields{}
		if b.schema != "" {
			form["schema"] = fields{"$ref": "#/components/schemas/" + b.schema}
		}
		out[b.media] = form
	}
	return out
}
