package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/keyset"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/events"
)

// Before anything is deleted, what was read is held against what the cycle before remembered, in another stream, and
// against what the buckets hold. The marks of all streams are package scrub's (Deps.Alarms).

// Brake is a reason to delete nothing although a plan could be made. Whoever knows better names it.
type Brake string

const (
	BrakeRoots  Brake = "no-roots" // there is no thread at all
	BrakeShare  Brake = "share"    // more than Config.Share, and than Config.Floor, would be condemned
	BrakeRewind Brake = "rewind"   // a stream was set back, or made anew, since the last cycle
	// BrakeDamage: something was lost, or is not as it was stored, and nothing says that it is mended. What seems to be
	// garbage may be what a lost record named, and the only copy that a repair has.
	BrakeDamage Brake = "damage"
	// BrakeReclaim: more than Config.Share of a bucket's bytes, and than Config.Floor, is named by no record.
	BrakeReclaim Brake = "reclaim"
	// BrakeWorld: records are gone that nothing removes, or bytes that records name.
	BrakeWorld Brake = "world"
	// BrakeClass: a record is of a class that this version does not know, and may hold on to anything.
	BrakeClass Brake = "class"
	// AllowMissing goes on although something refers to what is missing; without it there is not even a plan.
	AllowMissing Brake = "missing"
)

// Brakes lists them.
var Brakes = []Brake{BrakeRoots, BrakeShare, BrakeRewind, BrakeDamage, BrakeReclaim, BrakeWorld, BrakeClass, AllowMissing}

// state is what a cycle remembers for the next one.
type state struct {
	Streams    map[string]string `json:"streams"`
	Last       uint64            `json:"last"`
	Generation uint64            `json:"generation,omitempty"` // of Deps.Alarms

	// Facts are the keys of all records but those of packs, blobs and moved packs, and of what soon ends, removed ones included: none of
	// them is ever forgotten. Stored are the keys of packs, blobs and moved packs, without what the plan forgets.
	Facts int `json:"lasting,omitempty"`
	// Settled is the record up to which deletions of sessions and threads explain no garbage any more: a cycle behind it condemned some.
	// 0: a version that knew no such thing wrote this, and Last is it.
	Settled uint64  `json:"settled,omitempty"`
	Stored  int     `json:"stored,omitempty"`
	Waits   waiting `json:"waits,omitempty"`
}

func (c *Collector) state(p *Plan, w *world) state {
	return state{Streams: p.Streams, Last: w.at, Generation: p.last.Generation, Facts: w.facts,
		Stored: w.stored - len(p.Forget), Settled: w.settled, Waits: p.waits}
}

// identify notes which streams these are and how far the buckets are: bytes that come later are none of this cycle's
// business.
func (c *Collector) identify(ctx context.Context, p *Plan) (err error) {
	if p.Streams, err = c.Memory.Birth(ctx); err != nil {
		return err
	}
	streams := []string{events.RecordsStream}
	for _, b := range buckets {
		streams = append(streams, events.ObjectStream(b))
	}
	if p.ends, err = c.Streams.LastSeqs(ctx, streams...); err != nil {
		return err
	}
	last := &p.last
	if err := c.Memory.Recall(ctx, last); err != nil {
		return err
	}
	for name, made := range last.Streams {
		if now := p.Streams[name]; now != made {
			p.brake(BrakeRewind, "%s was made %s; when gc last looked it was another one, made %s", name, now, made)
		}
	}
	if now := p.ends[events.RecordsStream]; now < last.Last && len(p.Brakes) == 0 {
		p.brake(BrakeRewind, "%s ends at sequence %d; when gc last looked it went up to %d", events.RecordsStream, now,
			last.Last)
	}
	return nil
}

func (p *Plan) brake(b Brake, format string, args ...any) {
	p.Brakes = append(p.Brakes, Braked{b, fmt.Sprintf(format, args...)})
}

