package fsck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// No node says which thread it is of. Where the records have lost what they held (Config.Lost), and neither items nor
// events tell of a thread, its states are there and nothing leads to them: that they are garbage is what a collector
// would take them for. So each newest state that no thread has is a finding, and a repair gives it a thread of its own,
// in a session that is called after it. What was garbage when the records were lost cannot be told apart, and comes back
// as well; a session of that name that was deleted since says that somebody has looked.

// lostPrefix begins the names of sessions that hold what a repair found.
const lostPrefix = "lost-"

// nameless is what no record names.
type nameless struct {
	states []casstore.Ref  // good ones, each the newest of its line
	broken bool            // there are states that cannot be read, and so are nobody's
	rows   []record.Stored // artifacts
}

// entryID is what an entry says, its time, and the id that it came with, whatever thread it is in.
type entryID struct {
	sum [16]byte
	own bool // it came with an id
}

func idOf(st *threads.State) (id entryID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", st.Content, st.Timestamp, st.Entry.ID))
	copy(id.sum[:], sum[:])
	id.own = st.Entry.ID != ""
	return id
}

// runLen is how many entries in a row are the same entries, whether they came with ids or not.
const runLen = 8

// run is the hash of so many.
type run [16]byte

// runTo gives the run that ends with a state, and its states; ok: there are as many.
func (c *checker) runTo(ref casstore.Ref) (r run, states [runLen]casstore.Ref, ok bool) {
	all := make([]byte, 0, runLen*len(entryID{}.sum))
	for i := range states {
		s := c.states[ref]
		if s == nil {
			return r, states, false
		}
		all = append(all, s.entry.sum[:]...)
		states[i], ref = ref, s.parent
	}
	sum := sha256.Sum256(all)
	copy(r[:], sum[:])
	return r, states, true
}

// elsewhere gives the states that threads have, or of whose entries they have others: a thread that began anew and was
// put behind what it had before has left such states. An entry is the
// same by its id, or as one of a run.
func (c *checker) elsewhere(had map[casstore.Ref]bool) map[casstore.Ref]bool {
	ids, runs := map[entryID]bool{}, map[run]bool{}
	for ref := range had {
		if e := c.states[ref].entry; e.own {
			ids[e] = true
		}
		if r, _, ok := c.runTo(ref); ok {
			runs[r] = true
		}
	}
	out := maps.Clone(had)
	for ref, s := range c.states {
		if ids[s.entry] {
			out[ref] = true
		}
		if r, states, ok := c.runTo(ref); ok && runs[r] {
			for _, ref := range states {
				out[ref] = true
			}
		}
	}
	return out
}

// namelessThread is the thread that a state gets.
func namelessThread(ref casstore.Ref) events.Thread {
	return events.Thread{Session: lostPrefix + ref.Hex()[:16], Name: events.MainThread}
}

