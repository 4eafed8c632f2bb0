// Package step reads role steps of a workflow (seed 004): what its extract phase makes of an agent's output.
//
//	{"role":"coder","meta":{…},"content":"…","refs":["blob:sha256:…"],"timestamp":1795176001000,"compact":"…"}
//
// content may be called contentPayload, as the seed does; it and every member but role may be absent. refs name what the
// content refers to, as blob or node; a node may be followed by "@" and the pack that holds it. compact is the text of a
// summary of everything before this step, firstKept the first step that stays in context beside it (SPEC C6).
//
//	any role      text, with the role and meta in its metadata; no item without content
//	"__compact__" status compacting_context: it does nothing but summarize
//	"__end__"     status ended, with returnCode in its metadata; meta must be {"returnCode":0,"summary":"…"} (SPEC I7)
//
// The shape is Spool's contract, so a wrong one is an error that says what to send (SPEC B2).
package step

import (
	"fmt"
	"strings"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/pkg/dialect/entry"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// ErrStep is wrapped by every refusal of Read.
var ErrStep = family.Invalid.New("bad step")

// Limits of what a step may say about itself.
const (
	maxRole = 256   // bytes
	maxRefs = 4_096 // refs of one step
)

// Dialect is the dialect "step".
type Dialect struct{}

// Name is "step".
func (Dialect) Name() string { return "step" }

// Version is the version of the mapping.
func (Dialect) Version() int { return 1 }

// members are those of a step, raw.
type members struct {
	id, role, meta, content, refs, timestamp, compact, firstKept []byte
}

// Read takes one step. The error is ErrStep.
func (Dialect) Read(raw []byte, m *entry.Memory) (entry.Entry, error) {
	if m != nil {
		m.Begin()
	}
	in, err := scan(raw)
	if err != nil {
		return entry.Entry{}, err
	}
	var e entry.Entry
	if e.Role, err = role(in.role); err != nil {
		return entry.Entry{}, err
	}
	e.Type, e.Known = "step", true
	e.ID = parts.ID(in.id)
	e.Time = parts.Time(in.timestamp)
	e.Meta = in.meta
	content, err := text("content", in.content)
	if err != nil {
		return entry.Entry{}, err
	}
	e.Content = []byte(content)
	if e.Compact, err = text("compact", in.compact); err != nil {
		return entry.Entry{}, err
	}
	if e.Kept, err = text("firstKept", in.firstKept); err != nil {
		return entry.Entry{}, err
	}
	if e.Refs, err = refs(in.refs); err != nil {
		return entry.Entry{}, err
	}
	if e.Role == entry.RoleEnd {
		e.Type = "step.end"
		err = end(&e)
		return e, err
	}
	if e.Role == entry.RoleCompact {
		e.Items = []events.Item{events.Status("compacting_context", "", "Compacting context...")}
		return e, nil
	}
	if content != "" {
		extra := []events.Field{{Name: "role", Value: in.role}}
		if in.meta != nil {
			extra = append(extra, events.Field{Name: "meta", Value: in.meta})
		}
		e.Items = []events.Item{events.Text(in.content, extra...)}
	}
	return e, nil
}

func scan(raw []byte) (in members, err error) {
	if jsonscan.KindOf(raw) != jsonscan.KindObject {
		return in, fmt.Errorf("%w: not a JSON object; send {\"role\":…,\"content\":…,\"meta\":{…},\"refs\":[…]}", ErrStep)
	}
	fields := []jsonscan.Field{
		{Key: "id", To: &in.id}, {Key: "role", To: &in.role}, {Key: "meta", To: &in.meta}, {Key: "content", To: &in.content},
		{Key: "contentPayload", To: &in.content}, {Key: "refs", To: &in.refs}, {Key: "timestamp", To: &in.timestamp},
		{Key: "compact", To: &in.compact}, {Key: "firstKept", To: &in.firstKept},
	}
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		if jsonscan.KindOf(value) != jsonscan.KindNull {
			jsonscan.Give(fields, key, value)
		}
		return true
	})
	if in.meta != nil && jsonscan.KindOf(in.meta) != jsonscan.KindObject {
		return in, fmt.Errorf("%w: meta must be an object", ErrStep)
	}
	return in, nil
}

func role(token []byte) (string, error) {
	s := parts.Text(token)
	switch {
	case s == "":
		return "", fmt.Errorf("%w: role must be a string that is not empty", ErrStep)
	case len(s) > maxRole:
		return "", fmt.Errorf("%w: role has %d bytes; use at most %d", ErrStep, len(s), maxRole)
	}
	return s, nil
}

func text(member string, token []byte) (string, error) {
	if token == nil {
		return "", nil
	}
	s, ok := jsonscan.Text(token)
	if !ok {
		return "", fmt.Errorf("%w: %s must be a string; put structure into meta", ErrStep, member)
	}
	return s, nil
}

// refs reads references, each of the kind and hash it says.
func refs(raw []byte) (list []string, err error) {
	if raw == nil {
		return nil, nil
	}
	if jsonscan.KindOf(raw) != jsonscan.KindArray {
		return nil, fmt.Errorf("%w: refs must be an array of strings", ErrStep)
	}
	_ = jsonscan.Array(raw, func(value []byte) bool {
		s := parts.Text(value)
		switch {
		case !isRef(s):
			err = fmt.Errorf("%w: refs[%d] is %.80q; use blob:sha256:<64 hex>, node:sha256:<64 hex> or node:sha256:<64 hex>@<32 hex of its pack>",
				ErrStep, len(list), s)
		case len(list) == maxRefs:
			err = fmt.Errorf("%w: more than %d refs", ErrStep, maxRefs)
		}
		list = append(list, s)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func isRef(s string) bool {
	ref, pack, located := strings.Cut(s, "@")
	kind, sum := "", ""
	if len(ref) == len("blob:sha256:")+64 {
		kind, sum = ref[:len("blob:")], ref[len("blob:sha256:"):]
	}
	switch {
	case !strings.HasPrefix(ref, kind+"sha256:") || !isHex(sum, 64):
		return false
	case located:
		return kind == "node:" && isHex(pack, 32)
	}
	return kind == "blob:" || kind == "node:"
}

func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// end checks and posts the last step of a thread.
func end(e *entry.Entry) error {
	code := jsonscan.Get(e.Meta, "returnCode")
	if _, ok := jsonscan.Int(code); code == nil || !ok {
		*e = entry.Entry{}
		return fmt.Errorf("%w: role __end__ needs meta.returnCode, an integer", ErrStep)
	}
	summary, err := text("meta.summary", jsonscan.Get(e.Meta, "summary"))
	if err != nil {
		*e = entry.Entry{}
		return err
	}
	brief := "Ended"
	if summary != "" {
		brief += ": " + summary
	}
	e.Items = []events.Item{events.Status("ended", summary, brief, events.Field{Name: "returnCode", Value: code})}
	return nil
}
