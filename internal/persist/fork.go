package persist

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// fork begins a thread at a state of another: one new state whose parent is the fork point, and not a byte copied. A fork
// into a session of its own takes over what the session's record says; a header that it brings is the state's content.
func (l *lane) fork(ctx context.Context, c *commit, t *thread, s *staged, f events.Fork) error {
	if !t.head.Start.IsZero() {
		return fmt.Errorf("%w: fork: %s exists already; choose another name", events.ErrControl, t.key)
	}
	source := events.Thread{Session: f.Session, Name: f.Thread}
	if err := source.Validate(); err != nil {
		return fmt.Errorf("%w: fork: %w", events.ErrControl, err)
	}
	if err := checkHeader(f.Header, t.key); err != nil {
		return err
	}
	if source.Session != t.key.Session || l.unsettled(c, source) {
		if err := l.barrier(ctx, c); err != nil {
			return err
		}
	}
	var head threads.Head
	var info sessions.Info
	err := l.p.retry(ctx, "fork", func() (err error) {
		head, info, err = l.forked(ctx, source, f)
		return err
	})
	if err != nil {
		return err
	}
	head.Sent = head.N // the items before are the source's

	// From here on nothing fails.
	c.news(t, s, head)
	if f.Whole { // the branches are the new thread's too: a collector must not take them when the source is deleted
		for _, tip := range head.Tips {
			c.byKey[t.key].beside = append(c.byKey[t.key].beside, tip.Pack)
		}
	}
	st := t.head.Next(threads.RoleFork)
	st.Timestamp = s.timestamp(t, 0)
	st.Meta = metaMap("from", source.String())
	t.head.Entries++
	st.Entry = threads.Record{Index: t.head.Entries, First: t.head.N + 1}
	if f.Header != nil {
		st.Entry.ID, st.Entry.Type = t.key.Session, sessions.TypeHeader
	}
	c.append(t, st, threads.Content{Text: f.Header})
	if t.session.value == nil && t.key.Session != source.Session {
		t.session.inherit(info, t.head.Created)
	}
	l.account(c, t, s, &dialect.Entry{Step: dialect.Step{Known: true, Role: threads.RoleFork, Session: dialect.Session{Parent: parentOf(t, source)}}})
	return nil
}

// unsettled reports whether a thread's record, or the nodes that it leads to, may not be stored yet.
func (l *lane) unsettled(c *commit, key events.Thread) bool {
	t := l.heads.threads[key] // one that is not in memory is in no commit in flight
	return c.byKey[key] != nil || t != nil && t.pending.Load() > 0
}

// forked is the head that a fork begins with, and the record of the session that it comes from.
func (l *lane) forked(ctx context.Context, source events.Thread, f events.Fork) (head threads.Head, info sessions.Info, err error) {
	rs, err := l.p.Records.Records(ctx, events.HeadKey(source), events.SessionKey(source.Session))
	if err != nil {
		return head, info, err
	}
	r, err := l.p.ended(ctx, source, rs[0])
	if err != nil {
		return head, info, err
	}
	if !r.Exists() {
		gone, err := l.p.readLeft(ctx, source)
		if err != nil && passing(err) {
			return head, info, err
		}
		if gone != nil && gone.to != "" {
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
	head, err = ForkedHead(ctx, l.p.reader, from, f)
	if err == nil && f.Header != nil && head.Dialect != ompDialect {
		err = fmt.Errorf("%w: fork: a header is for threads of the dialect %s, and %s is of %q", events.ErrControl, ompDialect, source, head.Dialect)
	}
	return head, info, err
}

// ForkedHead is the head that a fork of a thread begins with. Errors wrap events.ErrControl, threads.ErrNoPoint or those of
// threads.Reader.
func ForkedHead(ctx context.Context, r threads.Reader, from threads.Head, f events.Fork) (threads.Head, error) {
	point, err := forkPoint(f)
	switch {
	case err != nil:
		return threads.Head{}, err
	case f.Whole && point != (threads.Point{}):
		return threads.Head{}, fmt.Errorf("%w: fork: a whole thread has no point", events.ErrControl)
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

// checkHeader: the header of a fork is that of the new session.
func checkHeader(raw []byte, t events.Thread) error {
	if raw == nil {
		return nil
	}
	h, err := sessions.ParseHeader(raw)
	if err == nil && (h.ID != t.Session || t.Name != events.MainThread) {
		err = errors.New("its id must be that of the new session, and the thread its main one")
	}
	if err != nil {
		return fmt.Errorf("%w: fork: header: %w", events.ErrControl, err)
	}
	return nil
}

// inherit takes over what is known of the session that this one goes on from.
func (s *session) inherit(from sessions.Info, created int64) {
	from.ID, from.Parent, from.Created = s.id, "", created
	s.info = from
}

func parentOf(t *thread, source events.Thread) string {
	if t.key.Session == source.Session {
		return ""
	}
	return source.Session
}

// builtOn lists the packs that a commit must keep from being collected for this thread.
func (t *touched) builtOn() iter.Seq[casstore.PackID] {
	return func(yield func(casstore.PackID) bool) {
		if !t.base.IsZero() && !yield(t.base) {
			return
		}
		for _, id := range t.beside {
			if !id.IsZero() && !yield(id) {
				return
			}
		}
	}
}
