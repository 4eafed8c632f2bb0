package view

import (
	"encoding/json"

	"spool/internal/jsonscan"
	"spool/pkg/events"
)

// Item is an item and where it is.
type Item struct {
	N       int64           `json:"n"`
	Session string          `json:"session"`
	Thread  string          `json:"thread"`
	Hash    string          `json:"hash"` // of its state
	Subject string          `json:"subject"`
	Time    string          `json:"time,omitempty"`
	Item    json.RawMessage `json:"item"`
}

// OfItem describes an item by its JSON.
func OfItem(raw []byte) Item {
	out := Item{Item: raw}
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
			kind, detail = ItemKind(value)
		}
		return true
	})
	out.Subject = events.ItemSubject(events.Thread{Session: out.Session, Name: out.Thread}, kind, detail)
	return out
}

// ItemKind is the type of an item, "" for a user's post, and its detail: a tool's name, ok or error.
func ItemKind(metadata []byte) (kind, detail string) {
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

// IsPicture reports a media type that a picture of an item is given as; any other is bytes, which no browser is to show.
func IsPicture(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}
