package gc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"spool/internal/keyset"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// world is what the record bucket said, as a cycle needs it.
type world struct {
	first, second uint64 // sequences of the two fences; 0: none was moved
	at            uint64 // the record that was read last

	packs map[casstore.PackID]pack
	back  map[casstore.PackID]pack // live records of packs that were moved: a server that was killed brought them back (docs/adr/0022)
	moved map[casstore.PackID]move
	blobs map[[32]byte]blob
	heads heads
	bytes map[uint64]string // keys of the artifacts and open outputs that name bytes, by hash of the token
	names map[uint64]bool   // objects that artifacts name, by hash

	// unreadable are the artifacts whose records cannot be read, by key: any bytes of ArtifactsBucket may be theirs.
	unreadable map[string]error

	deleted map[string]counts // what sessions and threads had that were deleted behind settled, by key of the record that says so
	settled uint64

	seen      *keyset.Set // all keys that were read; marked: the record exists
	sessions  int         // that are there
	facts     int         // of these keys, those of state.Facts
	stored    int         // and those of packs, blobs and moved packs
	unknown   record.Unknown
	lost      map[uint64]bool // hashes of the tokens of blobs whose bytes are not there
	seed      maphash.Seed
	again     bool            // the first reading has ended
	markers   []record.Record // of removed packs, blobs and moved records
	brief     brief
	followers map[casstore.PackID][]Old // moved records by where they lead
	targets   map[casstore.PackID]bool  // of moved records
}

type pack struct {
	record.Pack
	seq uint64
	age time.Duration
}

// order places a pack among the others (DESIGN 7).
func (p pack) order() uint64 { return cmp.Or(p.Order, p.seq) }

// blob is kept small: there are many.
type blob struct {
	seq   uint64
	token uint64 // hash
	size  int64
	age   time.Duration
	gone  bool
}

type move struct {
	to  casstore.PackID
	seq uint64
	age time.Duration
}

func newWorld() *world {
	return &world{
		packs: map[casstore.PackID]pack{}, back: map[casstore.PackID]pack{}, moved: map[casstore.PackID]move{},
		blobs: map[[32]byte]blob{}, heads: newHeads(),
		bytes: map[uint64]string{}, names: map[uint64]bool{}, deleted: map[string]counts{},
		seen: keyset.Make(), seed: maphash.MakeSeed(),
		unknown: record.Unknown{}, unreadable: map[string]error{},
	}
}

// read takes the record bucket in, from a sequence on.
func (w *world) read(ctx context.Context, rs Records, from uint64) (err error) {
	w.at, err = rs.Scan(ctx, from, func(r record.Stamped) error {
		if err := w.take(r); err != nil {
			return fmt.Errorf("%w: record %s: %w", ErrUnsafe, r.Key, err)
		}
		return nil
	})
	for id := range w.moved {
		if p, ok := w.packs[id]; ok && !p.Gone {
			w.back[id] = p
			delete(w.packs, id)
		}
	}
	return err
}

// readBehind is read, up to a moment of quiet. It must get past the fences that were moved before it: a server that was cut off from the
// others, and does not know yet that it leads no more, tells what was before them (docs/adr/0023).
func (w *world) readBehind(ctx context.Context, rs Records, from, fence uint64) error {
	for range quietTries {
		if err := w.read(ctx, rs, from); err != nil {
			return err
		}
		if newest := fence + uint64(events.Lanes) - 1; w.at < newest {
			return fmt.Errorf("%w: the records end at sequence %d, and the fences that were moved before are at %d: who answers is behind",
				record.ErrBusy, w.at, newest)
		}
		if quiet, err := rs.Quiet(ctx, w.at); err != nil || quiet {
			return err
		}
		from = w.at + 1
	}
	return fmt.Errorf("%w: records are written without a pause", record.ErrBusy)
}

// quietTries is how often a reading goes on with what was written meanwhile.
const quietTries = 300

// take learns one record. One of a class that this version does not know may hold on to anything: nothing is deleted then
// (BrakeClass).
func (w *world) take(r record.Stamped) error {
	class, _ := w.unknown.Class(r.Record)
	fresh, was := w.seen.Put(r.Key, r.Exists())
	if fresh {
		switch {
		case isFact(class):
			w.facts++
		case !class.Brief:
			w.stored++
		}
	}
	if class.Brief {
		w.brief.take(r)
	}
	_, id, _ := strings.Cut(r.Key, ".")
	switch class.Keeps {
	case record.Nodes:
		return w.takeHead(r.Record, fresh)
	case record.PackBytes:
		return w.takePack(id, r)
	case record.BlobBytes:
		return w.takeBlob(id, r)
	case record.MovedTo:
		return w.takeMoved(id, r)
	case record.FileBytes:
		return w.takeFile(r.Record, class)
	}
	switch r.Key {
	case events.EndedKey:
		w.brief.forgotten = record.Ended(r.Record)
	case events.SessionKey(id):
		w.sessions += count(r.Exists()) - count(was)
	case events.DeletedKey(id):
		w.takeDeleted(r.Record)
	}
	if class.Name == "left" {
		w.takeLeft(r.Record)
	}
	return nil
}

