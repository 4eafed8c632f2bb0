package project

import (
	"context"
	"iter"
	"slices"

	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Most of what Inherit reads: states to count them, and entries to see where the last of them leaves a thread.
const (
	mostCounted = 2000
	mostReread  = 100
)

// Inherit notes in the head of a fork that goes on from a point of its source what a listing shows of the entries on
// the way to that point (SPEC S10). It counts from the point to the source's head or to the beginning, whichever is
// nearer. It reads mostCounted states and takes the rest to be like them. With an error the head has what could be read.
func Inherit(ctx context.Context, r threads.Reader, t events.Thread, source threads.Head, h *threads.Head) error {
	point := h.Head()
	if point.IsZero() {
		return nil
	}
	after := source.Entries - h.Entries
	straight := source.Branches() == 0 && !source.Head().IsZero() // else there are entries that are on no way to the head
	if straight && point.Ref == source.Head().Ref {
		h.Messages, h.Standing = source.Messages, source.Standing
		return nil
	}
	var err error
	if straight && after < h.Entries {
		var behind int64
		behind, err = messages(r.Walk(ctx, source.Head()), point.Ref, after)
		h.Messages = max(source.Messages-behind, 0)
	} else {
		steps := r.Walk(ctx, point)
		if h.Branches() > 0 {
			steps = r.EntriesBack(ctx, *h)
		}
		h.Messages, err = messages(steps, casstore.Ref{}, h.Entries)
	}
	if err != nil {
		return err
	}
	h.Standing, err = standingAt(ctx, r, t, point)
	return err
}

// Heir is what is known of a session that goes on from another one; heir is that as sessions.Info.Heir has it, and had what the session has
// if it is stored. own: its harness forked it, and its own header says what it is called and where it is (OwnHeader); said: somebody says
// something up to where it goes on, else the first prompt is one of its own.
func Heir(had sessions.Info, stored bool, heir sessions.Info, own, said bool) sessions.Info {
	if own {
		heir.Title, heir.TitleSource, heir.Cwd, heir.Named, heir.Moved = "", "", "", false, false
		if !said {
			heir.Prompt, heir.Summary, heir.Answered = "", "", false
		}
	}
	if !stored {
		return heir
	}
	had.Prompt, had.Summary = heir.Prompt, heir.Summary
	if !had.Named {
		had.Title, had.TitleSource = "", ""
	}
	return had
}

// OwnHeader is what the header says of a session that its harness forked.
func OwnHeader(header []byte) (e dialect.Entry) {
	if d, ok := dialect.Lookup("omp"); ok {
		e, _ = d.Read(header, nil)
	}
	return e
}

// messages counts the states before the one given in which somebody says something; all is how many they are at most.
func messages(steps iter.Seq2[threads.Step, error], until casstore.Ref, all int64) (n int64, err error) {
	read := int64(0)
	for s, e := range steps {
		if err = e; err != nil || s.At.Ref == until {
			break
		}
		if read == mostCounted {
			return n * all / read, nil
		}
		read++
		if says(s.Entry.Type, s.Role) {
			n++
		}
	}
	return n, err
}

// standingAt is where the entries up to a state leave the thread: it goes back to one that says so whatever was before.
func standingAt(ctx context.Context, r threads.Reader, t events.Thread, at casstore.Located) (uint8, error) {
	var behind []dialect.Entry
	steps := 0
	for step, err := range r.Walk(ctx, at) {
		if err != nil {
			return 0, err
		}
		if steps++; steps > mostReread {
			break
		}
		content, err := step.ReadContent(ctx)
		if err != nil {
			return 0, err
		}
		e, _, err := reread(t, step.State, written(step.State, content.Text))
		if err != nil {
			continue // none of an agent, such as where a fork begins
		}
		behind = append(behind, e)
		if standing(sessions.StatusUnknown, &e) == standing(sessions.StatusAborted, &e) {
			break
		}
	}
	status := sessions.StatusUnknown
	for _, e := range slices.Backward(behind) {
		status = standing(status, &e)
	}
	return uint8(status), nil
}
