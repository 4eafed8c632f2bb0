package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/artifacts"
)

func TestSeeAgent(t *testing.T) {
	var c Counter
	for _, id := range []string{"3-Review", "0-Plan.1-Sub", "0-Plan.007-Sub.2-Deep", "plain", "12x", "", "1-a.b", "a+b.4-x"} {
		c.SeeAgent(id)
	}
	for _, parent := range []string{"4-Next", "0-Plan.8-Sub", "0-Plan.7-Sub.3-x", "1-a.b", "plain", "12x", "-1-x"} {
		before := string(c.Encode())
		if id, err := c.TakeAgent(parent, "x"); !errors.Is(err, artifacts.ErrNoAgent) {
			t.Errorf("TakeAgent(%q), which nobody gave = %s, %v", parent, id, err)
		}
		must.Same(t, string(c.Encode()), before, "the counter that refused = %q, want %q")
	}
	for parent, want := range map[string]string{
		"": "4-x", "0-Plan": "0-Plan.8-x", "0-Plan.007-Sub": "0-Plan.007-Sub.3-x", "2-Other": "2-Other.0-x", "1-a": "1-a.0-x", "a+b": "a+b.5-x",
	} {
		must.Same(t, must.Get(c.TakeAgent(parent, "x"))(t), want, "TakeAgent(%q) = %s, want %s", parent)
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
	must.Same(t, must.Get(c.TakeAgent("", "x"))(t), "3-x", "TakeAgent = %s, want %s")
}

// However many agents start others, and whatever their indices, the counter has a bound; one that is full gives no id that is given
// already, and a fork of it neither.
func TestManyAgents(t *testing.T) {
	var c Counter
	last := strings.Repeat("9", maxDigits)
	for i := range 10_000 {
		c.SeeAgent(fmt.Sprint(i, "-a.", last, "-b"))
	}
	c.SeeAgent("20000-" + strings.Repeat("a.0-", 60))
	if n := len(c.Encode()); n > 512<<10 {
		t.Errorf("the counter has %d bytes", n)
	}
	var fork Counter
	fork.Inherit(c)
	for _, c := range []*Counter{&c, &fork} {
		must.Same(t, must.Get(c.TakeAgent("", "x"))(t), "20001-x", "TakeAgent = %s, want %s")
		must.Same(t, must.Get(c.TakeAgent("1-a", "x"))(t), "1-a.1"+strings.Repeat("0", maxDigits)+"-x", "TakeAgent of a known parent = %s, want %s")
		if id, err := c.TakeAgent("9999-a", "x"); !errors.Is(err, artifacts.ErrRecord) {
			t.Errorf("TakeAgent of a parent that a full counter does not hold = %s, %v", id, err)
		}
	}
}