// brake looks for signs that the plan is wrong.
func (c *Collector) brake(ctx context.Context, p *Plan, w *world, m *marker) error {
	floor, least := c.cfg.Floor, ", and than "+text.Bytes(c.cfg.Floor)
	if c.Alarms != nil {
		found, err := c.Alarms(ctx)
		if err != nil {
			return fmt.Errorf("look for alarms: %w", err)
		}
		for _, a := range found.Standing {
			p.brake(BrakeDamage, "%s", a)
		}
		if found.Generation > p.last.Generation { // somebody has looked since: what was before says nothing
			p.last = state{Generation: found.Generation, Waits: p.last.Waits}
		}
		if found.Unsure {
			clear(w.deleted) // nor do records explain anything
			floor, least = 0, "; records were lost and made again, so that there is no least amount that may always go"
		}
	}
	if err := w.unknown.Err(); err != nil {
		p.brake(BrakeClass, "%v; what it holds on to is not known", err)
	}
	now := state{}
	if err := c.Memory.Recall(ctx, &now); err != nil {
		return err
	}
	facts, stored := min(p.last.Facts, now.Facts), min(p.last.Stored,
		now.Stored) // another cycle may have ended during this one
	if w.facts < facts {
		p.brake(BrakeWorld, "%s; run spool fsck --repair", factsLost(w.facts, facts))
	}
	if w.stored < stored {
		p.brake(BrakeWorld, "%s has %d keys of packs and blobs, and had %d when gc last looked, and gc alone removes them; "+
			"run spool fsck --repair",
			events.RecordsStream, w.stored, stored)
	}
	lost := 0
	for i, sum := range m.blobs.sums {
		if m.blobs.marked.Has(i) && w.lost[w.blobs[sum].token] {
			lost++
		}
	}
	if lost > 0 {
		p.brake(BrakeWorld, "the bytes of %d blobs that threads reach are not in %s; run spool fsck", lost,
			events.ObjectStream(events.BlobsBucket))
	}
	c.brakeShares(p, w, floor, least)
	p.Allow(c.cfg.Allow...)
	return nil
}

func factsLost(now, before int) string {
	return text.Sprintf("%s has %d keys beside those of packs and blobs, and had %d when gc last looked: nothing that Spool does removes one",
		events.RecordsStream, now, before)
}

// settled is the record behind which deletions explain garbage (state.Settled); 1 in a store of which nothing is remembered.
func (s state) settled() uint64 { return max(cmp.Or(s.Settled, s.Last), 1) }

// settle notes that the garbage of the deletions that a plan saw is condemned. A crash before it leaves them explaining what
// comes up to the next cycle.
func (r *run) settle(ctx context.Context) error {
	if len(r.plan.Condemn) == 0 {
		return nil
	}
	var now state
	if err := r.Memory.Recall(ctx, &now); err != nil || now.Settled >= r.plan.Last {
		return err
	}
	now.Settled = r.plan.Last
	return r.Memory.Remember(ctx, now)
}

// isFact reports whether a record is one of state.Facts.
func isFact(class record.Class) bool {
	return !class.Brief && !slices.Contains([]record.Keeps{record.PackBytes, record.BlobBytes, record.MovedTo}, class.Keeps)
}

// FactsLost says how many records are gone that nothing removes, since the cycle before; "": none, or somebody has said in
// this generation (Alarms) that what is there is all there is.
func FactsLost(ctx context.Context, memory Memory, records Records, generation uint64) (why string, err error) {
	last, now := state{}, 0
	if err := memory.Recall(ctx, &last); err != nil || last.Facts == 0 || generation > last.Generation {
		return "", err
	}
	seen := keyset.Make()
	err = records.EachName(ctx, ">", func(key string) {
		class, _ := record.ClassOf(key)
		if fresh, _ := seen.Put(key, false); fresh && isFact(class) {
			now++
		}
	})
	if err != nil {
		return "", err
	}
	if now < last.Facts {
		why = factsLost(now, last.Facts)
	}
	return why, nil
}

