package fsck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"spool/internal/apply"
	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// fixSessions makes the records of sessions again that have threads and no record: from what their entries said, as persisters learned it
// from them, and from what operations said of it, as far as SPOOL_EVENTS has them. The agent's machine is nowhere else.
func (f *fixer) fixSessions(ctx context.Context) error {
	for _, key := range f.c.noRecord {
		rs, err := f.c.s.Records(ctx, key)
		if err != nil {
			return err
		}
		if rs[0].Exists() { // a persister wrote it meanwhile
			continue
		}
		info, err := f.session(ctx, strings.TrimPrefix(key, "session."))
		if unread(err) {
			f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: key, Detail: fmt.Sprintf("its main thread cannot be read: %v", err)})
			continue
		}
		if err != nil {
			return fmt.Errorf("repair %s: %w", key, err)
		}
		fence, err := f.w.Fence(ctx, 0)
		if err == nil {
			_, err = f.w.Commit(ctx, fence, []record.Put{{Key: key, Value: info.Encode(), Expect: rs[0].Seq}})
		}
		if err != nil {
			return fmt.Errorf("repair %s: %w", key, err)
		}
		f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: key, To: key,
			Detail: text.Sprintf("it was made again from its %d threads and what %s has", info.Threads, events.EventsStream)})
	}
	return nil
}

// lasting is how many producers a thread has that are no process of a moment.
func (h *head) lasting() (n int64) {
	for _, p := range h.Producers {
		if !strings.HasPrefix(p.ID, threads.Ephemeral) {
			n++
		}
	}
	return n
}

// session is what the threads of a session say of it.
func (f *fixer) session(ctx context.Context, id string) (info sessions.Info, err error) {
	var heads []*head
	producers, created := int64(0), int64(0)
	all := slices.Concat(f.c.heads, f.recovered)
	for i := range all {
		h := &all[i]
		if h.id.Session != id {
			continue
		}
		heads = append(heads, h)
		if h.Created != 0 && (created == 0 || h.Created < created) {
			created = h.Created
		}
		producers += h.lasting()
	}
	slices.SortStableFunc(heads, func(a, b *head) int { return cmp.Compare(a.Created, b.Created) })
	main := heads[max(slices.IndexFunc(heads, func(h *head) bool { return h.id.Name == events.MainThread }), 0)]
	info, err = project.Relearn(ctx, f.r, main.id, main.Head, func(source string) (sessions.Info, error) {
		rs, err := f.c.s.Records(ctx, events.SessionKey(source))
		if err != nil || !rs[0].Exists() {
			return sessions.Info{ID: source}, err
		}
		info, _ := sessions.DecodeInfo(rs[0].Value) // one that cannot be read is told elsewhere
		return info, nil
	})
	if err != nil {
		return info, err
	}
	info.Threads, info.Producers = int64(len(heads)), producers
	info.Created = cmp.Or(created, info.Created)
	if dialect.IsJSON(main.Dialect) {
		info.Harness = dialect.Lead(info.Harness, main.Dialect)
	}
	return info, f.said(ctx, heads, main, &info)
}

// said takes in what operations on threads said of their session, and what producers of its main thread said of their file.
func (f *fixer) said(ctx context.Context, heads []*head, main *head, info *sessions.Info) error {
	var ops []replayed
	for _, h := range heads {
		stored, err := f.events(ctx, h.id)
		if err != nil {
			return err
		}
		for _, e := range stored {
			if e.refused || e.Seq > h.Applied {
				continue
			}
			if h == main {
				apply.LearnPlace(info, &e.Event)
			}
			if e.Kind == events.KindControl {
				ops = append(ops, e)
			}
		}
	}
	slices.SortFunc(ops, func(a, b replayed) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range ops {
		op, err := events.ParseControl(e.Body)
		if err != nil {
			continue
		}
		switch op.Op {
		case events.OpName:
			_ = info.Name(op.Name.Title, apply.TitleSource(*op.Name)) // one that was refused says nothing
		case events.OpMove:
			_ = info.Move(op.Move.Cwd)
		case events.OpFork:
			if from := op.Fork.Session; from != info.ID && !slices.Contains(strings.Fields(info.Origins), from) {
				info.ForkOf(from, sessions.Info{})
			}
		}
	}
	return nil
}
