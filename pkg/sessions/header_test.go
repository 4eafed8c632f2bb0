package sessions

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHeader(t *testing.T) {
	const line = `{"type":"session","version":3,"id":"s1","timestamp":"2026-11-20T12:00:00.000Z","cwd":"/srv/mill","parentSession":"s0"}`
	full := Header{Type: "session", Version: 3, ID: "s1", Timestamp: "2026-11-20T12:00:00.000Z", Cwd: "/srv/mill", ParentSession: "s0"}
	titled := full
	titled.Title = "Slot"
	const slot = `{"type":"title","v":1,"title":"Slot","pad":"     "}`
	tests := []struct {
		name, text string
		want       Header
	}{
		{"one line", line, full},
		{"BOM, CRLF, more lines", "\xef\xbb\xbf" + line + "\r\n{broken", full},
		{"title slot", slot + "\n" + line + "\n", titled},
		{"title slot alone", slot, Header{}},
		{"header's own title wins", slot + "\n" + `{"type":"session","id":"s1","title":"Own"}`,
			Header{Type: "session", Version: 1, ID: "s1", Title: "Own"}},
		{"no version", `{"type":"session","id":""}`, Header{Type: "session", Version: 1}},
		{"version null", `{"type":"session","id":"x","version":null}`, Header{Type: "session", Version: 1, ID: "x"}},
	}
	for _, tt := range tests {
		got, err := ParseHeader([]byte(tt.text))
		if tt.want == (Header{}) {
			if !errors.Is(err, ErrHeader) {
				t.Errorf("%s: ParseHeader = %+v, %v, want ErrHeader", tt.name, got, err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: ParseHeader: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	for _, text := range []string{"", "\n\n", "{", "[]", "null", `{"type":"message","id":"x"}`, `{"type":"session"}`,
		`{"type":"session","id":5}`, slot + "\n" + slot, slot + "\n{"} {
		if h, err := ParseHeader([]byte(text)); !errors.Is(err, ErrHeader) {
			t.Errorf("ParseHeader(%q) = %+v, %v, want ErrHeader", text, h, err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte(`{"type":"session","id":"x"}`))
	f.Add([]byte("{\"type\":\"title\"}\n{\"type\":\"session\",\"id\":\"x\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseHeader(text)
		if err == nil && (h.Type != TypeHeader || h.Version < 1) {
			t.Errorf("ParseHeader(%q) = %+v", text, h)
		}
		if err != nil && !errors.Is(err, ErrHeader) {
			t.Errorf("ParseHeader(%q): %v, want ErrHeader", text, err)
		}
	})
}
