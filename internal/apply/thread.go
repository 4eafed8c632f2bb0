package apply

import (
	"context"
	"fmt"
	"slices"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// whole applies an operation on a thread as a whole.
func (d *draft) whole(ctx context.Context, op events.Control) error {
	if d.Head.Start.IsZero() && !(op.Op == events.OpRemove && d.st.Unread) {
		return fmt.Errorf("%w: %s: there is no thread %s", events.ErrControl, op.Op, d.st.Key)
	}
	switch op.Op {
	case events.OpCompact:
		return d.compact(ctx, *op.Compact)
	case events.OpRename:
		return d.rename(ctx, *op.Rename)
	case events.OpReopen:
		if d.Head.Status != threads.StatusFailed {
			return fmt.Errorf("%w: reopen: %s is %s; only a failed thread is reopened",
				events.ErrControl, d.st.Key, d.Head.Status)
		}
		d.note(d.Head)
		d.Head.Status, d.Head.Failure = threads.StatusActive, ""
		return nil
	}
	return d.remove(ctx, *op.Remove)
}

// describe applies what a user says of the session (SPEC P6). A title that was made up does nothing where the user gave
// one.
func (d *draft) describe(op events.Control) (err error) {
	if d.Head.Start.IsZero() {
		return fmt.Errorf("%w: %s: there is no thread %s", events.ErrControl, op.Op, d.st.Key)
	}
	info := d.st.Session.Info
	if op.Op == events.OpMove {
		err = info.Move(op.Move.Cwd)
	} else {
		err = info.Name(op.Name.Title, TitleSource(*op.Name))
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", events.ErrControl, op.Op, err)
	}
	d.note(d.Head)
	if info != d.st.Session.Info {
		d.info = info
		d.Info = &d.info
	}
	return nil
}

// TitleSource is who gives the title.
func TitleSource(op events.Name) string {
	if op.Auto {
		return sessions.TitleAuto
	}
	return sessions.TitleUser
}

// compact appends a step that summarizes all before it (SPEC C6). In a session of omp it is the entry that omp itself
// writes, so that both see the same context.
func (d *draft) compact(ctx context.Context, op events.Compact) error {
	if op.Summary == "" {
		return fmt.Errorf("%w: compact: the summary is empty", events.ErrControl)
	}
	if op.FirstKept != "" {
		if err := d.w.Settle(ctx, d.st.Key); err != nil {
			return err
		}
		var err error
		if op.FirstKept, err = FindKept(ctx, d.w.Reader(), d.st.Key, d.Head, op.FirstKept); err != nil {
			return err
		}
	}
	if d.Head.Dialect == ompDialect {
		entry := sessions.Compaction{Summarized: sessions.Summarized{Summary: op.Summary}, FirstKept: op.FirstKept}.Draft()
		return d.appendDraft(ctx, entry, nil)
	}
	lang, ok := dialect.Lookup(stepDialect)
	if !ok {
		return fmt.Errorf("%w: compact: this version has no steps", events.ErrControl)
	}
	text := jsonscan.AppendString([]byte(`{"role":"`+dialect.RoleCompact+`","compact":`), op.Summary)
	if op.FirstKept != "" {
		text = jsonscan.AppendString(append(text, `,"firstKept":`...), op.FirstKept)
	}
	d.e.Text = append(text, '}')
	return d.step(ctx, addition{dialect: lang, operation: true})
}

// FindKept checks that an entry, by its id or the ref of its state, is on the way to a thread's head, and names it as
// the thread's dialect does. The error wraps sessions.ErrNotFound or is one of threads.Reader.
func FindKept(ctx context.Context, r threads.Reader, t events.Thread, head threads.Head, name string) (string, error) {
	at := head.Head()
	if len(head.Recent) == 0 {
		at = casstore.Located{}
	}
	for step, err := range r.Walk(ctx, at) {
		if err != nil {
			return "", err
		}
		if id := step.Entry.ID; isEntry(head, step.Entry) && (id == name || step.At.Ref.String() == name) {
			if head.Dialect == ompDialect {
				return id, nil
			}
			return name, nil
		}
	}
	return "", fmt.Errorf("firstKept: %w: it is not on the way to the head of %s", sessions.NotFound(name), t)
}

// rename gives a thread another name: its head's record moves in one batch, and the old name says where it went.
func (d *draft) rename(ctx context.Context, op events.Rename) error {
	target := events.Thread{Session: d.st.Key.Session, Name: op.To}
	if err := target.Validate(); err != nil {
		return fmt.Errorf("%w: rename: %w", events.ErrControl, err)
	}
	if target == d.st.Key {
		return fmt.Errorf("%w: rename: that is its name", events.ErrControl)
	}
	if err := d.w.Settle(ctx); err != nil {
		return err
	}
	if err := d.w.Told(ctx); err != nil {
		return err
	}
	open, _, err := d.refuseBusy(ctx, op.Force)
	if err != nil {
		return err
	}
	other, rev, err := d.taken(ctx, target)
	switch {
	case err != nil:
		return err
	case !other.Head.Start.IsZero():
		return fmt.Errorf("%w: rename: %s exists already; choose another name", events.ErrControl, target)
	case other.Left != nil && other.Left.To != "" && other.Left.To != d.st.Key.Name:
		return fmt.Errorf("%w: rename: %w", events.ErrControl, other.Left.renamed(target))
	}
	if err := d.learnLeft(ctx); err != nil {
		return err
	}
	d.note(d.Head)
	d.seeAgent(op.To)
	d.moveOutputs(open, op.To)
	d.Head.Batch = d.st.Batch.ID
	d.Head.Sent = d.Head.N // under the name that it had: who takes it over sends none of them again under this one
	if other.Reused {
		d.Head.Life = d.e.At
	}
	d.Leaves = &Leaving{To: op.To, Takes: rev}
	leaves := Thread{Head: d.Head, Left: d.Left}
	d.put(record.Put{Key: events.LeftKey(d.st.Key), Value: leaves.LeaveTo(op.To).Encode(), Expect: record.Any})
	earlier, since := other.Left.earlier(d.Left)
	if since != nil && len(since.Producers) > 0 {
		d.Head.Inherit(since)
		d.producers = d.Head.Producers
	}
	if other.Left != earlier { // the name was renamed to this thread's
		known := record.Put{Key: events.LeftKey(target), Expect: record.Any}
		if earlier != nil {
			known.Value = earlier.Encode()
		}
		d.put(known)
	}
	d.Left, d.AskedLeft = earlier, true
	return nil
}

// taken reads what there is under a name that a thread is to take, and the revision of its record.
func (d *draft) taken(ctx context.Context, t events.Thread) (th Thread, rev uint64, err error) {
	rs, err := d.w.Records(ctx, events.HeadKey(t))
	if err != nil {
		return th, 0, err
	}
	r, err := Ended(ctx, d.w, t, rs[0])
	if err != nil {
		return th, 0, err
	}
	if !r.Exists() { // a deletion that was refused is noted also where no thread ever was
		if th.Left, err = ReadLeft(ctx, d.w, t); err != nil {
			return th, 0, err
		}
	}
	return th, r.Seq, th.Load(t, r, d.st.Session)
}

// Load makes a thread what its record says.
func (t *Thread) Load(key events.Thread, r record.Record, s *Session) (err error) {
	t.Key, t.Fresh = key, true
	if !r.Exists() {
		t.Reused = r.Seq != 0 || s.Deleted != nil
		return nil
	}
	head, err := threads.DecodeHead(r.Value)
	if err != nil {
		t.Unread = true
		return fmt.Errorf("head of %s: %w", key, err)
	}
	t.Head = head
	if t.Memory, err = dialect.DecodeMemory(head.Memory); err != nil {
		return fmt.Errorf("head of %s: %w", key, err)
	}
	return nil
}

// refuseBusy refuses what would take a thread away from under whoever works in it. force does not mind runs and
// outputs, and gets those that are open. Nobody can answer the prompts of a thread that has ended: it gets their keys.
func (d *draft) refuseBusy(ctx context.Context, force bool) (open []record.Silent, prompts []string, err error) {
	if !d.st.Rules.Sessions {
		return nil, nil, nil
	}
	t := d.st.Key
	switch prompts, err = d.openPrompts(ctx); {
	case err != nil:
		return nil, nil, err
	case len(prompts) > maxPrompts && d.Head.Status == threads.StatusCompleted:
		return nil, nil, fmt.Errorf("%w: %s has ended with more than %d prompts that nobody answered: delete its session",
			events.ErrControl, t, maxPrompts)
	case len(prompts) > 0 && d.Head.Status != threads.StatusCompleted:
		return nil, nil, fmt.Errorf("%w: a prompt of %s waits for its answer: answer it first", events.ErrControl, t)
	}
	live, err := d.w.SessionLive(ctx, t.Session)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range live.Outputs {
		switch {
		case o.Thread != t.Name:
		case !force:
			return nil, nil, fmt.Errorf("%w: output %s of %s is open: end it first", events.ErrControl, o.ID, t)
		case len(open) == MaxOutputs:
			return nil, nil, fmt.Errorf("%w: more than %d outputs of %s are open: end some first", events.ErrControl, len(open), t)
		default:
			open = append(open, o)
		}
	}
	now := d.e.Now
	for _, r := range live.Runs {
		if !force && r.Thread == t.Name && !r.At(now).Standing(now).Ended() {
			return nil, nil, fmt.Errorf("%w: run %s of %s is %s: end it first", events.ErrControl, r.ID, t, r.Status)
		}
	}
	return open, prompts, nil
}

// mostKeys is how many records are read at a time.
const mostKeys = 900

// openPrompts are the keys of the thread's prompts that have no answer; where they are many, not all.
func (d *draft) openPrompts(ctx context.Context) (open []string, err error) {
	keys, err := d.w.SessionKeys(ctx, d.st.Key.Session)
	if err != nil {
		return nil, err
	}
	prompts := slices.DeleteFunc(keys, func(key string) bool {
		of, ok := events.ParsePromptKey(key)
		return !ok || of != d.st.Key
	})
	for some := range slices.Chunk(prompts, mostKeys) {
		rs, err := d.w.Records(ctx, some...)
		if err != nil {
			return nil, err
		}
		for i := range rs {
			if rs[i].Exists() {
				open = append(open, some[i])
			}
		}
		if len(open) > maxPrompts {
			break
		}
	}
	return open, nil
}

// moveOutputs has open outputs go with their thread: their leases close them under its new name, with what arrived.
func (d *draft) moveOutputs(open []record.Silent, to string) {
	for _, o := range open {
		key := events.OutputKey(o.Session, o.ID)
		o.Output.Thread = to
		d.put(record.Put{Key: key, Value: o.Output.Encode(), Expect: o.Rev})
		d.OutputsMoved = append(d.OutputsMoved, key)
	}
}

// dropOutputs removes outputs with their thread, without a result. The parts of their artifacts are gc's.
func (d *draft) dropOutputs(open []record.Silent) {
	for _, o := range open {
		key := events.OutputKey(o.Session, o.ID)
		d.put(record.Put{Key: key, Expect: record.Any})
		d.OutputsDropped = append(d.OutputsDropped, key)
	}
}

// remove takes a thread out of the index or the history. Its nodes stay for as long as something else reaches them, and
// are a collector's then. What it had seen stays known, so that none of it comes back; its name is free.
func (d *draft) remove(ctx context.Context, op events.Remove) error {
	if err := d.e.Scope.CheckDestroys(string(events.OpRemove)); err != nil {
		return err
	}
	if err := d.w.Settle(ctx); err != nil {
		return err
	}
	if op.UnchangedSince != 0 && d.Head.Applied > op.UnchangedSince {
		return fmt.Errorf("%w: remove: somebody wrote to %s since event %d",
			events.ErrControl, d.st.Key, op.UnchangedSince)
	}
	open, prompts, err := d.refuseBusy(ctx, op.Force)
	if err != nil {
		return err
	}
	if d.st.Unread && !op.Force {
		return fmt.Errorf("%w: remove: the record of %s cannot be read: repair it (spool fsck --repair), "+
			"or force the removal", events.ErrControl, d.st.Key)
	}
	if err := d.learnLeft(ctx); err != nil {
		return err
	}
	d.note(d.Head)
	d.dropOutputs(open)
	for _, key := range prompts {
		d.put(record.Put{Key: key, Expect: record.Any})
	}
	d.Leaves = &Leaving{}
	return nil
}
