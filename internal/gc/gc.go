package gc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Records is the record bucket. Errors are package record's.
type Records interface {
	// Fences moves every lane's fence in one batch: that of lane n is n above first.
	Fences(ctx context.Context) (first uint64, err error)
	// Scan tells every record from a sequence on, removed ones included, until it has told the newest: what was told is then
	// exactly what the bucket held at last.
	Scan(ctx context.Context, from uint64, f func(record.Stamped) error) (last uint64, err error)
	// Quiet reports whether a record is the newest of all, and so what Scan told up to it is whole. A server of a cluster that is ahead of
	// the others may have left out, before it, what is overwritten behind it.
	Quiet(ctx context.Context, last uint64) (bool, error)
	// EachName gives the keys that match a filter to f, removed ones included, whatever Scan says. Some may come twice.
	EachName(ctx context.Context, filter string, f func(key string)) error
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) // record.FindPack
	Fence(ctx context.Context, lane int) (record.Fence, error)
	Commit(ctx context.Context, f record.Fence, puts []record.Put) (first uint64, err error)
	// Forget deletes the messages at some sequences; a record that was written again since stays.
	Forget(ctx context.Context, seqs ...uint64) error
}

// Bulk is the object buckets.
type Bulk interface {
	Stored(ctx context.Context, bucket string) ([]record.Stored, error)
	ReadChunks(ctx context.Context, o record.Object, limit int, f func(chunk []byte) error) error
	Read(ctx context.Context, o record.Object) ([]byte, error)
	Reclaim(ctx context.Context, o record.Object) error
}

// Streams tells how far streams are: the last sequence of each.
type Streams interface {
	LastSeqs(ctx context.Context, streams ...string) (map[string]uint64, error)
}

// Packs uploads packs that no record names yet.
type Packs interface {
	UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error)
}

// Queue is what was published and may not be applied.
type Queue interface {
	Claims(ctx context.Context) (*record.Claims, error)
}

// Memory outlives a cycle, apart from the record bucket.
type Memory interface {
	Birth(ctx context.Context) (map[string]string, error)
	Remember(ctx context.Context, state any) error
	Recall(ctx context.Context, state any) error
}

// Deps is the world outside.
type Deps struct {
	Records Records
	Bulk    Bulk
	Streams Streams
	Packs   Packs
	Queue   Queue
	Memory  Memory
	Log     *slog.Logger

	MaxPayload func() int // bytes of the largest message that the server takes

	Alarms func(ctx context.Context) (Alarms, error) // nil: nobody looks

	// At is called before each step that others can see; an error there ends the cycle. Tests inject faults with it; nil
	// otherwise.
	At func(Step) error
}

// Alarms is what was found elsewhere (package scrub).
type Alarms struct {
	Standing   []string // losses
	Generation uint64   // how often somebody has said that what is there is all there is
	Unsure     bool     // records were lost and made again, and nobody has said since that what nothing reaches may go
}

// Step names such a step.
type Step string

// The steps, in order.
const (
	StepFirst   Step = "first fence"
	StepRead    Step = "read"
	StepSecond  Step = "second fence"
	StepMark    Step = "mark"
	StepBury    Step = "bury"
	StepCondemn Step = "condemn"
	StepUpload  Step = "upload"
	StepRepack  Step = "repack"
	StepFollow  Step = "follow"
	StepReclaim Step = "reclaim"
	StepForget  Step = "forget"
	StepUnmark  Step = "unmark" // delete the message of a record that is forgotten

	StepUndelete Step = "undelete" // of Undelete, not of a cycle
)

// Steps lists those of a cycle.
var Steps = []Step{StepFirst, StepRead, StepSecond, StepMark, StepBury, StepCondemn, StepUpload, StepRepack,
	StepFollow, StepReclaim, StepForget, StepUnmark}

