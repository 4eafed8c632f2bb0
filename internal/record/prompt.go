package record

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"spool/internal/redact"
	"spool/pkg/events"
	"spool/pkg/truncate"
)

// Prompt is the value of a prompt's record: open under events.PromptKey, and once it is settled under events.AnsweredKey
// (SPEC I8).
type Prompt struct {
	events.Prompt        // Body is metadata.prompt as it was posted
	Dialect       string // of the entry that asked
	Item          int64  // number of the item that asked; 0 = unknown
	Asked         int64  // Unix milliseconds
	// Life is the stream sequence of the event that began the thread that asked (threads.Head.Began): an earlier thread of its name has
	// another one. 0: a version wrote it that did not say so.
	Life uint64

	// Of a settled one.
	events.Resolution
	Producer string // of the event that settled it
	Seq      uint64
}

// Settled reports whether there is a resolution.
func (p Prompt) Settled() bool { return p.Outcome != "" }

// Encode is the value's bytes.
func (p Prompt) Encode() []byte {
	fields := []any{version, p.ID, p.Kind, p.Text, p.Deadline, p.Body, p.Dialect, p.Item, p.Asked,
		p.Outcome, p.By, p.At, []byte(p.Answer), p.Producer, p.Seq}
	if p.Life != 0 {
		fields = append(fields, p.Life)
	}
	return encode(fields...)
}

// DecodePrompt reads the value of a prompt's record.
func DecodePrompt(b []byte) (p Prompt, err error) {
	r := open("prompt", b, 15)
	p.ID, p.Kind, p.Text, p.Deadline, p.Body = r.string(), r.string(), r.string(), r.int(), read(r, r.dec.DecodeBytes)
	p.Dialect, p.Item, p.Asked = r.string(), r.int(), r.int()
	p.Outcome, p.By, p.At, p.Answer = r.string(), r.string(), r.int(), read(r, r.dec.DecodeBytes)
	p.Producer, p.Seq = r.string(), uint64(r.int())
	if r.err == nil && r.members > 15 {
		p.Life = uint64(r.int())
	}
	return p, r.err
}

// InLife reports whether the thread that a life began asked, as far as both are known; 0 is unknown.
func (p Prompt) InLife(life uint64) bool { return p.Life == 0 || life == 0 || p.Life == life }

// IsOf reports whether two prompts of an id are of one life of their thread, or, where one of them does not say which, may
// be: then it is one question.
func (p Prompt) IsOf(q Prompt) bool {
	if p.Life != 0 && q.Life != 0 {
		return p.Life == q.Life
	}
	return p.Asks(q.Prompt)
}

// Asks reports whether q is the question that p was, but for its deadline, which each attempt counts anew. Where p does
// not say what was asked, it may have been q: a body too large for the record, a masked secret, a prompt that an entry
// settled.
func (p Prompt) Asks(q events.Prompt) bool {
	q, ok := events.ParsePrompt(q.Item()) // as an entry says it
	switch {
	case !ok || p.ID != q.ID || p.Kind != q.Kind:
		return false
	case p.Settled() && p.Producer == "": // its text and body are of the item that settled it
		return true
	}
	return sameText(p.Text, q.Text) && sameBody(p.Body, q.Body)
}

func sameBody(stored, asked []byte) bool {
	if stored == nil || asked == nil { // too large
		return true
	}
	var a, b map[string]any
	if json.Unmarshal(stored, &a) != nil || json.Unmarshal(asked, &b) != nil {
		return false
	}
	delete(a, "deadline")
	delete(b, "deadline")
	return same(a, b)
}

func same(stored, asked any) bool {
	switch a := stored.(type) {
	case string:
		b, ok := asked.(string)
		return ok && sameText(a, b)
	case []any:
		b, ok := asked.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := asked.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	}
	return stored == asked
}

// sameText compares only what is before the first secret of a masked text, and nothing of an image that was moved out.
func sameText(stored, asked string) bool {
	before, _, cut := strings.Cut(stored, redact.Mark)
	return stored == asked || truncate.IsRef(stored) || cut && strings.HasPrefix(asked, before)
}
