package persist

import (
	"context"
	"testing"

	"spool/internal/apply"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// halfStore has records, and tells when it is asked for the first one under a key.
type halfStore struct {
	bucket
	records map[string]record.Record
	before  map[string]func()
	seq     uint64
}

func (s *halfStore) Records(_ context.Context, keys ...string) ([]record.Record, error) {
	rs := make([]record.Record, len(keys))
	for i, key := range keys {
		if do := s.before[key]; do != nil {
			delete(s.before, key)
			do()
		}
		rs[i] = s.records[key]
		rs[i].Key = key
	}
	return rs, nil
}

func (s *halfStore) put(key string, value []byte) {
	s.seq++
	s.records[key] = record.Record{Key: key, Value: value, Seq: s.seq}
}

// remove removes a record, if there is one.
func (s *halfStore) remove(key string) {
	if s.records[key].Exists() {
		s.put(key, nil)
	}
}

// left is what stays of a removed thread.
func left() []byte {
	return (&apply.Left{Head: threads.Head{Applied: 5, Producers: []threads.Producer{{ID: "p", Seq: 1, At: 5}}}}).Encode()
}

// Another process deletes a session while its threads are read: between what the history has of one that has ended, or what a
// removed one left, and its removed head. It is read again, and never a thread that was not there before.
func TestDeletedWhileRead(t *testing.T) {
	ended, removed := events.Thread{Session: "s", Name: "ended"}, events.Thread{Session: "s", Name: "removed"}
	for name, at := range map[string]string{"history": events.HistoryOf(ended), "left": events.LeftKey(removed)} {
		t.Run(name, func(t *testing.T) {
			s := &halfStore{records: map[string]record.Record{}, before: map[string]func(){}}
			for _, of := range []events.Thread{ended, removed} {
				s.put(events.HeadKey(of), []byte("head"))
				s.remove(events.HeadKey(of))
			}
			s.put(events.HistoryOf(ended), (&threads.Head{Applied: 3, N: 1, Entries: 1}).Encode())
			s.put(events.LeftKey(removed), left())
			s.before[at] = func() {
				s.remove(events.HistoryOf(ended))
				s.remove(events.LeftKey(removed))
				s.put(events.DeletedKey("s"), record.Deleted{State: record.Removed, Seq: 9}.Encode())
			}
			l := New(Deps{Records: s}, Config{}).lane
			must.Is(t, l.loadThreads(t.Context(), []events.Thread{ended, removed}), errStale, "loadThreads()")
			if n := len(l.heads.threads) + len(l.heads.sessions); n != 0 {
				t.Errorf("%d threads and sessions are in memory that were read half", n)
			}
			must.Do(t, l.loadThreads(t.Context(), []events.Thread{ended, removed}))
			for _, of := range []events.Thread{ended, removed} {
				if th := l.heads.threads[of]; th.session.Deleted == nil || th.Left != nil || th.Head.Entries != 0 {
					t.Errorf("%s is not of the session's next life", of)
				}
			}
		})
	}
}

// A thread that was removed before another process deleted its session is not what a verdict may stand on, also when another thread of
// the session was read since.
func TestDeletedSinceAnotherWasRead(t *testing.T) {
	removed, other := events.Thread{Session: "s", Name: "removed"}, events.Thread{Session: "s", Name: "other"}
	s := &halfStore{records: map[string]record.Record{}}
	s.put(events.HeadKey(removed), []byte("head"))
	s.remove(events.HeadKey(removed))
	s.put(events.LeftKey(removed), left())
	l := New(Deps{Records: s}, Config{}).lane
	must.Do(t, l.loadThreads(t.Context(), []events.Thread{removed}))
	th := l.heads.threads[removed]
	verify := func() error {
		c := &commit{}
		c.doubt(th)
		return l.verify(t.Context(), c)
	}
	must.Do(t, verify())
	s.remove(events.LeftKey(removed))
	s.put(events.DeletedKey("s"), record.Deleted{State: record.Removed, Seq: 9}.Encode())
	must.Do(t, l.loadThreads(t.Context(), []events.Thread{other}))
	must.Is(t, verify(), errStale, "verify()")
	s.put(events.DeletedKey("s"), record.Deleted{State: record.Removed, Seq: 9, Items: 4}.Encode())
	th = l.heads.threads[other]
	must.Do(t, verify()) // the deletion goes on, and is the same
}
