package interchange

import (
	"context"
	"encoding/json"
	"slices"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// fork is where a thread branches off from another one of its session, and the main one from that of the session which it was forked from.
func (x *export) fork(ctx context.Context, of events.Thread) (*forkNote, error) {
	from := x.all
	if of.Name == events.MainThread {
		info, err := x.Client.Internal().SessionInfo(ctx, of.Session)
		if err != nil || info.Parent == "" || info.Parent == of.Session {
			return nil, err
		}
		if from, err = x.Client.Session(info.Parent).Threads(ctx); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(x.all, func(t client.Thread) bool { return t.Thread == of })
	if i < 0 {
		return nil, nil
	}
	return forkOf(ctx, x.Client, x.all[i], from)
}

// isNotes takes a file that holds notes for Spool's own.
func (x *export) isNotes(name string) func([]byte) (bool, error) {
	return func([]byte) (bool, error) {
		raw, err := x.Dir.ReadFile(name)
		var n notes
		return err == nil && json.Unmarshal(raw, &n) == nil && n.Version == notesVersion, err
	}
}

// notes takes down what the file does not say, for the entries that stand in it as they are stored.
func (x *export) notes(ctx context.Context, tree *client.Tree, text []byte, n *notes) error {
	f, err := sessions.Load(text)
	if err != nil {
		return err
	}
	at := map[string][]int{} // the objects of the file by their text
	k := 0
	for raw := range f.Objects() {
		k++
		at[string(raw)] = append(at[string(raw)], k)
	}
	src := x.Client.Internal().Source()
	for step, err := range src.Reader.Entries(ctx, tree.Head) {
		if err != nil {
			return err
		}
		entry := step.State.Entry
		if entry.Full.IsZero() && len(entry.Splices) == 0 {
			continue
		}
		stored, ok, err := src.Stored(ctx, step)
		if err != nil {
			return err
		}
		key := string(trim(stored))
		if !ok || len(at[key]) == 0 {
			continue // it was migrated, or is not in the file
		}
		if err := x.full(ctx, entry); err != nil {
			return err
		}
		if one, ok := about(at[key][0], stored, entry); ok {
			n.Entries = append(n.Entries, one)
		}
		at[key] = at[key][1:]
	}
	return nil
}

// full writes the blob with an entry as it was before a cut, and those that it refers to.
func (x *export) full(ctx context.Context, r threads.Record) error {
	if r.Full.IsZero() {
		return nil
	}
	b, err := x.blob(ctx, r.Full)
	if err != nil || b == nil {
		return err
	}
	return x.refs(ctx, b)
}
