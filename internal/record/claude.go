package record

import (
	"bytes"
	"encoding/json"
	"fmt"

	"spool/internal/jsonscan"
)

// Claude is what the session store of the Claude Agent SDK calls a thread: its main thread by a project and a session, another one by a
// subpath in that session.
type Claude struct {
	Project string          `json:"project,omitempty"`
	Session string          `json:"session,omitempty"`
	Subpath string          `json:"subpath,omitempty"`
	Summary json.RawMessage `json:"summary,omitempty"` // of the session, as the SDK has made it; nil: none
}

// Encode is the record's value. A summary is not longer in it than it was, but for the two separators of lines that JSON escapes.
func (c Claude) Encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		panic(err) // strings and valid JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// DecodeClaude reads a record's value.
func DecodeClaude(b []byte) (c Claude, err error) {
	if err = jsonscan.Decode(b, &c); err != nil {
		err = fmt.Errorf("%w: claude: %w", ErrValue, err)
	}
	return c, err
}
