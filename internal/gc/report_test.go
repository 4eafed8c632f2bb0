package gc_test

import (
	"strings"
	"testing"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/text"
)

// TestReportOfNothing: who may not look is told that, and not that there is nothing.
func TestReportOfNothing(t *testing.T) {
	var out strings.Builder
	must.Do(t, gc.Report{Refused: "permission denied"}.Write(text.NewTable(&out)))
	must.Same(t, out.String(), "done     0  nothing was deleted\nrefused     permission denied\n", "%q, want %q")
}
