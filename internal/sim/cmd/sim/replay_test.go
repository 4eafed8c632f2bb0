package main

import (
	"strings"
	"testing"

	"spool/internal/must"
)

// What a smaller program did is not lost among the hundreds of subtests that it took to find it.
func TestWithoutTests(t *testing.T) {
	var out strings.Builder
	said := "=== RUN   TestSeed\n=== RUN   TestSeed/bubble#1\n        the smaller program\n" +
		"--- FAIL: TestSeed (1.00s)\n    --- PASS: TestSeed/bubble#1 (0.00s)\n    --- FAIL: TestSeed/bubble#2 (0.00s)\nFAIL"
	must.Do(t, withoutTests(&out, strings.NewReader(said)))
	if want := "        the smaller program\n--- FAIL: TestSeed (1.00s)\n    --- FAIL: TestSeed/bubble#2 (0.00s)\nFAIL"; out.String() != want {
		t.Errorf("withoutTests(…) = %q, want %q", out.String(), want)
	}
}
