package threads

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"spool/internal/family"
	"spool/pkg/casstore"
)

// ErrNoThread says that there is no thread of a name.
var ErrNoThread = family.NotFound.New("no such thread")

// MaxRecent is the length limit of Head.Recent: the head and what becomes the next state's skip list.
const MaxRecent = 1 + MaxAncestors

// Status is where a thread stands (SPEC I7).
type Status uint8

const (
	StatusPending   Status = iota // no state yet
	StatusActive                  // appended to
	StatusCompleted               // ended by a state of RoleEnd
	StatusFailed                  // stopped by an error; retryable, stays among the active threads
)

// String is the status in lower case.
func (s Status) String() string {
	switch s {
	case StatusPending:
		return "pending"
	case StatusActive:
		return "active"
	case StatusCompleted:
		return "completed"
	case StatusFailed:
		return "failed"
	}
	return "unknown"
}

// Head is the one mutable part of a thread: where its newest state is, and all that the next commit must know without
// reading a node. It is the value of the thread's record. The zero value with a Start is a thread before its first state.
type Head struct {
	Start  casstore.Located
	Recent []casstore.Located // the head state, then up to MaxAncestors ancestors, newest first; empty before the first state
	Tips   []casstore.Located // heads that were moved away from, but for those in Older; roots for ever

	Producers []Producer // the last event seen of each, in no particular order; of a decoded head see Reader.Recall
	Applied   uint64     // stream sequence of the last event applied

	N       int64 // number of the last item
	Sent    int64 // number up to which items were known to be sent when this head was written
	Entries int64 // number of entries, across branches

	Status  Status
	Failure string // why the thread failed

	Leaf    string // source id of the entry at the head
	Dialect string
	Memory  []byte // projection memory of the open turn

	Batch            [16]byte // id of the commit that wrote this head
	Updated, Created int64    // Unix milliseconds: entry times as far as they are believed (events.Believed)

	Truncated    int64 // entries that a rule cut
	Externalized int64 // values that were replaced by a blob
	Unknown      int64 // entries of a type the dialect does not know
	BytesIn      int64 // raw bytes of all entries

	// What a listing shows of the thread (SPEC S10), beside the times.
	Messages int64 // entries that somebody said something in
	Standing uint8 // where its last message left it; the values are those of sessions.Status

	// Of its own turns, as far as they told: how many, and the tokens that the model read, of these from a cache, and wrote.
	Turns, TokensIn, TokensCached, TokensOut int64

	// Life tells this thread from those that had its name before (SPEC P12): the stream sequence of the event that began it under
	// the name, 0 for the first of a name. Items carry it.
	Life uint64

	// Claimed is what the newest event said of its time, where Updated is not that: NoClaim, or a time that is not
	// believed. 0: it is.
	Claimed int64

	// What is too much for a record (Shrink). Zero: there is none.
	Older     casstore.Located // the node of the tips that were left before those in Tips, see Reader.Newest
	OlderTips int64            // how many it and those before it hold
	Seen      casstore.Located // the node of the producers that the record does not tell of

	// Began is the stream sequence of the event that began the thread: none that it has seen under its name came before. 0 where
	// a version wrote it that did not say so.
	Began uint64

	Gaps []Gap // what producers left out, that noted last last; no method changes its memory

	Captured Captured // the file that its newest imported entries came from; zero: none did, or nothing said it

	Later []byte // encoded fields of a later writer, kept as they are
}

// Captured is a file as an import read it. All of it is a claim.
type Captured struct {
	By, Host, Home string   // the home of who read it: a name that no other one has; its machine, and where it lies there
	Size           int64    // bytes, uncompressed; 0: not known
	Modified       int64    // when it was written last, Unix nanoseconds
	Sum            [32]byte // SHA-256 of those bytes
}

// MaxCaptured bounds the three texts of Captured together, in bytes: every head has them.
const MaxCaptured = 512

// Ended is the UTC date of the thread's end, by which its record is filed; "" if it has not ended.
func (h *Head) Ended() string {
	if h.Status != StatusCompleted {
		return ""
	}
	return time.UnixMilli(h.Updated).UTC().Format(time.DateOnly)
}

// NoClaim: no event has had a time yet.
const NoClaim = math.MinInt64

// Claim is the time that the newest event with one said, 0 if there is none.
func (h *Head) Claim() int64 {
	switch h.Claimed {
	case 0:
		return h.Updated
	case NoClaim:
		return 0
	}
	return h.Claimed
}

