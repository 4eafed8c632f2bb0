// Package daemon is the programs persister, ingest and gc: what cmd/persister, cmd/ingest and cmd/gc run, and spool as a command.
package daemon

import (
	"io"
	"os"

	"spool/internal/service"
)

// Call is how a program was called.
type Call struct {
	Name     string   // what it was called by, for its help and its errors: "persister", "spool persister"
	Args     []string // behind the name
	In       io.Reader
	Out, Err io.Writer
}

// Main is the call of this process by that name.
func Main(name string) Call { return Call{name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr} }

var programs = map[string]func(*service.Flags, Call) error{"gc": collect, "ingest": take, "persister": apply}

// Run runs the program of a role, of service.Daemons, until it has done what it was called for or a signal comes. It gives the exit code.
func Run(role string, c Call) int {
	service.IgnoreHangup()
	err := programs[role](service.NewFlags(role, c.Name, c.Out, c.Err), c)
	return service.Exit(c.Name, service.WantsRole(role, err), c.Err)
}
