package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/family"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/sessionstore"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Deletion says how a session is deleted. The zero value works.
type Deletion struct {
	Force bool   // although a run or an output is live, or another session needs it
	By    string // who does it, for the receipt
	// Plain: nobody looks which other sessions need it, nor which have something of it: that costs reading every session's record.
	Plain bool

	// UnchangedSince refuses, with ErrSessionWritten, if a record of the session was written behind this sequence of the record bucket.
	// 0: whatever was written.
	UnchangedSince uint64

	// Erase leaves items, events, dead letters and the bytes of artifacts where they are: EraseStreams is to write over them.
	Erase bool
}

// Gone counts what a session had when it was deleted.
type Gone = record.Gone

// Overwritten is what was written over with random bytes in a stream's files.
type Overwritten = sessionstore.Overwritten

// Receipt says what went with a session, and what stays and why.
type Receipt struct {
	Session string `json:"session"`
	Deleted bool   `json:"deleted"`
	At      string `json:"at"` // when it was asked for
	By      string `json:"by,omitempty"`
	Forced  bool   `json:"forced,omitempty"`
	Event   uint64 `json:"event"` // sequence of the operation in SPOOL_EVENTS
	Gone    Gone   `json:"gone"`
	Kept    []Kept `json:"kept"`

	// Heads are the threads as they were when the deletion was asked for, with the state that led each. Until gc takes what nothing
	// refers to, and as long as its quarantine keeps it, spool export writes what leads to one. An erasure has none.
	Heads []RemovedHead `json:"heads,omitempty"`

	// Of an erasure.
	Overwritten []Overwritten `json:"overwritten,omitempty"`
	Collected   *Collected    `json:"collected,omitempty"`
	MayRemain   []string      `json:"may_remain,omitempty"` // where bytes of it can be that nothing leads to any more
}

// RemovedHead is where a thread was.
type RemovedHead struct {
	Thread  string `json:"thread"`
	State   string `json:"state"` // ref of its newest state
	Entries int64  `json:"entries"`
}

// Kept is something of a deleted session that is still stored.
type Kept struct {
	What     string   `json:"what"`
	Count    int64    `json:"count,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"`
	Why      string   `json:"why"`
	Sessions []string `json:"sessions,omitempty"` // that have it too
}

// Collected is what a collection of garbage right behind an erasure did.
type Collected struct {
	Condemned int    `json:"condemned"` // packs and blobs
	Repacked  int    `json:"repacked"`  // packs that others use too, without the nodes of the session
	Reclaimed int    `json:"reclaimed"` // objects
	Bytes     int64  `json:"bytes"`
	Refused   string `json:"refused,omitempty"` // why not all, or nothing, was done

	// What no record names and was left: it may be on its way to a record.
	Unnamed      int   `json:"unnamed,omitempty"` // objects
	UnnamedBytes int64 `json:"unnamed_bytes,omitempty"`
}

// ErrSessionNotFound: there is no such session.
var ErrSessionNotFound = artifacts.ErrSessionNotFound

// ErrSessionWritten: something happened in the session since its deletion was decided (Deletion.UnchangedSince). It is whole.
var ErrSessionWritten = family.Conflict.New("the session was written to meanwhile")

var errNeeded = family.Conflict.New("the session is needed")

// needed is an ErrConflict where the files of other sessions go on from this one's without having it. It says which.
func needed(session string, infos map[string]sessions.Info) error {
	var by []string
	for id, info := range infos {
		if info.Base == session && id != session {
			by = append(by, id)
		}
	}
	if len(by) == 0 {
		return nil
	}
	slices.Sort(by)
	return fmt.Errorf("%w: %s goes on from %s, and has nothing of it: remove that first, or use force",
		errNeeded, strings.Join(by, ", "), session)
}

