package persist

import (
	"bytes"
	"container/list"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"spool/internal/apply"
	"spool/pkg/events"
)

// thread is a thread as the lane knows it: its head as the last prepared commit will leave it.
type thread struct {
	apply.Thread // stage 1

	session *session
	record  string // key of its record: among the active threads or, once it has ended, in the history
	gone    bool   // it was removed or renamed: what comes next reads its record again

	deletion uint64 // of its session, that was known when it was read: the sequence of the event, 0 = none

	bytes int // of its head's record, as far as it was read or written, and of what stayed under its name

	// In the cache.
	used    uint64        // the batch that used it last
	place   *list.Element // among the threads by their last use; nil: it is not in memory any more
	counted int           // bytes that it takes, as far as they are counted
	became  *thread       // the one that the rename gave another name which left this mark; nil: it is none

	pending atomic.Int64 // prepared commits that touch it and are not through stage 2
	rev     uint64       // revision of its record, 0 = none; stage 2, once loaded
	sent    atomic.Int64 // number of the last item published; stage 3, read by stage 1
}

// session is what the lane knows about a session; what is known of its deletion is as of when a thread of it was
// loaded.
type session struct {
	apply.Session

	names      map[string]bool // of its threads that are in memory
	value      []byte          // the record that the last prepared commit will leave; nil if there is none
	rev        uint64          // of the record; stage 2, once read
	term       uint64          // of its partition, in which what is in memory of it was read
	deletedRev uint64
}

// learnSessions finds out which revisions a commit gave to the records of sessions, unless they have changed since.
func (p *Persister) learnSessions(ctx context.Context, c *commit) error {
	ss := slices.Collect(maps.Keys(c.infos))
	keys := make([]string, len(ss))
	for i, s := range ss {
		keys[i] = events.SessionKey(s.ID)
	}
	rs, err := p.Records.Records(ctx, keys...)
	for i, r := range rs {
		if bytes.Equal(r.Value, c.infos[ss[i]]) {
			ss[i].rev = r.Seq
		}
	}
	return err
}
