package fsck

import (
	"context"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// dialects are the names of those that states have, by the small numbers that stand for them.
type dialects []string

// number stands for a name; 0 for none, and for what is too much for it.
func (d *dialects) number(name string) uint8 {
	if len(*d) == 0 {
		*d = append(*d, "")
	}
	at := slices.Index(*d, name)
	if at < 0 && len(*d) <= 255 {
		at, *d = len(*d), append(*d, name)
	}
	return uint8(max(at, 0))
}

// lead is the dialect of a thread that ends with a state: a state is asked once, whatever threads go through it.
func (c *checker) lead(at casstore.Ref) string {
	var path []*state
	name := ""
	for s := c.states[at]; s != nil; s = c.states[s.parent] {
		if s.led {
			name = c.dialects[s.lead]
			break
		}
		path = append(path, s)
	}
	for _, s := range slices.Backward(path) {
		if own := c.dialects[s.dialect]; own != "" {
			name = dialect.Lead(name, own)
		}
		s.lead, s.led = c.dialects.number(name), true
	}
	return name
}

// misread notes that a head has the dialect of what stands beside its agent's entries: an earlier version let that take the thread, and
// its context, tree and file are nowhere then.
func (c *checker) misread(h *head, say func(string, ...any)) {
	if len(h.Recent) == 0 {
		return
	}
	if lead := c.lead(h.Recent[0].Ref); lead != h.Dialect && dialect.Beside(lead, h.Dialect) {
		h.lead = lead
		say("its dialect is %s, and its agent's entries are of the dialect %s", h.Dialect, lead)
	}
}

// fixDialects gives threads back to their agents, and their sessions. The leaf is looked up.
func (f *fixer) fixDialects(ctx context.Context) error {
	for i := range f.c.heads {
		h := &f.c.heads[i]
		if h.lead == "" || !f.c.found(h) {
			continue
		}
		if err := f.giveBack(ctx, h); err != nil {
			return fmt.Errorf("repair %s: %w", h.key, err)
		}
	}
	return nil
}

func (f *fixer) giveBack(ctx context.Context, h *head) error {
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return err
	}
	now := h.record().Clone()
	now.Dialect, now.Leaf = h.lead, ""
	puts := []record.Put{{Key: h.key, Value: now.Encode(), Expect: h.seq}}
	rs, err := f.c.s.Records(ctx, events.SessionKey(h.id.Session))
	if err != nil {
		return err
	}
	if info, err := sessions.DecodeInfo(rs[0].Value); err == nil && rs[0].Exists() && h.id.Name == events.MainThread &&
		dialect.Beside(h.lead, info.Harness) {
		info.Harness = h.lead
		puts = append(puts, record.Put{Key: rs[0].Key, Value: info.Encode(), Expect: rs[0].Seq})
	}
	// A crash after this leaves the thread as it is to be.
	if _, err := f.w.Commit(ctx, fence, puts); err != nil {
		return err
	}
	at := now.Head().Ref.String()
	f.c.report.Repairs = append(f.c.report.Repairs, Repair{Record: h.key, From: at, To: at,
		Detail: fmt.Sprintf("it is a thread of %s entries again: what is of the dialect %s stands beside them", h.lead, h.Dialect)})
	return nil
}
