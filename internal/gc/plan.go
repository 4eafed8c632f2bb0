package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Plan is what a cycle would do, record by record. It is JSON that can be kept, read by people and applied later: what was
// garbage when it was made stays garbage, and what somebody took up again since is noticed record by record.
type Plan struct {
	Version int               `json:"version"`
	Cycle   string            `json:"cycle"`  // tells cycles apart
	First   uint64            `json:"first"`  // sequence of the first fence
	Second  uint64            `json:"second"` // of the second; when it has moved, another cycle has begun
	Last    uint64            `json:"last"`   // sequence of the newest record that was read
	Streams map[string]string `json:"streams"`
	Stock   Stock             `json:"stock"`
	Kept    Kept              `json:"kept"`
	// Dangling is how many refs of threads lead to what is missing; not 0 only where AllowMissing is.
	Dangling int `json:"dangling,omitempty"`

	Bury    []Burial    `json:"bury"`    // packs that stay, with nodes that are garbage
	Condemn []Condemned `json:"condemn"` // referrers before referents
	Repack  []Group     `json:"repack"`
	Reclaim []Waste     `json:"reclaim"` // bytes that no record names
	Forget  []Old       `json:"forget"`  // old tombstones, with their bytes, and moved records that nobody follows
	Ended   Ended       `json:"ended"`   // records of outputs that have ended

	Brakes []Braked `json:"brakes,omitempty"` // why applying it is refused

	Unreadable []string `json:"unreadable,omitempty"` // artifacts whose records cannot be read, and what to do about each

	ends  map[string]uint64 // B0: last sequences of the bulk streams, before the first fence
	last  state             // what the cycle before remembered
	waits waiting           // bytes that no record names
	noted int               // how many
	share map[string]portion
}

const planVersion = 1

// ErrNoPlan: a file that was given for a plan is something else.
var ErrNoPlan = errors.New("no plan")

// ReadPlan reads a plan as it is kept, of any version.
func ReadPlan(file []byte) (*Plan, error) {
	var p Plan
	if err := jsonscan.Decode(file, &p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlan, err)
	}
	if p.Version == 0 || p.Cycle == "" {
		return nil, fmt.Errorf("%w: it says no version and no cycle; spool gc --plan FILE keeps one", ErrNoPlan)
	}
	return &p, nil
}

// Burial is a pack that stays and has garbage beside what is live: its record says which nodes nothing may refer to any more,
// and what these lead to can go.
type Burial struct {
	Key   string        `json:"key"`
	Seq   uint64        `json:"seq"`
	Nodes casstore.Bits `json:"nodes"` // buried from now on, by their index
	Count int           `json:"count"`
}

// Condemned is a record that becomes a tombstone.
type Condemned struct {
	Key   string `json:"key"`
	Seq   uint64 `json:"seq"` // of the record that was read: it is not condemned at any other
	Order uint64 `json:"order,omitempty"`
	Bytes int64  `json:"bytes"` // stored
	Nodes int    `json:"nodes,omitempty"`
	Why   string `json:"why"`
}

// Group is neighbouring packs whose live nodes go into one new pack.
type Group struct {
	Packs  []Source `json:"packs"`            // by rising order
	Order  uint64   `json:"order"`            // of the new pack: the highest of theirs
	Follow []Old    `json:"follow,omitempty"` // moved records that lead to one of them
	Why    string   `json:"why"`
}

// Source is a pack that is repacked.
type Source struct {
	ID    string        `json:"id"`
	Seq   uint64        `json:"seq"`
	Order uint64        `json:"order"`
	Keep  casstore.Bits `json:"keep"` // live nodes by their index
	Live  int           `json:"live"`
	Nodes int           `json:"nodes"`
	Bytes int64         `json:"bytes"` // stored
}

// Waste is bytes in a bucket that no record names.
type Waste struct {
	Bucket string `json:"bucket"`
	Token  string `json:"token"`
	Name   string `json:"name,omitempty"`
	Last   uint64 `json:"last"`
	Bytes  int64  `json:"bytes,omitempty"`
	Why    string `json:"why"`
}

// Old is a record that means nothing any more.
type Old struct {
	Key   string `json:"key"`
	Seq   uint64 `json:"seq"`
	Bytes int64  `json:"bytes,omitempty"`
	Why   string `json:"why"`
}

// Braked is a brake and what it saw.
type Braked struct {
	Brake Brake  `json:"brake"`
	Why   string `json:"why"`
}

