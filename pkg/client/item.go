package client

import (
	"errors"
	"fmt"

	"spool/internal/jsonscan"
)

// errItem: the payload of a message in SPOOL_ITEMS is no item.
var errItem = errors.New("item is not as it should be")

// parseItem reads an item. A reader that is behind spends most of its time here: by its members it takes half of what
// reflection takes. The result aliases data.
func parseItem(data []byte) (it Item, err error) {
	if err := jsonscan.Valid(data); err != nil {
		return Item{}, fmt.Errorf("item: %w", err)
	}
	if jsonscan.KindOf(data) != jsonscan.KindObject {
		return Item{}, fmt.Errorf("%w: no object", errItem)
	}
	it.Raw = data
	bad := ""
	_ = jsonscan.Object(data, func(key, v []byte) bool {
		if jsonscan.KindOf(v) == jsonscan.KindNull {
			return true
		}
		ok := true
		switch string(key) {
		case "id":
			it.ID, ok = jsonscan.Text(v)
		case "n":
			it.N, ok = jsonscan.Int(v)
		case "session":
			it.Session, ok = jsonscan.Text(v)
		case "thread":
			it.Thread, ok = jsonscan.Text(v)
		case "user_id":
			it.User, ok = jsonscan.Text(v)
		case "claimed_user":
			it.Claimed, ok = jsonscan.Text(v)
		case "created_at":
			it.CreatedAt, ok = jsonscan.Text(v)
		case "node":
			it.Node, ok = jsonscan.Text(v)
		case "source":
			it.Source, ok = jsonscan.Text(v)
		case "content":
			it.Content, ok = parseParts(v)
		case "metadata":
			it.Metadata = v
		}
		if !ok {
			bad = string(key)
		}
		return ok
	})
	if bad != "" {
		return Item{}, fmt.Errorf("%w: its %q is of another type", errItem, bad)
	}
	return it, nil
}

func parseParts(v []byte) (parts []Part, ok bool) {
	if jsonscan.KindOf(v) != jsonscan.KindArray {
		return nil, false
	}
	parts = []Part{}
	ok = true
	_ = jsonscan.Array(v, func(p []byte) bool {
		var part Part
		typ, text := jsonscan.Get(p, "type"), jsonscan.Get(p, "text")
		if typ != nil {
			part.Type, ok = jsonscan.Text(typ)
		}
		if ok && jsonscan.KindOf(text) == jsonscan.KindString {
			part.Text, ok = jsonscan.Text(text)
		}
		parts = append(parts, part)
		return ok
	})
	return parts, ok
}
