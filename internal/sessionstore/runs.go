package sessionstore

import (
	"context"
	"fmt"
	"math"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Runs lists the runs of a session, or of all when session is "", ordered by key. One whose record cannot be read is taken for one that
// goes on, and comes behind the others.
func (st *Store) Runs(ctx context.Context, session string) ([]record.Seen, error) {
	runs, unread, err := st.runs(ctx, session)
	for _, u := range unread {
		in, id, _ := events.ParseRunKey(u.Key)
		runs = append(runs, record.Seen{Session: in, Run: record.Run{
			ID: id, Status: artifacts.RunRunning, Summary: fmt.Sprintf("record %s: %v", u.Key, u.Err),
		}})
	}
	return runs, err
}

// runs is Runs that passes over the records that it cannot read.
func (st *Store) runs(ctx context.Context, session string) (out []record.Seen, unread []record.Unread, err error) {
	ages, err := st.records.Ages(ctx, events.RunKeys(session), math.MinInt64)
	if err != nil {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	rs, err := st.records.List(ctx, events.RunKeys(session))
	if err != nil {
		return nil, nil, err
	}
	out = make([]record.Seen, 0, len(rs))
	for _, r := range rs {
		run, err := record.DecodeRun(r.Value)
		if err != nil {
			unread = append(unread, record.Unread{Key: r.Key, Err: err})
			continue
		}
		seen := record.Seen{Run: run}
		seen.Session, _, _ = events.ParseRunKey(r.Key)
		if a := ages[r.Key]; a.Seq == r.Seq { // else it was written since, a moment ago
			seen.Ago = max(a.Age, 0)
		}
		out = append(out, seen)
	}
	return out, unread, nil
}
