package sim

import (
	"maps"
	"slices"
	"strings"

	"spool/pkg/events"
)

func identityOf(e *events.Event) identity { return identity{e.Thread, e.Producer, e.Epoch, e.Seq} }

// leaves reports whether an operation takes a thread from its name: it does so once.
func leaves(op *events.Control) bool {
	return op != nil && (op.Op == events.OpRemove || op.Op == events.OpRename)
}

// refused notes an operation that was refused, or an event for a thread that has another name now. What no thread notes
// stays refused.
func (m *model) refused(e *events.Event, t *life) {
	m.note(e, t)
	if t == nil {
		m.nowhere[identityOf(e)] = true
	}
}

// leaves has a thread leave its name, under which stays known what it had seen, and those that had the name before.
func (m *model) leaves(name events.Thread, to string, t *life) {
	l := &left{to: to, by: t, own: t.seen.clone(), had: t.seen.clone(), seen: t.seen.clone(), noted: maps.Clone(t.noted)}
	if was := m.lefts[name]; was != nil {
		l.earlier = true
		l.had.inherit(was.had)
		maps.Copy(l.noted, was.noted)
		l.seen.inherit(was.seen)
	}
	m.lefts[name] = l
	delete(m.threads, name)
}

// takes has a thread take a name that was renamed to its own. If it is that thread, it has its name back, and those
// before it stay known. Else that one was removed meanwhile, and stays known too.
func (m *model) takes(name events.Thread, l *left, t *life) {
	if l.by == t && !l.earlier {
		t.seen.inherit(l.seen) // with what the name refused meanwhile
		delete(m.lefts, name)
		return
	}
	m.lefts[name] = &left{had: l.had, seen: l.seen, noted: l.noted}
}

// fork begins a thread with what another one has.
func (m *model) fork(e *events.Event, f *events.Fork, t *life, at uint64) {
	if t != nil {
		m.fail("the fork at %d into %s, which exists, is no dead letter", at, e.Thread)
		return
	}
	_, t = m.begin(e, nil)
	t.forked = true
	m.note(e, t)
	source := m.threads[events.Thread{Session: f.Session, Name: f.Thread}]
	switch {
	case f.Session != e.Thread.Session:
		t.foreign = true
	case source == nil:
		m.fail("the fork at %d of %s, which is not there, is no dead letter", at, f.Thread)
	default:
		t.held, t.foreign = slices.Clone(source.held), source.foreign
	}
}

// delete removes a session, or is a repeat of what did.
func (m *model) delete(e *events.Event, op *events.Delete, at uint64, letter bool) {
	id := identity{events.Thread{Session: e.Thread.Session}, e.Producer, e.Epoch, e.Seq}
	was, known := m.deletes[id]
	switch {
	case letter && m.deleted[at]:
		m.fail("the deletion of %s at %d was carried out, and is a dead letter", e.Thread.Session, at)
	case known && was != *op && !letter && m.emptied[e.Thread.Session] < at:
		m.fail("the deletion of %s at %d has the sequence of another one, and is no dead letter", e.Thread.Session, at)
	}
	if known || letter || op.UnchangedSince > 0 && !m.deleted[at] {
		return
	}
	m.deletes[id] = *op
	delete(m.missing, e.Thread.Session)
	maps.DeleteFunc(m.nowhere, func(id identity, _ bool) bool { return id.thread.Session == e.Thread.Session })
	for name, t := range m.threads {
		if name.Session == e.Thread.Session {
			t.gone = true
			m.pastOf(name, t.seen)
			delete(m.threads, name)
		}
	}
	for name, l := range m.lefts {
		if name.Session == e.Thread.Session {
			m.pastOf(name, l.seen)
			delete(m.lefts, name)
		}
	}
}

func (m *model) pastOf(name events.Thread, seen producers) {
	if m.past[name] == nil {
		m.past[name] = producers{}
	}
	m.past[name].inherit(seen) // the thread of the name may have seen more than those before it, or less
}

// inherit adds what others had seen: of a producer that both know, the later event.
func (p producers) inherit(from producers) {
	for id, at := range from {
		if now, ok := p[id]; !ok || now.epoch < at.epoch || now.epoch == at.epoch && now.seq < at.seq {
			p[id] = at
		}
	}
}

func (p producers) clone() producers {
	out := producers{}
	maps.Copy(out, p)
	return out
}

// begin gives the event's thread, which begins with it if there is none.
func (m *model) begin(e *events.Event, t *life) (*events.Event, *life) {
	if t == nil {
		t = &life{thread: e.Thread, began: m.at, seen: producers{}, noted: map[identity]string{}}
		m.threads[e.Thread] = t
		m.lives = append(m.lives, t)
	}
	return e, t
}

func (m *model) note(e *events.Event, t *life) {
	if t != nil {
		if id := inLife(e); t.noted[id] == "" {
			t.noted[id] = says(e)
		}
		t.seen.note(e)
	} else if gone := m.lefts[e.Thread]; gone != nil {
		gone.seen.note(e)
	} else {
		if m.past[e.Thread] == nil {
			m.past[e.Thread] = producers{}
		}
		m.past[e.Thread].note(e)
	}
}

// unfit reports whether a letter may be that of a valid event: its thread takes nothing because it has grown beyond a
// record (SPEC P11), or so many persisters died over it alone, of which none was through with it.
func (m *model) unfit(at uint64, reason string) bool {
	return m.small && strings.Contains(reason, "too large to be stored") ||
		strings.Contains(reason, "died while they tried it alone") && len(m.tried[at]) >= enoughDied
}

func what(e *events.Event, mark string) string {
	if op := operation(e); op != nil {
		return string(op.Op)
	}
	return mark
}
