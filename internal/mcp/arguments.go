package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/internal/mapped"
)

// tools are those of a server, with the arguments of each.
type tools struct {
	*sdk.Server
	takes map[string]arguments
}

// add adds a tool whose arguments are the fields of In.
func add[In, Out any](s tools, t *sdk.Tool, do func(context.Context, In) (Out, error)) {
	sdk.AddTool(s.Server, t, tool(do))
	s.takes[t.Name] = argumentsOf(reflect.TypeFor[In]())
}

// check is a middleware. A call whose arguments are others than its tool's is told so in words that a model can go by: those of the library
// name neither the tool nor what to give.
func (s tools) check(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.GetParams().(*sdk.CallToolParamsRaw)
		if !ok {
			return next(ctx, method, req)
		}
		if takes, known := s.takes[call.Name]; known {
			if err := takes.check(call.Name, call.Arguments); err != nil {
				res := &sdk.CallToolResult{}
				res.SetError(fmt.Errorf("%s", snippet(err.Error(), mostError)))
				return res, nil
			}
		}
		return next(ctx, method, req)
	}
}

// argument is one that a tool takes.
type argument struct {
	name  string
	needs bool
	kind  reflect.Kind
}

type arguments []argument

func argumentsOf(in reflect.Type) arguments {
	return mapped.List(reflect.VisibleFields(in), func(f reflect.StructField) argument {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		return argument{name, rest == "", f.Type.Kind()}
	})
}

// check says what is wrong with the arguments of a call, and what to give.
func (all arguments) check(tool string, raw json.RawMessage) error {
	given := map[string]any{}
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return fmt.Errorf("%s: its arguments are no object: give one with %s", tool, all.names())
	}
	var missing []string
	for _, one := range all {
		value, has := given[one.name]
		delete(given, one.name)
		if one.needs && value == nil {
			missing = append(missing, one.name)
		} else if has {
			if err := one.check(value); err != nil {
				return fmt.Errorf("%s: %w", tool, err)
			}
		}
	}
	for name := range given {
		return fmt.Errorf("%s has no argument %.128s: it takes %s", tool, name, all.names())
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s needs %s: give it; it takes %s", tool, strings.Join(missing, ", "), all.names())
	}
	return nil
}

func (all arguments) names() string {
	return strings.Join(mapped.List(all, func(one argument) string { return one.name }), ", ")
}

// check says what is wrong with a value of JSON.
func (one argument) check(value any) error {
	is, want := "null", map[reflect.Kind]string{
		reflect.String: "a string", reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Bool: "true or false",
	}[one.kind]
	switch value := value.(type) {
	case string:
		is = "a string"
	case bool:
		is = "true or false"
	case []any:
		is = "an array"
	case map[string]any:
		is = "an object"
	case float64:
		whole := slices.Contains([]reflect.Kind{reflect.Int, reflect.Int64}, one.kind)
		switch {
		case whole && value == math.Trunc(value) && math.Abs(value) <= 1<<53:
			return nil
		case whole:
			return fmt.Errorf("%s %v: give a whole number", one.name, value)
		}
		is = "a number"
	}
	if is == want || want == "" {
		return nil
	}
	return fmt.Errorf("%s is %s: give %s", one.name, is, want)
}
