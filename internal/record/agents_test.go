package record

import "spool/internal/must"

import "testing"

func TestSeeAgent(t *testing.T) {
	var c Counter
	for _, id := range []string{"3-Review", "0-Plan.1-Sub", "0-Plan.007-Sub.2-Deep", "plain", "12x", "", "1-a.b"} {
		c.SeeAgent(id)
	}
	for parent, want := range map[string]string{"": "4-x", "0-Plan": "0-Plan.8-x", "0-Plan.007-Sub": "0-Plan.007-Sub.3-x", "1-a": "1-a.0-x"} {
		must.Same(t, c.TakeAgent(parent, "x"), want, "TakeAgent(%q) = %s, want %s", parent)
	}
}
