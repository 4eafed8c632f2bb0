package sim

import (
	"strings"

	"spool/internal/memjs"
)

// fault makes one message fail: the N-th from when it was told, of those that it is for.
type fault struct {
	op   Op
	left int
}

// hits reports whether an action is one that the fault counts: a request or a publish of an agent (Kind 1), a
// persister (2), or either.
func (f *fault) hits(a memjs.Action) bool {
	if a.Kind != memjs.In || a.Verb != "PUB" {
		return false
	}
	agent, persister := strings.HasPrefix(a.Process, "agent"), strings.HasPrefix(a.Process, "persister")
	return f.op.Kind != 2 && agent || f.op.Kind != 1 && persister
}

func (f *fault) fault() memjs.Fault {
	switch f.op.Do {
	case Refuse:
		if f.op.Ms == 1 {
			return memjs.Fault{Failure: memjs.NoResponders}
		}
		return memjs.Busy
	case DropAsk:
		return memjs.Fault{Failure: memjs.DropRequest}
	case DropTell:
		if f.op.Ms == 1 {
			return memjs.Fault{Failure: memjs.CutAfter}
		}
		return memjs.Fault{Failure: memjs.DropAnswer}
	}
	return memjs.Fault{}
}

var failures = [...]string{"", " REFUSED", " NO RESPONDERS", " LOST", " ANSWER LOST", " CUT BEFORE", " CUT AFTER"}

// line is an action as a trace tells it.
func line(a memjs.Action, f memjs.Fault) string {
	return a.String() + failures[f.Failure]
}
