package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// commit is one batch on its way through the lane.
type commit struct {
	id    [16]byte // written into every head: tells a commit whose answer was lost from one that was refused
	epoch uint64
	now   time.Time     // when it was begun
	link  uint64        // connection over which its heads were read
	flush chan struct{} // not a commit but a marker of stage 1: nothing that was prepared before it is left
	fence record.Fence
	quick bool // there was much to do when it was begun

	events     []*staged       // all of the batch, in order, the skipped and the dead too
	pack       casstore.PackID // zero while it has no nodes
	nodes      *casstore.PackBuilder
	packed     *packed               // the finished pack
	refers     map[casstore.Ref]bool // blobs that steps refer to and somebody else stored
	blobs      map[casstore.Ref][]byte
	uploads    map[casstore.Ref]*uploaded // blobs whose bytes are in the bucket already
	threads    []*touched                 // in the order of their first event
	byKey      map[events.Thread]*touched
	infos      map[*session][]byte   // records of the sessions that change; later commits may be changing the sessions already
	records    map[string]record.Put // of prompts, by key
	rows       [][]record.Put        // of artifacts that forks inherit
	runs       map[string]record.Put // records of runs, by key; nil while there is none
	outputs    []*touchedOutput      // open ones with news, or that end
	results    []*attached           // large results
	numbers    map[*counter][]byte   // records of the counters that artifacts took numbers from
	numbered   []*counter            // the same, in the order of their puts
	items      []events.Posted
	room       project.Arena // their memory
	reconcile  []reconcile
	doubts     doubts
	refused    map[place]error                 // events that it refuses, and why
	nowhere    map[*refusals][]record.Identity // those of which no head says so
	partitions map[int]*refusals               // of its events
	refusals   []refusal                       // that it writes
	unnoted    []unnoted
	failed     error     // why it can not be sealed
	ends       bool      // what follows in the batch is for another commit
	deletion   *deletion // of a session: then there is nothing else
}

type packed struct{ header, body []byte }

// touched is a thread with news in a commit.
type touched struct {
	*thread
	was     events.Thread      // its name as it was before the commit
	key     events.Thread      // its name as the commit leaves it: a later one may rename it while this one is being published
	record  string             // key of the head's record as the commit leaves it
	removes string             // key that it leaves, when the thread ends: the commit appends to the history and removes at once (SPEC C4)
	value   []byte             // head record
	last    int64              // number of its last item
	base    casstore.PackID    // pack of the parent that the first new state builds on; zero for a new thread
	leaves  *apply.Leaving     // it is renamed or removed
	beside  []casstore.PackID  // packs of other states that the thread has from now on, or goes back to
	refers  []casstore.Located // nodes that its steps name by themselves
}

// empty reports that nothing is to be stored.
func (c *commit) empty() bool { return c.pack.IsZero() }

// commit makes a batch durable: the steps of DESIGN 8. Each attempt may follow one whose outcome is unknown.
func (p *Persister) commit(ctx context.Context, c *commit) error {
	if c.empty() && len(c.refusals) == 0 {
		return nil
	}
	// Step 0, the fence, was read when the batch was prepared, before any byte of it was uploaded.

	// Step 1: bulk. A crash here leaves bytes that no record names.
	if err := p.At(StepBulk); err != nil {
		return err
	}
	puts, at, err := p.bulk(ctx, c)
	if err != nil {
		return err
	}

	// Step 2: everything that decides existence, and what is refused, at once. A crash here leaves the old world or the new one: an
	// event that comes again is judged anew, or is refused with the reason that is noted.
	if err := p.At(StepCommit); err != nil {
		return err
	}
	first, err := p.Records.Commit(ctx, c.fence, puts)
	if errors.Is(err, record.ErrUnknown) || errors.Is(err, record.ErrConflict) {
		if done, e := p.committed(ctx, c); e != nil || done {
			return e
		}
	}
	if err != nil {
		return err
	}
	for i, r := range c.refusals {
		r.rev = first + uint64(i)
	}
	for i, t := range c.threads {
		t.rev = first + uint64(at.heads+i)
	}
	for i, s := range at.sessions {
		s.rev = first + uint64(at.infos+i)
	}
	c.settleOutputs(first + uint64(at.tools))
	p.stats.commits.Add(1)
	return nil
}

