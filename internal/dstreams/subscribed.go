package dstreams

import (
	"context"
	"errors"
	"strings"

	"spool/pkg/events"
)

// Control is what names begin with that are no streams: what the protocol keeps for itself.
const Control = "__ds"

// reserved reports whether a name is none of a stream.
func reserved(name string) bool { return name == Control || strings.HasPrefix(name, Control+"/") }

// Tail is where a stream ends.
type Tail struct {
	Offset string
	ID     string // another one for each stream that has had the name; "": there is no stream
	Closed bool
	Rev    uint64 // of the thread's record

	Pending bool // there is no stream yet: it is being made, and its record will say when it is
}

// None is the tail of no stream.
var None = Tail{Offset: offset{}.String()}

// Spelt is the name of the stream that a name is of, as NameOf has it: session for session/main.
func Spelt(name string) (string, error) {
	t, err := threadOf(strings.Trim(name, "/"))
	return nameOf(t), err
}

// NameOf is the name of the stream that is stored in a thread; "": it is none that can be subscribed to.
func NameOf(t events.Thread) string {
	name := nameOf(t)
	if back, err := threadOf(name); err != nil || back != t {
		return ""
	}
	return name
}

// Tail says where the stream of a name ends, with all that this process has appended.
func (h *Handler) Tail(ctx context.Context, name string) (Tail, error) {
	t, err := threadOf(name)
	if err != nil {
		return None, err
	}
	s := h.take(t)
	defer h.drop(s)
	v, err := h.find(ctx, t, s)
	var no *refusal
	switch {
	case errors.As(err, &no):
		return Tail{Offset: None.Offset, Pending: v.Pending}, nil
	case err != nil:
		return None, err
	}
	return Tail{v.tail().String(), v.identity(), v.completed, v.moved, false}, nil
}

// Append appends a JSON value to the stream of a name, which must be there.
func (h *Handler) Append(ctx context.Context, name string, value []byte) error {
	t, err := threadOf(name)
	if err != nil {
		return err
	}
	s := h.take(t)
	defer h.drop(s)
	return h.together(ctx, t, s, &appending{contentType: typeJSON, payload: payload{bytes: value}})
}
