package sim

import (
	"strings"

	"spool/pkg/casstore"
)

// Warm makes what packages keep for a whole process, and what may not be made in one bubble and used in another.
// Call it before the first one.
func Warm() error {
	b := casstore.NewPackBuilder()
	n := casstore.Node{Type: "content", Payload: []byte("\xda\x10\x00" + strings.Repeat("x", 4096))}
	b.AddNode(&n)
	header, body, err := b.Finish()
	if err != nil {
		return err
	}
	p, err := casstore.OpenPack(header, body)
	if err != nil {
		return err
	}
	return p.Verify()
}
