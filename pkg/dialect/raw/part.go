package raw

import "spool/pkg/dialect/entry"

// Part is the dialect "part": bytes of a file that stand between two entries in place of the newline that otherwise does.
// A byte order mark before the first entry is one, and so is what a torn line left before an entry that begins behind it
// on the same line (SPEC S6). It is kept and gives no item.
type Part struct{}

// PartName is the name of the dialect "part".
const PartName = "part"

// Name is "part".
func (Part) Name() string { return PartName }

// Version is the version of the mapping.
func (Part) Version() int { return 1 }

// Read takes any bytes. It never fails.
func (Part) Read(_ []byte, m *entry.Memory) (entry.Entry, error) {
	if m != nil {
		m.Begin()
	}
	return entry.Entry{Step: entry.Step{Role: entry.RoleSystem, Type: PartName, Known: true}}, nil
}
