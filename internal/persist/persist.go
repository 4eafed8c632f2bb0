package persist

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// Message is one stored event as a partition's consumer gives it.
type Message struct {
	Subject   string // as EVENTS stores it
	Data      []byte // the envelope
	Seq       uint64 // EVENTS sequence
	Stored    int64  // when the server stored it, Unix nanoseconds; 0 = unknown
	Partition int
	Link      uint64 // the connection over which it came, as Deps.Link numbers them

	// Open is the highest sequence of the partition that another process was given, did not acknowledge, and may have died
	// over; 0: there is none.
	Open uint64

	// Term numbers the time for which the partition is given to this process without a break. When a later one begins, all
	// that is not acknowledged comes again in it, and somebody else may have applied some of that.
	Term uint64

	Ack     func() error // marks this and every earlier message of the partition as done; may be lost
	Working func() error // asks for more time before the message comes again; may be lost; nil = there is no such time
}

// Records is the record bucket: the truth, read from the leader and changed all or nothing. WillCommit is a hint that a commit
// behind that fence will follow: it does not wait and promises nothing. Errors are package record's.
type Records interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) // record.FindPack
	Fence(ctx context.Context, lane int) (record.Fence, error)
	WillCommit(f record.Fence)
	Commit(ctx context.Context, f record.Fence, puts []record.Put) (first uint64, err error)
}

// Bulk holds bytes that exist for nobody until a record names them. Each upload gets a name of its own and is durable when
// the call returns.
type Bulk interface {
	UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error)
	UploadBlob(ctx context.Context, ref casstore.Ref, b []byte) (record.Blob, error)
	NewBlob(ctx context.Context) record.Upload           // of any size, in bounded memory
	DropBlob(ctx context.Context, o record.Object) error // a finished upload that no record names, and none will
	Holds(ctx context.Context, o record.Object) (bool, error)
}

// Outbox is what subscribers and operators read. PublishItems stores in order, all or a prefix; LastItemOf is the number of
// the newest stored item of a life of a thread's name, 0 if none is held. Dead stores the letters that are not there yet;
// HaveDead says which are.
type Outbox interface {
	PublishItems(ctx context.Context, items []events.Posted) error
	LastItemOf(ctx context.Context, t events.Thread, life uint64) (int64, error)
	Dead(ctx context.Context, letters []events.Dead) error
	HaveDead(ctx context.Context, letters []events.Dead) ([]bool, error)
}

// Inbox holds bodies that were too large for a message. OpenBody reads one from its beginning in bounded memory, as often
// as it is called; record.ErrNotFound when there is none, or where a part of it is missing.
type Inbox interface {
	OpenBody(ctx context.Context, ref events.BodyRef) (io.Reader, error)
	DiscardBody(ctx context.Context, ref events.BodyRef) error
}

// Past reads what EVENTS holds of one producer's events in a thread, in one epoch, from a sequence up to and without another one. It
// asks the stream's leader: what was acknowledged must not be missing.
type Past interface {
	Past(ctx context.Context, t events.Thread, producer string, epoch, from, before uint64, most int) (events.Past, error)
}

// Stored reads the bytes of a stored event of a partition again; record.ErrNotFound only where it is known to have been removed.
type Stored interface {
	Event(ctx context.Context, partition int, seq uint64) ([]byte, error)
}