// checkNameless finds what no record names, if records were lost.
func (c *checker) checkNameless(ctx context.Context) error {
	if c.cfg.Lost == "" {
		return nil
	}
	for _, step := range []func(context.Context) error{c.namelessPacks, c.namelessStates, c.namelessArtifacts} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// namelessPacks finds packs that have their bytes and no record.
func (c *checker) namelessPacks(ctx context.Context) error {
	all, err := c.s.Stored(ctx, events.NodesBucket)
	if err != nil {
		return err
	}
	for _, s := range all {
		text, _, _ := strings.Cut(s.Object.Name, ".")
		id, err := casstore.ParsePackID(text)
		if err != nil {
			continue
		}
		rs, err := c.s.Records(ctx, events.PackKey(id.String()))
		if err != nil {
			return err
		}
		if rs[0].Seq != 0 {
			continue
		}
		if err := c.find(ctx, 0, Finding{Kind: Missing, Record: events.PackKey(id.String()),
			Detail: fmt.Sprintf("its bytes are in %s, and no record names them", events.ObjectStream(events.NodesBucket))}); err != nil {
			return err
		}
	}
	return nil
}

// namelessStates finds the newest states that no thread has, and no other ones of the same entries.
func (c *checker) namelessStates(ctx context.Context) error {
	had := c.others(nil)
	for _, h := range c.left {
		c.addStates(&head{Head: h}, had)
	}
	had = c.elsewhere(had)
	nobodys := func(ref casstore.Ref, s *state) bool {
		return !had[ref] && !c.packs[s.pack].rec.IsBuried(s.node)
	}
	line := map[casstore.Ref]bool{} // states that another one of nobody goes on from; of one that cannot be read, only such ones
	for ref, s := range c.states {
		if parent := c.states[s.parent]; nobodys(ref, s) && parent != nil && (s.wrong == nil || parent.wrong != nil) {
			line[s.parent] = true
		}
	}
	refs := slices.SortedFunc(maps.Keys(c.states), func(a, b casstore.Ref) int { return cmp.Compare(a.Hex(), b.Hex()) })
	for _, ref := range refs {
		s := c.states[ref]
		if line[ref] || !nobodys(ref, s) || s.wrong != nil && c.cfg.Cut {
			continue
		}
		t := namelessThread(ref)
		rs, err := c.s.Records(ctx, events.DeletedKey(t.Session))
		if err != nil {
			return err
		}
		if rs[0].Exists() {
			continue
		}
		f := Finding{Kind: Missing, Record: events.HeadKey(t),
			Detail: text.Sprintf("no thread has the %d entries up to the state %s", s.index, ref)}
		if s.wrong != nil {
			f.Detail = fmt.Sprintf("the state %s of entry %d is nobody's, and not whole: %s", ref, s.index, s.wrong.Detail)
			c.nameless.broken = true
		} else {
			c.nameless.states = append(c.nameless.states, ref)
		}
		if err := c.find(ctx, 0, f); err != nil {
			return err
		}
	}
	return nil
}

// namelessArtifacts finds bytes of artifacts of which no row tells, nor that there was one.
func (c *checker) namelessArtifacts(ctx context.Context) error {
	all, err := c.s.Stored(ctx, events.ArtifactsBucket)
	if err != nil {
		if errors.Is(err, record.ErrNotFound) {
			err = nil
		}
		return err
	}
	named := map[string]bool{}
	for _, a := range c.artifacts {
		named[a.Object] = true
	}
	for _, s := range all {
		row, ok := rowOf(s.Object.Name)
		if !ok || named[s.Object.Name] {
			continue
		}
		key := events.ArtifactKey(row.Session, string(row.ID))
		rs, err := c.s.Records(ctx, key, events.DeletedKey(row.Session))
		if err != nil {
			return err
		}
		if rs[0].Seq != 0 || rs[1].Exists() {
			continue
		}
		c.nameless.rows = append(c.nameless.rows, s)
		if err := c.find(ctx, 0, Finding{Kind: Missing, Record: key,
			Detail: fmt.Sprintf("its bytes are in %s, and no record tells of it", events.ObjectStream(events.ArtifactsBucket))}); err != nil {
			return err
		}
	}
	return nil
}

// rowOf is what the name of an artifact's object says (artifacts.Record.ObjectName).
func rowOf(object string) (r artifacts.Record, ok bool) {
	parts := strings.Split(object, "/")
	if len(parts) != 3 {
		return r, false
	}
	r = artifacts.Record{Session: parts[0], ID: artifacts.ID(parts[1]), Filename: parts[2], Object: object,
		Category: artifacts.Normal, Writer: artifacts.FromPayload}
	return r, r.Validate() == nil
}

// fixNameless gives names to what has none, once nothing else can claim it: what this repair, or a persister, makes
// again may be what seems to be nobody's.
func (f *fixer) fixNameless(ctx context.Context) error {
	n := f.c.nameless
	if err := f.fixRows(ctx, n.rows); err != nil {
		return err
	}
	if n.broken {
		f.told(events.HeadKey(events.Thread{Session: lostPrefix + "*", Name: "*"}), "",
			"what is not whole stays, and so does every alarm: restore its packs from a backup; with --cut it is given up")
	}
	if len(n.states) == 0 {
		return nil
	}
	applied, err := f.allApplied(ctx)
	if err != nil {
		return err
	}
	mended := slices.ContainsFunc(f.c.report.Repairs, func(r Repair) bool {
		return r.To != "" && (strings.HasPrefix(r.Record, "thread.") || strings.HasPrefix(r.Record, "history."))
	})
	for _, ref := range n.states {
		key := events.HeadKey(namelessThread(ref))
		if mended || !applied {
			f.told(key, "", "first what other threads miss is applied again, which may be this: repair once more then")
			continue
		}
		if err := f.adopt(ctx, ref); err != nil {
			return fmt.Errorf("repair %s: %w", key, err)
		}
	}
	return nil
}

// allApplied reports whether persisters have dealt with all that SPOOL_EVENTS holds.
func (f *fixer) allApplied(ctx context.Context) (bool, error) {
	states, err := f.c.s.StreamStates(ctx)
	return !slices.ContainsFunc(states, func(s record.StreamState) bool {
		return s.Stream == events.EventsStream && s.Last >= f.c.floor
	}), err
}

// adopt gives a state a thread.
func (f *fixer) adopt(ctx context.Context, ref casstore.Ref) error {
	t := namelessThread(ref)
	now, step, err := f.headAt(ctx, t, ref)
	if err != nil {
		return err
	}
	info := sessions.Info{ID: t.Session, Created: now.Created, Answered: true,
		Title: text.Sprintf("found by fsck, %d entries", step.Entry.Index)}
	if err := f.putHead(ctx, t, &now, &info); err != nil {
		return err
	}
	f.told(events.HeadKey(t), ref.String(),
		"its name is lost: it has entries up to %d in a session of its own, and what its producers publish again it will take for new",
		step.Entry.Index)
	return nil
}

// began is the time of the first state that is a thread's own.
func (f *fixer) began(ctx context.Context, at casstore.Located) (ms int64, err error) {
	for step, err := range f.r.Walk(ctx, at) {
		if err != nil {
			return 0, err
		}
		if ms = step.Timestamp; step.Role == threads.RoleFork {
			break
		}
	}
	return ms, nil
}

// headAt is the head of a thread that ends with a state.
func (f *fixer) headAt(ctx context.Context, t events.Thread, ref casstore.Ref) (now threads.Head, step threads.Step, err error) {
	if step, err = f.r.Step(ctx, casstore.Located{Ref: ref, Pack: f.c.packs[f.c.states[ref].pack].id}); err != nil {
		return now, step, err
	}
	h := &head{key: events.HeadKey(t), id: t}
	if h.Start, err = step.Locate(step.Start); err != nil {
		return now, step, err
	}
	if h.Dialect, err = (rehydrate.Source{Reader: f.r}).Dialect(ctx, step.At); err != nil {
		return now, step, err
	}
	if now, err = f.back(ctx, h, step); err != nil {
		return now, step, err
	}
	now.Sent = now.N
	if now.Created, err = f.began(ctx, step.At); err != nil {
		return now, step, err
	}
	return now, step, nil
}

// fixRows makes the records of artifacts again, from their names and what nodes tell of them, and with them their
// sessions' and their counters'.
func (f *fixer) fixRows(ctx context.Context, rows []record.Stored) error {
	for _, s := range rows {
		row, _ := rowOf(s.Object.Name)
		o, err := f.c.s.Stat(ctx, s.Object.Bucket, s.Object.Name)
		if err != nil || o.NUID != s.Object.NUID {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue // it was put again meanwhile, or is not whole
		}
		told := f.c.pointers[row.ID]
		row.Seq, row.MIME, row.Summary = artifacts.Seq(told.Seq), told.MIME, told.Summary
		row.Created, row.Size, row.Locator = time.Now().Add(-s.Age).UnixMilli(), o.Size, o.Locator()
		if err := f.putRow(ctx, row); err != nil {
			return fmt.Errorf("repair %s: %w", events.ArtifactKey(row.Session, string(row.ID)), err)
		}
	}
	return nil
}

func (f *fixer) putRow(ctx context.Context, row artifacts.Record) error {
	key := events.ArtifactKey(row.Session, string(row.ID))
	rs, err := f.c.s.Records(ctx, key, events.SessionKey(row.Session), events.CounterKey(row.Session))
	if err != nil || rs[0].Seq != 0 {
		return err
	}
	puts := []record.Put{{Key: key, Value: row.Encode()}}
	if !rs[1].Exists() {
		info := sessions.Info{ID: row.Session, Created: row.Created}
		puts = append(puts, record.Put{Key: rs[1].Key, Value: info.Encode(), Expect: rs[1].Seq})
	}
	counter := record.Counter{}
	if rs[2].Exists() {
		if counter, err = record.DecodeCounter(rs[2].Value); err != nil {
			return err
		}
	}
	if row.Seq.Compare(counter.Artifacts) > 0 {
		counter.Artifacts = row.Seq
		puts = append(puts, record.Put{Key: rs[2].Key, Value: counter.Encode(), Expect: rs[2].Seq})
	}
	fence, err := f.w.Fence(ctx, 0)
	if err != nil {
		return err
	}
	// A crash after this leaves a row less that is missing.
	if _, err := f.w.Commit(ctx, fence, puts); err != nil {
		return err
	}
	f.told(key, row.Object, "its record was made again from its bytes' name; who wrote it, and its kind, are lost")
	return nil
}
