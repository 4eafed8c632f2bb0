package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
)

// TestDeviationsExcuseNothingElse: a file that deviates on purpose fails all the same when another part of its result is wrong.
func TestDeviationsExcuseNothingElse(t *testing.T) {
	known := must.Get(readDeviations())(t)
	old, torn := "version-1-with-ids-roles-and-compaction", "torn-with-objects-inside"
	edit := func(list []any, i int, at place, v any) []any {
		list = clone(list).([]any)
		setAt(list[i], at, v)
		return list
	}
	for _, tt := range []struct {
		name, file, part string
		damage           func(l *legacy)
	}{
		{"first entry lost", "no-final-newline", "migrate", func(l *legacy) { l.current = append(l.current[:1:1], l.current[2:]...) }},
		{"role of old entry", old, "migrate", func(l *legacy) {
			l.current = edit(l.current, 2, place{"message", "role"}, "hookMessage")
		}},
		{"first kept entry", old, "migrate", func(l *legacy) { l.current = edit(l.current, 4, place{"firstKeptEntryId"}, "old1") }},
		{"record invented", torn, "load", func(l *legacy) {
			inner := []byte(`{"type":"text","text":"inner"}`)
			l.records = slices.Insert(l.records, 2, inner)
			l.objects = slices.Insert(l.objects, 2, mustJSON(inner))
		}},
		{"record lost", torn, "load", func(l *legacy) { l.objects = l.objects[:2] }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join("testdata", "legacy", tt.file)
			text, want := must.Get(readFile(filepath.Join(dir, "input.jsonl")))(t), must.Get(readObject(filepath.Join(dir, oracle)))(t)
			failures := func(harm func(*legacy)) string {
				l := must.Get(loadLegacy(tt.file, text, want))(t)
				harm(l)
				var out strings.Builder
				r := &runner{out: &out, deviations: known, used: usage{}}
				l.report(func(c Case) { r.report("legacy", c) })
				return out.String()
			}
			if out := failures(func(*legacy) {}); out != "" {
				t.Fatalf("before anything is wrong: %s", out)
			}
			if out := failures(tt.damage); !strings.Contains(out, "FAIL legacy/"+tt.file+"/"+tt.part+":") {
				t.Errorf("%s is not reported: %q", tt.part, out)
			}
		})
	}
}
