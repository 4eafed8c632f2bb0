package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/runes"
)

// PromptText is the kind of a prompt that any text answers.
const PromptText = "text"

// Prompt is a question to a person (SPEC I8): the members of metadata.prompt, and what to show.
type Prompt struct {
	ID   string
	Kind string // PromptText, PromptApproval or PromptQuestion
	Text string // what to show
	// Deadline in Unix milliseconds: from then on nobody can answer, and an approval counts as denied; 0 = none.
	Deadline int64
	Body     []byte // JSON object of further members, such as {"questions":[…]}, or nil
}

// Item is the post that asks.
func (p Prompt) Item() Item {
	body := p.Body
	if p.Deadline != 0 {
		body = fmt.Appendf(nil, `{"deadline":%d`, p.Deadline)
		_ = jsonscan.Object(p.Body, func(key, value []byte) bool {
			if string(key) != "deadline" {
				body = append(append(jsonscan.AppendString(append(body, ','), string(key)), ':'), value...)
			}
			return true
		})
		body = append(body, '}')
	}
	return PendingPrompt(p.ID, p.Kind, p.Text, body)
}

// ParsePrompt reads the prompt that an item asks or settles; of a Body over 65,536 bytes nothing is kept. ok is false for
// any other item, and for one whose id or kind is missing or has more than 1,024 bytes.
func ParsePrompt(it Item) (p Prompt, ok bool) {
	if it.Type != TypePendingPrompt && it.Type != TypePendingPromptResolved {
		return p, false
	}
	p.Body = jsonscan.Get(it.Metadata, "prompt")
	p.ID, _ = jsonscan.Text(jsonscan.Get(p.Body, "id"))
	p.Kind, _ = jsonscan.Text(jsonscan.Get(p.Body, "kind"))
	p.Deadline, _ = jsonscan.Int(jsonscan.Get(p.Body, "deadline"))
	_ = jsonscan.Array(it.Content, func(part []byte) bool {
		p.Text, _ = jsonscan.Prefix(jsonscan.Get(part, "text"), detailRunes)
		return false
	})
	if len(p.Body) > fieldBytes {
		p.Body = nil
	}
	return p, p.ID != "" && len(p.ID) <= nameBytes && p.Kind != "" && len(p.Kind) <= nameBytes
}

// CheckPrompt refuses an item that asks a prompt which nobody could list or answer. Errors wrap ErrControl.
func CheckPrompt(it Item) error {
	if it.Type != TypePendingPrompt {
		return nil
	}
	if _, ok := ParsePrompt(it); ok {
		deadline := jsonscan.Get(it.Metadata, "prompt", "deadline")
		if n, whole := jsonscan.Int(deadline); deadline == nil || jsonscan.KindOf(deadline) == jsonscan.KindNull || whole && n >= 0 {
			return nil
		}
		return fmt.Errorf("%w: the deadline of a prompt is a time in Unix milliseconds; this one is %.40s", ErrControl, deadline)
	}
	return fmt.Errorf(`%w: an item of the type %s needs "prompt":{"id":…,"kind":…} in its metadata, of at most %d bytes each`,
		ErrControl, it.Type, nameBytes)
}

// ParseResolution reads how an item that settles a prompt says that it was settled.
func ParseResolution(it Item) (r Resolution) {
	raw := jsonscan.Get(it.Metadata, "resolution")
	r.Outcome, _ = jsonscan.Text(jsonscan.Get(raw, "outcome"))
	r.By, _ = jsonscan.Text(jsonscan.Get(raw, "by"))
	r.At, _ = jsonscan.Int(jsonscan.Get(raw, "at"))
	r.Answer = jsonscan.Get(raw, "answer")
	r.Outcome, r.By = runes.Head(r.Outcome, nameBytes), runes.Head(r.By, nameBytes)
	r.Outcome = cmp.Or(r.Outcome, OutcomeAnswered)
	if len(r.Answer) > fieldBytes {
		r.Answer = nil
	}
	return r
}

// JSON is an item as an agent posts it in the dialect "item".
func (it Item) JSON() []byte {
	b := append([]byte(`{"content":`), it.Content...)
	if it.Metadata != nil {
		b = append(append(b, `,"metadata":`...), it.Metadata...)
	}
	return append(b, '}')
}

// Answer settles a prompt.
type Answer struct {
	Prompt string `json:"prompt"` // its id
	// Answer is any JSON value of at most 65,536 bytes. To an approval it is true, false, or an object whose member
	// "approved" is one of these.
	Answer json.RawMessage `json:"answer,omitempty"`
	By     string          `json:"by,omitempty"` // who; else the event's user
	// Expired says that the deadline has passed without an answer. Whoever waits for one posts it.
	Expired bool `json:"expired,omitempty"`
	// Life is the stream sequence of the event that began the thread whose prompt is answered: that of a later thread of its name is
	// another one. 0: whichever waits.
	Life uint64 `json:"life,omitempty"`
}

// ByDeadline is who settles a prompt that nobody answers in time.
const ByDeadline = "deadline"

// The outcomes of a prompt.
const (
	OutcomeAnswered = "answered"
	OutcomeApproved = "approved"
	OutcomeDenied   = "denied"
	OutcomeExpired  = "expired"
)

// Settle decides what an answer that was given at that time (Unix milliseconds; 0 = unknown) makes of a prompt. From its
// deadline on a prompt is settled by it, whatever the answer says, and an approval is denied (SPEC I8): clocks that differ
// can deny, and never approve. Errors wrap ErrControl.
func (p Prompt) Settle(a Answer, at int64) (Resolution, error) {
	if p.Deadline != 0 && at >= p.Deadline {
		r := Resolution{Outcome: OutcomeExpired, By: ByDeadline, At: p.Deadline}
		if p.Kind == PromptApproval {
			r.Outcome = OutcomeDenied
		}
		return r, nil
	}
	r := Resolution{Outcome: OutcomeAnswered, By: a.By, At: at, Answer: a.Answer}
	switch {
	case p.Deadline != 0 && at == 0:
		return r, fmt.Errorf("%w: answer: prompt %q has a deadline; give the event its time", ErrControl, p.ID)
	case a.Expired && p.Deadline == 0:
		return r, fmt.Errorf("%w: answer: prompt %q has no deadline", ErrControl, p.ID)
	case a.Expired:
		return r, fmt.Errorf("%w: answer: the deadline of prompt %q is %s", ErrControl, p.ID,
			time.UnixMilli(p.Deadline).UTC().Format(time.RFC3339Nano))
	case len(a.Answer) == 0:
		return r, fmt.Errorf("%w: answer: prompt %q needs a member \"answer\"", ErrControl, p.ID)
	case len(a.Answer) > fieldBytes:
		return r, fmt.Errorf("%w: answer: %d bytes; at most %d", ErrControl, len(a.Answer), fieldBytes)
	case len(a.By) > nameBytes:
		return r, fmt.Errorf("%w: answer: \"by\" has %d bytes; at most %d", ErrControl, len(a.By), nameBytes)
	case p.Kind != PromptApproval:
		return r, nil
	}
	verdict := []byte(a.Answer)
	if jsonscan.KindOf(verdict) == jsonscan.KindObject {
		verdict = jsonscan.Get(verdict, "approved")
	}
	approved, ok := jsonscan.Bool(verdict)
	if !ok {
		return r, fmt.Errorf("%w: answer: prompt %q wants true or false, or an object with such a member \"approved\"", ErrControl, p.ID)
	}
	r.Outcome = OutcomeDenied
	if approved {
		r.Outcome = OutcomeApproved
	}
	return r, nil
}
