package main

import (
	"fmt"
	"strconv"
	"strings"

	"spool/internal/service"
)

// size is a number of bytes on the command line: 1048576, 64MiB, 1.5GiB, 100GB.
type size int64

// units of a size, in bytes. What ends like another one comes behind it.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads a size that is not negative.
func (s *size) UnmarshalText(b []byte) error {
	number, unit := strings.TrimSpace(string(b)), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*unit < 1<<60) {
		return fmt.Errorf("%q is no size: use bytes, or a unit, as in 64MiB or 100GB", b)
	}
	*s = size(n * unit)
	return nil
}

// parseRate reads bytes a second: a size, with "/s" behind it if one likes.
func parseRate(s string) (int64, error) {
	var n size
	if err := n.UnmarshalText([]byte(strings.TrimSuffix(strings.TrimSpace(s), "/s"))); err != nil {
		return 0, service.UsageError{Err: fmt.Errorf("--rate %q: use bytes a second, as in 50MiB/s, or 0", s)}
	}
	return int64(n), nil
}
