package client

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/events"
)

// parseItem reads what encoding/json would.
func TestParseItem(t *testing.T) {
	for _, text := range []string{
		`{"id":"a-0","n":12,"session":"s","thread":"t","user_id":"u","created_at":"2026-11-20T10:00:00.000Z","node":"node:sha256:00","source":"e1","content":[{"type":"text","text":"h\u00e9 \ud83d\ude00\n"},{"type":"image","data":"x"}],"metadata":{"type":"text","x":[1, 2]}}`,
		` {"n":1,"content":[],"metadata":null,"later":{"n":2}} `,
		`{"content":[{"text":"no type"},{"type":"text"}]}`,
		`{}`,
	} {
		got, err := parseItem([]byte(text))
		if err != nil {
			t.Errorf("parseItem(%s) = %v", text, err)
			continue
		}
		var want Item
		must.Do(t, json.Unmarshal([]byte(text), &want))
		if string(want.Metadata) == "null" {
			want.Metadata = nil
		}
		want.Raw = []byte(text)
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("parseItem(%s): -encoding/json +parseItem:\n%s", text, d)
		}
	}
	for text, says := range map[string]string{
		`[]`: "no object", `{"n":"1"}`: `"n"`, `{"session":1}`: `"session"`, `{"content":{}}`: `"content"`,
		`{"content":[{"type":1}]}`: `"content"`, `{"n":1`: "byte",
	} {
		if _, err := parseItem([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("parseItem(%s) = %v, want an error that says %s", text, err, says)
		}
	}
}

// TestTypeOfAnItem: of a member that an item's metadata has twice the last one counts, spelled as it is, for whoever
// stores the item and for whoever reads it.
func TestTypeOfAnItem(t *testing.T) {
	for metadata, want := range map[string]string{
		`{"type":"text","type":"status"}`:                           "status",
		`{"type":"status","Type":"text","TYPE":"thinking"}`:         "status",
		`{"type":1,"type":"status"}`:                                "status",
		`{"t\u0079pe":"status","type":"text","\u0074ype":"status"}`: "status",
		`{"type":"status","type":"pending_prompt_resolved"}`:        "pending_prompt_resolved",
		`{"Type":"status"}`:                                         "message",
	} {
		raw := []byte(`{"content":[],"metadata":{"type":"text"},"metadata":` + metadata + `}`)
		stored := must.Get(events.ParseItem(raw))(t)
		must.Same(t, cmp.Or(stored.Type, "message"), want, "%s is stored as an item of the type %q, want %q", raw)
		read := must.Get(parseItem(stored.JSON()))(t)
		must.Same(t, read.Type(), want, "%s is read as an item of the type %q, want %q", raw)
	}
}