// brakeShares looks how much would go. What is not above the floor may always go; least says so.
func (c *Collector) brakeShares(p *Plan, w *world, floor int64, least string) {
	packs, blobs, bytes := p.Stock.Packs, p.Stock.Blobs, int64(0)
	if w.heads.n == 0 && packs+blobs > 0 {
		p.brake(BrakeRoots, "there is no thread, but %d packs and %d blobs", packs, blobs)
	} else if left := p.share[events.NodesBucket].taken; w.heads.n == 0 && left > 0 {
		p.brake(BrakeRoots, "there is no thread, but %s in %s that no record names", text.Bytes(left), events.ObjectStream(events.NodesBucket))
	}
	for _, v := range p.Condemn {
		bytes += v.Bytes
	}
	gone, share := w.explained()
	share = min(share+c.cfg.Share, 1)
	if n, all := len(p.Condemn), packs+blobs; float64(n) > share*float64(all) && bytes > floor+gone {
		also := ""
		if gone > 0 {
			also = fmt.Sprintf("; deletions explain %s", text.Bytes(gone))
		}
		p.brake(BrakeShare, "%d of %d packs and blobs, %s, would be condemned: more than %.0f %%%s%s", n, all,
			text.Bytes(bytes), 100*share, least, also)
	}
	for _, bucket := range buckets {
		if part := p.share[bucket]; float64(part.taken) > c.cfg.Share*float64(part.all) && part.taken > floor {
			p.brake(BrakeReclaim, "%s of %s in %s are named by no record: more than %.0f %%%s; spool fsck --repair finds packs by what they hold",
				text.Bytes(part.taken), text.Bytes(part.all), events.ObjectStream(bucket), 100*c.cfg.Share, least)
		}
	}
}

// nodesOfEntry is what an entry adds to packs beside its own bytes, at most, as a rule.
const nodesOfEntry = 2 << 10

// explained is what is no surprise among the garbage, because users deleted the sessions or threads that had it: bytes, and the share
// of all entries' bytes.
func (w *world) explained() (bytes int64, share float64) {
	var gone, all int64
	for _, d := range w.deleted {
		gone += d.bytes
		bytes += d.bytes + nodesOfEntry*d.entries
	}
	all = gone + w.heads.bytes
	if gone == 0 {
		return 0, 0
	}
	return bytes, float64(gone) / float64(all)
}

// portion is bytes of a bucket.
type portion struct{ all, taken int64 }

// notStored notes bytes that blobs name and that a bucket has not got.
func (w *world) notStored(bucket string, all []record.Stored) {
	if bucket != events.BlobsBucket {
		return
	}
	there := map[uint64]bool{}
	for _, s := range all {
		there[w.hash(s.Object.NUID)] = true
	}
	w.lost = map[uint64]bool{}
	for _, b := range w.blobs {
		if !b.gone && !there[b.token] {
			w.lost[b.token] = true
		}
	}
}

// waiting is bytes that no record names: by bucket, and by the age in seconds that they had when a cycle first found
// them so, the sequences of their newest messages. How much older they are now is how long that is ago: no clock is read.
type waiting map[string]map[int64][]uint64

// mostWaiting bounds what is remembered: what is left out is seen by a later cycle.
const mostWaiting = 50_000

// since is the age at which each object of a bucket was first found, by sequence.
func (w waiting) since(bucket string) map[uint64]int64 {
	since := map[uint64]int64{}
	for age, list := range w[bucket] {
		for _, seq := range list {
			since[seq] = age
		}
	}
	return since
}

// waited reports whether no record has named an object for long enough, by since, and notes it for the next cycle.
func (p *Plan) waited(bucket string, s record.Stored, since map[uint64]int64, wait time.Duration) bool {
	if wait == 0 {
		return true
	}
	first := int64(s.Age / time.Second)
	if age, found := since[s.Last]; found {
		first = min(first, age)
	}
	if p.noted++; p.noted <= mostWaiting {
		if p.waits[bucket] == nil {
			p.waits[bucket] = map[int64][]uint64{}
		}
		p.waits[bucket][first] = append(p.waits[bucket][first], s.Last)
	}
	return s.Age-time.Duration(first)*time.Second >= wait
}

// ErrBrake: the plan is not applied, because it looks wrong.
var ErrBrake = errors.New("not applied")

// Allow takes brakes off a plan.
func (p *Plan) Allow(brakes ...Brake) {
	p.Brakes = slices.DeleteFunc(p.Brakes, func(b Braked) bool { return slices.Contains(brakes, b.Brake) })
}

func (p *Plan) braked() error {
	if len(p.Brakes) == 0 {
		return nil
	}
	errs := make([]error, len(p.Brakes))
	for i, b := range p.Brakes {
		errs[i] = fmt.Errorf("%w: %s; to go on nevertheless: --allow %s", ErrBrake, b.Why, b.Brake)
	}
	return errors.Join(errs...)
}