// Config is how a collector decides. The zero value reclaims at once, also from the inbox: Safe is what to begin with.
type Config struct {
	Lane int // whose fence its commits are made behind, 0 to events.Lanes-1

	// Quarantine is how long what was condemned or buried can still be had back whole (Undelete), by the server's clock. A pack of
	// which it holds something is not repacked.
	Quarantine time.Duration
	// InboxAge spares bodies in the inbox that are younger, by the server's clock: a publisher that checked one in and has
	// not published its event yet stands behind no fence.
	InboxAge time.Duration

	// Follow is the least age of a moved record that is forgotten, by the server's clock: whoever reads may have packs in memory that
	// name others as they were called long ago.
	Follow time.Duration
	// Ended is the least age of the removed record of an output that is forgotten, by the server's clock. Until then the output's id
	// is taken.
	Ended time.Duration

	// ReclaimAge is how long bytes that no record names must have been seen so, from the first cycle that found them on,
	// by the server's clock: a bucket of records that lost them all names nothing, and a repair finds them by what they
	// hold. The inbox has InboxAge.
	ReclaimAge time.Duration
	// Erased are the sessions that an erasure deletes; nil: it is none. It waits for ReclaimAge for those objects alone that have
	// the name of an artifact of another session: somebody may be about to register them.
	Erased map[string]bool

	Share float64 // most that may be condemned of all records of packs and blobs, or reclaimed of a bucket's bytes, 0 to 1; 0 = 0.3
	Floor int64   // bytes that may always go, whatever share they are: a small store is soon all garbage; 0 = 64 MiB
	Allow []Brake // brakes that are off

	Small  int64 // live bytes of nodes below which a pack is merged with its neighbours; 0 = 512 KiB
	Target int64 // bytes of nodes in a pack that is made of several, at most; 0 = 4 MiB
	Merge  int   // small neighbours that are worth a merge; 0 = 4
	Dense  bool  // repack every pack that holds garbage, however little: for an erasure
}

// Safe is the margin for a system with publishers.
func Safe() Config {
	return Config{Lane: events.Lanes - 1, InboxAge: time.Hour, Follow: 24 * time.Hour, Ended: 24 * time.Hour, ReclaimAge: 24 * time.Hour}
}

func (c Config) withDefaults() Config {
	c.Share, c.Floor = cmp.Or(c.Share, 0.3), cmp.Or(c.Floor, 64<<20)
	c.Small, c.Target, c.Merge = cmp.Or(c.Small, 512<<10), cmp.Or(c.Target, 4<<20), cmp.Or(c.Merge, 4)
	return c
}

// Collector plans and executes cycles. Not safe for concurrent use; any number of collectors may run side by side.
type Collector struct {
	Deps
	cfg Config
}

