package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"spool/internal/jsonscan"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// storedLeaf is where the header of a session file says that the leaf is, when it is not the last entry (SPEC S3): the member
// "leaf" of sessions.Tree.WriteTo. It holds only as long as the entry that it calls the last is that.
type storedLeaf struct {
	begun bool
	id    string // "" for none
	after string
	said  bool   // the header has the member
	last  string // id of the last entry so far
	known bool   // id is that of an entry
}

// see takes what a record says.
func (l *storedLeaf) see(r record) {
	switch {
	case !r.json || r.giant != nil && !l.said:
		return
	case !l.begun:
		if typ := member(r.body, "type"); typ != sessions.TypeHeader {
			return
		}
		l.begun = true
		leaf := jsonscan.Get(r.body, "leaf")
		l.said = jsonscan.KindOf(leaf) == jsonscan.KindObject
		l.id, l.after = member(leaf, "id"), member(leaf, "after")
	case l.said:
		l.last = member(r.body, "id")
		l.known = l.known || l.last == l.id
	}
}

// holds tells whether the leaf is to be moved.
func (l *storedLeaf) holds() bool {
	return l.said && l.last != "" && l.after == l.last && l.id != l.last && (l.known || l.id == "")
}

// leafOf is the producer of the operation that moves a source's leaf: its sequence is the size of the file.
func leafOf(producer string) string { return producer + ":leaf" }

// branch moves the leaf of the thread to where the file has it. A crash before leaves it at the last entry until the file is
// imported again.
func (p *pass) branch(ctx context.Context, size int64) error {
	if p.f.id.Dialect != ompDialect || !p.leaf.holds() || uint64(size) <= p.c.leaf {
		return nil
	}
	if p.c.exported && p.c.lines == 0 { // an export, or a beginning of one
		by, err := p.im.holder(ctx, p.f, p.c)
		if err == nil && by != (holding{thread: p.c.thread, more: by.more}) {
			p.f.warn(leafStays(p.c.thread))
		}
		return err
	}
	op := events.Control{Op: events.OpReset, Reset: &events.Reset{}}
	if p.leaf.id != "" {
		op = events.Control{Op: events.OpBranch, Branch: &events.Branch{Entry: p.leaf.id}}
	}
	e := &events.Event{Kind: events.KindControl, Seq: uint64(size), Time: p.at, Body: op.Encode()}
	if err := p.publish(ctx, []*events.Event{p.stamp(e, leafOf(p.c.producer))}); err != nil {
		return err
	}
	p.c.leaf, p.c.shared = e.Seq, true
	p.f.res.Leaf = Position{Producer: e.Producer, Epoch: epoch, Seq: e.Seq}
	return nil
}

// leafStays says that a thread's leaf is not moved by an export of it. Which of the two is the later place is told by no time.
func leafStays(t events.Thread) string {
	return fmt.Sprintf("nothing was added: %s has all its entries, and its leaf stays where it is; to have it where the file does: "+
		"spool session branch %s ENTRY", t, t)
}

// movesLeaf tells whether the file's header says where the leaf is.
func (f *file) movesLeaf() (bool, error) {
	if f.id.Dialect != ompDialect {
		return false, nil
	}
	var leaf storedLeaf
	for r, err := range f.src.records() {
		if err != nil {
			return false, err
		}
		if leaf.see(r); leaf.begun || !r.heads() {
			break
		}
	}
	return leaf.said, nil
}

// sameButLeaf tells whether the lines before the entries of two session files say the same, but for where the leaf is.
func sameButLeaf(a, b []byte) bool {
	return slices.EqualFunc(members(a), members(b), func(a, b map[string]json.RawMessage) bool {
		return maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	})
}

// members are those of the objects of some lines, without the leaf.
func members(text []byte) (lines []map[string]json.RawMessage) {
	for line := range bytes.Lines(text) {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(line, &m) // each is an object
		delete(m, "leaf")
		lines = append(lines, m)
	}
	return lines
}
