package project

import (
	"context"

	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Relearn makes the record of a session again from its main thread: what the entries said of it when they came (Learn). Where the thread
// goes on from one of another session, of tells what is known of that now. Entries that cannot be read again say nothing.
func Relearn(
	ctx context.Context, r threads.Reader, t events.Thread, head threads.Head, of func(session string) (sessions.Info, error),
) (info sessions.Info, err error) {
	info = sessions.Info{ID: t.Session, Created: head.Created}
	first, said := true, false
	for step, err := range r.Entries(ctx, head) {
		if err != nil {
			return info, err
		}
		e := dialect.Entry{}
		if from := forkedFrom(step.State); from != "" && from != t.Session {
			source, err := of(from)
			if err != nil {
				return info, err
			}
			own := IsOwn(step.State)
			if own {
				content, err := step.ReadContent(ctx)
				if err != nil {
					return info, err
				}
				e = OwnHeader(content.Text)
			}
			info = Heir(sessions.Info{}, false, source.Heir(t.Session, head.Created), own, said)
			info.ForkOf(from, source)
			e.Session.Parent, first = from, false
			info.User = step.Entry.User
		} else if e, err = entryOf(ctx, t, step); err != nil {
			return info, err
		}
		if first {
			info.User = step.Entry.User
		}
		said = said || says(e.Type, e.Role)
		Learn(&info, &e, true, first)
		first = false
	}
	return info, nil
}

// entryOf reads an entry again; one that cannot be is empty.
func entryOf(ctx context.Context, t events.Thread, step threads.Step) (e dialect.Entry, err error) {
	content, err := step.ReadContent(ctx)
	if err != nil {
		return e, err
	}
	if again, _, err := reread(t, step.State, written(step.State, content.Text)); err == nil {
		e = again
	}
	return e, nil
}

// IsOwn tells whether a state begins a session that its harness forked, and has a file of it.
func IsOwn(st threads.State) bool {
	meta, err := casstore.DecodeValue(st.Meta)
	m, _ := meta.(map[string]any)
	own, _ := m["own"].(bool)
	return err == nil && own && st.Role == threads.RoleFork
}

// forkedFrom is the session of the thread that goes on from a state on; "": it goes on from none.
func forkedFrom(st threads.State) string {
	if st.Role != threads.RoleFork {
		return ""
	}
	meta, err := casstore.DecodeValue(st.Meta)
	said, _ := meta.(map[string]any)
	from, _ := said["from"].(string)
	source, bad := events.ParseThread(from)
	if err != nil || bad != nil {
		return ""
	}
	return source.Session
}