// New makes a collector. It reports everything that is wrong with the configuration.
func New(deps Deps, cfg Config) (*Collector, error) {
	cfg = cfg.withDefaults()
	var errs []error
	if cfg.Lane < 0 || cfg.Lane >= events.Lanes {
		errs = append(errs, fmt.Errorf("lane %d: use 0 to %d", cfg.Lane, events.Lanes-1))
	}
	if cfg.Share < 0 || cfg.Share > 1 {
		errs = append(errs, fmt.Errorf("share %v: use 0 to 1", cfg.Share))
	}
	for _, b := range cfg.Allow {
		if !slices.Contains(Brakes, b) {
			errs = append(errs, fmt.Errorf("brake %q: use one of %v", b, Brakes))
		}
	}
	if min(cfg.Quarantine, cfg.InboxAge, cfg.Follow, cfg.Ended, cfg.ReclaimAge) < 0 {
		errs = append(errs, errors.New("quarantine, inbox age, ended age, reclaim age and the time that moved records are followed must not be negative"))
	}
	if cfg.Small > cfg.Target || cfg.Merge < 2 {
		errs = append(errs, fmt.Errorf("small %d, target %d, merge %d: small is at most target, and a merge takes two",
			cfg.Small, cfg.Target, cfg.Merge))
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.At == nil {
		deps.At = func(Step) error { return nil }
	}
	return &Collector{deps, cfg}, errors.Join(errs...)
}

// Plan finds out what is garbage. It moves the fences, so commits in preparation are prepared again, and changes nothing else.
func (c *Collector) Plan(ctx context.Context) (*Plan, error) {
	p := &Plan{Version: planVersion, Cycle: rand.Text()}
	if err := c.identify(ctx, p); err != nil {
		return nil, err
	}
	w := newWorld()
	w.settled = p.last.settled()
	claims, err := c.read(ctx, w)
	if err != nil {
		return nil, err
	}
	p.First, p.Second, p.Last = w.first, w.second, w.at
	if err := c.At(StepMark); err != nil {
		return nil, err
	}
	m := newMarker(w.graph(c.headers(w), c.cfg.Quarantine))
	m.loose = c.allows(AllowMissing)
	if err := w.root(ctx, c.Records, m, claims.Blobs); err != nil {
		return nil, c.confirm(ctx, w, err)
	}
	if err := m.run(ctx); err != nil {
		return nil, c.confirm(ctx, w, err)
	}
	c.decide(p, w, m)
	if err := c.waste(ctx, p, w, claims); err != nil {
		return nil, err
	}
	if err := c.brake(ctx, p, w, m); err != nil {
		return nil, err
	}
	again := []Brake{BrakeRewind, BrakeWorld, BrakeReclaim} // the next cycle is to see them too
	if slices.ContainsFunc(p.Brakes, func(b Braked) bool { return slices.Contains(again, b.Brake) }) {
		return p, nil
	}
	return p, c.Memory.Remember(ctx, c.state(p, w))
}

// read is the protocol of doc.go up to the marking.
func (c *Collector) read(ctx context.Context, w *world) (claims *record.Claims, err error) {
	fence := func(s Step) (uint64, error) {
		if err := c.At(s); err != nil {
			return 0, err
		}
		return c.Records.Fences(ctx)
	}
	if w.first, err = fence(StepFirst); err != nil {
		return nil, err
	}
	if err := c.At(StepRead); err != nil {
		return nil, err
	}
	if err := w.readBehind(ctx, c.Records, 1, w.first); err != nil {
		return nil, err
	}
	w.again = true
	if claims, err = c.Queue.Claims(ctx); err != nil {
		return nil, err
	}
	if w.second, err = fence(StepSecond); err != nil {
		return nil, err
	}
	if err := w.readBehind(ctx, c.Records, w.at+1, w.second); err != nil {
		return nil, err
	}
	return claims, w.check(ctx, c.Records)
}

// confirm asks for the pack that the reading has not, before it is told to be lost. If it is there after all, whoever told the records
// was not the leader, or told of a moment that never was: this cycle knows nothing, and the next one reads anew.
func (c *Collector) confirm(ctx context.Context, w *world, err error) error {
	err = c.unlessLate(ctx, c.behind(w.second), err)
	var no *noPack
	if !errors.As(err, &no) {
		return err
	}
	now, e := c.Records.FindPack(ctx, no.to.Pack)
	switch {
	case record.IsGone(e):
		return fmt.Errorf("%w (%s; %w)", err, w.known(no.to.Pack), e)
	case passing(ctx, e):
		return fmt.Errorf("look for pack %s, which the reading has not: %w", no.to.Pack, e)
	case e != nil:
		return errors.Join(err, e)
	}
	return fmt.Errorf("%w: the reading of the records up to sequence %d was not whole: %s refers to %s (%s), and that is pack %s now, "+
		"by a record at sequence %d",
		record.ErrBusy, w.at, no.where, no.to, w.known(no.to.Pack), now.ID, now.Record.Seq)
}

// behind is the lane's fence that a cycle moved last.
func (c *Collector) behind(second uint64) record.Fence {
	return record.Fence{Lane: c.cfg.Lane, Seq: second + uint64(c.cfg.Lane)}
}

// alone tells whether the cycle that moved a fence is still the newest.
func (c *Collector) alone(ctx context.Context, fence record.Fence) error {
	f, err := c.Records.Fence(ctx, c.cfg.Lane)
	if err == nil && f != fence {
		err = fmt.Errorf("%w: another cycle has begun", ErrStale)
	}
	return err
}

// unlessLate asks whether a newer cycle has begun before something is told to be missing: that one may have condemned it
// rightly, or repacked it, and reclaimed the bytes since.
func (c *Collector) unlessLate(ctx context.Context, fence record.Fence, err error) error {
	if !errors.Is(err, ErrUnsafe) {
		return err
	}
	if e := c.alone(ctx, fence); e != nil {
		return e
	}
	return err
}

// headers reads the headers of live packs.
func (c *Collector) headers(w *world) headers {
	return func(ctx context.Context, id casstore.PackID) (*casstore.Header, error) {
		return c.header(ctx, w.packs[id].Pack)
	}
}

// header is the first chunk of a pack's object.
func (c *Collector) header(ctx context.Context, p record.Pack) (*casstore.Header, error) {
	var raw []byte
	if err := c.Bulk.ReadChunks(ctx, p.Object, 1, func(b []byte) error { raw = slices.Clone(b); return nil }); err != nil {
		return nil, err
	}
	if int64(len(raw)) != p.Header {
		return nil, fmt.Errorf("%w: %d bytes, its record says %d", casstore.ErrCorrupt, len(raw), p.Header)
	}
	return casstore.OpenHeader(raw)
}

// Vouches reports whether a person has said, for this collector, that what nothing reaches may go, however much it is.
func (c *Collector) Vouches() bool { return c.allows(BrakeShare) }

func (c *Collector) allows(b Brake) bool { return slices.Contains(c.cfg.Allow, b) }
