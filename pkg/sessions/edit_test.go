package sessions

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/jsonscan"
	"spool/internal/must"
)

// SPEC T11: an edit changes what it names and nothing else.
func TestEdit(t *testing.T) {
	for _, tt := range []struct {
		raw     string
		changes []change
		want    string
	}{
		{`{"a":1.0, "b" : "\ud83d" }`, []change{{"a", []byte("2")}}, `{"a":2, "b" : "\ud83d" }`},
		{`{"a":1,"b":2,"c":3}`, []change{{"a", nil}}, `{"b":2,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, []change{{"b", nil}, {"d", []byte("4")}}, `{"a":1,"c":3,"d":4}`},
		{`{"a":1,"b":2,"c":3}`, []change{{"c", nil}, {"a", nil}}, `{"b":2}`},
		{`{ "a" : 1 }`, []change{{"a", nil}}, `{  }`},
		{`{"a":1}`, []change{{"a", nil}, {"b", []byte("2")}}, `{"b":2}`},
		{` {}`, []change{{"a", []byte("1")}}, ` {"a":1}`},
		{`{"\u0061":1,"a":2}`, []change{{"a", []byte("3")}}, `{"\u0061":3,"a":3}`},
		{`{"x":{"a":[1,{"a":2}]},"a":3}`, []change{{"a", []byte("4")}}, `{"x":{"a":[1,{"a":2}]},"a":4}`},
	} {
		must.Same(t, string(edit([]byte(tt.raw), tt.changes...)), tt.want, "edit(%s, %s) = %s, want %s", tt.raw, tt.changes)
	}
}

func TestEditProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte("{")
		for i, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 6).Draw(t, "members") {
			raw = appendMember(raw, i == 0, name, fmt.Append(nil, i))
		}
		raw = append(raw, '}')
		changes := []change{{"a", nil}, {"b", []byte("true")}}
		out := edit(raw, changes...)
		if err := jsonscan.Valid(out); err != nil {
			t.Fatalf("edit(%s) = %s: %v", raw, out, err)
		}
		for name, want := range map[string]string{
			"a": "", "b": "true", "c": string(jsonscan.Get(raw, "c")), "d": string(jsonscan.Get(raw, "d")), "e": string(jsonscan.Get(raw, "e")),
		} {
			if got := string(jsonscan.Get(out, name)); got != want {
				t.Fatalf("edit(%s) = %s: %s is %q, want %q", raw, out, name, got, want)
			}
		}
	})
}
