//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// forwarded are the signals that spool exec hands on to its command.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// keepPipes has a write to a reader that is gone be an error, as of any other file: it ends a process else.
func keepPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// gone reports whether a write failed because nobody reads any more.
func gone(err error) bool { return errors.Is(err, syscall.EPIPE) }

// typed tells whether a terminal sends a signal to all of its foreground processes.
func typed(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// codeOf is the exit code of a process; of one that a signal ended, 128 and the signal, as shells have it.
func codeOf(p *os.ProcessState) int {
	if w, ok := p.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return p.ExitCode()
}
