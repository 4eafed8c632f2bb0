package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

// Limits are the sizes that an operator chooses when the streams are created. Zero values mean the defaults named here.
type Limits struct {
	Replicas    int           // copies of every stream; 0 = 1
	EventsBytes int64         // EVENTS holds at most this much, then publishers wait; 0 = 4 GiB, or less where there is no room: see fit
	ItemsBytes  int64         // ITEMS forgets the oldest items above this, which the threads still have; 0 = as EventsBytes
	ItemsAge    time.Duration // ITEMS forgets items older than this; 0 = never

	// First is the sequence that the first message of a new stream gets, by stream: a restore goes on where the backup ended,
	// because records name sequences. Streams that exist are not changed.
	First map[string]uint64

	Store string // the store that was here before: nothing is made, nor written, where it is not there; empty: nobody knows

	Restore string // what is being restored into streams that are made; no version writes to them until Restore.End
}

const (
	defaultStreamBytes = 4 << 30
	leastStreamBytes   = 64 << 20 // a default is not made smaller
)

// maxReaders is how many may follow items, or heads, at a time: a stream that does not say gets the server's default, 1,000.
const maxReaders = 100_000

// Topology is every stream and bucket of Spool (DESIGN 4).
func Topology(l Limits) []jetstream.StreamConfig {
	common := func(cfg jetstream.StreamConfig) jetstream.StreamConfig {
		cfg.Storage = jetstream.FileStorage
		cfg.FirstSeq = l.First[cfg.Name]
		cfg.Replicas = max(l.Replicas, 1)
		cfg.Duplicates = time.Second // (producer, epoch, seq) identifies an event; no message id is trusted
		cfg.MaxBytes = cmp.Or(cfg.MaxBytes, -1)
		return cfg
	}
	streams := []jetstream.StreamConfig{
		common(jetstream.StreamConfig{
			Name: events.EventsStream, Description: "what agents published, by partition",
			Subjects: []string{events.EventSubjects},
			SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: events.EventSubjects, Destination: events.PartitionTransform},
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: l.EventsBytes,
			AllowAtomicPublish: true, AllowBatchPublish: true, AllowDirect: true,
		}),
		common(jetstream.StreamConfig{
			Name: events.ItemsStream, Description: "thread items for subscribers; derived from the threads",
			Subjects: []string{events.ItemSubjects}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
			MaxBytes: l.ItemsBytes, MaxAge: l.ItemsAge, AllowDirect: true, AllowAtomicPublish: true, AllowBatchPublish: true,
			MaxConsumers: maxReaders,
		}),
		common(jetstream.StreamConfig{
			Name: events.DeadStream, Description: "events that could not be applied, as they came, with the reason",
			Subjects: []string{events.DeadSubjects}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, AllowDirect: true,
			AllowAtomicPublish: true,
		}),
		common(jetstream.StreamConfig{
			Name: events.GCStream, Description: "gc runs and reports",
			Subjects: []string{events.GCSubjects}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
			MaxMsgsPerSubject: 1000, AllowDirect: true, AllowMsgSchedules: true, AllowRollup: true, // schedules need rollup
		}),
		// The record bucket is a key-value bucket made by hand: batches on, direct reads off (the leader alone knows what is
		// true), nothing that expires or rolls up.
		common(jetstream.StreamConfig{
			Name: events.RecordsStream, Description: "every fact that decides existence",
			Subjects: []string{events.RecordSubject(">")}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
			MaxMsgsPerSubject: 1, AllowAtomicPublish: true, MaxConsumers: maxReaders,
		}),
	}
	for bucket, what := range map[string]string{
		events.NodesBucket: "packs of nodes", events.BlobsBucket: "blobs",
		events.ArtifactsBucket: "artifacts", events.InboxBucket: "bodies of events that are too large for a message",
	} {
		streams = append(streams, common(jetstream.StreamConfig{
			Name: events.ObjectStream(bucket), Description: what,
			Subjects:  []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
		}))
	}
	return streams
}

// ErrTopology: a stream exists with a configuration that Spool cannot work with, or must not (DESIGN 11).
var ErrTopology = errors.New("incompatible stream")

// ErrGone: a stream is missing, and others show that it was there: what it held is lost.
var ErrGone = errors.New("stream is gone")

