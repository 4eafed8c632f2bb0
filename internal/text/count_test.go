package text_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/text"
)

func TestCounts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{text.Sprintf("%d entries, %d items, %s", 1, int64(2), "x"), "1 entry, 2 items, x"},
		{text.Sprintf("%s: %d%% of %d files, %d files", "a", 7, 1, uint64(1)), "a: 7% of 1 files, 1 file"},
		{text.Sprintf("%d dead letters, %d branches, +%d lines, %d boxes", 1, 1, 1, 1), "1 dead letter, 1 branch, +1 line, 1 box"},
		{text.Sprintf("%d is next, %d process, %d was less, %d of %d", 1, 1, 1, 1, 1), "1 is next, 1 process, 1 was less, 1 of 1"},
		{text.Sprintf("%d packs with %d nodes, %.1f %d blobs", 1, 11, 1.0, 1), "1 pack with 11 nodes, 1.0 1 blob"},
		{text.Errorf("%d findings: %w", 1, io.EOF).Error(), "1 finding: EOF"},
	} {
		must.Same(t, c.got, c.want, "%q, want %q")
	}
	if !errors.Is(text.Errorf("%d findings: %w", 1, io.EOF), io.EOF) {
		t.Error("Errorf wraps nothing")
	}
	var b strings.Builder
	must.Get(text.Fprintf(&b, "%d messages", 1))(t)
	must.Same(t, b.String(), "1 message", "%q, want %q")
}
