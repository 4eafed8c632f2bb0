package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/mapped"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Done is what applying a plan did.
type Done struct {
	Buried    int   `json:"buried"` // packs whose garbage was named
	Condemned int   `json:"condemned"`
	Spared    int   `json:"spared"`   // of what the plan condemns: somebody took it up again
	Repacked  int   `json:"repacked"` // packs that went into new ones
	Made      int   `json:"made"`     // the new ones
	Skipped   int   `json:"skipped"`  // groups that were left alone, because a pack of theirs changed or was spared
	Reclaimed int   `json:"reclaimed"`
	Bytes     int64 `json:"reclaimed_bytes"`
	Forgotten int   `json:"forgotten"`
}

// ErrStale: the plan is of another world: another cycle has begun since, or the streams are not those it was made of.
var ErrStale = errors.New("the plan is out of date: make a new one")

// ErrNotBegun is what wraps the reason when a plan was refused, or could not be looked at, before anything was changed by it.
var ErrNotBegun = errors.New("nothing was deleted")

// notBegun is ErrNotBegun with the words of its reason.
type notBegun struct{ error }

func (e notBegun) Unwrap() []error { return []error{e.error, ErrNotBegun} }

// Apply carries a plan out. It can be applied again after a crash or an error: what is done already is passed over. ErrNotBegun: it
// changed nothing.
func (c *Collector) Apply(ctx context.Context, p *Plan) (Done, error) {
	r := &run{Collector: c, plan: p, spared: map[string]bool{}, fence: c.behind(p.Second)}
	if err := r.check(ctx); err != nil {
		return r.done, notBegun{err}
	}
	// Condemning ends before repacking begins: what is spared may need nodes that a repack would drop.
	for _, step := range []func(context.Context) error{r.condemn, r.settle, r.repack, r.reclaim, r.forget, r.forgetEnded} {
		if err := step(ctx); err != nil {
			return r.done, err
		}
	}
	return r.done, nil
}

// run is a plan on its way.
type run struct {
	*Collector
	plan   *Plan
	fence  record.Fence
	spared map[string]bool // keys
	freed  []record.Object // of what this run condemned
	done   Done
}

// check refuses a plan of another world, and one that looks wrong.
func (r *run) check(ctx context.Context) error {
	if r.plan.Version != planVersion {
		return fmt.Errorf("%w: it has version %d, this program applies version %d", ErrStale, r.plan.Version, planVersion)
	}
	if err := r.plan.braked(); err != nil {
		return err
	}
	streams, err := r.Memory.Birth(ctx)
	if err != nil {
		return err
	}
	for name, made := range streams {
		if was := r.plan.Streams[name]; was != made {
			return fmt.Errorf("%w: stream %s was made %s, the plan is of one made %q", ErrStale, name, made, was)
		}
	}
	last, err := r.Streams.LastSeqs(ctx, events.RecordsStream)
	if err != nil {
		return err
	}
	if now := last[events.RecordsStream]; now < r.plan.Last {
		return fmt.Errorf("%w: the records end at sequence %d, the plan read up to %d", ErrStale, now, r.plan.Last)
	}
	return r.alone(ctx, r.fence)
}

// condemnBatch is how many records are condemned together.
const condemnBatch = 250

// change is what a record becomes if it is as the plan saw it.
type change struct {
	key string
	seq uint64
	// to gives the new value, and the bytes that nothing needs then. done: the record is so already, by an attempt whose answer was
	// lost, by an earlier application of the plan, or by somebody else.
	to func(record.Record) (value []byte, freed record.Object, done bool, err error)
}

// condemn writes what is garbage into the records: buried nodes, then tombstones in the order of the plan, so that referrers
// come before referents. A crash leaves a prefix of them.
func (r *run) condemn(ctx context.Context) error {
	var bury, condemn []change
	for _, v := range r.plan.Bury {
		bury = append(bury, change{v.Key, v.Seq, func(now record.Record) ([]byte, record.Object, bool, error) {
			return buried(now, v.Nodes)
		}})
	}
	for _, v := range r.plan.Condemn {
		condemn = append(condemn, change{v.Key, v.Seq, func(now record.Record) ([]byte, record.Object, bool, error) {
			return tombstone(now, r.cfg.Quarantine > 0)
		}})
	}
	if err := r.changeAll(ctx, StepBury, bury); err != nil {
		return err
	}
	if err := r.changeAll(ctx, StepCondemn, condemn); err != nil {
		return err
	}
	for _, v := range r.plan.Condemn {
		if r.spared[v.Key] {
			r.done.Spared++
		}
	}
	return nil
}

