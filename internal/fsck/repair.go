package fsck

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Writer changes what is stored. Commit and Fence are those of a persister.
type Writer interface {
	Fence(ctx context.Context, lane int) (record.Fence, error)
	Commit(ctx context.Context, f record.Fence, puts []record.Put) (first uint64, err error)
	PublishEvents(ctx context.Context, evs []*events.Event) error
	PublishItems(ctx context.Context, items []events.Posted) error
	DropItems(ctx context.Context, t events.Thread, above int64) (n int, err error)

	// NameObject makes an object's name lead to it, whatever it led to.
	NameObject(ctx context.Context, o record.Object) error
}

// Packs are those that are stored. What UploadPack and UploadBlob write no record names yet.
type Packs interface {
	casstore.PackGetter
	UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error)
	UploadBlob(ctx context.Context, ref casstore.Ref, b []byte) (record.Blob, error)
}

// packCache is how many bytes of packs a repair keeps.
const packCache = 32 << 20

// Repair is what was done to a thread that has lost something, or to an artifact that is Misnamed, or why nothing was.
type Repair struct {
	Record   string `json:"record"`
	From     string `json:"from"`           // the state that cannot be read
	To       string `json:"to,omitempty"`   // the head since; empty: nothing was changed
	Lost     int64  `json:"lost"`           // entries between both
	Replayed int    `json:"replayed"`       // events that were published again
	Remade   int    `json:"remade"`         // nodes that were made again, under the same hashes
	Items    int    `json:"items"`          // items that were published again
	Name     string `json:"name,omitempty"` // of an object that leads to its bytes again
	Detail   string `json:"detail"`
}

