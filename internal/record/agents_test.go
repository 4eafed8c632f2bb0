package record

import (
	"strings"
	"testing"

	"spool/internal/must"
)

func TestSeeAgent(t *testing.T) {
	var c Counter
	for _, id := range []string{"3-Review", "0-Plan.1-Sub", "0-Plan.007-Sub.2-Deep", "plain", "12x", "", "1-a.b"} {
		c.SeeAgent(id)
	}
	for parent, want := range map[string]string{"": "4-x", "0-Plan": "0-Plan.8-x", "0-Plan.007-Sub": "0-Plan.007-Sub.3-x", "1-a": "1-a.0-x"} {
		must.Same(t, c.TakeAgent(parent, "x"), want, "TakeAgent(%q) = %s, want %s", parent)
	}
}

// Whoever names agents makes no counter that its session's record cannot hold.
func TestLongAgents(t *testing.T) {
	var c Counter
	long := strings.Repeat("9", 100_000)
	for _, id := range []string{long + "-x", "0-" + long + ".1-x", "2-" + long} {
		c.SeeAgent(id)
	}
	if n := len(c.Encode()); n > 100 {
		t.Errorf("the counter has %d bytes", n)
	}
	must.Same(t, c.TakeAgent("", "x"), "3-x", "TakeAgent = %s, want %s")
}
