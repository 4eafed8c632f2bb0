package main

import (
	"fmt"
	"strings"

	"spool/internal/service"
	"spool/internal/text"
)

// size is a number of bytes on the command line: 1048576, 64MiB, 1.5GiB, 100GB.
type size int64

// UnmarshalText reads a size that is not negative.
func (s *size) UnmarshalText(b []byte) error {
	n, _, err := text.ParseBytes(string(b))
	*s = size(n)
	return err
}

// parseRate reads bytes a second: a size, with "/s" behind it if one likes.
func parseRate(s string) (int64, error) {
	var n size
	if err := n.UnmarshalText([]byte(strings.TrimSuffix(strings.TrimSpace(s), "/s"))); err != nil {
		return 0, service.UsageError{Err: fmt.Errorf("--rate %q: use bytes a second, as in 50MiB/s, or 0", s)}
	}
	return int64(n), nil
}
