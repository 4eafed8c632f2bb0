package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// fork begins a thread at a state of another: one new state whose parent is the fork point, and not a byte copied. A
// fork into a session of its own takes over what the session's record says, has a header, which is the state's content,
// and inherits the artifacts (SPEC P8).
func (d *draft) fork(ctx context.Context, f events.Fork) error {
	t := d.st.Key
	if !d.Head.Start.IsZero() {
		return fmt.Errorf("%w: fork: %s exists already; choose another name", events.ErrControl, t)
	}
	source := events.Thread{Session: f.Session, Name: f.Thread}
	if err := source.Validate(); err != nil {
		return fmt.Errorf("%w: fork: %w", events.ErrControl, err)
	}
	if err := d.e.Scope.Check(source.Session); err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	if err := checkHeader(&f, t); err != nil {
		return err
	}
	if err := d.settleSource(ctx, source); err != nil {
		return err
	}
	head, info, err := d.forked(ctx, source, f)
	if err != nil {
		return err
	}
	head.Sent = head.N // the items before are the source's
	on := head.Roots()[:1]
	if f.Whole { // the branches are the new thread's too: a collector must not take them when the source is deleted
		on = head.Roots()
	}
	for _, at := range on { // a source that was removed since may be collected
		if _, err := d.w.FindPack(ctx, at.Pack); record.IsGone(err) {
			return fmt.Errorf("%w: fork: there is no thread %s any more, or not all of it: %w", events.ErrControl, source, err)
		} else if err != nil {
			return err
		}
		d.Beside = append(d.Beside, head.Older.Pack) // what it refers to is in older packs, which go after it
	}
	d.note(head)
	for _, at := range on[1:] {
		d.Beside = append(d.Beside, at.Pack)
	}
	st := d.Head.Next(threads.RoleFork)
	st.Timestamp = d.timestamp(0)
	meta := map[string]any{"from": source.String()}
	if f.Own {
		meta["own"] = true
	}
	st.Meta = stateMeta(meta)
	header := f.Header
	if header == nil {
		if header, err = d.header(ctx, source, info, cmp.Or(st.Timestamp, d.e.stored())); err != nil {
			return err
		}
	}
	d.Head.Entries++
	st.Entry = threads.Record{Index: d.Head.Entries, First: d.Head.N + 1}
	if header != nil {
		st.Entry.ID, st.Entry.Type = t.Session, sessions.TypeHeader
	}
	d.append(&st, threads.Content{Text: header})
	parent := ""
	if t.Session != source.Session {
		parent = source.Session
		d.inherit(source.Session, info, f.Own)
		if err := d.inheritArtifacts(ctx, source.Session, f.Own); err != nil {
			return err
		}
	}
	e := dialect.Entry{Step: dialect.Step{Known: true, Role: threads.RoleFork}}
	if f.Own {
		e = project.OwnHeader(header)
	}
	e.Session.Parent = parent
	d.account(&e)
	return nil
}

// settleSource makes sure that all that was before is committed of the thread that a fork comes from.
func (d *draft) settleSource(ctx context.Context, source events.Thread) error {
	if source.Session == d.st.Key.Session {
		return d.w.Settle(ctx, source)
	}
	return d.w.SettleBefore(ctx, source.Session)
}

// inherit takes over what is known of the session that this one goes on from, if nothing is known of this one yet.
func (d *draft) inherit(source string, from sessions.Info, own bool) {
	info := d.st.Session.Info
	if !d.st.Session.Stored || own {
		info = project.Heir(info, d.st.Session.Stored, from.Heir(d.st.Session.ID, d.Head.Created), own, d.Head.Messages > 0)
	}
	info.ForkOf(source, from)
	d.info = info
	d.Info = &d.info
}

