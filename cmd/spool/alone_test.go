package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"spool/internal/must"
)

// TestAlone: a command that is looked at alone takes what it takes beside all others, and puts it into the same command line.
func TestAlone(t *testing.T) {
	known := vars()
	takes := func(n *kong.Node) (lines []string) {
		_ = kong.Visit(n, func(at kong.Visitable, next kong.Next) error {
			switch at := at.(type) {
			case *kong.Node:
				lines = append(lines, commandOf(at)+" "+at.Help)
			case *kong.Flag:
				lines = append(lines, fmt.Sprint(at, at.Default, at.Group))
			case *kong.Value:
				lines = append(lines, at.Summary())
			}
			return next(nil)
		})
		return lines
	}
	var c cli
	for _, whole := range must.Get(kong.New(&c, known))(t).Model.Children {
		alone := c.alone([]string{whole.Name})
		if looks := whole.Name == "completion" || whole.Name == "complete"; looks != (alone == nil) {
			t.Errorf("%s: alone is %v, want none for those that look at others", whole.Name, alone)
		}
		if alone == nil {
			continue
		}
		model := must.Get(kong.New(alone, known))(t).Model
		if len(model.Children) != 1 || !slices.Equal(takes(model.Children[0]), takes(whole)) {
			t.Errorf("%s alone takes %q, want %q", whole.Name, takes(model.Children[0]), takes(whole))
		}
	}
	args := []string{"up", "--data", "d", "--nats", "u", "--log-level", "info"}
	_, err := must.Get(kong.New(c.alone(args), known))(t).Parse(args)
	if err != nil || c.Up.Data != "d" || c.NATS.Server != "u" || c.LogLevel != "info" {
		t.Errorf("up takes data %q, server %q, level %q, %v, want those of the command line", c.Up.Data, c.NATS.Server, c.LogLevel, err)
	}
	for _, args := range [][]string{nil, {"--nats", "u", "up"}, {"help"}, {"upp"}, {"logLevel"}, {"loglevel"}} {
		if c.alone(args) != nil {
			t.Errorf("%q begins with no command", args)
		}
	}
}