// Empty reports that there is nothing to do.
func (p *Plan) Empty() bool {
	return len(p.Bury)+len(p.Condemn)+len(p.Repack)+len(p.Reclaim)+len(p.Forget)+len(p.Ended.Seqs) == 0
}

var buckets = []string{events.NodesBucket, events.BlobsBucket, events.ArtifactsBucket, events.InboxBucket}

// decide says what becomes of each pack and blob.
func (c *Collector) decide(p *Plan, w *world, m *marker) {
	p.Stock, p.Dangling = w.stock(m), m.dangling
	p.Kept = w.kept(m)
	for i, v := range m.packs {
		old := w.packs[v.id]
		switch {
		case v.young || v.gone:
		case m.count[i] == 0:
			p.Condemn = append(p.Condemn, Condemned{packKey(v.id), old.seq, old.order(), old.Object.Size, old.Nodes,
				"no thread reaches any of its nodes"})
		default:
			if dead := m.live[i].Without(old.Nodes); !slices.Equal(dead, old.Buried) {
				p.Bury = append(p.Bury, Burial{packKey(v.id), old.seq, dead, old.Nodes - m.count[i]})
			}
		}
	}
	for id, v := range w.back {
		if !w.young(v.seq) {
			p.Condemn = append(p.Condemn, Condemned{Key: packKey(id), Seq: v.seq, Order: v.order(), Bytes: v.Object.Size,
				Why: "it was moved, and a server that was killed brought its record back"})
		}
	}
	for i, sum := range m.blobs.sums {
		if !m.blobs.marked.Has(i) {
			b := w.blobs[sum]
			p.Condemn = append(p.Condemn, Condemned{Key: blobKey(sum), Seq: b.seq, Bytes: b.size, Why: "no node that a thread reaches refers to it"})
		}
	}
	p.Repack = c.groups(w, m)
	c.forget(p, w, m)
	p.Ended = w.brief.plan(w.first, c.cfg.Ended)
}

// forget finds what has outlived its purpose.
func (c *Collector) forget(p *Plan, w *world, m *marker) {
	why := func(gone bool, seq uint64, old bool) string {
		if gone && !w.young(seq) && old {
			return "tombstone of an earlier cycle"
		}
		return ""
	}
	for id, t := range w.packs {
		_, moved := w.moved[id] // its nodes are elsewhere: nobody will want these bytes back
		if text := why(t.Gone, t.seq, moved || t.age >= c.cfg.Quarantine && !m.holdsPack(id)); text != "" {
			p.Forget = append(p.Forget, Old{packKey(id), t.seq, t.Object.Size, text})
		} else if t.Gone {
			p.Kept.quarantine(t.Object.Size)
		}
	}
	for sum, t := range w.blobs {
		if text := why(t.gone, t.seq, t.age >= c.cfg.Quarantine && !m.stays[sum]); text != "" {
			p.Forget = append(p.Forget, Old{blobKey(sum), t.seq, t.size, text})
		} else if t.gone {
			p.Kept.quarantine(t.size)
		}
	}
	for id, t := range w.moved {
		if _, there := w.packs[id]; !there && !m.named[id] && !w.young(t.seq) && !w.leadsTo(id) && t.age >= c.cfg.Follow {
			p.Forget = append(p.Forget, Old{Key: events.MovedKey(id.String()), Seq: t.seq, Why: "nothing refers to that pack any more"})
		}
	}
	for _, r := range w.markers {
		if !w.young(r.Seq) {
			p.Forget = append(p.Forget, Old{Key: r.Key, Seq: r.Seq, Why: "left by a cycle that did not end"})
		}
	}
	slices.SortFunc(p.Forget, func(a, b Old) int { return cmp.Compare(a.Seq, b.Seq) })
}

// holdsPack reports whether something in quarantine reaches a pack's garbage.
func (m *marker) holdsPack(id casstore.PackID) bool {
	at, ok := m.place[id]
	return ok && m.held[at] != nil
}

// leadsTo reports whether another moved record leads to this pack.
func (w *world) leadsTo(id casstore.PackID) bool {
	if w.targets == nil {
		w.targets = map[casstore.PackID]bool{}
		for _, t := range w.moved {
			w.targets[t.to] = true
		}
	}
	return w.targets[id]
}

