package events

import (
	"cmp"
	"encoding/hex"
)

// FormerThread is the name under which a thread is kept whose source was rewritten (SPEC P6): hash, in hex, is that of what it
// held.
func FormerThread(t Thread, hash string) Thread {
	t.Name = formerName(t.Name) + former + hash[:formerHex]
	return t
}

// FormerOf is the name that a thread had before FormerThread gave it its own; "" for a thread that is in use. Of a very
// long name it is the beginning.
func FormerOf(t Thread) string {
	at := len(t.Name) - len(former) - formerHex
	if at <= 0 || t.Name[at:at+len(former)] != former {
		return ""
	}
	if _, err := hex.DecodeString(t.Name[at+len(former):]); err != nil {
		return ""
	}
	return t.Name[:at]
}

// HasFormer tells whether a thread is a former one of t.
func HasFormer(t, of Thread) bool {
	return t.Session == of.Session && FormerOf(of) == formerName(t.Name)
}

// AreGenerations tells whether two threads are, or were, the same one.
func AreGenerations(a, b Thread) bool {
	name := func(t Thread) string { return formerName(cmp.Or(FormerOf(t), t.Name)) }
	return a.Session == b.Session && name(a) == name(b)
}

func formerName(name string) string { return name[:min(len(name), MaxToken-len(former)-formerHex)] }

const (
	former    = "-was-"
	formerHex = 8
)