// Ensure creates what is missing and compares the rest. It is idempotent, and safe from many processes at once. A stream
// that differs in a way that matters is an error that names every difference; sizes and replicas are the operator's. A stream
// that was lost is not replaced by an empty one, which would pass for the truth: ErrGone. It asks for as long as the server gives
// no answer, and logs what it waits for.
func (c *Conn) Ensure(ctx context.Context, l Limits) error {
	given, tell := l, retry.Tell(c.log, "the streams")
	if err := retry.Do(ctx, tell, func() (err error) { l, err = c.fit(ctx, l); return err }); err != nil {
		return err
	}
	if err := retry.Do(ctx, tell, func() error { return errors.Join(Usable(ctx, c), c.wasHere(ctx, l.Store)) }); err != nil {
		return err
	}
	var errs []error
	streams := Topology(l)
	// EVENTS comes last: once something is published, and so is in use, all the others are there. The record bucket comes
	// first: of several processes that start together one makes it, and what it says is the store's identity.
	slices.Reverse(streams)
	slices.SortStableFunc(streams, func(a, b jetstream.StreamConfig) int { return rank(a.Name) - rank(b.Name) })
	var id map[string]string
	if err := retry.Do(ctx, tell, func() (err error) { id, err = c.identity(ctx, streams); return err }); err != nil {
		return err
	}
	for _, want := range streams {
		errs = append(errs, retry.Do(ctx, tell, func() error {
			want.Metadata = id
			if want.Name == events.RecordsStream {
				want.Metadata = maps.Clone(id)
				want.Metadata[metaFormat], want.Metadata[metaSealed] = strconv.Itoa(storeFormat), "0"
				if l.Restore != "" {
					want.Metadata[metaRestore] = l.Restore
				}
			}
			cfg, err := c.ensureStream(ctx, want, given.bytes(want.Name) == 0)
			if err == nil && want.Name == events.RecordsStream {
				id = map[string]string{metaStore: StoreOf(cfg)}
				c.sealed.Store(sealOf(cfg))
			}
			return err
		}))
		if err := errs[len(errs)-1]; errors.Is(err, record.ErrDenied) { // it is the same of the others
			return fmt.Errorf("this user may not make or change streams, and %s is not there, or not as it must be: start spool up or a "+
				"persister once as an admin of the tenant (spool auth env), which makes them: %w", want.Name, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.ensureConsumers(ctx)
}

// bytes is the size that the operator gave a stream.
func (l Limits) bytes(stream string) int64 {
	return map[string]int64{events.EventsStream: l.EventsBytes, events.ItemsStream: l.ItemsBytes}[stream]
}

func rank(stream string) int {
	if stream == events.RecordsStream {
		return 0
	}
	return 1
}

// kept are the streams whose messages are nowhere else and are referred to from other streams. Items are derived, and reports
// and dead letters nobody refers to.
func kept(stream string) bool {
	return !slices.Contains([]string{events.ItemsStream, events.GCStream, events.DeadStream}, stream)
}

// wasHere refuses a system that has lost what was in it.
func (c *Conn) wasHere(ctx context.Context, store string) error {
	if err := c.checkGone(ctx); err != nil {
		return err
	}
	return c.checkStore(ctx, store)
}

// checkGone refuses a system that has been used and has not got all of its streams any more.
func (c *Conn) checkGone(ctx context.Context) error {
	gone, used, err := c.gone(ctx)
	if err == nil && len(gone) > 0 && len(used) > 0 {
		gone, _, err = c.gone(ctx) // they may just have been made, by another process
	}
	if err != nil || len(gone) == 0 || len(used) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s: deleted, or lost by the server, and %s in use: what was in there is lost, "+
		"and nothing is made in the place of it; see \"A stream that is gone\" in docs/operations.md",
		ErrGone, strings.Join(gone, ", "), strings.Join(used, ", "))
}

// gone lists the kept streams that are not there, and of those that tell a used system from a new one which were written to.
func (c *Conn) gone(ctx context.Context) (gone, used []string, err error) {
	for _, cfg := range Topology(Limits{EventsBytes: 1, ItemsBytes: 1}) {
		if !kept(cfg.Name) {
			continue
		}
		s, err := c.js.Stream(ctx, cfg.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			gone = append(gone, cfg.Name)
		case err != nil:
			return nil, nil, fmt.Errorf("stream %s: %w", cfg.Name, WrapErr(err))
		case !slices.Contains([]string{events.EventsStream, events.RecordsStream, events.ObjectStream(events.NodesBucket)}, cfg.Name):
		case s.CachedInfo().State.LastSeq >= max(s.CachedInfo().Config.FirstSeq, 1):
			used = append(used, cfg.Name)
		}
	}
	return gone, used, nil
}

// Verify compares every stream with the topology and changes nothing. A missing one is record.ErrNotFound.
func (c *Conn) Verify(ctx context.Context) error {
	errs := []error{Usable(ctx, c)}
	for _, want := range Topology(Limits{EventsBytes: 1, ItemsBytes: 1}) {
		s, err := c.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = record.ErrNotFound
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stream %s: %w", want.Name, WrapErr(err)))
			if errors.Is(err, record.ErrDenied) {
				break // of all the others, too
			}
			continue
		}
		errs = append(errs, compare(s.CachedInfo().Config, want))
	}
	return errors.Join(errs...)
}

// fit chooses default limits: the server refuses a stream whose limit is above what the account has left. What the server has
// for all accounts it does not tell: createStream finds that out.
func (c *Conn) fit(ctx context.Context, l Limits) (Limits, error) {
	if l.EventsBytes != 0 && l.ItemsBytes != 0 {
		return l, nil
	}
	info, err := c.js.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return l, fmt.Errorf("%w: the server has no JetStream for this account: start it with -js, or give the account limits: %v",
			record.ErrRefused, err)
	}
	if err != nil {
		return l, fmt.Errorf("ask for the account's limits: %w", WrapErr(err))
	}
	size := int64(defaultStreamBytes)
	if info.Limits.MaxStore > 0 {
		left := info.Limits.MaxStore - int64(info.Store)
		size = min(size, max(left/4, leastStreamBytes))
	}
	l.EventsBytes = cmp.Or(l.EventsBytes, size)
	l.ItemsBytes = cmp.Or(l.ItemsBytes, size)
	return l, nil
}