// committed asks whether a commit is done whose answer was lost: then its heads, and what it notes as refused, carry its
// id. It may be that an earlier attempt was meant to be lost and this one met it as a conflict.
func (p *Persister) committed(ctx context.Context, c *commit) (bool, error) {
	var keys []string
	var values [][]byte
	var revs []*uint64
	for _, r := range c.refusals {
		keys, values, revs = append(keys, events.RefusedKey(r.partition)), append(values, r.value), append(revs, &r.rev)
	}
	for _, t := range c.threads {
		keys, values, revs = append(keys, t.record), append(values, t.value), append(revs, &t.rev)
	}
	rs, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return false, err
	}
	for i, r := range rs {
		if !bytes.Equal(r.Value, values[i]) {
			return false, nil
		}
	}
	for i, r := range rs {
		*revs[i] = r.Seq
	}
	return true, errors.Join(p.learnSessions(ctx, c), p.learnOutputs(ctx, c))
}

// seal finishes the pack. Compressing is a sixth of the work of an entry: a batch that has grown, because there is more to do
// than can be done at once, is compressed quickly, and thoroughly when it is repacked (docs/adr/0007-quick-packs.md).
func (p *Persister) seal(c *commit) error {
	if c.empty() || c.nodes.Len() == 0 {
		return nil
	}
	c.nodes.Quick = c.quick
	header, body, err := c.nodes.Finish()
	if err != nil {
		return fmt.Errorf("finish pack: %w", err)
	}
	c.packed = &packed{header, body}
	p.stats.nodes.Add(int64(c.nodes.Len()))
	c.nodes.Reset()
	builders.Put(c.nodes)
	c.nodes = nil
	p.stats.stored.Add(int64(len(header) + len(body)))
	return nil
}

// builders keep their buffers from commit to commit.
var builders = sync.Pool{New: func() any { return casstore.NewPackBuilder() }}

// places says where in the list of a commit's records some of them begin.
type places struct {
	infos, tools, heads int
	sessions            []*session // those of infos
}

