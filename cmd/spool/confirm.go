package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"spool/internal/service"
)

// unasked is the flag of every command that asks before it destroys something. --force is its earlier name; where a
// command has a flag of that name beside this one, it does what would be refused.
type unasked struct {
	Yes bool `short:"y" aliases:"force" help:"Do not ask."`
}

// confirm asks before something is destroyed, unless yes is said already. Where nobody can be asked it must be.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !service.IsTerminal(a.in) {
		return service.UsageError{Err: errors.New(question + ": nobody is there to ask; say --yes")}
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin()).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
