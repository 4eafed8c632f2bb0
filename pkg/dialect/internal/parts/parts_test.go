package parts

import (
	"strings"
	"testing"

	"spool/internal/must"
)

func TestTime(t *testing.T) {
	for raw, want := range map[string]int64{
		`"2026-11-20T12:00:01.250Z"`: 1795176001250, `"2026-11-20T14:00:01.25+02:00"`: 1795176001250, `1795176001250`: 1795176001250,
		`"2026-11-20T12:00:01Z"`: 1795176001000, `"1969-12-31T23:59:59.999Z"`: -1, `"2026-13-20T12:00:01.250Z"`: 0,
		`"2026-02-31T12:00:01.250Z"`: 0, `"soon"`: 0, `""`: 0, `null`: 0, `{}`: 0, ``: 0,
	} {
		must.Same(t, Time([]byte(raw)), want, "Time(%s) = %d, want %d", raw)
	}
}

func TestJoin(t *testing.T) {
	for raw, want := range map[string]string{
		`"as \n it is"`: `"as \n it is"`, `[]`: ``, `null`: ``, ``: ``, `{"a":1}`: `"{\"a\":1}"`, `5`: `"5"`,
		`[{"type":"text","text":"a\u0301"}]`:                                                  `"a\u0301"`,
		`[{"type":"text","text":"\ud83d"},{"text":"\ude00","type":"text"}]`:                   `"\ud83d\n\ude00"`,
		`[{"type":"image","data":"AAAA"},"plain",{"type":"input_image"},{"type":"odd kind"}]`: `"[image]\nplain\n[image]\n[odd_kind]"`,
		`[{"type":"text"},{},5,null]`:                                                         `"[text]"`,
	} {
		must.Same(t, string(Join([]byte(raw))), want, "Join(%s) = %s, want %s", raw)
	}
}

func TestNames(t *testing.T) {
	set := Names("user", "system")
	for token, want := range map[string]string{`"user"`: "user", `"odd one"`: "odd_one", `5`: "invalid", `""`: "invalid", ``: "invalid",
		`"` + strings.Repeat("é", 100) + `"`: strings.Repeat("_", 64)} {
		if got, known := set.Of([]byte(token)); got != want || known != (want == "user") {
			t.Errorf("Of(%s) = %q, %v, want %q", token, got, known, want)
		}
	}
}

func TestBounds(t *testing.T) {
	long := []byte(`"` + strings.Repeat("é", 5000) + `"`)
	if got := ID(long); got != "" {
		t.Errorf("ID of %d bytes = %.20q, want none", len(long), got)
	}
	if got := Fact(long); got != strings.Repeat("é", 2048) {
		t.Errorf("Fact has %d bytes, want 4096", len(got))
	}
}
