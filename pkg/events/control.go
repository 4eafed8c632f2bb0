package events

import (
	"bytes"
	"encoding/json"
	"fmt"

	"spool/internal/family"
	"spool/internal/jsonscan"
)

// Op names a control operation.
type Op string

// The operations that a persister applies in order with the entries of the thread (DESIGN 3).
const (
	OpStart Op = "start" // first event of a thread: workflow parameters (SPEC C1)
	OpFork  Op = "fork"  // first event of a thread: where it leaves its source (SPEC C5)
	OpTail  Op = "tail"  // what a transcript file held after its last complete line (SPEC X1)
	OpEnd   Op = "end"   // last event of a thread: completed (SPEC C4, I7)
	// OpAnswer settles a prompt of the thread; the first one does (SPEC I8).
	OpAnswer Op = "answer"
)

// Control is the body of a control event, as JSON.
type Control struct {
	Op Op `json:"op"`

	Start *Start `json:"start,omitempty"`
	Fork  *Fork  `json:"fork,omitempty"`
	Tail  *Tail  `json:"tail,omitempty"`
	End   *End   `json:"end,omitempty"`

	Answer *Answer `json:"answer,omitempty"`

	Run *Run `json:"run,omitempty"`

	Branch  *Branch  `json:"branch,omitempty"`
	Reset   *Reset   `json:"reset,omitempty"`
	Label   *Label   `json:"label,omitempty"`
	Summary *Summary `json:"branch_summary,omitempty"`
	Append  *Append  `json:"append,omitempty"`

	Compact *Compact `json:"compact,omitempty"`
	Rename  *Rename  `json:"rename,omitempty"`
	Reopen  *Reopen  `json:"reopen,omitempty"`
	Remove  *Remove  `json:"remove,omitempty"`
	Delete  *Delete  `json:"delete,omitempty"`

	Name *Name `json:"name,omitempty"`
	Move *Move `json:"move,omitempty"`
}

// Start holds the parameters of a thread's start node (SPEC C1).
type Start struct {
	Name      string `json:"name"`
	Hash      string `json:"hash,omitempty"`
	MaxRounds int    `json:"maxRounds,omitempty"`
	Depth     int    `json:"depth,omitempty"`
	Prompt    string `json:"prompt,omitempty"`
}

// Fork says where a new thread leaves its source. At most one point is given; without one it is the step before the last.
type Fork struct {
	Session string `json:"session"`
	Thread  string `json:"thread"`
	Index   int64  `json:"index,omitempty"` // position of an entry, from 1
	Item    int64  `json:"item,omitempty"`  // number of an item, from 1: the entry that made it
	Node    string `json:"node,omitempty"`  // node:sha256:… of a state
	Entry   string `json:"entry,omitempty"` // the entry's id in its source
	Role    string `json:"role,omitempty"`  // the first step of this role

	// Whole takes the thread as it is, with its branches and its leaf (SPEC S9); with a point as it was when that was the newest state.
	Whole bool `json:"whole,omitempty"`
	// Header is the header of an omp session that the new one has instead of its source's; its id is the new session's.
	Header json.RawMessage `json:"header,omitempty"`
	// Own: who made the new session numbers its artifacts and agents itself. It gets those of its source alone that entries name by their ids.
	Own bool `json:"own,omitempty"`
}

// Point reports whether a fork names a point of its source; else it is the source's head, or all of it.
func (f *Fork) Point() bool {
	return f.Index != 0 || f.Item != 0 || f.Node != "" || f.Entry != "" || f.Role != ""
}

// Tail holds the bytes of a transcript file behind its last complete line, so that its export is the same to the byte. It
// says something only while it is the newest thing in its thread: a file that grew makes it history.
type Tail struct {
	// Open is true when the last entry's line has no newline yet.
	Open bool `json:"open,omitempty"`
	// Bytes is an incomplete last line.
	Bytes []byte `json:"bytes,omitempty"`
}

// End is how a thread ended (SPEC I7).
type End struct {
	ReturnCode int    `json:"returnCode"`
	Summary    string `json:"summary,omitempty"`
}

// ErrControl is wrapped by every control body that cannot be applied.
var ErrControl = family.Invalid.New("bad control operation")

// ParseControl reads the body of a control event.
func ParseControl(body []byte) (Control, error) {
	var c Control
	if err := jsonscan.Decode(body, &c); err != nil {
		return c, fmt.Errorf("%w: %w", ErrControl, err)
	}
	var arg bool
	switch c.Op {
	case OpStart:
		arg = c.Start != nil
	case OpFork:
		arg = c.Fork != nil
	case OpTail:
		arg = c.Tail != nil
	case OpEnd:
		arg = c.End != nil
	case OpAnswer:
		arg = c.Answer != nil
	case OpRun:
		arg = c.Run != nil
	case OpBranch:
		arg = c.Branch != nil
	case OpReset:
		arg = c.Reset != nil
	case OpLabel:
		arg = c.Label != nil
	case OpSummary:
		arg = c.Summary != nil
	case OpAppend:
		arg = c.Append != nil
	case OpCompact:
		arg = c.Compact != nil
	case OpRename:
		arg = c.Rename != nil
	case OpReopen:
		arg = c.Reopen != nil
	case OpRemove:
		arg = c.Remove != nil
	case OpDelete:
		arg = c.Delete != nil
	case OpName:
		arg = c.Name != nil
	case OpMove:
		arg = c.Move != nil
	default:
		return c, fmt.Errorf("%w: op %q; this version knows start, fork, tail, end, answer, run, branch, reset, label, "+
			"branch_summary, append, compact, rename, reopen, remove, delete, name and move", ErrControl, c.Op)
	}
	if !arg {
		return c, fmt.Errorf("%w: op %q needs a member %q", ErrControl, c.Op, c.Op)
	}
	return c, nil
}

// Encode is the JSON body. Raw members must be valid JSON.
func (c Control) Encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // raw members keep their spelling (SPEC T11)
	if err := enc.Encode(c); err != nil {
		panic(err) // strings, integers, bytes and valid JSON always marshal
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