func (r *run) changeAll(ctx context.Context, step Step, changes []change) error {
	for batch := range slices.Chunk(changes, condemnBatch) {
		if err := r.At(step); err != nil {
			return err
		}
		for again := true; again; {
			var err error
			if again, err = r.change(ctx, batch); err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
		}
	}
	return nil
}

// change changes those records that are as the plan saw them. again: something else did in between.
func (r *run) change(ctx context.Context, list []change) (again bool, err error) {
	keys := mapped.List(list, func(v change) string { return v.key })
	now, err := r.now(ctx, keys)
	if err != nil {
		return false, err
	}
	var puts []record.Put
	var objects []record.Object
	for i, v := range list {
		if r.spared[v.key] {
			continue
		}
		value, object, done, err := v.to(now[i])
		switch {
		case err != nil:
			return false, err
		case done:
		case now[i].Seq != v.seq:
			if err := r.spare(ctx, v.key); err != nil {
				return false, err
			}
		default:
			puts = append(puts, record.Put{Key: v.key, Value: value, Expect: v.seq})
			if object.NUID != "" {
				objects = append(objects, object)
			}
		}
	}
	for _, put := range puts {
		if r.spared[put.Key] { // by one further down in this list
			return true, nil
		}
	}
	if len(puts) == 0 {
		return false, nil
	}
	if _, again, err = r.commit(ctx, puts); err == nil && !again {
		r.done.Condemned += len(objects)
		r.done.Buried += len(puts) - len(objects)
		r.freed = append(r.freed, objects...)
	}
	return again, err
}

// now reads records.
func (r *run) now(ctx context.Context, keys []string) (rs []record.Record, err error) {
	err = retry.Do(ctx, nil, func() (err error) { rs, err = r.Records.Records(ctx, keys...); return err })
	return rs, err
}

// commit writes records behind the plan's fence. again: one of them changed, or nobody knows; then the caller looks at them anew.
func (r *run) commit(ctx context.Context, puts []record.Put) (first uint64, again bool, err error) {
	first, err = r.Records.Commit(ctx, r.fence, puts)
	switch {
	case errors.Is(err, record.ErrConflict):
		return 0, true, r.alone(ctx, r.fence)
	case record.Temporary(err):
		sleep.For(ctx, 50*time.Millisecond)
		return 0, true, ctx.Err()
	}
	return first, false, err
}

// buried is a pack's record with its garbage named. A pack that was collected since has none.
func buried(now record.Record, nodes casstore.Bits) (value []byte, _ record.Object, done bool, err error) {
	if !now.Exists() {
		return nil, record.Object{}, true, nil
	}
	p, err := record.DecodePack(now.Value)
	if done = p.Gone || slices.Equal(p.Buried, nodes); p.Order == 0 {
		p.Order = now.Seq
	}
	p.Buried = nodes
	return p.Encode(), record.Object{}, done, err
}

// tombstone is what condemns a record. As long as it says where the bytes are it can be undone; one that does not leaves them
// to whoever wrote it, or to the next cycle.
func tombstone(r record.Record, way bool) (value []byte, o record.Object, gone bool, err error) {
	if !r.Exists() {
		return nil, o, true, nil
	}
	if _, ok := packIDOf(r.Key); ok {
		p, err := record.DecodePack(r.Value)
		gone, o = p.Gone, p.Object
		if p.Gone = true; p.Order == 0 {
			p.Order = r.Seq
		}
		if !way {
			p.Object = record.Object{}
		}
		return p.Encode(), o, gone, err
	}
	b, err := record.DecodeBlob(r.Value)
	gone, o = b.Gone, b.Object
	if b.Gone = true; !way {
		b.Object = record.Object{}
	}
	return b.Encode(), o, gone, err
}

// spare takes a record out of the plan, and all that it leads to.
func (r *run) spare(ctx context.Context, key string) error {
	r.Log.Info("spared: it is in use again", "record", key)
	open := []string{key}
	for len(open) > 0 {
		key, open = open[len(open)-1], open[:len(open)-1]
		if r.spared[key] {
			continue
		}
		r.spared[key] = true
		if _, ok := packIDOf(key); !ok {
			continue
		}
		h, err := r.liveHeader(ctx, key)
		if err != nil {
			return r.unlessLate(ctx, r.fence, unreadable(ctx, "spare "+key, err))
		}
		if h == nil {
			continue
		}
		for _, l := range h.Outside() {
			if l.Ref.Kind() == casstore.KindBlob {
				open = append(open, blobKey(l.Ref.Sum()))
				continue
			}
			open = append(open, packKey(l.Pack))
		}
	}
	return nil
}

