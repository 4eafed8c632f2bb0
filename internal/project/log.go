package project

import (
	"strings"

	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

const (
	logMiddle = "/threads/"
	logEnd    = "/logs/thread.log"
)

// LocalLog is the path under which the full items of a thread can be had (SPEC I5).
func LocalLog(t events.Thread) string { return t.Session + logMiddle + t.Name + logEnd }

// ParseLocalLog is the inverse of LocalLog; ok is false for anything that is no such path.
func ParseLocalLog(path string) (t events.Thread, ok bool) {
	rest, ok := strings.CutSuffix(path, logEnd)
	session, name, found := strings.Cut(rest, logMiddle)
	t = events.Thread{Session: session, Name: name}
	return t, ok && found && t.Validate() == nil
}

// Full makes the items of a stored entry as they were before any budget, each a JSON object. raw is the entry as it was
// before the size rules cut it. An item that could not be posted (SPEC I4) is among them, with the number 0.
func Full(t events.Thread, at casstore.Ref, st threads.State, raw []byte) ([][]byte, error) {
	e, err := reread(t, st, raw)
	if err != nil {
		return nil, err
	}
	s, n := stampOf(t, at, st), st.Entry.First
	all := int64(len(e.Items)) == st.Entry.Count
	out := make([][]byte, len(e.Items))
	for k, it := range s.attach(e.Items) {
		posted := all
		if !all {
			_, _, err := s.Post(it, n, k)
			posted = err == nil
		}
		number := int64(0)
		if posted {
			number, n = n, n+1
		}
		out[k] = join(s.head(number, k, len(it.Content)+len(it.Metadata)), it.Content, it.Metadata)
	}
	return out, nil
}
