package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"spool/pkg/truncate/output"
)

func init() { groups["sanitize"] = sanitizeGroup }

// newest is the version whose outputs are taken where SPEC follows the newest program.
const newest = "expected.18.2.3.json"

// sanitizeGroup compares what is left of a text without escape sequences and control characters (SPEC O1). The oracle
// removes a lone CR here; the newline that SPEC wants comes before, see the group sink.
func sanitizeGroup(dir string, report func(Case)) error {
	list, err := readJSON(filepath.Join(dir, oracle))
	if err != nil {
		return err
	}
	newer, err := readJSON(filepath.Join(dir, newest))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, c := range items(list) {
		c, err := expand(c)
		if err != nil {
			return err
		}
		input := str(field(c, "input"))
		got := sanitized(input)
		report(Case{
			Name: fmt.Sprintf("%03d", i), Got: got, Want: field(c, "output"),
			When: map[string]func() bool{"escape": func() bool { return strings.Contains(input, "\x1b") }},
			Holds: map[string]func() error{"newest": func() error {
				if i >= len(items(newer)) {
					return errors.New("there is no " + newest)
				}
				return same(field(items(newer)[i], "output"), got)
			}},
		})
	}
	return nil
}

// sanitized is what the oracle's sanitizeText is to give.
func sanitized(text string) string {
	s := output.Sanitizer{DropCR: true}
	return string(s.Flush(s.Append(nil, []byte(text))))
}