// bulk uploads the pack and the blobs that are new, and lists the records of the commit: what is refused, the pack, blobs new or
// touched, packs touched, sessions, and last the heads.
func (p *Persister) bulk(ctx context.Context, c *commit) (puts []record.Put, at places, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	g.Go(func() error {
		if c.packed == nil { // heads alone change
			return nil
		}
		pack, err := p.Bulk.UploadPack(gctx, c.pack, c.packed.header, c.packed.body)
		puts = []record.Put{{Key: events.PackKey(c.pack.String()), Value: pack.Encode(), Expect: record.Any}}
		return err
	})
	blobs := make([]record.Put, 0, len(c.blobs))
	g.Go(func() (err error) {
		blobs, err = p.uploadBlobs(gctx, c)
		return err
	})
	var touches []record.Put
	g.Go(func() (err error) {
		touches, err = p.touchBases(gctx, c)
		return err
	})
	var outputs []record.Put
	g.Go(func() (err error) {
		outputs, err = p.uploadOutputs(gctx, c)
		return err
	})
	var results []record.Put
	g.Go(func() (err error) {
		results, err = p.uploadResults(gctx, c)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, at, err
	}
	puts = slices.Concat(p.refusalPuts(c), puts, results)
	// Of two persisters that take each other's partition for their own, each may have begun a thread of the session: what the record says
	// of both, one of them does not know.
	at.infos, at.sessions = len(puts), slices.Collect(maps.Keys(c.infos))
	for _, s := range at.sessions {
		puts = append(puts, record.Put{Key: events.SessionKey(s.ID), Value: c.infos[s], Expect: s.rev})
	}
	puts = slices.AppendSeq(puts, maps.Values(c.records))
	puts = slices.AppendSeq(puts, maps.Values(c.runs))
	for _, t := range c.threads {
		if t.removes != "" {
			puts = append(puts, record.Put{Key: t.removes, Expect: t.rev})
		}
	}
	// What the commit needs to exist before it can be in it, or ahead of it.
	room := record.MaxCommit - len(puts) - len(outputs) - len(c.threads)
	rows, err := p.spillRows(ctx, c, outputs, room)
	if err != nil {
		return nil, at, err
	}
	puts = append(puts, rows...)
	young, err := p.spill(ctx, c, append(blobs, touches...), room-len(rows))
	if err != nil {
		return nil, at, err
	}
	puts = append(puts, young...)
	at.tools = len(puts)
	puts = append(puts, outputs...)
	at.heads = len(puts)
	for _, t := range c.threads {
		put := record.Put{Key: t.record, Value: t.value, Expect: t.rev}
		switch {
		case t.leaves != nil && t.leaves.To != "":
			put.Expect = t.leaves.Takes
		case t.removes != "":
			put.Expect = record.Any // the removal carries the expectation
		}
		puts = append(puts, put)
	}
	return puts, at, nil
}

// uploads is how many objects of a commit are written at the same time.
const uploads = 8

// uploadBlobs writes what the store does not hold yet and lists the records: new ones, and touches of stale ones.
func (p *Persister) uploadBlobs(ctx context.Context, c *commit) ([]record.Put, error) {
	refs, keys := c.blobKeys()
	known, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	puts := make([]record.Put, len(refs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	there, touches, err := c.fence.TouchBlobs(ctx, p.Bulk, known)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		if there[i] {
			p.stats.deduplicated.Add(c.blobSize(ref))
			continue
		}
		_, held := c.blobs[ref]
		if up := c.uploads[ref]; up != nil && !held {
			up.named = true
			puts[i] = record.Put{Key: keys[i], Value: record.Blob{Object: up.object}.Encode(), Expect: record.Any}
			p.stats.stored.Add(up.object.Size)
			continue
		}
		if !held { // collected since the step was read: reading it again says so
			return nil, fmt.Errorf("%w: %s is gone", record.ErrConflict, ref)
		}
		g.Go(func() error {
			b, err := p.Bulk.UploadBlob(ctx, ref, c.blobs[ref])
			puts[i] = record.Put{Key: keys[i], Value: b.Encode(), Expect: record.Any}
			p.stats.stored.Add(int64(len(c.blobs[ref])))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return append(touches, compactPuts(puts)...), nil
}

// blobKeys lists every blob that the commit brings or refers to, and its record.
func (c *commit) blobKeys() (refs []casstore.Ref, keys []string) {
	all := make(map[casstore.Ref]bool, len(c.blobs)+len(c.uploads)+len(c.refers))
	for ref := range c.blobs {
		all[ref] = true
	}
	for ref := range c.uploads {
		all[ref] = true
	}
	for ref := range c.refers {
		all[ref] = true
	}
	for ref := range all {
		refs, keys = append(refs, ref), append(keys, events.BlobKey(ref.Hex()))
	}
	return refs, keys
}

// blobSize is how many bytes of a blob the commit brings.
func (c *commit) blobSize(ref casstore.Ref) int64 {
	if up := c.uploads[ref]; up != nil {
		return up.object.Size
	}
	return int64(len(c.blobs[ref]))
}

func compactPuts(puts []record.Put) []record.Put {
	return slices.DeleteFunc(puts, func(put record.Put) bool { return put.Key == "" })
}

// spill writes the records of blobs and of packs that are touched for which a commit has no room ahead of it, behind the same fence:
// young records are roots, so they outlive the moment until the commit refers to them. A crash in between leaves records that
// nothing refers to.
func (p *Persister) spill(ctx context.Context, c *commit, young []record.Put, room int) ([]record.Put, error) {
	if room < 0 {
		return nil, fmt.Errorf("%w: a commit of %d records; at most %d", record.ErrRefused, record.MaxCommit-room, record.MaxCommit)
	}
	for len(young) > room {
		n := min(len(young)-room, record.MaxCommit)
		if _, err := p.Records.Commit(ctx, c.fence, young[:n]); err != nil {
			return nil, err
		}
		young = young[n:]
	}
	return young, nil
}

// spillRows writes the artifacts of forks for which a commit has no room ahead of it, behind the same fence, and gives
// the records of the rest: a fork of a session with few of them is one batch. Each batch has whole rows, with the rows
// that they are made from, the first one the counters too: nobody else is given the numbers of the rows. A crash in
// between leaves rows of a fork that is not there yet: it finds them when its event comes again. If it is refused then,
// they are artifacts of its session, with numbers of their own, until they are removed. outputs are those of the
// commit, which expect the counters as they are by then.
func (p *Persister) spillRows(ctx context.Context, c *commit, outputs []record.Put, room int) (
	rest []record.Put, err error,
) {
	n := 0
	for _, row := range c.rows {
		n += len(row)
	}
	rows, counters := c.rows, outputs[len(c.outputs):][:len(c.numbered)]
	for n > max(room, 0) {
		batch := slices.Clone(counters)
		for len(rows) > 0 && len(batch)+len(rows[0]) <= record.MaxCommit {
			batch, rows = append(batch, rows[0]...), rows[1:]
		}
		first, err := p.Records.Commit(ctx, c.fence, batch)
		if err != nil {
			return nil, err
		}
		n -= len(batch) - len(counters)
		for i := range counters {
			counters[i].Expect = first + uint64(i)
			c.numbered[i].rev = counters[i].Expect
		}
		counters = nil
	}
	return slices.Concat(rows...), nil
}

// touchBases republishes the record of every pack that a thread of the commit builds on, if a collector could take it for
// old: expecting its revision, so that either the touch or the collector wins (DESIGN 8, 9). Also the parent that is the
// thread's own current head needs it.
func (p *Persister) touchBases(ctx context.Context, c *commit) ([]record.Put, error) {
	if c.fence.Seq == 0 {
		return nil, nil
	}
	touched := map[string]record.Put{}
	touch := func(l record.FoundPack) {
		if put, stale := c.fence.TouchPack(l.Record, l.Pack); stale {
			touched[put.Key] = put
		}
	}
	packs, err := p.bases(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, t := range c.threads {
		for base := range t.builtOn() {
			l, err := packs(base)
			if record.IsGone(err) || errors.Is(err, record.ErrValue) {
				return nil, p.badBase(ctx, t, err)
			}
			if err != nil {
				return nil, err
			}
			touch(l)
		}
		for _, at := range t.refers { // no head leads there, perhaps: a collector may have buried it since it was found
			l, err := packs(at.Pack)
			if err == nil {
				err = apply.HoldsNode(ctx, p.Packs, l, at.Ref)
			}
			if record.IsGone(err) || errors.Is(err, record.ErrValue) { // applied again, the step is refused
				return nil, fmt.Errorf("%w: %s refers to %s: %w", record.ErrConflict, t.key, at, err)
			}
			if err != nil {
				return nil, err
			}
			touch(l)
		}
	}
	return slices.Collect(maps.Values(touched)), nil
}

// badBase latches a thread whose base cannot be read, if that is the base of the head that is stored: a collector may have taken
// what another process has moved on from, or the source of a fork. Either way the commit is not to be; a fork is judged anew.
func (p *Persister) badBase(ctx context.Context, t *touched, cause error) error {
	key := t.record
	if t.removes != "" {
		key = t.removes
	}
	rs, err := p.Records.Records(ctx, key)
	if err != nil {
		return err
	}
	if rs[0].Exists() && rs[0].Seq == t.rev {
		p.lane.latch(t.key, t.rev, cause)
	}
	return fmt.Errorf("%w: base of %s: %w", record.ErrConflict, t.key, cause)
}

// bases reads the records of all packs that a commit builds on or refers to, in one round trip for those that have not moved.
func (p *Persister) bases(ctx context.Context, c *commit) (func(casstore.PackID) (record.FoundPack, error), error) {
	found := map[casstore.PackID]record.FoundPack{}
	var ids []casstore.PackID
	var keys []string
	want := func(id casstore.PackID) {
		if _, ok := found[id]; !ok {
			found[id] = record.FoundPack{}
			ids, keys = append(ids, id), append(keys, events.PackKey(id.String()), events.MovedKey(id.String()))
		}
	}
	for _, t := range c.threads {
		for base := range t.builtOn() {
			want(base)
		}
		for _, at := range t.refers {
			want(at.Pack)
		}
	}
	rs, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		r, moved := rs[2*i], rs[2*i+1]
		if pack, err := record.DecodePack(r.Value); r.Exists() && !moved.Exists() && err == nil && !pack.Gone {
			found[id] = record.FoundPack{ID: id, Record: r, Pack: pack}
		}
	}
	return func(id casstore.PackID) (record.FoundPack, error) {
		if l := found[id]; !l.ID.IsZero() {
			return l, nil
		}
		return p.Records.FindPack(ctx, id)
	}, nil
}

// builtOn lists the packs that a commit must keep from being collected for this thread.
func (t *touched) builtOn() iter.Seq[casstore.PackID] {
	return func(yield func(casstore.PackID) bool) {
		if !t.base.IsZero() && !yield(t.base) {
			return
		}
		for _, id := range t.beside {
			if !id.IsZero() && !yield(id) {
				return
			}
		}
	}
}
