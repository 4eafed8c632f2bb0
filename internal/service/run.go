package service

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"spool/internal/record"
)

// Exit codes of every command.
const (
	ExitOK      = 0
	ExitFailure = 1 // it was tried and did not work
	ExitUsage   = 2 // the command line is wrong; nothing was done
	ExitPartly  = 3 // it was done, but for records of classes that this version does not know, which are named
)

// UsageError is a mistake on the command line.
type UsageError struct {
	Err     error
	Command string // whose help says more; "" is that of the program
}

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Exit says what went wrong, if anything, and gives the exit code.
func Exit(name string, err error, w io.Writer) int {
	var usage UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.As(err, &usage):
		fmt.Fprintf(w, "%s: %v\nTry %s --help.\n", name, err, cmp.Or(usage.Command, name))
		return ExitUsage
	}
	fmt.Fprintf(w, "%s: %v\n", name, err)
	if errors.Is(err, record.ErrClass) {
		return ExitPartly
	}
	return ExitFailure
}

// WantsRole adds to the refusal of a daemon's permissions what they are: those of a role, all of them, and not of the first request alone.
func WantsRole(role string, err error) error {
	if !errors.Is(err, record.ErrDenied) {
		return err
	}
	return fmt.Errorf("%w; %[2]s wants all permissions of the role %[2]s: spool auth user add DIR TENANT/NAME --role %[2]s", err, role)
}

// Signals is a context that ends with SIGINT or SIGTERM; a second signal ends the process at once.
func Signals() (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // restores the default action
	return ctx, cancel
}

// IgnoreHangup is for a process that serves others. Without a terminal SIGHUP tells it nothing: what changes of its files it takes anew by
// itself. One that was started from a terminal ends with that.
func IgnoreHangup() {
	if !IsTerminal(os.Stdin) {
		signal.Ignore(syscall.SIGHUP)
	}
}

// IsTerminal reports whether a person writes or reads there at once.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Log makes the logger of a process: text for people, JSON for programs, to stderr.
func Log(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, UsageError{Err: fmt.Errorf("log level %q: use debug, info, warn or error", level)}
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return nil, UsageError{Err: fmt.Errorf("log format %q: use text or json", format)}
}
