package jsonscan

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode is json.Unmarshal whose errors are for people: what was wrong, where, and what to give instead.
func Decode(b []byte, v any) error { return Plain(json.Unmarshal(b, v)) }

// DecodeExactly is Decode for what a person or a program just wrote: it refuses members that v does not have, and
// anything behind the value.
func DecodeExactly(r io.Reader, v any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if name, unknown := strings.CutPrefix(err.Error(), unknownMember); unknown {
			there := cmp.Or(strings.Join(members(reflect.TypeOf(v), ""), ", "), "none")
			return fmt.Errorf("%s: no such member: there are %s", name, there)
		}
		return Plain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("give one JSON value, and nothing behind it")
	}
	return nil
}

// Plain says what an error of encoding/json means to who wrote the JSON. Other errors stay as they are.
func Plain(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var coded base64.CorruptInputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("want %s, not %s", wanted(kind.Type), given(kind.Value))
	case errors.As(err, &kind):
		return fmt.Errorf("%s: want %s, not %s", kind.Field, wanted(kind.Type), given(kind.Value))
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	case errors.As(err, &coded):
		return fmt.Errorf("want base64, with padding: its byte %d is none", int64(coded))
	case errors.Is(err, io.EOF):
		return errors.New("there is nothing: give a JSON value")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("invalid JSON: it ends too early")
	}
	return err
}

// unknownMember begins encoding/json's error for a member that a type does not have.
const unknownMember = "json: unknown field "

// members are the members that a type takes, those of objects in it behind a dot.
func members(t reflect.Type, in string) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case f.Anonymous && name == "":
			names = append(names, members(f.Type, in)...)
		default:
			name = in + cmp.Or(name, f.Name)
			names = append(append(names, name), members(f.Type, name+".")...)
		}
	}
	return names
}

// wanted names what a type is in JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string of base64"
		}
		return "a list"
	}
	return "an object"
}

// given names what stands there, in the words of encoding/json: "number 1.5", "array".
func given(value string) string {
	switch {
	case value == "array":
		return "a list"
	case value == "object":
		return "an object"
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "number "):
		return strings.TrimPrefix(value, "number ")
	}
	return "a " + value
}