// Fix looks at everything and repairs threads. What is missing behind a head is made again from SPOOL_EVENTS, so that nothing
// changes but that it is there; what cannot be is reported, and stays unless Config.Cut says otherwise. A head whose own state
// cannot be read goes back to its last ancestor that can, and the entries that the thread loses so are published again if
// SPOOL_EVENTS still has them; else the repair says what must be. What has other causes is left as it is. The findings are
// those from before.
func Fix(ctx context.Context, s Store, w Writer, packs Packs, cfg Config) (*Report, error) {
	c, err := look(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	if c, err = c.named(ctx, w, packs); err != nil {
		return nil, err
	}
	f := &fixer{c: c, w: w, packs: packs, r: threads.Reader{Packs: casstore.NewPackCache(packs, packCache)}}
	var gaps []gap
	for i := range c.heads {
		h := &c.heads[i]
		g, broken := c.gapOf(h)
		switch {
		case c.lost(h):
			gaps = append(gaps, gap{h: h, above: h.Entries + 1, newest: h.Recent[0].Ref, below: c.below(h, h.Entries)})
		case broken && c.found(h):
			gaps = append(gaps, g)
		case c.lostTip(h) && c.found(h): // made again from the beginning they have the same hash
			gaps = append(gaps, gap{h: h, above: h.Entries + 1})
		}
	}
	filled, err := f.fill(ctx, gaps)
	if err != nil {
		return nil, fmt.Errorf("repair gaps: %w", err)
	}
	// What is lost comes back before a head goes back: it may be what a thread goes back to, or begin with what another one goes back over.
	if err := f.unreadable(ctx, true); err != nil {
		return nil, err
	}
	if err := f.fixLost(ctx); err != nil {
		return c.report, err
	}
	for _, done := range filled {
		i := slices.IndexFunc(gaps, func(g gap) bool { return g.h.key == done.Record })
		switch h := gaps[i].h; {
		case done.To == "" && cfg.Cut && c.lostTip(h) && !c.lost(h):
			err = f.giveUpRest(ctx, h)
		case done.To == "" && (cfg.Cut || c.lost(h) || c.spare(h)):
			err = f.repair(ctx, h, f.fix)
		default:
			c.report.Repairs = append(c.report.Repairs, done)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range c.heads {
		h := &c.heads[i]
		if h.lostProducers() && c.found(h) && !slices.ContainsFunc(gaps, func(g gap) bool { return g.h == h }) {
			if err := f.giveUpRest(ctx, h); err != nil {
				return nil, err
			}
		}
	}
	for _, fix := range []func(context.Context) error{f.fixNames, f.fixKept, f.fixRefused} {
		if err := fix(ctx); err != nil {
			return nil, err
		}
	}
	if err := f.fixItems(ctx); err != nil {
		return c.report, err
	}
	if err := f.fixNameless(ctx); err != nil {
		return c.report, err
	}
	if err := f.fixSessions(ctx); err != nil {
		return c.report, err
	}
	if err := f.publishAgain(ctx); err != nil {
		return c.report, fmt.Errorf("publish again what is lost: %w", err)
	}
	err = f.unreadable(ctx, false)
	for _, found := range c.before {
		if !slices.Contains(c.report.Findings, found) {
			c.report.Findings = append(c.report.Findings, found)
		}
	}
	return c.report, err
}

// fixNames makes the names of objects lead to their bytes again.
func (f *fixer) fixNames(ctx context.Context) error {
	for _, m := range f.c.misnamed {
		same, err := f.c.unchanged(ctx, m.key, m.seq)
		if err == nil && same {
			err = f.w.NameObject(ctx, m.o)
		}
		if err != nil {
			return fmt.Errorf("repair %s: %w", m.key, err)
		}
		if same {
			done := Repair{Record: m.key, Name: m.o.Name, Detail: "the name of its object leads to its bytes again"}
			f.c.report.Repairs = append(f.c.report.Repairs, done)
		}
	}
	return nil
}

// repair has one head repaired, and notes it.
func (f *fixer) repair(ctx context.Context, h *head, how func(context.Context, *head) (Repair, error)) error {
	done, err := how(ctx, h)
	if err != nil {
		return fmt.Errorf("repair %s: %w", h.key, err)
	}
	f.c.report.Repairs = append(f.c.report.Repairs, done)
	return nil
}

// found reports whether something is wrong with a head that is still the one that was looked at.
func (c *checker) found(h *head) bool {
	return slices.ContainsFunc(c.report.Findings, func(f Finding) bool { return f.Record == h.key })
}

// lost reports whether the state at a thread's head is gone and the record is still the one that was looked at.
func (c *checker) lost(h *head) bool {
	return len(h.Recent) > 0 && slices.ContainsFunc(c.report.Findings, func(f Finding) bool {
		return f.Record == h.key && f.Tip == h.Recent[0].Ref.String()
	})
}

type fixer struct {
	c     *checker
	w     Writer
	packs Packs
	r     threads.Reader

	recovered []head            // that were lost
	again     [][]*events.Event // to publish

	nodes map[events.Thread]map[int64]casstore.Ref // of itemNodes
}

// publish has events published again at the end of the repair: a persister that applies one sooner makes a record of its
// session, if that is lost, of no more than that.
func (f *fixer) publish(evs []*events.Event) { f.again = append(f.again, evs) }

func (f *fixer) publishAgain(ctx context.Context) error {
	for _, evs := range f.again {
		// A crash before this leaves threads without what came behind the state that they were made again from: the next repair publishes it.
		if err := f.w.PublishEvents(ctx, evs); err != nil {
			return err
		}
	}
	return nil
}

func (f *fixer) fix(ctx context.Context, h *head) (Repair, error) {
	done := Repair{Record: h.key, From: h.Recent[0].Ref.String()}
	at, why := f.ancestor(h)
	if at.IsZero() {
		done.Detail = why
		return done, nil
	}
	step, err := f.r.Step(ctx, at)
	if err != nil {
		return done, err
	}
	now, err := f.back(ctx, h, step)
	if err != nil {
		return done, err
	}
	if there, err := f.c.there(ctx, h.Start); err != nil {
		return done, err
	} else if i, equal := f.c.starts[h.Start.Ref]; !there && equal {
		now.Start.Pack = f.c.packs[i].id
	}
	done.Lost = h.Entries - now.Entries
	evs, why, err := f.lostEvents(ctx, h, step, done.Lost)
	if err != nil {
		return done, err
	}
	if len(evs) > 0 {
		f.forget(&now, evs)
	}
	now.Gaps = nil // what a producer left out is known no more
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return done, err
	}
	// A crash after this leaves a thread that is shorter and whole. Its producers may publish again what it lost.
	puts := []record.Put{{Key: h.key, Value: now.Encode(), Expect: h.seq}}
	if _, err := f.w.Commit(ctx, fence, puts); err != nil {
		return done, err
	}
	if done.To, done.Detail = at.Ref.String(), why; done.To == done.From {
		done.Detail = "it has lost nothing: another thread has states that are equal to those that are lost, and it stands on these"
	}
	for _, e := range evs {
		if e.lost && !e.refused {
			f.publish([]*events.Event{e.again()})
			done.Replayed++
		}
	}
	if done.Lost > 0 && done.Replayed == 0 { // else they are made again, under the same numbers
		n, err := f.w.DropItems(ctx, h.id, now.N)
		if err != nil {
			return done, err
		}
		if n > 0 {
			done.Detail += text.Sprintf("; %d items above %d went with them, and who had read them is not given the numbers again", n, now.N)
		}
	}
	return done, nil
}

// back is the head as it was at a step. What a listing counts stays as it is.
func (f *fixer) back(ctx context.Context, h *head, step threads.Step) (now threads.Head, err error) {
	now = h.Clone()
	now.Seen = casstore.Located{} // all that it tells of is among the producers
	if now.Recent, err = f.r.Recent(ctx, step.At); err != nil {
		return now, err
	}
	gone := func(l casstore.Located) bool { return f.c.states[l.Ref] == nil || l.Ref == step.At.Ref }
	now.Tips = slices.DeleteFunc(now.Tips, gone)
	now.Entries, now.N = step.Entry.Index, 0
	if last, ok := step.Entry.LastItem(); ok {
		now.N = last
	}
	for _, tip := range now.Tips {
		s := f.c.states[tip.Ref]
		now.Entries = max(now.Entries, s.index)
		if last, ok := s.last(); ok {
			now.N = max(now.N, last)
		}
	}
	now.Sent = min(now.Sent, now.N)
	if now.Leaf = step.Entry.ID; dialect.Beside(now.Dialect, step.Entry.Dialect) {
		now.Leaf = "" // it is looked up
	}
	if now.Status != threads.StatusFailed { // and stays so until it is reopened
		now.Status = threads.StatusActive
	}
	now.Updated, now.Claimed = 0, 0
	dated := step
	if now.Status != threads.StatusFailed && f.c.ended(step.At.Ref) {
		now.Status = threads.StatusCompleted
		if dated, err = f.endOf(ctx, step); err != nil {
			return now, err
		}
	}
	now.Date(dated.Timestamp, events.Believed(dated.Timestamp, time.Now().UnixMilli()))
	kept := h.record().Clone()
	if !kept.Older.IsZero() && !h.lostTips() && !slices.ContainsFunc(h.Tips[len(kept.Tips):], gone) {
		now.Older, now.OlderTips = kept.Older, kept.OlderTips
		now.Tips = slices.DeleteFunc(kept.Tips, gone)
	}
	now.Memory, err = memoryAfter(ctx, step)
	return now, err
}

// endOf is the end behind which a step is, or which it is.
func (f *fixer) endOf(ctx context.Context, step threads.Step) (threads.Step, error) {
	for s, err := range f.r.Walk(ctx, step.At) {
		if err != nil || s.Role == threads.RoleEnd {
			return s, err
		}
	}
	return step, nil
}

func memoryAfter(ctx context.Context, step threads.Step) ([]byte, error) {
	m, err := dialect.DecodeMemory(step.Entry.Memory)
	if err != nil {
		return nil, err
	}
	d, ok := project.Made(step.Entry.Projection)
	if !ok {
		return m.Encode(), nil
	}
	text, err := textOf(ctx, step)
	if err == nil {
		_, err = d.Read(text, &m)
	}
	return m.Encode(), err
}

// textOf is an entry as it was persisted.
func textOf(ctx context.Context, step threads.Step) ([]byte, error) {
	if step.Entry.Raw != nil {
		return step.Entry.Raw, nil
	}
	c, err := step.ReadContent(ctx)
	return c.Text, err
}

// lostEvents finds the events behind the last states of a thread: as many as made a state each, and all between them. why
// says what must be published again when they are not there for certain.
func (f *fixer) lostEvents(ctx context.Context, h *head, step threads.Step, lost int64) (evs []replayed, why string, err error) {
	byHand := func(format string, args ...any) ([]replayed, string, error) {
		return nil, text.Sprintf("publish the last %d entries again, from after entry %d on, as a producer of another name: ",
			lost, step.Entry.Index) + fmt.Sprintf(format, args...), nil
	}
	if lost <= 0 {
		return nil, "", nil
	}
	if len(h.Tips) > 0 {
		return byHand("the thread has branches")
	}
	stored, err := f.events(ctx, h.id)
	if err != nil {
		return nil, "", err
	}
	made := []int{} // indexes of events that made a state
	for _, e := range stored {
		if e.Seq <= h.Applied {
			if makesState(e.Event) && !e.refused {
				made = append(made, len(evs))
			}
			evs = append(evs, e)
		}
	}
	first := len(made) - int(lost)
	if first < 0 {
		return byHand("SPOOL_EVENTS has %d of them", len(made))
	}
	if first > 0 && !f.made(ctx, evs[made[first-1]].Event, step) {
		return byHand("it cannot be told which events of SPOOL_EVENTS they are")
	}
	for i := made[first]; i < len(evs); i++ {
		if evs[i].lost = true; evs[i].refused {
			continue
		}
		if evs[i].Kind == events.KindChunk || evs[i].Ref != nil {
			return byHand("SPOOL_EVENTS has not got all that they were made of")
		}
	}
	return evs, "", nil
}

// makesState reports whether an event appends to its thread, if it is applied at all.
func makesState(e events.Event) bool {
	if e.Kind != events.KindControl {
		return e.Kind == events.KindEntry
	}
	op, err := events.ParseControl(e.Body)
	return err == nil && !slices.Contains([]events.Op{events.OpStart, events.OpBranch, events.OpReset, events.OpRename,
		events.OpReopen, events.OpRemove, events.OpName, events.OpMove}, op.Op)
}

// made reports whether a state is what became of an event.
func (f *fixer) made(ctx context.Context, e events.Event, step threads.Step) bool {
	d, ok := dialect.Lookup(e.Dialect)
	if !ok || step.Entry.Dialect != e.Dialect {
		return false
	}
	body := e.Body
	if f.c.cfg.Secrets != nil {
		body, _ = f.c.cfg.Secrets.Clean(body, dialect.IsJSON(e.Dialect))
	}
	if step.Entry.ID != "" {
		read, err := d.Read(body, nil)
		return err == nil && read.ID == step.Entry.ID
	}
	text, err := textOf(ctx, step)
	return err == nil && bytes.Equal(text, body)
}

// forget makes a head know no more of its producers than it did before the lost events.
func (f *fixer) forget(now *threads.Head, evs []replayed) {
	first := slices.IndexFunc(evs, func(e replayed) bool { return e.lost })
	now.Applied = evs[first].Seq - 1
	for _, e := range evs[first:] {
		now.Producers = slices.DeleteFunc(now.Producers, func(p threads.Producer) bool { return p.ID == e.Producer })
	}
	for _, e := range evs[:first] {
		now.Applied = max(now.Applied, e.Seq) // the first lost one may share a message with it
		if !slices.ContainsFunc(evs[first:], func(l replayed) bool { return l.Producer == e.Producer }) {
			continue
		}
		now.Saw(e.Producer, e.Epoch, e.StoredEvent.Event.Seq, e.StoredEvent.Seq)
	}
}
