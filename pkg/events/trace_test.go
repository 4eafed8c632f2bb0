package events_test

import (
	"strings"
	"testing"

	"spool/pkg/events"
)

func TestTraceParent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if got := events.TraceParent(good); got != good {
		t.Errorf("TraceParent(%q) = %q", good, got)
	}
	for _, bad := range []string{"", "00-1", good + "-00", "01" + good[2:], strings.ToUpper(good), good[:35] + "\r\n" +
		good[37:], good[:54] + "é",
		"00-" + strings.Repeat("0", 32) + good[35:], good[:36] + strings.Repeat("0", 16) + "-01"} {
		if got := events.TraceParent(bad); got != "" {
			t.Errorf("TraceParent(%q) = %q, want none", bad, got)
		}
	}
}
