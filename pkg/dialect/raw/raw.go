// Package raw takes any bytes: a line that is no JSON, a log, a protocol nobody mapped. They are kept and give no item.
package raw

import "spool/pkg/dialect/entry"

// Dialect is the dialect "raw".
type Dialect struct{}

// Name is "raw".
func (Dialect) Name() string { return "raw" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

// Read takes bytes that need not be JSON. It never fails.
func (Dialect) Read(_ []byte, m *entry.Memory) (entry.Entry, error) {
	if m != nil {
		m.Begin()
	}
	return entry.Entry{Step: entry.Step{Role: entry.RoleSystem, Type: "raw", Known: true}}, nil
}
