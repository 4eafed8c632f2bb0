package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
)

// deviation is a kind of case in which Spool differs from the oracle on purpose.
type deviation struct {
	Case   string   `json:"case"`   // pattern of group/name, as path.Match has it
	Parts  []string `json:"parts"`  // what of it differs: patterns of the last part of its name; none: all of it
	When   string   `json:"when"`   // key of Case.When that narrows the pattern; empty = all that match
	Rule   string   `json:"rule"`   // of SPEC, e.g. "T7"
	Reason string   `json:"reason"` // what the oracle does and why Spool does not
	Holds  string   `json:"holds"`  // key of Case.Holds: what must hold instead
}

//go:embed deviations.json
var deviationsFile []byte

func readDeviations() ([]deviation, error) {
	dec := json.NewDecoder(bytes.NewReader(deviationsFile))
	dec.DisallowUnknownFields()
	var all []deviation
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("deviations.json: %w", err)
	}
	for i, d := range all {
		if _, err := path.Match(d.Case, ""); err != nil || d.Case == "" || d.Rule == "" || d.Reason == "" || d.Holds == "" {
			return nil, fmt.Errorf("deviations.json: entry %d: case, rule, reason and holds are needed: %w", i, errors.Join(err))
		}
	}
	return all, nil
}

func (d deviation) matches(name string, c Case) bool {
	if ok, _ := path.Match(d.Case, name); !ok || d.part(name) < 0 {
		return false
	}
	if d.When == "" {
		return true
	}
	when := c.When[d.When]
	return when != nil && when()
}

// part is the index of the pattern that the last part of a case's name matches, -1 if none does.
func (d deviation) part(name string) int {
	if len(d.Parts) == 0 {
		return 0
	}
	return slices.IndexFunc(d.Parts, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	})
}

// usage notes which parts of which deviations a case needed.
type usage map[string]bool

func (u usage) note(d deviation, name string) { u[fmt.Sprint(d.Case, d.When, d.part(name))] = true }

// unused are the parts of deviations that no case needed.
func (u usage) unused(d deviation) (parts []string) {
	for i := range max(len(d.Parts), 1) {
		if !u[fmt.Sprint(d.Case, d.When, i)] {
			parts = append(parts, slices.Concat(d.Parts, []string{"all"})[i])
		}
	}
	return parts
}

func (d deviation) holds(c Case) error {
	check := c.Holds[d.Holds]
	if check == nil {
		return fmt.Errorf("the group does not know how to check %q", d.Holds)
	}
	return check()
}
