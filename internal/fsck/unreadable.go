package fsck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// unreadable mends records that cannot be read: what they said is made again from what is around them, or they go. One
// that a later version wrote is left to that version, unless Config.Cut says that there is none. Heads come first, so
// that their threads are among the lost ones.
func (f *fixer) unreadable(ctx context.Context, heads bool) error {
	for _, found := range f.c.report.Findings {
		if isHead := strings.HasPrefix(found.Record, "thread."); found.Kind != Unreadable || isHead != heads {
			continue
		}
		rs, err := f.c.s.Records(ctx, found.Record)
		if err != nil {
			return err
		}
		if !rs[0].Exists() {
			continue
		}
		class, why := record.ClassOf(found.Record)
		if why == nil {
			why = class.Check(rs[0].Value)
		}
		later := errors.Is(why, record.ErrLater) || errors.Is(why, casstore.ErrVersion) || errors.Is(why, record.ErrClass)
		switch {
		case why == nil: // it was made again, or written since
		case !f.c.cfg.Cut && later:
			f.told(found.Record, "", "a later version wrote it: let that one read it; with --cut it goes")
		default:
			if err := f.mend(ctx, class, rs[0]); err != nil {
				return fmt.Errorf("repair %s: %w", found.Record, err)
			}
		}
	}
	return nil
}

func (f *fixer) told(key, to, format string, args ...any) {
	f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: key, To: to, Detail: fmt.Sprintf(format, args...)})
}

func (f *fixer) mend(ctx context.Context, class record.Class, r record.Record) error {
	_, id, _ := strings.Cut(r.Key, ".")
	put := func(value []byte, format string, args ...any) error {
		fence, err := f.w.Fence(ctx, 0)
		if err == nil {
			// A crash after this leaves one record less that cannot be read.
			_, err = f.w.Commit(ctx, fence, []record.Put{{Key: r.Key, Value: value, Expect: r.Seq}})
		}
		if err == nil {
			f.told(r.Key, r.Key, format, args...)
		}
		return err
	}
	switch class.Name {
	case "thread":
		return f.mendHead(ctx, r, put)
	case "session":
		info := sessions.Info{ID: id}
		for i := range f.c.heads {
			h := &f.c.heads[i]
			if h.id.Session != id {
				continue
			}
			if info.Created == 0 || h.Created < info.Created {
				info.Created = h.Created
			}
			info.Threads++
			info.Producers += h.lasting()
		}
		return put(info.Encode(), "it was made again from the session's threads; its title and the like are lost")
	case "counter":
		return put(record.Counter{Artifacts: f.c.newest[id].Seq}.Encode(), "it counts on behind the session's last artifact")
	case "moved":
		at, err := f.c.movedTo(ctx, id)
		if err != nil {
			return err
		}
		if at == (casstore.PackID{}) {
			return put(nil, "it was removed: nothing looks for that pack, or its nodes are nowhere")
		}
		return put(record.Moved{To: at}.Encode(), "it was made again: the nodes are in %s", at)
	case "pack", "blob":
		return put(nil, "it was removed: its bytes were not found")
	}
	if class.Alone() {
		return put(nil, "it was removed: what it said is lost")
	}
	if session := events.SessionOf(r.Key); session != "" {
		f.told(r.Key, "", "it goes with its session: spool session rm %s --force", session)
	}
	return nil
}

// mendHead removes a head that cannot be read, if its thread can be made again, which the caller does with lost
// threads.
func (f *fixer) mendHead(ctx context.Context, r record.Record, put func([]byte, string, ...any) error) error {
	t, ok := events.ParseHeadKey(r.Key)
	if !ok {
		return nil
	}
	stored, err := f.events(ctx, t)
	if err != nil {
		return err
	}
	whole, err := f.whole(ctx, stored)
	if err != nil {
		return err
	}
	it := f.c.items[t]
	known := it != nil && f.c.states[it.node] != nil && f.c.states[it.node].wrong == nil
	if !known && !whole {
		f.told(r.Key, "", "no state of the thread is known, and %s may not have all its events: restore it from a backup, "+
			"or spool session rm %s --force",
			events.EventsStream, t.Session)
		return nil
	}
	f.c.lostThreads = append(f.c.lostThreads, t)
	return put(nil, "it was removed, for its thread to be made again")
}

// movedTo finds the pack that has what is looked for in one that was moved; zero: nothing is, or it is nowhere.
func (c *checker) movedTo(ctx context.Context, id string) (at casstore.PackID, err error) {
	from, err := casstore.ParsePackID(id)
	if err != nil {
		return at, nil
	}
	var refs []casstore.Ref
	for l := range c.sought {
		if l.Pack == from {
			refs = append(refs, l.Ref)
		}
	}
	for i := range c.heads {
		for _, l := range append(c.heads[i].Roots(), c.heads[i].Start) {
			if l.Pack == from {
				refs = append(refs, l.Ref)
			}
		}
	}
	for _, ref := range refs {
		for _, p := range c.packs {
			if has, err := c.there(ctx, casstore.Located{Ref: ref, Pack: p.id}); err != nil || has {
				return p.id, err
			}
		}
	}
	return at, nil
}
