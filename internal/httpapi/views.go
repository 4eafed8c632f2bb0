package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"

	"spool/internal/jsonscan"
	"spool/pkg/client"
	"spool/pkg/events"
)

// What programs read: each type here is a schema of schemas.json.

// itemOut is an item and where it is.
type itemOut struct {
	N       int64           `json:"n"`
	Session string          `json:"session"`
	Thread  string          `json:"thread"`
	Hash    string          `json:"hash"` // of its state
	Subject string          `json:"subject"`
	Time    string          `json:"time,omitempty"`
	Item    json.RawMessage `json:"item"`
}

// itemOf describes an item by its JSON.
func itemOf(raw []byte) itemOut {
	out := itemOut{Item: raw}
	var kind, detail string
	_ = jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "n":
			out.N, _ = jsonscan.Int(value)
		case "session":
			out.Session, _ = jsonscan.Text(value)
		case "thread":
			out.Thread, _ = jsonscan.Text(value)
		case "node":
			out.Hash, _ = jsonscan.Text(value)
		case "created_at":
			out.Time, _ = jsonscan.Text(value)
		case "metadata":
			kind, detail = kindOf(value)
		}
		return true
	})
	out.Subject = events.ItemSubject(events.Thread{Session: out.Session, Name: out.Thread}, kind, detail)
	return out
}

// kindOf is the type of an item, "" for a user's post, and its detail: a tool's name, ok or error.
func kindOf(metadata []byte) (kind, detail string) {
	kind, _ = jsonscan.Text(jsonscan.Get(metadata, "type"))
	switch kind {
	case events.TypeToolCall:
		detail, _ = jsonscan.Text(jsonscan.Get(metadata, "tool", "name"))
	case events.TypeToolResult:
		detail = "ok"
		if failed, _ := jsonscan.Bool(jsonscan.Get(metadata, "tool", "is_error")); failed {
			detail = "error"
		}
	}
	return kind, detail
}

// resetJSON says why a reader begins anew, and under which name.
func resetJSON(gone error) []byte {
	out := struct {
		Reason  string `json:"reason"` // removed, renamed, replaced, trimmed
		Session string `json:"session,omitempty"`
		Thread  string `json:"thread,omitempty"` // its name now
		Message string `json:"message"`
	}{Reason: "removed", Message: gone.Error()}
	var renamed *client.Renamed
	if errors.As(gone, &renamed) {
		out.Reason, out.Session, out.Thread = "renamed", renamed.To.Session, renamed.To.Name
	}
	return encode(out)
}

// encode is JSON on one line, without a newline behind it.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // structs of strings, numbers and valid JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