// Deps is the world outside.
type Deps struct {
	Records Records
	Bulk    Bulk
	Outbox  Outbox
	Inbox   Inbox
	Packs   casstore.PackGetter  // committed packs, cached
	Nodes   casstore.NodeLocator // finds nodes that a step names without a pack; nil: only where the session's heads are
	Log     *slog.Logger

	Search casstore.NodeLocator // finds a node that is not where its locator says; nil: nobody looks

	// What streaming outputs need; without Parts they are cut and not kept whole, without Live nobody watches them, without
	// Leases they stay open until their end.
	Parts  Parts
	Wholes Wholes // of large results; without it their items hold what fits, and no artifact
	Live   Live
	Leases Leases

	Sessions Sessions // removes sessions as a whole; without it that is refused

	Secrets Secrets // of what agents write; nil: nobody looks for them

	// MaxRecord is how many bytes the value of a record can have; a thread that needs more takes no events. nil: it is not known.
	MaxRecord func() int

	// Past tells what was stored before an event; nil: an event that is linked to what its thread does not know is a dead letter.
	Past Past

	Stored Stored // of what waits for its turn; nil: its bytes are kept in memory meanwhile, as far as there is room

	// Reused reports whether EVENTS gave a sequence out before, to an event that it has lost. nil: it never did.
	Reused func(seq uint64, stored int64) bool

	// Committed is told of every commit; it must not block. nil: nobody keeps statistics.
	Committed func(Committed)

	// Link numbers the connection to the store. A new number says that it was interrupted: the store may have been set back
	// meanwhile, to before what it acknowledged (power loss, with relaxed sync). What came over an earlier one is not applied any
	// more: it must come again, in its place. nil: that does not happen.
	Link func() uint64

	// At is called before each durable step with its name; an error there fails the step. Tests inject faults with it; nil
	// otherwise.
	At func(Step) error
}

// Committed is one commit in numbers.
type Committed struct {
	Events int
	Took   time.Duration // from its first upload to its answer, repeats included
}

// Config bounds a persister. The zero value is good.
type Config struct {
	Lane        int // fence of this process's commits, 0 to events.Lanes-1; -1 = any
	BatchEvents int // events in a commit at most; 0 = 1000
	BatchBytes  int // bytes of their bodies at most (one larger body still is a batch); 0 = 4 MiB
	// QueueBytes is how many bytes are taken from the stream and not acked yet; a user, or a session of which nobody knows
	// whose it is, has as much of it as it leaves to others, and an entry that needs more than three quarters waits for
	// these: small ones, of a 64th at most, go past it. Messages of who has more than that are parked, in as many bytes again: a quarter
	// for those that are kept in memory, and of the rest 512 bytes for each and 8 KiB for each session; 0 = 64 MiB.
	QueueBytes  int64
	StreamBytes int64 // bytes of a body above which it is read as a stream, and counts with what its cut leaves; 0 = 8 MiB
	MaxEntry    int64 // bytes of an entry after the size rules; a larger one is a dead letter; 0 = 64 MiB, at most 200 MiB
	HeadBytes   int   // bytes of heads kept in memory, of threads with their sessions; 0 = 128 MiB
	OutputBytes int   // bytes of open outputs kept in memory; 0 = 32 MiB

	Artifacts artifacts.Thresholds // results over them become artifacts (SPEC A4)
	Cuts      truncate.Options     // of the rules that cut entries (SPEC T2)

	OutputLease time.Duration // after that time without a chunk an output counts as aborted; 0 = 10 minutes

	// TrialPause is about how long an event waits, for each process that died while it tried it alone, before it is
	// tried so again: what kills processes at their beginning does not meet it. 0 = 2 s
	TrialPause time.Duration

	// Late is how old a commit is for which another process may have its partition by the time it has told of it; 0 = 4 s
	Late time.Duration

	Head threads.HeadRoom // what a head itself names, before nodes do; the zero value is good

	Limits apply.Limits // what a session may have, and a user; of each 0 = apply.DefaultLimits, negative = any number
}