// Delete removes a session with its threads, of subagents too, their items and events, runs, prompts, outputs and
// artifacts (SPEC A6), and returns when that is done. What its forks have stays with them; packs and blobs that nobody has
// any more are the collector's. What is published to the session later begins it anew.
//
// artifacts.ErrSessionActive, with an *artifacts.ActiveError: a run or an output is live. ErrSessionNotFound: there is none of
// that name, and no deletion of it that is still under way; with ErrBehind, no persister came within five seconds to what was
// published to it. ErrConflict: another one goes on from it.
func (s SessionHandle) Delete(ctx context.Context, how Deletion) (Receipt, error) {
	r := Receipt{Session: s.ID}
	if err := events.CheckToken("session", s.ID); err != nil {
		return r, err
	}
	var carrier events.Thread
	var heads []RemovedHead
	err := s.reaching(ctx, ErrSessionNotFound, func() (err error) {
		carrier, heads, err = s.c.carrier(ctx, s.ID)
		return err
	})
	if errors.Is(err, ErrSessionNotFound) {
		done, none := s.c.finished(ctx, s.ID, how, errors.Is(err, ErrBehind))
		if !errors.Is(none, ErrSessionNotFound) {
			return done, none
		}
	}
	if err != nil {
		return r, err
	}
	if !how.Force {
		if err := s.Deletable(ctx); err != nil {
			return r, err
		}
	}
	var kept []Kept
	if !how.Plain {
		infos, err := s.c.infos(ctx, "")
		if need := needed(s.ID, infos); err == nil && need != nil {
			if err = need; how.Force {
				err, kept = nil, append(kept, Kept{What: "sessions without their beginning", Why: need.Error()})
			}
		}
		if err != nil {
			return r, err
		}
		more, err := s.c.shared(ctx, s.ID, infos)
		if err != nil {
			return r, err
		}
		kept = append(kept, more...)
	}
	p := s.c.Publisher(PublisherConfig{User: how.By})
	op := events.Control{Op: events.OpDelete, Delete: &events.Delete{
		Force: how.Force, Erase: how.Erase, By: how.By, UnchangedSince: how.UnchangedSince,
	}}
	if err := p.destroy(ctx, carrier, op); err != nil {
		return r, err
	}
	refusal := ErrRefused
	if how.UnchangedSince > 0 {
		refusal = ErrSessionWritten
	}
	d, err := s.c.awaitDeletion(ctx, carrier, p.Producer(), refusal)
	if err != nil {
		return r, err
	}
	r = receipt(s.ID, d)
	r.Kept = append(r.Kept, kept...)
	if !how.Erase {
		r.Heads = heads
		r.Kept = append(r.Kept, unreferred)
	}
	return r, nil
}

// Deletable is the *artifacts.ActiveError with which a session would not be deleted now.
func (s SessionHandle) Deletable(ctx context.Context) error {
	if err := events.CheckToken("session", s.ID); err != nil {
		return err
	}
	live, err := s.c.sessions.SessionLive(ctx, s.ID)
	if err != nil {
		return err
	}
	now := time.Now()
	return live.Activity("", now, defaultOutputLease).Deletable(now)
}

// defaultOutputLease is a persister's, for outputs that do not say their own.
const defaultOutputLease = 10 * time.Minute

// carrier finds a thread of a session for the operation: main, or any; when there is none the session may have artifacts.
// heads are where its threads are.
func (c *Client) carrier(ctx context.Context, session string) (at events.Thread, heads []RemovedHead, err error) {
	ts, err := c.Session(session).Threads(ctx)
	if err != nil {
		return at, nil, err
	}
	at = events.Thread{Session: session, Name: events.MainThread}
	for _, t := range ts {
		if len(t.Head.Recent) > 0 {
			heads = append(heads, RemovedHead{t.Name, t.Head.Head().Ref.String(), t.Head.Entries})
		}
	}
	if len(ts) > 0 {
		if !slices.ContainsFunc(ts, func(t Thread) bool { return t.Thread == at }) {
			at = ts[0].Thread
		}
		return at, heads, nil
	}
	for _, filter := range []string{events.SessionKey(session), events.ArtifactKeys(session, ""),
		events.RunKeys(session), events.OutputKeys(session)} {
		rs, err := c.records.List(ctx, filter)
		if err != nil || len(rs) > 0 {
			return at, nil, err
		}
	}
	return at, nil, fmt.Errorf("%w: %s", ErrSessionNotFound, session)
}

// finished is the receipt of a session that is deleted already, if there is still something to do for whoever asks. behind: something was
// published to it that no persister has come to; that can be the deletion alone.
func (c *Client) finished(ctx context.Context, session string, how Deletion, behind bool) (Receipt, error) {
	d, err := c.deleted(ctx, session)
	if err == nil && d != nil && behind {
		var newest natsio.Newest
		if newest, err = c.events.NewestEvent(ctx, events.Thread{Session: session, Name: events.EveryThread}); newest.Seq > d.Seq {
			d = nil
		}
	}
	if err != nil {
		return Receipt{Session: session}, err
	}
	if d == nil || d.State == record.Done && (!how.Erase || !d.Erase || d.Erased) {
		return Receipt{Session: session}, fmt.Errorf("%w: %s", ErrSessionNotFound, session)
	}
	waits := natsio.Wait(c.events, events.Thread{Session: session, Name: events.EveryThread})
	defer waits.End()
	for d.State != record.Done {
		if _, err := waits.Next(ctx); err != nil {
			return Receipt{Session: session}, notDeletedYet(session, err)
		}
		if d, err = c.deleted(ctx, session); err != nil {
			return Receipt{Session: session}, err
		}
	}
	r := receipt(session, d)
	if !how.Plain {
		r.Kept, err = c.named(ctx, session)
	}
	if !d.Erase {
		r.Kept = append(r.Kept, unreferred)
	}
	return r, err
}

// unreferred is kept behind every deletion that erases nothing.
var unreferred = Kept{What: "packs and blobs", Why: "what no other session refers to is garbage, which the next gc cycle takes; " +
	"where no session is left, spool gc --apply --allow no-roots does"}

