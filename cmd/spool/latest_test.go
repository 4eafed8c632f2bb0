package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"spool/pkg/sessions"
)

// Who asks for the newest session of a directory without any is told how far back it was looked for.
func TestLatestOfNone(t *testing.T) {
	when := time.Date(2026, 11, 20, 8, 9, 10, 0, time.Local)
	for _, test := range []struct {
		back        time.Time
		looksAtMore bool
	}{{time.Time{}, false}, {when, true}} {
		err := noneIn("/srv/mill", test.back)
		says := err.Error()
		if !errors.Is(err, sessions.ErrNoSession) || !strings.Contains(says, "/srv/mill") || !strings.Contains(says, "session ls --all") ||
			strings.Contains(says, "since 2026-11-20 08:09:10: spool session ls --limit 1") != test.looksAtMore {
			t.Errorf("none back to %v: %v", test.back, err)
		}
	}
}