// takeDeleted learns what garbage the deletion of a session explains. A record that cannot be read explains none.
func (w *world) takeDeleted(r record.Record) {
	d, err := record.DecodeDeleted(r.Value)
	if err != nil || d.Erased || r.Seq <= w.settled {
		delete(w.deleted, r.Key)
		return
	}
	gone := counts{d.Gone.Entries, d.Gone.Items, d.Gone.Bytes}
	for _, was := range d.Removed {
		if was.Seq > w.settled {
			gone.entries, gone.items, gone.bytes = gone.entries+was.Entries, gone.items+was.Items, gone.bytes+was.Bytes
		}
	}
	w.deleted[r.Key] = gone
}

// takeLeft is takeDeleted for a thread: of one that was renamed the record counts nothing.
func (w *world) takeLeft(r record.Record) {
	delete(w.deleted, r.Key)
	l, err := record.DecodeLeft(r.Value)
	if err != nil || r.Seq <= w.settled {
		return
	}
	if h, err := threads.DecodeHead(l.Head); err == nil && h.Entries > 0 {
		w.deleted[r.Key] = counts{h.Entries, h.N, h.BytesIn}
	}
}

// A head that was there since the first reading ended stays a root in this cycle, whatever became of it.
func (w *world) takeHead(r record.Record, fresh bool) error {
	if !r.Exists() {
		if !fresh {
			w.heads.put(r.Key, nil, w.again)
		}
		return nil
	}
	th, err := threads.DecodeHead(r.Value)
	if err != nil {
		return err
	}
	h := head{seq: r.Seq, roots: append(th.Roots(), th.Start), counts: counts{th.Entries, th.N, th.BytesIn}}
	for _, l := range th.Recent[min(len(th.Recent), 1):] {
		if l.Pack != th.Recent[0].Pack {
			h.hints = append(h.hints, l)
		}
	}
	w.heads.put(r.Key, &h, w.again)
	return nil
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// removed notes markers that a cycle left which did not get to its end.
func (w *world) removed(r record.Record) bool {
	if !r.Exists() {
		w.markers = append(w.markers, r)
	}
	return !r.Exists()
}

func (w *world) takePack(id string, r record.Stamped) error {
	at, err := casstore.ParsePackID(id)
	delete(w.back, at)
	if err != nil || w.removed(r.Record) {
		delete(w.packs, at)
		return err
	}
	p, err := record.DecodePack(r.Value)
	if err == nil {
		w.packs[at] = pack{p, r.Seq, r.Age}
	}
	return err
}

func (w *world) takeBlob(id string, r record.Stamped) error {
	ref, err := casstore.ParseRef("blob:sha256:" + id)
	if err != nil || w.removed(r.Record) {
		delete(w.blobs, ref.Sum())
		return err
	}
	b, err := record.DecodeBlob(r.Value)
	if err == nil {
		w.blobs[ref.Sum()] = blob{r.Seq, w.hash(b.Object.NUID), b.Object.Size, r.Age, b.Gone}
	}
	return err
}

func (w *world) takeMoved(id string, r record.Stamped) error {
	from, err := casstore.ParsePackID(id)
	if err != nil || w.removed(r.Record) {
		delete(w.moved, from)
		return err
	}
	m, err := record.DecodeMoved(r.Value)
	if err == nil {
		w.moved[from] = move{m.To, r.Seq, r.Age}
	}
	return err
}

// Bytes of an artifact that is gone since the reading began are left to the next cycle.
func (w *world) takeFile(r record.Record, class record.Class) error {
	if delete(w.unreadable, r.Key); !r.Exists() {
		return nil
	}
	o, err := class.Object(r.Value)
	if err == nil && o.NUID != "" {
		w.bytes[w.hash(o.NUID)] = r.Key
	}
	if class.Name != "artifact" {
		return err
	}
	a, bad := artifacts.DecodeRecord(r.Value)
	switch {
	case errors.Is(bad, artifacts.ErrLater): // it may hold on to anything
		return bad
	case err != nil || bad != nil:
		w.unreadable[r.Key] = cmp.Or(bad, err)
	case a.Locator != nil:
		w.names[w.hash(a.Object)] = true
	}
	return nil
}

// tellUnreadable names the artifacts that cannot be read, and what to do about them.
func (w *world) tellUnreadable() (told []string) {
	for _, key := range slices.Sorted(maps.Keys(w.unreadable)) {
		told = append(told, fmt.Sprintf("record %s cannot be read: %v; nothing is reclaimed from %s until it goes: "+
			"spool session rm %s --force removes it with its session", key, w.unreadable[key], events.ArtifactsBucket, events.SessionOf(key)))
	}
	return told
}

func (w *world) hash(s string) uint64 { return maphash.String(w.seed, s) }

// young reports whether a record was written since the first fence.
func (w *world) young(seq uint64) bool { return seq >= w.first }

// known says what was read of a pack, and of those that it moved to.
func (w *world) known(id casstore.PackID) string {
	var b strings.Builder
	for range len(w.moved) + 1 {
		p, there := w.packs[id]
		back, again := w.back[id]
		m, moved := w.moved[id]
		switch {
		case there && p.Gone:
			fmt.Fprintf(&b, "tombstone at %d", p.seq)
		case there:
			fmt.Fprintf(&b, "record at %d", p.seq)
		case again:
			fmt.Fprintf(&b, "record at %d, brought back", back.seq)
		default:
			b.WriteString("no record")
		}
		if !moved {
			break
		}
		fmt.Fprintf(&b, ", moved to %s at %d: ", m.to, m.seq)
		id = m.to
	}
	return "read: " + b.String()
}

// end follows moved records; where they form a circle it is the pack itself.
func (w *world) end(id casstore.PackID) casstore.PackID {
	at := id
	for range len(w.moved) + 1 {
		if p, ok := w.packs[at]; ok && !p.Gone {
			return at
		}
		m, ok := w.moved[at]
		if !ok {
			return at
		}
		at = m.to
	}
	return id
}

// graph is what is to be marked. With a quarantine, the tombstones that it keeps are in it, too.
func (w *world) graph(open headers, quarantine time.Duration) graph {
	g := graph{moved: w.end, open: open, blobs: &blobSet{}, quarantine: quarantine > 0}
	for id, p := range w.packs {
		v := vertex{id: id, young: !p.Gone && w.young(p.seq), buried: p.Buried, gone: p.Gone, fresh: p.age < quarantine}
		if !p.Gone || g.quarantine && w.undeletable(id) {
			g.packs = append(g.packs, v)
		}
	}
	slices.SortFunc(g.packs, func(a, b vertex) int {
		return cmp.Or(-cmp.Compare(w.packs[a.id].order(), w.packs[b.id].order()), bytes.Compare(a.id[:], b.id[:]))
	})
	for sum, b := range w.blobs {
		if !b.gone {
			g.blobs.sums = append(g.blobs.sums, sum)
		}
	}
	slices.SortFunc(g.blobs.sums, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	g.blobs.marked, g.blobs.heads = casstore.NewBits(len(g.blobs.sums)), casstore.NewBits(len(g.blobs.sums))
	return g
}

// undeletable reports whether a pack is a tombstone that can be taken back: its bytes are known, and its nodes in no other pack.
func (w *world) undeletable(id casstore.PackID) bool {
	p, ok := w.packs[id]
	_, moved := w.moved[id]
	return ok && p.Gone && !moved && p.Object.NUID != ""
}

// root hands every root to a marker, and forgets the threads: only their counts stay.
func (w *world) root(ctx context.Context, rs Records, m *marker, mentioned map[string]bool) error {
	err := w.heads.each(true, func(h *head, c colour) error {
		if err := rootHead(m, h, c); err != nil {
			return fmt.Errorf("%s: %w", keyAt(ctx, rs, h.seq), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for sum, b := range w.blobs {
		if w.young(b.seq) {
			m.blobs.mark(sum, false)
		}
	}
	for text := range mentioned {
		if ref, err := casstore.ParseRef(text); err == nil {
			m.blobs.mark(ref.Sum(), false)
		}
	}
	return nil
}

func rootHead(m *marker, h *head, c colour) error {
	for _, l := range h.roots {
		if err := m.root(l, c); err != nil {
			return err
		}
	}
	for _, l := range h.hints {
		m.named[l.Pack] = true
		if err := m.root(l, faint); err != nil {
			return err
		}
	}
	return nil
}

// keyAt is the key of the record at a sequence, for who is told of it.
func keyAt(ctx context.Context, rs Records, seq uint64) string {
	key, found := "", errors.New("found")
	_, _ = rs.Scan(ctx, seq, func(r record.Stamped) error {
		if r.Seq == seq {
			key = r.Key
		}
		return found
	})
	return cmp.Or(key, fmt.Sprintf("the record that was at sequence %d", seq))
}

// check compares the names that the server lists with those that were read: a name that was not, and was not written since, is a
// record that the reading missed.
func (w *world) check(ctx context.Context, rs Records) error {
	var missed []string
	err := rs.EachName(ctx, ">", func(name string) {
		if !w.seen.Has(name) {
			missed = append(missed, name)
		}
	})
	if err != nil {
		return err
	}
	late, err := rs.Records(ctx, missed...)
	if err != nil {
		return err
	}
	for _, r := range late {
		if r.Seq != 0 && r.Seq <= w.at {
			return fmt.Errorf("%w: record %s, at sequence %d, was not found by reading up to %d: is the stream damaged?",
				ErrUnsafe, r.Key, r.Seq, w.at)
		}
	}
	return nil
}

func packKey(id casstore.PackID) string { return "pack." + id.String() }

func blobKey(sum [32]byte) string { return "blob." + hex.EncodeToString(sum[:]) }