// createStream makes a stream. Where its size is free and the server has no room for it, it takes a quarter of that, and again.
func (c *Conn) createStream(ctx context.Context, want jetstream.StreamConfig, free bool) (jetstream.Stream, error) {
	for failed := 0; ; {
		s, err := c.js.CreateStream(ctx, want)
		var api *jetstream.APIError
		switch {
		case errors.As(err, &api) && api.ErrorCode == noStore && failed < storeTries && ctx.Err() == nil:
			failed++
			time.Sleep(storeWait)
		case free && want.MaxBytes/4 >= leastStreamBytes && errors.Is(WrapErr(err), record.ErrFull):
			want.MaxBytes /= 4
		default:
			return s, err
		}
	}
}

// A server that is removing the files of the stream that had the name, or of the last one of its account, can fail to make new
// ones beside that: it is asked so often again.
const (
	noStore    jetstream.ErrorCode = 10049
	storeTries                     = 20
	storeWait                      = 50 * time.Millisecond
)

// ensureStream makes a stream that is not there, or compares it; it returns the stream's configuration. A free size is a default,
// which can be smaller.
func (c *Conn) ensureStream(ctx context.Context, want jetstream.StreamConfig, free bool) (cfg jetstream.StreamConfig, err error) {
	s, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = c.createStream(ctx, want, free)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			s, err = c.js.Stream(ctx, want.Name)
		}
	}
	if err = WrapErr(err); errors.Is(err, record.ErrFull) {
		return cfg, fmt.Errorf("%w: there is no room for %s, which is to hold %d MiB: %s (%v)",
			record.ErrRefused, want.Name, want.MaxBytes>>20, c.makeRoom(ctx), err)
	}
	if err != nil {
		return cfg, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	cfg = s.CachedInfo().Config
	if err := compare(cfg, want); err != nil {
		return cfg, err
	}
	return c.mark(ctx, cfg, want.Metadata)
}

// makeRoom says what an operator can do where a stream does not fit.
func (c *Conn) makeRoom(ctx context.Context) string {
	const smaller = "give smaller --events-bytes and --items-bytes"
	if info, err := c.js.AccountInfo(ctx); err == nil && info.Limits.MaxStore > 0 {
		return fmt.Sprintf("this account may take %d MiB of the server's disk for all its streams. Raise that (of a tenant "+
			"of spool auth: spool auth tenant set DIR NAME --disk SIZE, then restart the server or have it reload), or %s",
			info.Limits.MaxStore>>20, smaller)
	}
	return "make room on the server's disk, raise max_file_store in its configuration, or " + smaller
}

// compare names every difference in what Spool relies on or forbids.
func compare(got, want jetstream.StreamConfig) error {
	var errs []error
	check := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			errs = append(errs, fmt.Errorf("%w: %s is %v, must be %v", ErrTopology, what, got, want))
		}
	}
	check("subjects", got.Subjects, want.Subjects)
	check("subject transform", deref(got.SubjectTransform), deref(want.SubjectTransform))
	check("retention", got.Retention, want.Retention)
	check("discard", got.Discard, want.Discard)
	check("max messages per subject", max(got.MaxMsgsPerSubject, 0), max(want.MaxMsgsPerSubject, 0))
	check("rollup", got.AllowRollup, want.AllowRollup)
	check("fast batches", got.AllowBatchPublish, want.AllowBatchPublish)
	check("message TTL", got.AllowMsgTTL, want.AllowMsgTTL)
	check("message schedules", got.AllowMsgSchedules, want.AllowMsgSchedules)
	check("persist mode", got.PersistMode, want.PersistMode)
	check("republish", got.RePublish != nil, false)
	check("mirror", got.Mirror != nil, false)
	if want.Name != events.EventsStream { // publishers may be denied batches
		check("atomic publish", got.AllowAtomicPublish, want.AllowAtomicPublish)
	}
	if want.Name == events.RecordsStream {
		check("direct reads", got.AllowDirect, false)
	}
	if want.Name != events.ItemsStream && want.Name != events.GCStream { // nothing else may be forgotten
		check("maximum age", got.MaxAge, time.Duration(0))
		check("maximum messages", max(got.MaxMsgs, 0), int64(0))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return nil
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
