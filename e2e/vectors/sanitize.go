package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"spool/pkg/events"
)

func init() { groups["sanitize"] = sanitizeGroup }

// newest is the version whose outputs are taken where SPEC follows the newest program.
const newest = "expected.18.2.3.json"

// sanitizeGroup compares what an output shows of a text without escape sequences and control characters (SPEC O1). The oracle
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
	p, err := running()
	if err != nil {
		return err
	}
	for i, c := range items(list) {
		c, err := expand(c)
		if err != nil {
			return err
		}
		input := str(field(c, "input"))
		got, err := p.sanitized(input)
		if err != nil {
			return fmt.Errorf("%03d: %w", i, err)
		}
		report(Case{
			Name: fmt.Sprintf("%03d", i), Got: got, Want: field(c, "output"),
			When: map[string]func() bool{
				"escape":  func() bool { return strings.Contains(input, "\x1b") },
				"lone CR": func() bool { return loneCRs(input) > 0 },
			},
			Holds: map[string]func() error{"newest": func() error {
				if i >= len(items(newer)) {
					return errors.New("there is no " + newest)
				}
				return same(field(items(newer)[i], "output"), got)
			}, "newline": func() error {
				want := str(field(c, "output"))
				bare := func(s string) string { return strings.ReplaceAll(s, "\n", "") }
				return errors.Join(same(bare(want), bare(got)), same(strings.Count(want, "\n")+loneCRs(input), strings.Count(got, "\n")))
			}},
		})
	}
	return nil
}

// sanitized is what the result of an output shows of a text.
func (p *product) sanitized(text string) (string, error) {
	s := &streamed{product: p, chunks: [][]byte{[]byte(text)}, start: events.OutputStart{Tool: "sh", Show: events.MaxShow}}
	err := s.run()
	return str(field(field(s.item, "tool"), "output")), err
}

// loneCRs counts the carriage returns that no newline follows.
func loneCRs(s string) int { return strings.Count(s, "\r") - strings.Count(s, "\r\n") }
