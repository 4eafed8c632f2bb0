// Package fsck derives everything that is stored anew and reports what differs: bytes against their digests, nodes against
// their hashes, states against their parents, heads against their states, records against each other.
//
//	heads ─▶ packs, blobs, artifacts: every byte ─▶ nodes, oldest pack first ─▶ heads against states ─▶ the other records
//
// The heads are listed before what they lead to, so that nothing which is written meanwhile is missed by them; a record that
// changed since it was listed is left out and counted. What no head reaches is checked against its hash alone: a collector
// may have taken what it refers to.
package fsck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Store is what is checked. List gives the records that match a filter; ReadChunks gives the bytes of an object, of which
// missing ones are record.ErrNotFound; Stat is what an object's own meta message says.
type Store interface {
	List(ctx context.Context, filter string) ([]record.Record, error)
	Keys(ctx context.Context, filter string) ([]string, error)
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	ReadChunks(ctx context.Context, o record.Object, limit int, f func(chunk []byte) error) error
	Stat(ctx context.Context, bucket, name string) (record.Object, error)

	// Messages reads a stream in sequence, to its end as it is; Unapplied is the lowest sequence of SPOOL_EVENTS that may not be
	// applied yet; LastItem is the number of a thread's newest item that is held.
	Messages(ctx context.Context, stream string, from uint64, f func(seq uint64, subject string, data []byte) error) error
	Message(ctx context.Context, stream string, seq uint64) (data []byte, err error) // record.ErrNotFound if it is not there
	Unapplied(ctx context.Context) (uint64, error)
	LastItem(ctx context.Context, t events.Thread) (n int64, life uint64, err error)
	StreamStates(ctx context.Context) ([]record.StreamState, error)
	ThreadEvents(ctx context.Context, t events.Thread) ([]record.StoredEvent, error) // those that are still there, in order

	Letters(ctx context.Context, f func(event uint64, subject string, data []byte, unread bool) error) error // Ledger's
	Stored(ctx context.Context, bucket string) ([]record.Stored, error)                                      // what a bucket holds, by token
}

// The kinds of findings.
const (
	Corrupt      = record.Corrupt
	Missing      = record.Missing
	Inconsistent = record.Inconsistent
	Unreadable   = record.Unreadable
	Misnamed     = record.Misnamed
)

// Finding is one thing that differs.
type Finding struct {
	Kind   string `json:"kind"`
	Record string `json:"record"` // key
	Detail string `json:"detail"`
	Tip    string `json:"tip,omitempty"` // of a thread: the state that its head or a tip is at and that cannot be read
}

func (f Finding) String() string { return f.Kind + "\t" + f.Record + "\t" + f.Detail }

// Report is what was looked at, and what differs.
type Report struct {
	Threads   int   `json:"threads"`
	Sessions  int   `json:"sessions"`
	Packs     int   `json:"packs"`
	Nodes     int64 `json:"nodes"`
	States    int64 `json:"states"`
	Blobs     int   `json:"blobs"`
	Artifacts int   `json:"artifacts"`
	Records   int   `json:"records"`
	Items     int   `json:"items"`
	Bytes     int64 `json:"bytes"` // of packs, blobs and artifacts
	// records of packs and blobs that were collected or moved, brought back by a server that was killed, and torn packs that no
	// thread needs since what they held was made again: gc removes them
	Returned int `json:"returned"`
	Changed  int `json:"changed"` // records that were written meanwhile, and so not judged
	// registered files that this machine has no more, or not as they were: they are their tool's, and no findings
	Gone     []Finding `json:"gone,omitempty"`
	Findings []Finding `json:"findings"`
	Repairs  []Repair  `json:"repairs,omitempty"`

	Files []artifacts.Record `json:"-"` // that are registered where they are, on any machine
}

