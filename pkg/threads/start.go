package threads

import (
	"fmt"

	"spool/pkg/casstore"
)

// The types of nodes in a thread.
const (
	TypeStart   = "start"
	TypeState   = "state"
	TypeContent = "content"
)

// Start is the root of a thread. It holds no thread id, because forks share it (SPEC C1).
type Start struct {
	Name, Hash       string // the workflow or agent, and the hash of its bundle
	MaxRounds, Depth int
	Prompt           casstore.Ref // the content node with the initial task
}

// Node encodes the start.
func (s Start) Node() casstore.Node {
	p := casstore.AppendMapHeader(make([]byte, 0, 64), 4)
	p = casstore.AppendInt(casstore.AppendString(p, "depth"), int64(s.Depth))
	p = casstore.AppendText(casstore.AppendString(p, "hash"), []byte(s.Hash))
	p = casstore.AppendInt(casstore.AppendString(p, "maxRounds"), int64(s.MaxRounds))
	p = casstore.AppendText(casstore.AppendString(p, "name"), []byte(s.Name))
	return casstore.Node{Type: TypeStart, Payload: p, Refs: []casstore.Ref{s.Prompt}}
}

// ParseStart is the opposite of Node. Keys of a later writer are ignored. Errors wrap ErrShape or casstore.ErrMalformed.
func ParseStart(n casstore.Node) (Start, error) {
	if err := checkType(n, TypeStart); err != nil {
		return Start{}, err
	}
	if len(n.Refs) != 1 || n.Refs[0].Kind() != casstore.KindNode {
		return Start{}, fmt.Errorf("start: %w: want one ref, the prompt's content node", ErrShape)
	}
	s := Start{Prompt: n.Refs[0]}
	c := casstore.NewCursor(n.Payload)
	for range c.Map() {
		switch c.String() {
		case "depth":
			s.Depth = int(c.Int())
		case "hash":
			s.Hash = string(c.Text())
		case "maxRounds":
			s.MaxRounds = int(c.Int())
		case "name":
			s.Name = string(c.Text())
		default:
			c.Value()
		}
	}
	if err := c.Done(); err != nil {
		return Start{}, fmt.Errorf("start: %w", err)
	}
	return s, nil
}

// checkType refuses a node of another type.
func checkType(n casstore.Node, want string) error {
	if n.Type != want {
		return fmt.Errorf("%s: %w: the node's type is %.50q", want, ErrShape, n.Type)
	}
	return nil
}