// Date notes the time of an event: what it claims, 0 for nothing, and what is believed.
func (h *Head) Date(claim, believed int64) {
	if claim == 0 {
		if claim = h.Claim(); claim == 0 {
			claim = NoClaim
		}
	}
	if h.Updated, h.Claimed = believed, claim; claim == believed || believed == 0 && claim == NoClaim {
		h.Claimed = 0
	}
	h.Created = cmp.Or(h.Created, believed)
}

// Clone is a copy that shares no memory with h that the methods of Head change.
func (h *Head) Clone() Head {
	c := *h
	c.Recent, c.Tips, c.Producers = slices.Clone(h.Recent), slices.Clone(h.Tips), slices.Clone(h.Producers)
	return c
}

// Head locates the newest state; before the first state that is the start (SPEC C4).
func (h *Head) Head() casstore.Located {
	if len(h.Recent) == 0 {
		return h.Start
	}
	return h.Recent[0]
}

// Next begins the state that follows the head: it has the role, the start, the parent and the ancestors. The caller adds the
// rest and, once the state is in a pack, calls Advance.
func (h *Head) Next(role string) State {
	s := State{Role: role, Start: h.Start.Ref}
	if len(h.Recent) == 0 {
		return s
	}
	s.Parent = h.Recent[0].Ref
	s.Ancestors = make([]casstore.Ref, 0, MaxAncestors)
	for _, l := range h.Recent[1:min(len(h.Recent), MaxRecent)] {
		s.Ancestors = append(s.Ancestors, l.Ref)
	}
	return s
}

// Located lists what the state that Next begins refers to, with the packs: the start and all of Recent. A pack builder needs
// it (casstore.PackBuilder.Locate).
func (h *Head) Located() []casstore.Located { return append([]casstore.Located{h.Start}, h.Recent...) }

// Advance makes a state, built on Next, the head.
func (h *Head) Advance(to casstore.Located) {
	if len(h.Recent) < MaxRecent {
		h.Recent = append(h.Recent, casstore.Located{})
	}
	copy(h.Recent[1:], h.Recent)
	h.Recent[0] = to
}

// MoveTo makes another state the head, with its ancestors as Reader.Recent gives them; none moves back before the first
// state. The old head becomes a tip, so that nothing is lost; the new one is a tip no more.
func (h *Head) MoveTo(recent []casstore.Located) {
	old, hadState := h.Head(), len(h.Recent) > 0
	h.Recent = slices.Clone(recent[:min(len(recent), MaxRecent)])
	now := h.Head().Ref
	if now == old.Ref {
		return
	}
	h.Tips = slices.DeleteFunc(h.Tips, func(l casstore.Located) bool { return l.Ref == now || l.Ref == old.Ref })
	if hadState {
		h.Tips = append(h.Tips, old)
	}
}

// Roots lists the nodes a collector must keep: the head, the tips, and the nodes that hold what the record does not.
// The start is reachable from each state, and is the only root of a thread without one.
func (h *Head) Roots() []casstore.Located {
	roots := append([]casstore.Located{h.Head()}, h.Tips...)
	for _, l := range []casstore.Located{h.Older, h.Seen} {
		if !l.IsZero() {
			roots = append(roots, l)
		}
	}
	return roots
}

// Newest lists the newest state of each branch that the head names: the head state, if there is one, and the tips.
// Reader.Newest has the others.
func (h *Head) Newest() []casstore.Located {
	if len(h.Recent) == 0 {
		return h.Tips
	}
	return append([]casstore.Located{h.Head()}, h.Tips...)
}

// Branches is how many branches were left: as many as there are tips, and one more for each time that one was gone
// back to after it went into a node.
func (h *Head) Branches() int { return len(h.Tips) + int(h.OlderTips) }

// Producer is the last event that a thread has seen of one producer. The id, the epoch and the sequence in that epoch name
// an event for ever (DESIGN 3).
type Producer struct {
	ID         string
	Epoch, Seq uint64
	At         uint64 // stream sequence of that event

	Stored bool // the node Head.Seen tells of it, and the record need not; of Shrink
}

// Ephemeral begins the id of a producer that lives as long as one process. A thread forgets these before the others.
const Ephemeral = "~"

// replayer begins the id of a producer that publishes the event of a dead letter again, and nothing else.
const replayer = Ephemeral + "dead."

const replayerHash = 12 // bytes of a hash that its id ends with

// ReplayerOf is the producer that publishes an event again, by the digest of what the event says, and no other event. Where its letter
// is says nothing: numbers of letters begin anew in a system that was restored, or whose SPOOL_DEAD was lost.
func ReplayerOf(producer string, epoch, seq uint64, is []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s", producer, epoch, seq, is)
	return replayer + hex.EncodeToString(h.Sum(nil)[:replayerHash])
}

