package record

import "spool/pkg/events"

// Prompt is the value of a prompt's record: open under events.PromptKey, and once it is settled under events.AnsweredKey
// (SPEC I8).
type Prompt struct {
	events.Prompt        // Body is metadata.prompt as it was posted
	Dialect       string // of the entry that asked
	Item          int64  // number of the item that asked; 0 = unknown
	Asked         int64  // Unix milliseconds

	// Of a settled one.
	events.Resolution
	Producer string // of the event that settled it
	Seq      uint64
}

// Settled reports whether there is a resolution.
func (p Prompt) Settled() bool { return p.Outcome != "" }

// Encode is the value's bytes.
func (p Prompt) Encode() []byte {
	return encode(version, p.ID, p.Kind, p.Text, p.Deadline, p.Body, p.Dialect, p.Item, p.Asked,
		p.Outcome, p.By, p.At, []byte(p.Answer), p.Producer, p.Seq)
}

// DecodePrompt reads the value of a prompt's record.
func DecodePrompt(b []byte) (p Prompt, err error) {
	r := open("prompt", b, 15)
	p.ID, p.Kind, p.Text, p.Deadline, p.Body = r.string(), r.string(), r.string(), r.int(), read(r, r.dec.DecodeBytes)
	p.Dialect, p.Item, p.Asked = r.string(), r.int(), r.int()
	p.Outcome, p.By, p.At, p.Answer = r.string(), r.string(), r.int(), read(r, r.dec.DecodeBytes)
	p.Producer, p.Seq = r.string(), uint64(r.int())
	return p, r.err
}
