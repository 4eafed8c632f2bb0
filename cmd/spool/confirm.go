package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"spool/internal/service"
)

// confirm asks before something is destroyed, unless force says yes. Where nobody can be asked, force is needed.
func (a *app) confirm(force bool, question string) error {
	return a.confirmOr("--force", force, question)
}

// confirmOr is confirm for a command with another flag that says yes.
func (a *app) confirmOr(flag string, yes bool, question string) error {
	if yes {
		return nil
	}
	if f, ok := a.in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return service.UsageError{Err: errors.New(question + ": nobody is there to ask; say " + flag)}
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
