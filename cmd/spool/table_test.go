package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"spool/internal/must"
)

// TestTableOfCommands holds the table of commands of docs/operations.md against the commands: a row has the flags of its
// command and no others. A command says by itself what it is for.
func TestTableOfCommands(t *testing.T) {
	var c cli
	parser := must.Get(kong.New(&c, vars()))(t)
	leaves := map[string]*kong.Node{}
	for _, leaf := range parser.Model.Leaves(true) {
		if leaf.Parent.DefaultCmd == leaf {
			leaves[commandOf(leaf.Parent)] = leaf
		} else {
			leaves[commandOf(leaf)] = leaf
		}
	}
	said := regexp.MustCompile(`\B--?[a-zA-Z][a-zA-Z-]*`)
	rows := map[string]int{}
	for line := range strings.Lines(string(must.Get(os.ReadFile("../../docs/operations.md"))(t))) {
		left, right, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(left, "`spool ") || !strings.HasPrefix(line, "| ") {
			continue
		}
		var own []string // of all commands of the row
		for path := range commandsIn(left, leaves) {
			rows[path]++
			own = append(own, flagsOf(leaves[path])...)
		}
		flags := said.FindAllString(left+" "+right, -1)
		for _, flag := range own {
			name, short, _ := strings.Cut(flag, " ")
			if !slices.Contains(flags, name) && !slices.Contains(flags, short) && !strings.Contains(right, "--help") {
				t.Errorf("%s: %s is not in the row", left, name)
			}
		}
		for _, flag := range flags {
			if !slices.ContainsFunc(own, func(f string) bool { return slices.Contains(strings.Fields(f), flag) }) && flag != "--help" {
				t.Errorf("%s: %s is in the row, and is no flag of it", left, flag)
			}
		}
	}
	for path, leaf := range leaves {
		if leaf.Help == "" && !leaf.Hidden {
			t.Errorf("spool %s has no help", path)
		}
	}
	if rows["up"] != 1 || rows["serve"] != 1 {
		t.Errorf("up and serve have %d and %d rows, want 1 each", rows["up"], rows["serve"])
	}
}

// commandsIn are the commands of a cell such as "`spool a b X`, `a c|d X`".
func commandsIn(cell string, leaves map[string]*kong.Node) map[string]bool {
	found := map[string]bool{}
	for _, span := range regexp.MustCompile("`[^`]*`").FindAllString(cell, -1) {
		paths := []string{""}
		for word := range strings.FieldsSeq(strings.TrimPrefix(strings.Trim(span, "`"), "spool ")) {
			var next []string
			for _, path := range paths {
				for one := range strings.SplitSeq(strings.ReplaceAll(word, `\|`, "|"), "|") {
					next = append(next, strings.TrimSpace(path+" "+one))
				}
			}
			next = slices.DeleteFunc(next, func(path string) bool { return !begins(leaves, path) })
			if len(next) == 0 {
				break
			}
			paths = next
		}
		for _, path := range paths {
			if leaves[path] != nil {
				found[path] = true
			}
		}
	}
	return found
}

// begins reports whether a command has that name, or one that goes on from there.
func begins(leaves map[string]*kong.Node, path string) bool {
	for known := range leaves {
		if known == path || strings.HasPrefix(known, path+" ") {
			return true
		}
	}
	return false
}

// flagsOf are the flags of a command and of those above it, but for those that all commands have: each long, and short
// if it can be.
func flagsOf(leaf *kong.Node) (flags []string) {
	for at := leaf; at.Type != kong.ApplicationNode; at = at.Parent {
		for _, f := range at.Flags {
			name := "--" + f.Name
			if f.Short != 0 {
				name += " -" + string(f.Short)
			}
			if !f.Hidden && f.Name != "help" {
				flags = append(flags, name)
			}
		}
	}
	return flags
}