// IsReplayer reports whether a producer is one that ReplayerOf names. Others that begin like one are producers as all are.
func IsReplayer(producer string) bool {
	hash, ok := strings.CutPrefix(producer, replayer)
	b, err := hex.DecodeString(hash)
	return ok && err == nil && len(b) == replayerHash && hash == strings.ToLower(hash)
}

// MaxProducers is how many producers a head remembers.
const MaxProducers = 1024

// Duplicate reports whether the thread has seen this event before: its epoch and sequence are not above the last seen of
// its producer, and it is not known to be Late. A lower epoch is a duplicate whatever its sequence, because a producer
// that was replaced is fenced.
func (h *Head) Duplicate(producer string, epoch, seq uint64) bool {
	i := h.producer(producer)
	if i < 0 {
		return false
	}
	p := h.Producers[i]
	return epoch < p.Epoch || epoch == p.Epoch && seq <= p.Seq && !h.Late(producer, epoch, seq)
}

// Forgets reports whether the head may have forgotten producers whose events it has seen, once it has all of them (Reader.Recall).
func (h *Head) Forgets() bool { return len(h.Producers) >= MaxProducers }

// Counts reports whether an event makes its producer one more of the thread's: ephemeral ones do not count, and a full
// head may have forgotten one that does not begin.
func (h *Head) Counts(producer string, epoch, seq uint64) bool {
	return h.producer(producer) < 0 && !strings.HasPrefix(producer, Ephemeral) &&
		(len(h.Producers) < MaxProducers || epoch == 0 && seq == 1)
}

// Saw remembers an event, applied at that stream sequence. Above MaxProducers it forgets the producer that was silent
// longest, a durable one only when no ephemeral one is left. first: the head did not remember the producer.
func (h *Head) Saw(producer string, epoch, seq, at uint64) (first bool) {
	p := Producer{ID: producer, Epoch: epoch, Seq: seq, At: at}
	if i := h.producer(producer); i >= 0 {
		known := h.Producers[i]
		switch {
		case epoch == known.Epoch && seq <= known.Seq:
			h.fill(producer, epoch, seq)
			p.Seq = known.Seq
		case epoch == known.Epoch:
			h.skipped(Gap{producer, epoch, known.Seq + 1, seq - 1})
		default:
			h.forgetGaps(producer)
			h.skipped(Gap{producer, epoch, 1, seq - 1})
		}
		h.Producers[i] = p
		return false
	}
	if len(h.Producers) >= MaxProducers {
		h.forgetOne(func(*Producer) bool { return true })
	} else if seq > 0 { // a full head may have forgotten what the producer sent before
		h.skipped(Gap{producer, epoch, 1, seq - 1})
	}
	h.Producers = append(h.Producers, p)
	return true
}

// Inherit remembers what another head has seen as well: of a producer that both know, the later event, and as gaps what neither has
// seen. Above MaxProducers it forgets as Saw does.
func (h *Head) Inherit(from *Head) {
	h.Applied = max(h.Applied, from.Applied)
	for _, p := range from.Producers {
		i := h.producer(p.ID)
		if i < 0 {
			p.Stored = false
			h.Producers = append(h.Producers, p)
			h.takeGaps(from, p)
			continue
		}
		mine := &h.Producers[i]
		h.meetGaps(*mine, from, p)
		mine.Stored = false
		mine.At = max(mine.At, p.At)
		if p.Epoch > mine.Epoch || p.Epoch == mine.Epoch && p.Seq > mine.Seq {
			mine.Epoch, mine.Seq = p.Epoch, p.Seq
		}
	}
	for len(h.Producers) > MaxProducers {
		h.forgetOne(func(*Producer) bool { return true })
	}
}

// Last gives the last event that the thread has seen of a producer.
func (h *Head) Last(producer string) (p Producer, known bool) {
	if i := h.producer(producer); i >= 0 {
		return h.Producers[i], true
	}
	return p, false
}

func (h *Head) producer(id string) int {
	return slices.IndexFunc(h.Producers, func(p Producer) bool { return p.ID == id })
}

// forgetOne forgets one of those that it may forget.
func (h *Head) forgetOne(may func(*Producer) bool) {
	least := -1
	for i := range h.Producers {
		p := &h.Producers[i]
		if !may(p) {
			continue
		}
		if least < 0 {
			least = i
			continue
		}
		old := &h.Producers[least]
		pe, oe := strings.HasPrefix(p.ID, Ephemeral), strings.HasPrefix(old.ID, Ephemeral)
		if pe && !oe || pe == oe && p.At < old.At {
			least = i
		}
	}
	h.forgetGaps(h.Producers[least].ID)
	h.Producers = slices.Delete(h.Producers, least, least+1)
}
