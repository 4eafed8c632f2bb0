package raw_test

import (
	"testing"

	"spool/pkg/dialect"
	"spool/pkg/dialect/raw"
)

// What is tagged comes back, whatever bytes it is, and the id is the entry's.
func TestTagged(t *testing.T) {
	for _, c := range []struct{ id, b string }{{"", ""}, {"", "\n"}, {"7", "text"}, {"a b", "two\nlines\n"}, {"x", "\x00\xff"}} {
		text := raw.Tag(c.id, []byte(c.b))
		if id, b := raw.Untag(text); string(id) != c.id || string(b) != c.b {
			t.Errorf("Untag(%q) = %q, %q, want %q, %q", text, id, b, c.id, c.b)
		}
		if e, err := (raw.Tagged{}).Read(text, nil); err != nil || e.ID != c.id || len(e.Items) != 0 {
			t.Errorf("Read(%q) = %+v, %v, want the id %q and no items", text, e, err, c.id)
		}
	}
	if e, err := (raw.Tagged{}).Read([]byte("no newline"), nil); err != nil || e.ID != "no newline" {
		t.Errorf("Read of an id alone = %+v, %v", e, err)
	}
	if d, ok := dialect.Lookup(raw.TaggedName); !ok || d.Name() != raw.TaggedName || dialect.IsJSON(raw.TaggedName) {
		t.Errorf("Lookup(%q) = %v, %v; IsJSON %v", raw.TaggedName, d, ok, dialect.IsJSON(raw.TaggedName))
	}
}