// waste finds bytes that no record names and none will: those that were there before the first fence.
func (c *Collector) waste(ctx context.Context, p *Plan, w *world, claims *record.Claims) error {
	named := map[uint64]bool{}
	for _, v := range w.packs {
		named[w.hash(v.Object.NUID)] = true
	}
	for _, b := range w.blobs {
		named[b.token] = true
	}
	for token := range w.bytes {
		named[token] = true
	}
	p.waits, p.share, p.Unreadable = waiting{}, map[string]portion{}, w.tellUnreadable()
	for _, bucket := range buckets {
		all, err := c.Bulk.Stored(ctx, bucket)
		if err != nil {
			return err
		}
		w.notStored(bucket, all)
		part, since := portion{}, p.last.Waits.since(bucket)
		for _, s := range all {
			part.all += s.Object.Size
			why := "no record names it"
			switch {
			case s.Last > p.ends[events.ObjectStream(bucket)], named[w.hash(s.Object.NUID)]:
				continue
			case bucket == events.ArtifactsBucket && !ownArtifact(w, s.Object.Name):
				continue
			case bucket == events.ArtifactsBucket && len(w.unreadable) > 0:
				p.Kept.unnamed(s.Object.Size)
				continue
			case bucket == events.InboxBucket && claims.Bodies[s.Object.Name]:
				p.Kept.Claimed++
				continue
			case bucket == events.InboxBucket && s.Age < c.cfg.InboxAge:
				p.Kept.Waiting++
				continue
			case bucket == events.InboxBucket:
				why = "no event claims it"
			case !c.erases(bucket, s.Object.Name) && !p.waited(bucket, s, since, c.cfg.ReclaimAge):
				p.Kept.unnamed(s.Object.Size)
				continue
			}
			if part.taken += s.Object.Size; bucket == events.InboxBucket { // all that it holds is on its way
				part.taken = 0
			}
			p.Reclaim = append(p.Reclaim, Waste{bucket, s.Object.NUID, s.Object.Name, s.Last, s.Object.Size, why})
		}
		p.share[bucket] = part
	}
	slices.SortFunc(p.Reclaim, func(a, b Waste) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Last, b.Last))
	})
	return nil
}

// erases reports whether an object that no record names goes at once.
func (c *Collector) erases(bucket, object string) bool {
	session, _, named := strings.Cut(object, "/")
	return c.cfg.Erased != nil && (bucket != events.ArtifactsBucket || !named || c.cfg.Erased[session])
}

// ownArtifact reports whether an object that no record names is what an upload of Spool's left: chunks without a name, or
// bytes under the name of an artifact that is not there, if Spool gave it its id. Whatever else is in the bucket a tool may have put
// there, to register it (SPEC A3, A5).
func ownArtifact(w *world, name string) bool {
	if name == "" {
		return true
	}
	parts := strings.Split(name, "/")
	return len(parts) == 3 && events.CheckToken("", parts[0]) == nil && strings.HasPrefix(parts[1], artifacts.IDPrefix) &&
		!w.names[w.hash(name)]
}

// key of a pack's record without its class.
func packIDOf(key string) (casstore.PackID, bool) {
	text, ok := strings.CutPrefix(key, events.PackKey(""))
	if !ok {
		return casstore.PackID{}, false
	}
	id, err := casstore.ParsePackID(text)
	return id, err == nil
}

func (k *Kept) quarantine(bytes int64) {
	k.Quarantine++
	k.QuarantineBytes += bytes
}

func (k *Kept) unnamed(bytes int64) {
	k.Unnamed++
	k.UnnamedBytes += bytes
}

// kept counts why packs and blobs are kept.
func (w *world) kept(m *marker) (k Kept) {
	for i, v := range m.packs {
		switch {
		case m.heads[i]:
			k.Root++
		case m.count[i] > 0 || v.young:
			k.Young++
		}
	}
	for i := range m.blobs.sums {
		switch {
		case m.blobs.heads.Has(i):
			k.Root++
		case m.blobs.marked.Has(i):
			k.Young++
		}
	}
	return k
}

func (w *world) stock(m *marker) Stock {
	s := Stock{Sessions: w.sessions, Threads: w.heads.n, Entries: w.heads.entries, Items: w.heads.items, Moved: len(w.moved)}
	for _, p := range w.packs {
		if p.Gone {
			s.Tombstones++
			continue
		}
		s.Packs, s.Nodes = s.Packs+1, s.Nodes+int64(p.Nodes)
		s.RawBytes, s.PackBytes = s.RawBytes+p.Raw, s.PackBytes+p.Object.Size
	}
	for _, b := range w.blobs {
		if b.gone {
			s.Tombstones++
			continue
		}
		s.Blobs, s.BlobBytes = s.Blobs+1, s.BlobBytes+b.size
	}
	for i := range m.packs {
		s.LiveNodes, s.LiveBytes = s.LiveNodes+int64(m.count[i]), s.LiveBytes+m.raw[i]
	}
	return s
}
