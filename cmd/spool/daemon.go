package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"spool/internal/service"
)

// daemonCmd stands in the help of spool for a program beside it, which daemonOf finds before kong reads anything: it reads its command
// line itself, as it does where it is called by its own name.
type daemonCmd struct {
	Flags []string `arg:"" optional:"" help:"Flags of its own: see --help."`
}

func (c *daemonCmd) Run(*app) error {
	return service.UsageError{Err: errors.New("flags of a daemon stand behind its name: spool persister --nats URL")}
}

// acts is a flag that gc collects with, and spool gc has not by itself. --once=false is none: gc would collect every hour.
var acts = regexp.MustCompile(`^--?(every(=|$)|once($|=[1tT]))`)

// daemonOf is the daemon that a command line calls, of service.Daemons; "": none. Of gc it is one that says when it collects: spool gc
// alone, and its commands, delete nothing unless they are told to.
func daemonOf(args []string) string {
	args = asHelp(args)
	switch name := args[0]; {
	case !slices.Contains(service.Daemons, name):
		return ""
	case name == "gc" && (len(args) == 1 || !strings.HasPrefix(args[1], "-") || !slices.ContainsFunc(args, acts.MatchString)):
		return ""
	default:
		return name
	}
}
