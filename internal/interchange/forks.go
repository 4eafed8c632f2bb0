package interchange

import (
	"context"
	"encoding/json"
	"slices"

	"spool/internal/project"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// forkNote says where the thread of a file branches off.
type forkNote struct {
	Thread string `json:"thread"` // session/thread that the file is of
	From   string `json:"from"`   // session/thread that it was forked from
	Lines  int    `json:"lines"`  // that both have: the file's first ones
}

// fork is what a note says; nil if that is nothing.
func (n *forkNote) fork() *transcript.Fork {
	if n == nil {
		return nil
	}
	thread, err := events.ParseThread(n.Thread)
	from, err2 := events.ParseThread(n.From)
	if err != nil || err2 != nil || n.Lines <= 0 {
		return nil
	}
	return &transcript.Fork{Thread: thread, From: from, Lines: n.Lines}
}

// ForkNotes are the notes beside the file of a fork, as spool export writes it; nil for a thread that is none, or whose source is not among
// those that are exported. all are the threads that are exported.
func ForkNotes(ctx context.Context, cl *client.Client, t client.Thread, all []client.Thread) ([]byte, error) {
	fork, err := forkOf(ctx, cl, t, all)
	if err != nil || fork == nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(notes{Version: notesVersion, Fork: fork}, "", " ")
	return append(raw, '\n'), err
}

// forkOf is where a thread branches off from another one of all; nil for nowhere.
func forkOf(ctx context.Context, cl *client.Client, t client.Thread, all []client.Thread) (*forkNote, error) {
	beside := func(x client.Thread) bool {
		if x.Thread == t.Thread || x.Head.Start.Ref != t.Head.Start.Ref {
			return false
		}
		return x.Session == t.Session || t.Name == events.MainThread && x.Name == events.MainThread && t.Head.Dialect == ompDialect
	}
	if events.FormerOf(t.Thread) != "" || !slices.ContainsFunc(all, beside) { // those that share nothing are not read
		return nil, nil
	}
	note, lines, heads := forkNote{}, 0, 0
	for step, err := range cl.Reader().Entries(ctx, t.Head) {
		if err != nil {
			return nil, err
		}
		entry := step.State.Entry
		if step.Role == threads.RoleFork {
			if project.IsOwn(step.State) { // its header says it, and is the one that its file has
				lines, heads = 1+lines-heads, 1
			} else if from, ok := client.ForkedFrom(step.State); ok {
				note = forkNote{Thread: t.Thread.String(), From: from.String(), Lines: lines}
				if from.Session != t.Session { // its file has one header, its own
					note.Lines = 1 + lines - heads
				}
			}
		}
		if d := entry.Dialect; d != "" && d != partDialect && !dialect.IsNote(t.Head.Dialect, d) {
			lines++
			if entry.Type == sessions.TypeHeader || entry.Type == sessions.TypeTitleSlot {
				heads++
			}
		}
	}
	source := func(x client.Thread) bool { return x.Thread.String() == note.From && beside(x) }
	if note.Lines == 0 || !slices.ContainsFunc(all, source) {
		return nil, nil
	}
	return &note, nil
}

// partDialect is that of bytes which stand between two entries in place of a newline (SPEC S6).
const partDialect = "part"
