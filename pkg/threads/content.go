package threads

import (
	"fmt"

	"spool/pkg/casstore"
)

// Content is the text of a state and what that text refers to (SPEC C3).
type Content struct {
	Text []byte         // the role's text, or the entry's persisted JSON; any bytes
	Refs []casstore.Ref // blobs, artifact pointers, the compact summary
}

// Node encodes the content.
func (c Content) Node() casstore.Node {
	return casstore.Node{
		Type:    TypeContent,
		Payload: casstore.AppendText(make([]byte, 0, len(c.Text)+5), c.Text),
		Refs:    c.Refs,
	}
}

// AddTo is Node, added to a draft.
func (c Content) AddTo(d *casstore.Draft) casstore.Ref {
	return d.AddPayload(TypeContent, c.Refs, func(dst []byte) []byte { return casstore.AppendText(dst, c.Text) })
}

// ParseContent is the opposite of Node. The text aliases the node. Errors wrap ErrShape or casstore.ErrMalformed.
func ParseContent(n casstore.Node) (Content, error) {
	if err := checkType(n, TypeContent); err != nil {
		return Content{}, err
	}
	for i, r := range n.Refs {
		if r.IsZero() {
			return Content{}, fmt.Errorf("content: %w: refs[%d] is nil", ErrShape, i)
		}
	}
	c := casstore.NewCursor(n.Payload)
	out := Content{Text: c.Text(), Refs: n.Refs}
	if err := c.Done(); err != nil {
		return Content{}, fmt.Errorf("content: %w", err)
	}
	return out, nil
}
