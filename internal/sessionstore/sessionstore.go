// Package sessionstore is what is stored of a whole session, wherever it is: the keys of its records, its runs and open
// outputs, when something happened last, and how all of it is dropped, or written over first (persist.Sessions).
package sessionstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/artifactstore"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Store reads and drops what sessions have. It keeps nothing, and is safe for concurrent use.
type Store struct {
	js        jetstream.JetStream
	streams   natsio.Streams
	records   natsio.Records
	objects   natsio.Objects
	events    natsio.Events
	dead      natsio.DeadLetters
	artifacts *artifactstore.Artifacts
}

// Of makes the Store of the system that a connection leads to.
func Of(conn *natsio.Conn) *Store {
	return &Store{
		js: conn.JetStream(), streams: conn.Streams(), records: conn.Records(), objects: conn.Objects(),
		events: conn.Events(), dead: conn.DeadLetters(),
		artifacts: artifactstore.Of(conn, 0),
	}
}

// SessionKeys lists the key of every record that belongs to a session, removed ones included, by the stream's own list
// of subjects, which is exact.
func (st *Store) SessionKeys(ctx context.Context, session string) ([]string, error) {
	s, err := st.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("list the records of session %s: %w", session, natsio.WrapErr(err))
	}
	var keys []string
	for _, filter := range events.OfSession(session) {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(filter)))
		if err != nil {
			return nil, fmt.Errorf("list the records of session %s: %w", session, natsio.WrapErr(err))
		}
		for subject := range info.State.Subjects {
			keys = append(keys, natsio.RecordKey(subject))
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// UserSessions counts the sessions that each user began, as far as their records say it. One that cannot be read is
// nobody's.
func (st *Store) UserSessions(ctx context.Context) (map[string]int64, error) {
	rs, err := st.records.List(ctx, events.SessionKeys)
	if err != nil {
		return nil, fmt.Errorf("sessions of users: %w", err)
	}
	n := map[string]int64{}
	for _, r := range rs {
		if info, err := sessions.DecodeInfo(r.Value); err == nil && info.User != "" {
			n[info.User]++
		}
	}
	return n, nil
}

// SessionLive reads the runs and the open outputs of a session. A record that this version cannot read is listed beside
// them: one bad record must not decide that a session can never be removed, nor stop who removes it.
func (st *Store) SessionLive(ctx context.Context, session string) (l record.Live, err error) {
	if l.Runs, l.Unread, err = st.runs(ctx, session); err != nil {
		return l, err
	}
	ages, err := st.records.Ages(ctx, events.OutputKeys(session), math.MinInt64)
	if err != nil {
		return l, fmt.Errorf("open outputs of session %s: %w", session, err)
	}
	rs, err := st.records.List(ctx, events.OutputKeys(session))
	if err != nil {
		return l, err
	}
	for _, r := range rs {
		o, err := record.DecodeOutput(r.Value)
		if err != nil {
			l.Unread = append(l.Unread, record.Unread{Key: r.Key, Err: err})
			continue
		}
		silent := record.Silent{Session: session, Output: o, Rev: r.Seq}
		if a := ages[r.Key]; a.Seq == r.Seq { // else it was written since, a moment ago
			silent.For = max(a.Age, 0)
		}
		l.Outputs = append(l.Outputs, silent)
	}
	return l, nil
}