func receipt(session string, d *record.Deleted) Receipt {
	return Receipt{Session: session, Deleted: true, At: events.Stamp(d.At), By: d.By, Forced: d.Force, Event: d.Seq, Gone: d.Gone,
		Kept: []Kept{}}
}

// deleted reads how a session was deleted; nil if it never was.
func (c *Client) deleted(ctx context.Context, session string) (*record.Deleted, error) {
	rs, err := c.records.Records(ctx, events.DeletedKey(session))
	if err != nil || !rs[0].Exists() {
		return nil, err
	}
	d, err := record.DecodeDeleted(rs[0].Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rs[0].Key, err)
	}
	return &d, nil
}

// awaitDeletion returns when the first event of a producer, which SPOOL_EVENTS has taken, has deleted the session of a thread, or was
// refused; refusal is why, unless something in it is live. Of a deletion that another one came behind before it was seen, the
// other one is given: it stands where this one was noted.
func (c *Client) awaitDeletion(
	ctx context.Context, t events.Thread, producer string, refusal error,
) (d *record.Deleted, err error) {
	event := &events.Event{Producer: producer, Seq: 1}
	every := events.Thread{Session: t.Session, Name: events.EveryThread} // no head tells when its streams are purged
	err = natsio.Settle(ctx, c.events, every, natsio.UpTo(c.events, t, 0), func(done bool) (bool, error) {
		d, err = c.deleted(ctx, t.Session)
		if err != nil || d.Is(event) && d.State == record.Done {
			return true, err
		}
		refused, err := c.noted(ctx, t, producer)
		if err == nil && !refused && done {
			refused = c.refusal(ctx, waited{thread: t, producer: producer, first: 1, seq: 1}) != nil
		}
		if err == nil && refused {
			err = cmp.Or(c.Session(t.Session).Deletable(ctx), fmt.Errorf("delete session %s: %w", t.Session, refusal))
		}
		return done && d != nil && d.State == record.Done, err
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		err = notDeletedYet(t.Session, err)
	}
	return d, err
}

// noted reports whether a thread, or what is known under its name if there is none, has the first event of a producer.
func (c *Client) noted(ctx context.Context, t events.Thread, producer string) (bool, error) {
	head, err := c.Thread(t).Head(ctx)
	if isUnreadable(err) { // it says nothing
		return false, nil
	}
	if !errors.Is(err, threads.ErrNoThread) {
		return err == nil && head.Duplicate(producer, 0, 1), err
	}
	rs, err := c.records.Records(ctx, events.LeftKey(t))
	if err != nil || !rs[0].Exists() {
		return false, err
	}
	left, err := record.DecodeLeft(rs[0].Value)
	if err == nil {
		head, err = threads.DecodeHead(left.Head)
	}
	return err == nil && head.Duplicate(producer, 0, 1), err
}

func notDeletedYet(session string, err error) error {
	return fmt.Errorf("session %s is not deleted yet; is a persister running? %w", session, err)
}

// EraseStreams writes over what the streams hold of a session that was deleted with Erase, and tells what it was. It may be
// repeated until it succeeds.
func (i Internal) EraseStreams(ctx context.Context, session string) ([]Overwritten, error) {
	d, err := i.c.deleted(ctx, session)
	if err != nil || d == nil || !d.Erase || d.Erased || d.State != record.Done {
		return nil, err
	}
	// The server takes a message's removal for an ack of it, and of all before it in its partition, whosever they are.
	every := events.Thread{Session: session, Name: events.EveryThread}
	through := natsio.UpTo(i.c.events, every, d.Seq)
	if !through(ctx) {
		err = natsio.Settle(ctx, i.c.events, every, through, func(done bool) (bool, error) { return done, nil })
	}
	if err != nil {
		return nil, notDeletedYet(session, err)
	}
	published, err := i.c.sessions.Overwrite(ctx, events.EventsStream, events.StoredOfSession(session), d.Seq)
	if err != nil {
		return nil, err
	}
	items, err := i.c.sessions.Overwrite(ctx, events.ItemsStream, events.ItemsOfSession(session), d.Items)
	if err != nil {
		return nil, err
	}
	dead, err := i.c.sessions.OverwriteDead(ctx, session, d.Dead)
	if err != nil {
		return nil, err
	}
	return append([]Overwritten{published, items}, dead...), nil
}

// Erased notes that nothing of a deleted session is left to be written over. A crash before leaves it to whoever deletes the
// session with Erase again.
func (a Admin) Erased(ctx context.Context, session string) error {
	rs, err := a.c.records.Records(ctx, events.DeletedKey(session))
	if err != nil || !rs[0].Exists() {
		return err
	}
	d, err := record.DecodeDeleted(rs[0].Value)
	if err != nil {
		return fmt.Errorf("%s: %w", rs[0].Key, err)
	}
	d.Erased = true
	_, err = a.c.records.Write(ctx, record.Put{Key: rs[0].Key, Value: d.Encode(), Expect: rs[0].Seq})
	return err
}
