package gc

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// ErrNothing: there is no tombstone of that name whose bytes are still there. ErrPartly: some of what was named, or of what it leads to,
// is lost; what leads to none of that is back.
var (
	ErrNothing = errors.New("nothing to undelete")
	ErrPartly  = errors.New("not everything could be taken back")
)

// Undeleted is what Undelete did.
type Undeleted struct {
	Restored []string `json:"restored"` // keys of records that were tombstones, referents first
	Unburied int      `json:"unburied"` // nodes that were garbage in packs that stayed, and can be referred to again
	Lost     []string `json:"lost"`     // what could not be taken back, and why
	States   []string `json:"states"`   // refs of the states among that to which none of it leads: the newest of each branch
}

// Undelete takes garbage back whose bytes are still there, because Config.Quarantine kept them: the packs, nodes and blobs named (a
// pack's id, a node's or a blob's ref), and all that they lead to; with no name, every tombstone and every buried node. A node comes
// back only if everything that it leads to is there, or comes back with it: nothing refers to what is missing. ErrPartly says that Lost
// has something. Something should refer to what is back soon: nothing else keeps the next cycle from condemning it again.
//
// It writes as a persister does: behind the fence that it read before the records, expecting what it read, and touching what it
// refers to. So a cycle that is on its way either sees it or stops it; then it begins anew.
func (c *Collector) Undelete(ctx context.Context, names ...string) (done Undeleted, err error) {
	for range undeleteTries {
		var u *undeletion
		if u, err = c.exhume(ctx, names); err != nil {
			return done, err
		}
		done.Lost, done.States = u.lost, u.newest()
		err = u.write(ctx, &done)
		if !errors.Is(err, record.ErrConflict) && !record.Temporary(err) {
			break
		}
	}
	switch {
	case err != nil:
		return done, err
	case len(done.Restored)+done.Unburied+len(done.Lost) == 0:
		return done, ErrNothing
	case len(done.Lost) > 0:
		return done, ErrPartly
	}
	return done, nil
}

// undeleteTries is how often it begins anew because something was written meanwhile.
const undeleteTries = 10

// undeletion finds out what can be taken back.
type undeletion struct {
	c     *Collector
	w     *world
	fence record.Fence
	all   bool
	named map[casstore.Ref]bool // nodes that somebody asked for
	packs []casstore.PackID     // tombstones that keep their bytes, and packs with buried nodes: newest first
	wants map[casstore.PackID]wanted
	open  map[casstore.PackID]*exhumed
	heads map[casstore.PackID]*casstore.Header // of packs that are referred to
	blobs map[[32]byte]bool                    // tombstones that are wanted; true: their bytes are there
	lost  []string

	followed map[casstore.Ref]bool // nodes of older packs to which what is whole leads
}

// exhumed is a pack of which something is wanted.
type exhumed struct {
	header *casstore.Header
	want   casstore.Bits // with all that the nodes lead to inside the pack
	whole  casstore.Bits // all that they lead to is there
	touch  map[string]bool
	states casstore.Bits // of those that are whole
	after  casstore.Bits // to these others of the pack lead that are whole
	why    string        // the first reason why a node is not whole
}

