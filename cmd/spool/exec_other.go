//go:build !unix

package main

import "os"

// forwarded are the signals that spool exec hands on to its command.
var forwarded = []os.Signal{os.Interrupt}

func keepPipes() {}

func gone(error) bool { return false }

// typed tells whether a terminal sends a signal to all of its foreground processes.
func typed(s os.Signal) bool { return s == os.Interrupt }

func codeOf(p *os.ProcessState) int { return p.ExitCode() }
