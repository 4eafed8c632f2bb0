package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// commonFlags is the group of the flags that every command takes; spool help connection shows them.
const commonFlags = "Connection:"

// asHelp makes spool, spool help and spool help COMMAND what kong knows: the flag --help.
func asHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// elsewhere is the error of a command line whose first word is no command, nor one in the plural, but is one below others: it names those.
func elsewhere(model *kong.Application, args []string, err error) error {
	if slices.ContainsFunc(model.Children, func(n *kong.Node) bool { return n.Name == args[0] || n.Name+"s" == args[0] }) {
		return err
	}
	var there []string
	for _, leaf := range model.Leaves(true) {
		if leaf.Name == args[0] || slices.Contains(leaf.Aliases, args[0]) {
			there = append(there, "spool "+commandOf(leaf))
		}
	}
	if there == nil {
		return err
	}
	return fmt.Errorf("%s is no command by itself; there is %s", args[0], strings.Join(there, ", "))
}

// wrongAt is the command that a command line names before it is wrong; nil: none, or it is right.
func wrongAt(err error) (command *kong.Node) {
	if at := (*kong.ParseError)(nil); errors.As(err, &at) {
		for _, p := range at.Context.Path {
			command = cmp.Or(p.Command, command)
		}
	}
	return command
}

// lists is the command below that lists, where a command line ends with a command that has others below; "": it does not.
func lists(err error) string {
	group, at := wrongAt(err), (*kong.ParseError)(nil)
	if group == nil || !errors.As(err, &at) || at.Context.Error != nil { // that is about a word
		return ""
	}
	for _, c := range group.Children {
		needs := slices.ContainsFunc(c.Positional, func(v *kong.Positional) bool { return v.Required })
		if slices.Contains([]string{"ls", "recent", "report"}, c.Name) && !needs {
			return c.Name
		}
	}
	return ""
}

// commandOf is the words of a command; none of none.
func commandOf(leaf *kong.Node) string {
	var words []string
	for at := leaf; at != nil && at.Type != kong.ApplicationNode; at = at.Parent {
		words = append([]string{at.Name}, words...)
	}
	return strings.Join(words, " ")
}

// help writes the help of a command: what it does and its own flags. Those that every command takes are in the help of the
// connection alone.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	for _, f := range ctx.Model.Flags {
		if f.Group != nil && f.Group.Key == commonFlags {
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprint(ctx.Stdout, "\nThe server is that of --nats or NATS_URL: see spool help connection\n")
	return err
}

// helpOfConnection is spool help connection.
func helpOfConnection(w io.Writer, model *kong.Application) error {
	fmt.Fprint(w, "How every command reaches a NATS system, and what it logs. A flag counts more than the environment, and that more\n"+
		"than the configuration file.\n\n")
	for _, f := range model.Flags {
		if f.Group == nil || f.Group.Key != commonFlags {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if f.PlaceHolder != "" {
			name += " " + f.PlaceHolder
		}
		if _, err := fmt.Fprintf(w, "  %-26s %s\n", name, kong.DefaultHelpValueFormatter(f.Value)); err != nil {
			return err
		}
	}
	return nil
}

// versionFlag says the version and ends.
type versionFlag bool

// BeforeReset is run by kong where the flag stands.
func (versionFlag) BeforeReset(ctx *kong.Context) error {
	err := (&versionCmd{}).Run(&app{out: ctx.Stdout})
	if err == nil {
		ctx.Exit(0)
	}
	return err
}