// forked is the head that a fork begins with, and the record of the session that it comes from.
func (d *draft) forked(ctx context.Context, source events.Thread, f events.Fork) (
	head threads.Head, info sessions.Info, err error,
) {
	rs, err := d.w.Records(ctx, events.HeadKey(source), events.SessionKey(source.Session))
	if err != nil {
		return head, info, err
	}
	r, err := Ended(ctx, d.w, source, rs[0])
	if err != nil {
		return head, info, err
	}
	if !r.Exists() {
		gone, err := ReadLeft(ctx, d.w, source)
		if err != nil && Passing(err) {
			return head, info, err
		}
		if gone != nil && gone.To != "" {
			return head, info, fmt.Errorf("%w: fork: %w", events.ErrControl, gone.renamed(source))
		}
		return head, info, fmt.Errorf("%w: fork: there is no thread %s", events.ErrControl, source)
	}
	if rs[1].Exists() {
		info, _ = sessions.DecodeInfo(rs[1].Value) // one that cannot be read is written anew, as everywhere
	}
	from, err := threads.DecodeHead(r.Value)
	if err != nil {
		return head, info, err
	}
	if head, err = ForkedHead(ctx, d.w.Reader(), from, f); err == nil && (!f.Whole || f.Point()) {
		if e := project.Inherit(ctx, d.w.Reader(), source, from, &head); e != nil && Passing(e) {
			return head, info, e // else the fork lacks what its source lacks
		}
	}
	if f.Whole && source.Session == d.st.Key.Session { // it is what the other was, under another name
		head.Captured = from.Captured
	}
	if err == nil && f.Header != nil && !HasHeader(head) {
		err = fmt.Errorf("%w: fork: a header is for threads of the dialect %s, and %s is of %q",
			events.ErrControl, ompDialect, source, head.Dialect)
	}
	return head, info, err
}

// HasHeader reports whether a thread is an omp session, whose forks have headers of their own.
func HasHeader(head threads.Head) bool { return head.Dialect == ompDialect }

// mostForkRead is how many nodes are read at most to find where a fork begins, and what it goes on with: others wait meanwhile.
var mostForkRead = threads.MaxForkRead

// ForkedHead is the head that a fork of a thread begins with. Errors wrap events.ErrControl, threads.ErrNoPoint or
// those of threads.Reader.
func ForkedHead(ctx context.Context, r threads.Reader, from threads.Head, f events.Fork) (threads.Head, error) {
	read := 0
	r.Read = func(casstore.Ref, casstore.Node) error {
		if read++; read > mostForkRead {
			return fmt.Errorf("%w: more than %d states are to be read to find it: name a state, an entry or an item by its ref or number, "+
				"or take the whole thread as it is now", threads.ErrNoPoint, mostForkRead)
		}
		return nil
	}
	point, err := forkPoint(f)
	switch {
	case err != nil:
		return threads.Head{}, err
	case f.Whole && f.Point():
		return threads.ForkWholeAt(ctx, r, from, point)
	case f.Whole:
		return threads.ForkWhole(from)
	}
	return threads.Fork(ctx, r, from, point)
}

// forkPoint reads the point that a fork names.
func forkPoint(f events.Fork) (p threads.Point, err error) {
	p = threads.Point{Entry: f.Index, Item: f.Item, Source: f.Entry, Role: f.Role}
	if f.Node != "" {
		if p.Node, err = casstore.ParseRef(f.Node); err != nil {
			return p, fmt.Errorf("%w: fork: %w", events.ErrControl, err)
		}
	}
	return p, nil
}

// checkHeader: the header of a fork is that of the new session, and whoever made that itself has one.
func checkHeader(f *events.Fork, t events.Thread) error {
	if f.Header == nil && !f.Own {
		return nil
	}
	h, err := sessions.ParseHeader(f.Header)
	if err == nil && (h.ID != t.Session || t.Name != events.MainThread) {
		err = errors.New("its id must be that of the new session, and the thread its main one")
	}
	if err != nil {
		return fmt.Errorf("%w: fork: header: %w", events.ErrControl, err)
	}
	return nil
}
