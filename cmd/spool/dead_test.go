package main

import (
	"strings"
	"testing"

	"spool/internal/service"
)

// A dead letter that is not there is told, and nothing else: neither that none of it was done, nor is anybody asked about it.
func TestNoDeadLetterIsDone(t *testing.T) {
	s, _ := plain(t)
	for _, args := range [][]string{{"dead", "replay", "99"}, {"dead", "rm", "99"}, {"dead", "rm", "99", "99", "--yes"}} {
		out, code := spool(t, append(args, "--nats", s.ClientURL())...)
		if want := "spool: there is no dead letter 99: spool dead ls lists them"; code != service.ExitFailure || strings.TrimSpace(out) != want {
			t.Errorf("%v = %d %q, want %d %q", args, code, out, service.ExitFailure, want)
		}
	}
}
