package dstreams

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/events"
)

// Every name leads to a valid thread, no two to the same, and back.
func TestNames(t *testing.T) {
	for name, want := range map[string]events.Thread{
		"a":                     {Session: "a", Name: "main"},
		"a/b":                   {Session: "a", Name: "b"},
		"a/main":                {Session: "a", Name: "main"},
		"a/b/c":                 {Session: "_ds-YS9iL2M", Name: "main"},
		"_ds-x":                 {Session: "_ds-X2RzLXg", Name: "main"},
		"ä":                     {Session: "_ds-w6Q", Name: "main"},
		strings.Repeat("é", 47): {Session: "_ds-" + strings.Repeat("w6nDqcOp", 15) + "w6nD", Name: "_qQ"},
	} {
		if got, err := threadOf(name); got != want || err != nil {
			t.Errorf("threadOf(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"", strings.Repeat("/", maxName+1)} {
		if got, err := threadOf(name); err == nil {
			t.Errorf("threadOf(%q) = %v, want an error", name, got)
		}
	}
	token := rapid.StringMatching(`[a-z_-]{1,3}|_ds-[a-z]{0,3}|main`)
	name := rapid.OneOf(
		rapid.StringN(1, -1, maxName), rapid.StringMatching(`[a-f]{120,130}/?.{0,60}`), token,
		rapid.Custom(func(t *rapid.T) string { return token.Draw(t, "session") + "/" + token.Draw(t, "thread") }),
	).Filter(func(s string) bool { return len(s) <= maxName })
	rapid.Check(t, func(t *rapid.T) {
		n := name.Draw(t, "name")
		th, err := threadOf(n)
		if err != nil || th.Validate() != nil {
			t.Fatalf("threadOf(%q) = %v, %v", n, th, err)
		}
		if back := nameOf(th); back != strings.TrimSuffix(n, "/main") && back != n {
			t.Fatalf("nameOf(threadOf(%q)) = %q", n, back)
		}
		if again, err := threadOf(nameOf(th)); again != th {
			t.Fatalf("threadOf(%q) = %v, %v, want %v", nameOf(th), again, err, th)
		}
	})
}

// Offsets sort as text, and nothing else is one.
func TestOffsets(t *testing.T) {
	order := []offset{{0, 0}, {0, 1}, {0, 10}, {1, 0}, {2, 5}, {10, 0}, {99, 9}, {100, 0}, {maxNumber, 0}}
	var texts []string
	for _, o := range order {
		texts = append(texts, o.String())
		if got, err := parseOffset(o.String()); got != o || err != nil {
			t.Errorf("parseOffset(%s) = %v, %v", o, got, err)
		}
	}
	if !slices.IsSorted(texts) {
		t.Errorf("not in order: %v", texts)
	}
	if o, err := parseOffset("-1"); o != (offset{}) || err != nil {
		t.Errorf(`parseOffset("-1") = %v, %v`, o, err)
	}
	for _, s := range []string{"", "0", "now", "+000000000000000_0000000000000000", "0000000000000000-0000000000000000",
		"0000000000000000_00000000000000x0", " " + order[0].String()} {
		if o, err := parseOffset(s); err == nil {
			t.Errorf("parseOffset(%q) = %v, want an error", s, o)
		}
	}
}

// A cursor grows with time, and always over the one that the client had.
func TestCursor(t *testing.T) {
	now := cursorEpoch.Add(100*cursorInterval + time.Second)
	for had, atLeast := range map[string]int64{"": 100, "99": 100, "100": 101, "101": 102, "5000": 5001, "x": 100, "-3": 100} {
		got, err := digits(nextCursor(had, now))
		if err != nil || got < atLeast || got > max(atLeast, 100)+int64(maxJitter) {
			t.Errorf("nextCursor(%q) = %d, %v, want at least %d", had, got, err, atLeast)
		}
	}
}

// What stands in an event cannot end it, whatever ends its lines, and a reader gets it back.
func TestEventData(t *testing.T) {
	for text, want := range map[string]string{
		"a":                          "event: data\ndata:a\n\n",
		" a":                         "event: data\ndata:  a\n\n",
		"a\nb\r\nc\rd":               "event: data\ndata:a\ndata:b\ndata:c\ndata:d\n\n",
		"a\n":                        "event: data\ndata:a\ndata:\n\n",
		"\n\nevent: control\ndata:x": "event: data\ndata:\ndata:\ndata:event: control\ndata:data:x\n\n",
	} {
		v := view{stream: stream{ID: "x", Type: "text/plain"}}
		must.Same(t, string(appendData(nil, &v, &chunk{body: []byte(text)})), want, "event of %q = %q, want %q", text)
	}
	bin := view{stream: stream{ID: "x", Type: "image/png"}}
	if got := string(appendData(nil, &bin, &chunk{body: []byte{0, 10, 255}})); got != "event: data\ndata:AAr/\n\n" {
		t.Errorf("event of bytes = %q", got)
	}
}
