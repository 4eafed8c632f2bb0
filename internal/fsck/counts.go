package fsck

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// suspectCounts notes the sessions that may have other threads than their records count: as many as counted says, but for those that keep
// no count.
func (c *checker) suspectCounts(counted map[string]int64) {
	for i := range c.heads {
		if n, counts := counted[c.heads[i].id.Session]; counts {
			counted[c.heads[i].id.Session] = n - 1
		}
	}
	maps.DeleteFunc(counted, func(_ string, left int64) bool { return left == 0 })
	c.counts = slices.Sorted(maps.Keys(counted))
}

// checkCounts names the sessions whose records count other threads than there are: where a record counts those that a page has read, the
// page looks for no others. One that has lost a thread is named for that.
func (c *checker) checkCounts(ctx context.Context) error {
	c.counts = slices.DeleteFunc(c.counts, func(session string) bool {
		return slices.ContainsFunc(c.lostThreads, func(t events.Thread) bool { return t.Session == session })
	})
	wrong := c.counts[:0]
	for _, session := range c.counts {
		r, info, n, err := c.countThreads(ctx, session)
		if err != nil {
			return err
		}
		if info.Threads == 0 || info.Threads == n {
			continue
		}
		before := len(c.report.Findings)
		err = c.find(ctx, r.Seq, Finding{Kind: Inconsistent, Record: r.Key,
			Detail: text.Sprintf("it counts %d threads, and there are %d", info.Threads, n)})
		if err != nil {
			return err
		}
		if len(c.report.Findings) > before {
			wrong = append(wrong, session)
		}
	}
	c.counts = wrong
	return nil
}

// countThreads gives the record of a session, and how many threads it has, ended ones too, of those whose heads cannot be read as well. A
// session without a record, or with one that cannot be read, counts none.
func (c *checker) countThreads(ctx context.Context, session string) (r record.Record, info sessions.Info, n int64, err error) {
	rs, err := c.s.Records(ctx, events.SessionKey(session))
	if err != nil {
		return r, info, 0, err
	}
	if info, err = sessions.DecodeInfo(rs[0].Value); !rs[0].Exists() || err != nil {
		info = sessions.Info{}
	}
	threads := map[events.Thread]bool{}
	for _, filter := range []string{events.HeadKeys(session), events.HistoryKeys(session)} { // first: what ends meanwhile is in both
		heads, err := c.s.List(ctx, filter)
		if err != nil {
			return r, info, 0, err
		}
		for _, h := range heads {
			t, ok := events.ParseHeadKey(h.Key)
			if !ok {
				t, _, _ = events.ParseHistoryKey(h.Key)
			}
			threads[t] = true
		}
	}
	return rs[0], info, int64(len(threads)), nil
}

// fixCounts has the records of sessions count the threads that there are. One that a persister writes meanwhile stays as it is.
func (f *fixer) fixCounts(ctx context.Context) error {
	for _, session := range f.c.counts {
		r, info, n, err := f.c.countThreads(ctx, session)
		if err != nil {
			return err
		}
		if info.Threads == 0 || info.Threads == n {
			continue
		}
		info.Threads = n
		fence, err := f.w.Fence(ctx, 0)
		if err == nil {
			_, err = f.w.Commit(ctx, fence, []record.Put{{Key: r.Key, Value: info.Encode(), Expect: r.Seq}})
		}
		if err != nil {
			return fmt.Errorf("repair %s: %w", r.Key, err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: r.Key, To: r.Key,
			Detail: text.Sprintf("it counts the %d threads that there are", n)})
	}
	return nil
}
