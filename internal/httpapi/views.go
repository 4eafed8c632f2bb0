package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"

	"spool/pkg/client"
)

// What programs read: each type here is a schema of schemas.json.

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