// exhume reads the records, and decides. What a pack is to give is known when all newer ones were looked at, and what of it is whole when
// all older ones were.
func (c *Collector) exhume(ctx context.Context, names []string) (*undeletion, error) {
	u := &undeletion{
		c: c, w: newWorld(), all: len(names) == 0, named: map[casstore.Ref]bool{}, wants: map[casstore.PackID]wanted{},
		open: map[casstore.PackID]*exhumed{}, heads: map[casstore.PackID]*casstore.Header{}, blobs: map[[32]byte]bool{},
		followed: map[casstore.Ref]bool{},
	}
	var err error
	if u.fence, err = c.Records.Fence(ctx, c.cfg.Lane); err != nil {
		return nil, err
	}
	if err := u.w.read(ctx, c.Records, 1); err != nil {
		return nil, err
	}
	for id, p := range u.w.packs {
		if u.w.undeletable(id) || !p.Gone && p.Buried != nil {
			u.packs = append(u.packs, id)
		}
	}
	slices.SortFunc(u.packs, func(a, b casstore.PackID) int { return cmp.Compare(u.w.packs[b].order(), u.w.packs[a].order()) })
	if err := u.choose(ctx, names); err != nil {
		return nil, err
	}
	for _, id := range u.packs {
		if err := u.descend(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := u.checkBlobs(ctx); err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(u.packs) {
		if x := u.open[id]; x != nil {
			if err := u.check(ctx, id, x); err != nil {
				return nil, err
			}
			u.tell(id, x)
		}
	}
	return u, nil
}

// choose notes what somebody asked for.
func (u *undeletion) choose(ctx context.Context, names []string) error {
	for sum, b := range u.w.blobs {
		if u.all && b.gone && b.token != u.w.hash("") {
			u.blobs[sum] = false
		}
	}
	for _, name := range names {
		if id, err := casstore.ParsePackID(name); err == nil {
			if !slices.Contains(u.packs, id) {
				return fmt.Errorf("%w: pack %s has no tombstone that says where its bytes are, and no buried nodes", ErrNothing, id)
			}
			if err := u.wantAll(ctx, id); err != nil {
				return fmt.Errorf("undelete pack %s: %w", id, err)
			}
			continue
		}
		ref, err := casstore.ParseRef(name)
		if err != nil {
			return fmt.Errorf("undelete %q: %w, or a pack's id", name, err)
		}
		if ref.Kind() == casstore.KindBlob {
			if b, ok := u.w.blobs[ref.Sum()]; !ok || !b.gone {
				return fmt.Errorf("%w: %s has no tombstone", ErrNothing, ref)
			}
			u.blobs[ref.Sum()] = false
			continue
		}
		if err := u.chooseNode(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// chooseNode looks for a node that is garbage.
func (u *undeletion) chooseNode(ctx context.Context, ref casstore.Ref) error {
	for _, id := range u.packs {
		h, err := u.header(ctx, id)
		if passing(ctx, err) {
			return err
		}
		if err != nil {
			continue // its bytes are gone as well
		}
		if i, ok := h.Find(ref); ok && (u.w.packs[id].Gone || u.w.packs[id].IsBuried(i)) {
			u.named[ref] = true
			u.want(id, ref)
			return nil
		}
	}
	return fmt.Errorf("%w: no tombstone of a pack holds %s, and nowhere is it buried", ErrNothing, ref)
}

// wantAll wants all nodes of a pack that are garbage.
func (u *undeletion) wantAll(ctx context.Context, id casstore.PackID) error {
	h, err := u.header(ctx, id)
	if err != nil {
		return err
	}
	p := u.w.packs[id]
	for i := range h.Len() {
		if p.Gone || p.IsBuried(i) {
			u.want(id, h.Ref(i))
		}
	}
	return nil
}

func (u *undeletion) want(id casstore.PackID, ref casstore.Ref) {
	w := u.wants[id]
	w.add(ref.Sum())
	u.wants[id] = w
}

func (u *undeletion) header(ctx context.Context, id casstore.PackID) (*casstore.Header, error) {
	if h, ok := u.heads[id]; ok {
		return h, nil
	}
	h, err := u.c.header(ctx, u.w.packs[id].Pack)
	if err == nil {
		u.heads[id] = h
	}
	return h, err
}

// descend wants what the nodes of a pack that are wanted lead to, where that is garbage.
func (u *undeletion) descend(ctx context.Context, id casstore.PackID) error {
	if u.all {
		switch err := u.wantAll(ctx, id); {
		case passing(ctx, err):
			return err
		case err != nil:
			u.lost = append(u.lost, fmt.Sprintf("pack %s: %v", id, err))
			return nil
		}
	}
	if u.wants[id] == nil {
		return nil
	}
	h, err := u.header(ctx, id)
	if passing(ctx, err) {
		return err
	}
	if err != nil { // who refers to it says so
		return nil
	}
	bits := func() casstore.Bits { return casstore.NewBits(h.Len()) }
	x := &exhumed{header: h, want: bits(), whole: bits(), states: bits(), after: bits(), touch: map[string]bool{}}
	u.open[id] = x
	u.wants[id].find(h, x.want)
	outside := casstore.NewBits(h.OutsideLen())
	h.Mark(x.want, outside)
	for i := range h.OutsideLen() {
		if !outside.Has(i) {
			continue
		}
		l := h.OutsideAt(i)
		if l.Ref.Kind() != casstore.KindBlob {
			u.want(u.place(l.Pack), l.Ref)
		} else if b, ok := u.w.blobs[l.Ref.Sum()]; ok && b.gone {
			u.blobs[l.Ref.Sum()] = false
		}
	}
	return nil
}

// place is the pack that would hold the nodes of a pack if all that is wanted were back.
func (u *undeletion) place(id casstore.PackID) casstore.PackID {
	if u.w.undeletable(id) {
		return id
	}
	for range len(u.w.moved) {
		m, ok := u.w.moved[id]
		if !ok {
			break
		}
		id = m.to
	}
	return id
}

// checkBlobs looks which of the blobs' bytes are there.
func (u *undeletion) checkBlobs(ctx context.Context) error {
	for sum := range u.blobs {
		err := u.checkBlob(ctx, sum)
		if passing(ctx, err) {
			return err
		}
		if u.blobs[sum] = err == nil; err != nil {
			u.lost = append(u.lost, fmt.Sprintf("blob:sha256:%s: %v", hex.EncodeToString(sum[:]), err))
		}
	}
	return nil
}

func (u *undeletion) checkBlob(ctx context.Context, sum [32]byte) error {
	rs, err := u.c.Records.Records(ctx, blobKey(sum))
	if err != nil {
		return err
	}
	b, err := record.DecodeBlob(rs[0].Value)
	if err != nil {
		return err
	}
	if b.Object.NUID == "" { // condemned without a quarantine: its bytes are gone, or go next
		return fmt.Errorf("%w: its tombstone does not say where its bytes are", casstore.ErrGone)
	}
	n := int64(0)
	if err := u.c.Bulk.ReadChunks(ctx, b.Object, 0, func(p []byte) error { n += int64(len(p)); return nil }); err != nil {
		return err
	}
	if n != b.Object.Size {
		return fmt.Errorf("%w: %d of %d bytes are there", casstore.ErrCorrupt, n, b.Object.Size)
	}
	return nil
}

// check finds which of the nodes that are wanted are whole. A ref points to a lower index, or into an older pack.
func (u *undeletion) check(ctx context.Context, id casstore.PackID, x *exhumed) error {
	raw, err := u.c.Bulk.Read(ctx, u.w.packs[id].Object)
	if passing(ctx, err) {
		return err
	}
	var pack *casstore.Pack
	if h := u.w.packs[id].Header; err == nil && h <= int64(len(raw)) {
		pack, err = casstore.OpenPack(raw[:h], raw[h:])
	} else if err == nil {
		err = fmt.Errorf("%w: header of %d bytes in %d", casstore.ErrCorrupt, h, len(raw))
	}
	if err != nil {
		x.why = err.Error()
		return nil
	}
	for i := range x.header.Len() {
		if !x.want.Has(i) {
			continue
		}
		encoded, err := pack.EncodedAt(i)
		if err == nil {
			err = u.checkRefs(ctx, id, x, i)
		}
		switch {
		case passing(ctx, err):
			return err
		case err == nil:
			x.whole.Set(i)
			if n, err := casstore.DecodeNode(encoded); err == nil && n.Type == threads.TypeState {
				x.states.Set(i)
			}
			u.follow(x, i)
		case x.why == "" && (!u.w.packs[id].IsBuried(i) || u.named[x.header.Ref(i)]):
			x.why = fmt.Sprintf("%s: %v", x.header.Ref(i), err)
		}
	}
	return nil
}

// follow notes what a node leads to.
func (u *undeletion) follow(x *exhumed, i int) {
	for t := range x.header.Refs(i) {
		if own, ok := t.Own(); ok {
			x.after.Set(own)
		} else if out, ok := t.Outside(); ok {
			u.followed[x.header.OutsideAt(out).Ref] = true
		}
	}
}

// newest are the states among what is taken back to which nothing of it leads.
func (u *undeletion) newest() (refs []string) {
	for _, id := range u.packs {
		x := u.open[id]
		for i := 0; x != nil && i < x.header.Len(); i++ {
			garbage := u.w.packs[id].Gone || u.w.packs[id].IsBuried(i)
			if ref := x.header.Ref(i); garbage && x.states.Has(i) && !x.after.Has(i) && !u.followed[ref] {
				refs = append(refs, ref.String())
			}
		}
	}
	return refs
}

// checkRefs says what is missing of what a node refers to, and notes the records that must be touched.
func (u *undeletion) checkRefs(ctx context.Context, id casstore.PackID, x *exhumed, i int) error {
	for t := range x.header.Refs(i) {
		if own, ok := t.Own(); ok && !x.whole.Has(own) && (u.w.packs[id].Gone || u.w.packs[id].IsBuried(own)) {
			return fmt.Errorf("it leads to %s: %w", x.header.Ref(own), casstore.ErrGone)
		}
		out, ok := t.Outside()
		if !ok {
			continue
		}
		l := x.header.OutsideAt(out)
		if l.Ref.Kind() == casstore.KindBlob {
			b, there := u.w.blobs[l.Ref.Sum()]
			if !there || b.gone && !u.blobs[l.Ref.Sum()] {
				return fmt.Errorf("it refers to %s: %w", l.Ref, casstore.ErrGone)
			}
			x.touch[blobKey(l.Ref.Sum())] = true
			continue
		}
		at := u.place(l.Pack)
		if err := u.checkNode(ctx, id, at, l.Ref); err != nil {
			return fmt.Errorf("it refers to %s: %w", l, err)
		}
		x.touch[packKey(at)] = true
	}
	return nil
}

var errNotOlder = errors.New("that is in a pack which is not older any more")

// checkNode says why a node is not whole in an older pack.
func (u *undeletion) checkNode(ctx context.Context, from, at casstore.PackID, ref casstore.Ref) error {
	p, ok := u.w.packs[at]
	if !ok || p.Gone && !u.w.undeletable(at) {
		return casstore.ErrGone
	}
	if p.order() >= u.w.packs[from].order() {
		return errNotOlder
	}
	h, err := u.header(ctx, at)
	if err != nil {
		return err
	}
	i, ok := h.Find(ref)
	if !ok {
		return fmt.Errorf("pack %s: %w", at, casstore.ErrNotFound)
	}
	if x := u.open[at]; (p.Gone || p.IsBuried(i)) && (x == nil || !x.whole.Has(i)) {
		return casstore.ErrGone
	}
	return nil // what is not buried has all that it leads to
}

// tell notes what of a pack is lost. That of long ago, of which nobody expects anything, is not told.
func (u *undeletion) tell(id casstore.PackID, x *exhumed) {
	if x.why == "" {
		return
	}
	n := 0
	for i := range x.header.Len() {
		if x.want.Has(i) && !x.whole.Has(i) {
			n++
		}
	}
	u.lost = append(u.lost, fmt.Sprintf("pack %s: %d of %d nodes: %s", id, n, x.header.Len(), x.why))
}