// liveHeader reads the header of a pack, or of the one that it moved to; nil when it is gone.
func (r *run) liveHeader(ctx context.Context, key string) (*casstore.Header, error) {
	id, _ := packIDOf(key)
	p, err := r.live(ctx, id)
	if record.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.spared[packKey(p.ID)] = true
	var h *casstore.Header
	err = retry.Do(ctx, nil, func() (err error) { h, err = r.header(ctx, p.Pack); return err })
	return h, err
}

// live finds the pack that holds the nodes of a pack now.
func (r *run) live(ctx context.Context, id casstore.PackID) (p record.FoundPack, err error) {
	err = retry.Do(ctx, nil, func() (err error) { p, err = r.Records.FindPack(ctx, id); return err })
	return p, err
}

// reclaim frees bytes: those that no record names, and unless they are in quarantine those of what was condemned, whose
// tombstones do not say where they are. After a crash all of them are bytes that no record names.
func (r *run) reclaim(ctx context.Context) error {
	objects := make([]record.Object, 0, len(r.plan.Reclaim)+len(r.freed))
	for _, v := range r.plan.Reclaim {
		objects = append(objects, record.Object{Bucket: v.Bucket, NUID: v.Token, Name: v.Name, Size: v.Bytes})
	}
	if r.cfg.Quarantine == 0 {
		objects = append(objects, r.freed...)
	}
	return r.free(ctx, objects)
}

func (r *run) free(ctx context.Context, objects []record.Object) error {
	for _, o := range objects {
		if err := r.At(StepReclaim); err != nil {
			return err
		}
		if err := retry.Do(ctx, nil, func() error { return r.Bulk.Reclaim(ctx, o) }); err != nil {
			return fmt.Errorf("reclaim: %w", err)
		}
		r.done.Reclaimed++
		r.done.Bytes += o.Size
	}
	return nil
}

// forget drops records that mean nothing any more, and the bytes of tombstones that say where they are. They are removed first,
// expecting the revision that the plan read, so that nobody can undo a tombstone whose bytes go; the marker that this leaves
// goes last. Nobody expects its revision: a blob that is put again is written over whatever is there.
func (r *run) forget(ctx context.Context) error {
	list := r.plan.Forget
	if len(r.spared) > 0 { // what was garbage and is in use again may know packs by names that nothing else does
		list = slices.DeleteFunc(slices.Clone(list), func(v Old) bool { return isMoved(v.Key) })
	}
	for rest := list; len(rest) > 0; {
		n := min(len(rest), condemnBatch)
		for again := true; again; {
			var err error
			if again, err = r.forgetSome(ctx, rest[:n]); err != nil {
				return fmt.Errorf("forget: %w", err)
			}
		}
		rest = rest[n:]
	}
	return nil
}

func (r *run) forgetSome(ctx context.Context, list []Old) (again bool, err error) {
	keys := mapped.List(list, func(v Old) string { return v.Key })
	now, err := r.now(ctx, keys)
	if err != nil {
		return false, err
	}
	var puts []record.Put
	var objects []record.Object
	var markers []uint64
	for i, v := range list {
		switch _, o, _, err := tombstone(now[i], true); {
		case now[i].Seq != v.Seq || err != nil && !isMoved(v.Key):
		case now[i].Removed():
			markers = append(markers, v.Seq)
		default:
			puts = append(puts, record.Put{Key: v.Key, Expect: v.Seq})
			if o.NUID != "" {
				objects = append(objects, o)
			}
		}
	}
	if err := r.At(StepForget); err != nil {
		return false, err
	}
	if len(puts) > 0 {
		first, again, err := r.commit(ctx, puts)
		if err != nil || again {
			return again, err
		}
		for i := range puts {
			markers = append(markers, first+uint64(i))
		}
	}
	if err := r.free(ctx, objects); err != nil {
		return false, err
	}
	return false, r.unmark(ctx, markers)
}

// unmark deletes the messages of records that mean nothing any more.
func (r *run) unmark(ctx context.Context, seqs []uint64) error {
	for some := range slices.Chunk(seqs, condemnBatch) {
		if err := r.At(StepUnmark); err != nil {
			return err
		}
		if err := retry.Do(ctx, nil, func() error { return r.Records.Forget(ctx, some...) }); err != nil {
			return err
		}
		r.done.Forgotten += len(some)
	}
	return nil
}

func isMoved(key string) bool { return strings.HasPrefix(key, events.MovedKey("")) }