// Config says how.
type Config struct {
	Progress func(done, total int64) // is told the bytes read and those to read; may be nil

	// Cut lets Fix move a head back before a gap in its thread that cannot be filled, as if its own state were gone: entries
	// behind the gap that are there leave the thread, and are published again if SPOOL_EVENTS has them.
	Cut bool

	// Lost says what is known of records that were lost, if any were: then what no record names counts as lost, too, and
	// not as garbage. "": none were.
	Lost string

	// Items makes every item again from its node, and compares; else the newest of each thread. It takes 100 bytes an item.
	Items bool

	// Secrets is what the persisters do with secrets (their mode and rules): Fix makes nodes again, and an entry that was masked
	// has its hash only when it is masked again. nil: nobody looks for them.
	Secrets apply.Secrets

	// Artifacts is from what size on the persisters made artifacts of results, for the same reason.
	Artifacts artifacts.Thresholds
}

// Check looks at everything. An error means that it could not look; what differs is in the report. Memory is about 1.6 KB
// a thread, 250 bytes a state and 100 a blob.
func Check(ctx context.Context, s Store, cfg Config) (*Report, error) {
	c, err := look(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	return c.report, nil
}

// looks is how often Check looks when packs were rewritten under its eyes.
const looks = 3

func look(ctx context.Context, s Store, cfg Config) (c *checker, err error) {
	for range looks {
		if c, err = lookOnce(ctx, s, cfg); err != nil || !c.stale || len(c.report.Findings) == 0 {
			break
		}
	}
	return c, err
}

func lookOnce(ctx context.Context, s Store, cfg Config) (*checker, error) {
	c := newChecker(s, cfg)
	var err error
	if c.floor, err = s.Unapplied(ctx); err != nil && !errors.Is(err, record.ErrNotFound) {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		c.listHeads, c.listBulk, c.checkBlobs, c.checkPacks, c.checkArtifacts, c.recallHeads, c.checkHeads,
		c.checkOthers, c.checkClasses, c.checkItems, c.checkKept, c.checkRefused, c.checkNameless, c.checkAway,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.report.Findings, func(a, b Finding) int { return cmp.Compare(a.Record, b.Record) })
	return c, nil
}

// checker is one look at everything.
type checker struct {
	s      Store
	cfg    Config
	report *Report
	total  int64
	stale  bool // what heads lead to was written meanwhile: it may have moved

	heads     []head
	packs     []pack // by order
	at        map[casstore.PackID]int
	moved     map[casstore.PackID]casstore.PackID
	blobs     map[[32]byte]*blob
	artifacts []artifact
	misnamed  []misnamed
	headers   headerCache
	bad       map[nodeIn]*record.Damage        // nodes that are there and not good
	unread    map[casstore.Ref]int             // nodes whose bytes are not good, and the index of their pack
	users     map[casstore.PackID]uint64       // packs that are gone or lost: the lowest order of a pack that refers to them
	absent    map[casstore.Ref]casstore.PackID // nodes that are not in the pack that is named for them
	sought    map[casstore.Located]bool        // the same, with every pack that is named for them
	wantBlobs map[[32]byte]bool                // that nodes refer to, and that are not there or not good
	starts    map[casstore.Ref]int             // and the index of a pack that holds it
	states    map[casstore.Ref]*state          // a good one, if there is one
	equal     map[nodeIn]*state                // all of those that several packs have: threads that say the same at the same times
	sessions  map[string]bool
	noRecord  []string            // keys of the records of sessions that have threads and no record
	newest    map[string]artifact // of each session: the one with the highest number
	low       []lowCounter

	floor       uint64 // events below were applied before anything was listed
	items       map[events.Thread]*held
	lostThreads []events.Thread          // without a head
	names       map[string]*namings      // of sessions that were asked for
	posted      map[events.Thread]posted // under the names of threads that have a head
	told        map[kept]events.Thread   // what events leave that were applied, and the threads of these
	bare        []lostKept
	refused     []record.Record                   // of what was refused: those that somebody removed
	short       []*head                           // that lack the last of what was posted
	anew        []*head                           // threads that have lost what was applied before their first entry
	left        []threads.Head                    // of threads that are no more under their names
	pointers    map[artifacts.ID]threads.Artifact // what nodes tell of artifacts
	nameless    nameless
	cache       casstore.PackGetter
	ledger      *accountant // of account
	noLetters   bool        // the record of dead letters that were removed cannot be read
	before      []Finding   // of the look before, when records were made again since
}

func newChecker(s Store, cfg Config) *checker {
	return &checker{
		s: s, cfg: cfg, report: &Report{Findings: []Finding{}}, at: map[casstore.PackID]int{}, moved: map[casstore.PackID]casstore.PackID{},
		blobs: map[[32]byte]*blob{}, bad: map[nodeIn]*record.Damage{}, unread: map[casstore.Ref]int{},
		users: map[casstore.PackID]uint64{}, absent: map[casstore.Ref]casstore.PackID{}, starts: map[casstore.Ref]int{},
		states: map[casstore.Ref]*state{}, equal: map[nodeIn]*state{}, sessions: map[string]bool{}, newest: map[string]artifact{},
		sought: map[casstore.Located]bool{}, wantBlobs: map[[32]byte]bool{}, pointers: map[artifacts.ID]threads.Artifact{},
	}
}

// head is a thread's record.
type head struct {
	key          string
	seq          uint64
	id           events.Thread
	past         bool
	threads.Head // with all its tips and producers, as far as they can be read

	kept *threads.Head // as the record has it; nobody changes what is in it
	rest []wrongHead   // why there may be more of them
}

// find notes what is wrong with a record, unless it was written meanwhile.
func (c *checker) find(ctx context.Context, seq uint64, f Finding) error {
	rs, err := c.s.Records(ctx, f.Record)
	if err != nil {
		return err
	}
	if seq != 0 && rs[0].Seq != seq {
		c.report.Changed++
		c.stale = c.stale || strings.HasPrefix(f.Record, events.PackKey("")) || strings.HasPrefix(f.Record, events.BlobKey(""))
		return nil
	}
	c.report.Findings = append(c.report.Findings, f)
	return nil
}

// each decodes the records that match a filter; what cannot be decoded is a finding.
func (c *checker) each(ctx context.Context, filter string, take func(r record.Record) error) error {
	rs, err := c.s.List(ctx, filter)
	if err != nil {
		return err
	}
	c.report.Records += len(rs)
	for _, r := range rs {
		if err := take(r); err != nil {
			if err := c.find(ctx, r.Seq, Finding{Kind: Unreadable, Record: r.Key, Detail: err.Error()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) listHeads(ctx context.Context) error {
	take := func(r record.Record) (err error) {
		h := head{key: r.Key, seq: r.Seq}
		var ok bool
		if h.id, ok = events.ParseHeadKey(r.Key); !ok {
			if h.id, _, h.past = events.ParseHistoryKey(r.Key); !h.past {
				return errors.New("the key is none of a thread")
			}
		}
		if h.Head, err = threads.DecodeHead(r.Value); err == nil {
			h.Memory, h.Later = bytes.Clone(h.Memory), bytes.Clone(h.Later) // else they keep all of the record
			c.heads = append(c.heads, h)
		}
		return err
	}
	err := c.each(ctx, "thread.>", take)
	if err == nil {
		err = c.each(ctx, "history.>", take)
	}
	c.report.Threads, c.heads = len(c.heads), slices.Clone(c.heads) // with no room for more
	return err
}

// checkOthers decodes the records that lead to no bytes.
func (c *checker) checkOthers(ctx context.Context) error {
	var open []openOutput
	decode := map[string]func(record.Record) error{
		"session": func(r record.Record) error {
			info, err := sessions.DecodeInfo(r.Value)
			c.sessions[info.ID] = err == nil
			c.report.Sessions++
			return err
		},
		"counter": c.counter,
		"output": func(r record.Record) error {
			o, err := record.DecodeOutput(r.Value)
			if err == nil {
				open = append(open, openOutput{r.Key, r.Seq, o})
			}
			return err
		},
		"left": func(r record.Record) error {
			left, err := record.DecodeLeft(r.Value)
			if err != nil {
				return err
			}
			h, err := threads.DecodeHead(left.Head)
			c.left = append(c.left, h)
			return err
		},
	}
	for _, class := range record.Classes {
		if decode[class.Name] == nil && (class.Session && class.Keeps == record.Nothing || class.Alone()) {
			decode[class.Name] = func(r record.Record) error { return class.Check(r.Value) }
		}
	}
	for class, take := range decode {
		if err := c.each(ctx, class+".>", take); err != nil {
			return err
		}
	}
	if err := c.checkAllOpen(ctx, open); err != nil {
		return err
	}
	for _, h := range c.heads {
		if c.sessions[h.id.Session] {
			continue
		}
		same, err := c.unchanged(ctx, h.key, h.seq)
		if err != nil {
			return err
		}
		if !same {
			c.report.Changed++
			continue
		}
		c.sessions[h.id.Session] = true
		c.noRecord = append(c.noRecord, events.SessionKey(h.id.Session))
		f := Finding{Kind: Missing, Record: events.SessionKey(h.id.Session), Detail: "there is a thread of it: " + h.id.String()}
		if err := c.find(ctx, 0, f); err != nil {
			return err
		}
	}
	return c.checkCounters(ctx)
}

// checkClasses finds the records of no class that this version knows: nobody can tell what they keep alive, so that
// collectors and backups stop at them.
func (c *checker) checkClasses(ctx context.Context) error {
	keys, err := c.s.Keys(ctx, ">")
	if err != nil {
		return err
	}
	for _, key := range keys {
		_, unknown := record.ClassOf(key)
		if unknown == nil {
			continue
		}
		rs, err := c.s.Records(ctx, key)
		if err != nil {
			return err
		}
		if !rs[0].Exists() {
			continue
		}
		c.report.Records++
		f := Finding{Kind: Unreadable, Record: key, Detail: unknown.Error()}
		if err := c.find(ctx, rs[0].Seq, f); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether a record is still as it was listed, and its session is not being deleted.
func (c *checker) unchanged(ctx context.Context, key string, seq uint64) (bool, error) {
	rs, err := c.s.List(ctx, key)
	return len(rs) == 1 && rs[0].Seq == seq, err
}

// counter notes a session whose artifacts have higher numbers than it has given out.
func (c *checker) counter(r record.Record) error {
	n, err := record.DecodeCounter(r.Value)
	if err != nil {
		return err
	}
	if used := c.newest[strings.TrimPrefix(r.Key, events.CounterKey(""))]; used.Seq.Compare(n.Artifacts) > 0 {
		c.low = append(c.low, lowCounter{r, n.Artifacts, used})
	}
	return nil
}

// lowCounter is a session's counter that is below a number in use.
type lowCounter struct {
	record.Record
	last artifacts.Seq
	used artifact
}

// checkCounters names the counters that are too low, but for those of sessions that were deleted since their artifacts were listed.
func (c *checker) checkCounters(ctx context.Context) error {
	for _, l := range c.low {
		same, err := c.unchanged(ctx, l.used.key, l.used.seq)
		switch {
		case err != nil:
			return err
		case !same:
			c.report.Changed++
			continue
		}
		f := Finding{Kind: Inconsistent, Record: l.Key, Detail: fmt.Sprintf("it counts artifacts up to %q, and %q is in use", l.last, l.used.Seq)}
		if err := c.find(ctx, l.Seq, f); err != nil {
			return err
		}
	}
	return nil
}
