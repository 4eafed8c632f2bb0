package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"spool/internal/service"
)

// fromFile gives kong the flags that neither the command line nor the environment sets, from the configuration file. What
// the table of a command says holds for the commands below it too, and over what is at the top.
type fromFile struct{ config *service.Config }

// Validate implements kong.Resolver. The file is checked when it is read, before any value of it is used.
func (f *fromFile) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *fromFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if f.config == nil {
		if err := f.open(ctx); err != nil {
			return nil, err
		}
	}
	if service.InEnv(flag.Envs...) {
		return nil, nil
	}
	for node := ctx.Selected(); ; node = node.Parent {
		if node == nil {
			node = ctx.Model.Node
		}
		s := service.Setting{Section: section(node), Key: flag.Name}
		if v := f.config.Value(s); v != nil {
			if err := flag.Parse(kong.Scan().PushTyped(v, kong.FlagValueToken), reflect.New(flag.Target.Type()).Elem()); err != nil {
				return nil, f.config.Bad(s, reworded(err, nil))
			}
			if word, ok := v.(string); ok && flag.Enum != "" && !flag.EnumMap()[word] { // kong would say so without the file
				return nil, f.config.Bad(s, fmt.Errorf("%q: %w", word, useWord(flag)))
			}
			flag.Set = false // that was a trial: kong passes over an existing file for a flag that is set
			return v, nil
		}
		if slices.Contains(node.Flags, flag) || node.Parent == nil {
			return nil, nil
		}
	}
}

// open reads the file that the command line or the environment names, and checks its keys against every command.
func (f *fromFile) open(ctx *kong.Context) error {
	at := slices.IndexFunc(ctx.Model.Flags, func(flag *kong.Flag) bool { return flag.Name == "config" })
	path, _ := ctx.FlagValue(ctx.Model.Flags[at]).(string)
	c, err := service.OpenConfig(path)
	if err != nil {
		return err
	}
	for _, s := range c.Settings() {
		if !known(ctx.Model.Node, s) && !slices.Contains(service.Daemons, s.Section) {
			return c.Unknown(s, "spool")
		}
	}
	f.config = c
	return nil
}

// section is the path of a command's table.
func section(n *kong.Node) string {
	if n.Parent == nil {
		return ""
	}
	return service.Setting{Section: section(n.Parent), Key: n.Name}.String()
}

// known reports whether a key is a flag of the command that its table names, or of one above that.
func known(n *kong.Node, s service.Setting) bool {
	isFlag := func(n *kong.Node) bool {
		return slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == s.Key && f.Name != "help" && f.Name != "config" })
	}
	found := isFlag(n)
	for name := range strings.SplitSeq(s.Section, ".") {
		if name == "" {
			break
		}
		at := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == name })
		if at < 0 {
			return false
		}
		n = n.Children[at]
		found = found || isFlag(n)
	}
	return found
}
