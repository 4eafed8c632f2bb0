package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
)

// deviation is a kind of case in which Spool differs from the oracle on purpose.
type deviation struct {
	Case   string `json:"case"`   // pattern of group/name, as path.Match has it
	When   string `json:"when"`   // key of Case.When that narrows the pattern; empty = all that match
	Rule   string `json:"rule"`   // of SPEC, e.g. "T7"
	Reason string `json:"reason"` // what the oracle does and why Spool does not
	Holds  string `json:"holds"`  // key of Case.Holds: what must hold instead
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
	if ok, _ := path.Match(d.Case, name); !ok {
		return false
	}
	if d.When == "" {
		return true
	}
	when := c.When[d.When]
	return when != nil && when()
}

func (d deviation) holds(c Case) error {
	check := c.Holds[d.Holds]
	if check == nil {
		return fmt.Errorf("the group does not know how to check %q", d.Holds)
	}
	return check()
}
