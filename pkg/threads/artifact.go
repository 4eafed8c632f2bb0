package threads

import (
	"fmt"

	"spool/pkg/casstore"
)

// TypeArtifact is the type of a node that points to an artifact.
const TypeArtifact = "artifact"

// Artifact is a pointer to an artifact: what a thread says about one whose bytes are addressed by its id, not by their hash
// (DESIGN 6). A content refers to it.
type Artifact struct {
	ID, Session    string // session whose registry has the record
	Seq            string // its number there, in decimal; empty if it has none
	Filename, MIME string
	Summary        string
	Size           int64 // bytes
}

// Node encodes the pointer.
func (a Artifact) Node() casstore.Node {
	p := casstore.AppendMapHeader(make([]byte, 0, 128+len(a.Summary)), 7)
	for _, f := range [][2]string{{"artifact_id", a.ID}, {"filename", a.Filename}, {"mime", a.MIME}, {"seq", a.Seq}, {"session", a.Session}} {
		p = casstore.AppendText(casstore.AppendString(p, f[0]), []byte(f[1]))
	}
	p = casstore.AppendInt(casstore.AppendString(p, "size"), a.Size)
	p = casstore.AppendText(casstore.AppendString(p, "summary"), []byte(a.Summary))
	return casstore.Node{Type: TypeArtifact, Payload: p}
}

// ParseArtifact is the opposite of Node. Keys of a later writer are ignored. Errors wrap ErrShape or casstore.ErrMalformed.
func ParseArtifact(n casstore.Node) (a Artifact, err error) {
	if err := checkType(n, TypeArtifact); err != nil {
		return a, err
	}
	c := casstore.NewCursor(n.Payload)
	texts := map[string]*string{
		"artifact_id": &a.ID, "filename": &a.Filename, "mime": &a.MIME, "seq": &a.Seq, "session": &a.Session, "summary": &a.Summary,
	}
	for range c.Map() {
		key := c.String()
		switch field := texts[key]; {
		case field != nil:
			*field = string(c.Text())
		case key == "size":
			a.Size = c.Int()
		default:
			c.Value()
		}
	}
	if err := c.Done(); err != nil {
		return Artifact{}, fmt.Errorf("artifact: %w", err)
	}
	return a, nil
}
