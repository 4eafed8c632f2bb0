package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"spool/pkg/client"
	"spool/pkg/sessions"
)

// completionCmd writes what a shell runs to complete command lines of spool.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Which shell: ${enum}."`
}

// Every shell asks spool itself: what it completes is what it takes.
var completions = map[string]string{
	"bash": `_spool() {
	local IFS=$'\n'
	COMPREPLY=($(spool complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
	if ((${#COMPREPLY[@]} == 0)); then compopt -o default; fi
}
complete -F _spool spool
`,
	"zsh": `#compdef spool
_spool() {
	local -a found
	found=("${(@f)$(spool complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n $found ]]; then compadd -a found; else _files; fi
}
compdef _spool spool
`,
	"fish": `complete -c spool -a '(spool complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

func (c *completionCmd) Run(a *app) error {
	_, err := fmt.Fprint(a.out, completions[c.Shell])
	return err
}

// completeCmd is what these scripts ask: the words up to the cursor, the last of which is not finished.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(a *app) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	done, last := words[:len(words)-1], words[len(words)-1]
	at := place(a.model.Node, done)
	for _, s := range at.candidates(a, last) {
		if strings.HasPrefix(s, last) {
			if _, err := fmt.Fprintln(a.out, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// spot is where in the command line the cursor is.
type spot struct {
	node *kong.Node
	args int        // positional arguments before it
	flag *kong.Flag // whose value is to come; nil: none
}

// place reads the words before the cursor.
func place(root *kong.Node, words []string) (s spot) {
	s.node = root
	for _, w := range words {
		name, isFlag := strings.CutPrefix(w, "-")
		switch {
		case s.flag != nil:
			s.flag = nil
		case isFlag:
			name, _, valued := strings.Cut(strings.TrimPrefix(name, "-"), "=")
			if f := s.find(name); f != nil && !valued && !f.IsBool() {
				s.flag = f
			}
		default:
			if next := child(s.node, w); next != nil {
				s.node, s.args = next, 0
				continue
			}
			s.args++
		}
	}
	return s
}

// find looks for a flag here and in the commands above.
func (s spot) find(name string) *kong.Flag {
	for _, flag := range s.flags(false) {
		if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}

// flags are those that may stand here: of the command, those above, and the one that it stands for when none is named.
func (s spot) flags(hide bool) (out []*kong.Flag) {
	at := s.node
	if at.DefaultCmd != nil {
		at = at.DefaultCmd
	}
	for _, group := range at.AllFlags(hide) {
		out = append(out, group...)
	}
	return out
}

func child(n *kong.Node, word string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == word || slices.Contains(c.Aliases, word) {
			return c
		}
	}
	return nil
}

// candidates are the words that may stand there. None: it is a file, or anything.
func (s spot) candidates(a *app, last string) (out []string) {
	switch {
	case s.flag != nil:
		if s.flag.Enum != "" {
			out = s.flag.EnumSlice()
		}
		return out
	case strings.HasPrefix(last, "-"):
		for _, f := range s.flags(true) {
			out = append(out, "--"+f.Name)
		}
		return out
	}
	for _, c := range s.node.Children {
		if !c.Hidden && c.Type == kong.CommandNode {
			out = append(out, c.Name)
		}
	}
	args := s.node.Positional
	if s.node.DefaultCmd != nil {
		args = s.node.DefaultCmd.Positional
	}
	if s.args < len(args) {
		arg := args[s.args]
		if arg.Enum != "" {
			return arg.EnumSlice()
		}
		if strings.HasPrefix(arg.Name, "session") || arg.Name == "from" {
			out = append(out, a.sessionNames()...)
		}
	}
	return out
}

// mostCompleted is how many sessions a completion offers.
const mostCompleted = 200

// sessionNames are the newest of those that are stored, if the system says so at once: nobody waits for a completion.
func (a *app) sessionNames() (names []string) {
	ctx, cancel := context.WithTimeout(a.ctx, time.Second)
	defer cancel()
	quick := *a
	quick.ctx, quick.opened = ctx, nil
	defer quick.close()
	cl, err := quick.client()
	if err != nil {
		return nil
	}
	page, err := cl.SessionPage(ctx, client.SessionQuery{Query: sessions.Query{Unanswered: true, Limit: mostCompleted}})
	if err != nil {
		return nil
	}
	for _, s := range page.Sessions {
		names = append(names, s.ID)
	}
	return names
}