func (c Config) withDefaults() Config {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&c.BatchEvents, 1000)
	set(&c.BatchBytes, 4<<20)
	set(&c.HeadBytes, 128<<20)
	set(&c.OutputBytes, 32<<20)
	if c.TrialPause <= 0 {
		c.TrialPause = 2 * time.Second
	}
	if c.Late <= 0 {
		c.Late = 4 * time.Second // half of what a server waits before it gives a partition away
	}
	if c.OutputLease <= 0 {
		c.OutputLease = 10 * time.Minute
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = 64 << 20
	}
	if c.StreamBytes <= 0 {
		c.StreamBytes = 8 << 20
	}
	if c.MaxEntry <= 0 {
		c.MaxEntry = 64 << 20
	}
	c.MaxEntry = min(c.MaxEntry, mostEntry)
	c.Limits = c.Limits.WithDefaults()
	if c.Lane < 0 || c.Lane >= events.Lanes {
		c.Lane = rand.IntN(events.Lanes)
	}
	return c
}

// mostEntry is what a pack can hold.
const mostEntry = 200 << 20

// maxBatchThreads keeps the outside table of a commit's pack within one message.
const maxBatchThreads = 250

// Persister applies events to threads. Deliver may be called by one goroutine a partition; Run does the rest.
type Persister struct {
	Deps
	cfg     Config
	rules   apply.Rules
	queue   *queue
	windows windows
	space   *space // QueueBytes
	parking *parking
	deadly  *deadly
	reader  threads.Reader
	lane    *lane
	stats   counters
	broken  chan error // why Run has to end, from Deliver
}

// New makes a persister; Run starts it.
func New(deps Deps, cfg Config) *Persister {
	cfg = cfg.withDefaults()
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.At == nil {
		deps.At = func(Step) error { return nil }
	}
	if deps.Link == nil {
		deps.Link = func() uint64 { return 0 }
	}
	if deps.Reused == nil {
		deps.Reused = func(uint64, int64) bool { return false }
	}
	if deps.MaxRecord == nil {
		deps.MaxRecord = func() int { return math.MaxInt }
	}
	if deps.Committed == nil {
		deps.Committed = func(Committed) {}
	}
	p := &Persister{
		Deps: deps, cfg: cfg, space: newSpace(cfg.QueueBytes), parking: newParking(cfg.QueueBytes),
		windows: windows{of: map[int]*window{}},
		reader:  threads.Reader{Packs: deps.Packs, Nodes: deps.Search, Hold: project.Room()}, broken: make(chan error, 1),
	}
	p.queue, p.space.parked = newQueue(p.parking), p.parking
	p.Records = patient{deps.Records, p}
	p.rules = apply.Rules{
		Artifacts: cfg.Artifacts, Results: deps.Wholes != nil, Outputs: deps.Parts != nil, Sessions: deps.Sessions != nil,
		OutputLease: cfg.OutputLease, Secrets: deps.Secrets, Head: cfg.Head, Limits: cfg.Limits,
	}
	p.lane, p.deadly = newLane(p), newDeadly(p)
	return p
}

// Run applies what Deliver brings until ctx ends; what is then committed is published and acked first. It returns nil
// after a clean end.
func (p *Persister) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.lane.run(ctx) })
	g.Go(func() error { return p.leaseLoop(ctx) })
	g.Go(func() error {
		select {
		case err := <-p.broken:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	err := g.Wait()
	p.deadly.takeBackAll()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// halt ends Run, and waits until whoever delivers is told to stop: what follows in the partition must not overtake.
func (p *Persister) halt(ctx context.Context, err error) {
	select {
	case p.broken <- err:
	default:
	}
	<-ctx.Done()
}

// Step names a durable step, for fault injection.
type Step string

// The durable steps, in order.
const (
	StepUpload  Step = "upload" // of what is too large to wait in memory for its commit
	StepFence   Step = "fence"
	StepBulk    Step = "bulk"
	StepCommit  Step = "commit"
	StepLetters Step = "letters"
	StepItems   Step = "items"
	StepAck     Step = "ack"
	StepDiscard Step = "discard"
)

// The durable steps of deleting a session, in order (delete.go). Each may come several times.
const (
	StepRemove Step = "remove" // a batch of its records
	StepFree   Step = "free"   // bytes of its artifacts
	StepPurge  Step = "purge"  // its items, dead letters and events
	StepDone   Step = "done"
)
