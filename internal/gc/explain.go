package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/pkg/casstore"
)

// Explanation says why something is kept, or that nothing keeps it.
type Explanation struct {
	Ref   string   `json:"ref"`
	State string   `json:"state"` // live, young, garbage, tombstone, returned, missing
	In    string   `json:"in,omitempty"`
	Chain []string `json:"chain,omitempty"` // from a root to it
	Why   string   `json:"why"`
}

// Explain finds what keeps a node, a blob or a pack from being collected, as of now. It writes nothing, so what is being
// committed may be missing from it.
func (c *Collector) Explain(ctx context.Context, name string) (Explanation, error) {
	w := newWorld()
	if err := w.read(ctx, c.Records, 1); err != nil {
		return Explanation{}, err
	}
	f, err := c.Records.Fence(ctx, 0)
	if err != nil {
		return Explanation{}, err
	}
	w.first = cmp.Or(f.Seq, w.at+1)
	x := explainer{c: c, w: w, m: newMarker(w.graph(c.headers(w), 0)), from: map[casstore.Located]casstore.Located{}}
	e := Explanation{Ref: name}
	if err := x.target(ctx, name, &e); err != nil || e.State != "" {
		return e, err
	}
	return e, x.chain(ctx, &e)
}

// explainer goes from a target to those that refer to it: packs are taken from the oldest to the newest, so that whatever a
// node refers to was looked at before it.
type explainer struct {
	c    *Collector
	w    *world
	m    *marker
	want []casstore.Located                    // the target: nodes in packs, or a blob
	from map[casstore.Located]casstore.Located // from one that reaches the target to the next on the way
}

// target finds what is asked for; a state other than "" is the answer already.
func (x *explainer) target(ctx context.Context, name string, e *Explanation) error {
	if id, err := casstore.ParsePackID(name); err == nil {
		return x.targetPack(ctx, id, e)
	}
	ref, err := casstore.ParseRef(name)
	if err != nil {
		return fmt.Errorf("explain %q: %w, or a pack's id", name, err)
	}
	if ref.Kind() == casstore.KindBlob {
		b, ok := x.w.blobs[ref.Sum()]
		switch {
		case !ok:
			e.State, e.Why = "missing", "there is no record of it"
		case b.gone:
			e.State, e.Why = "tombstone", condemned(b.age)
		default:
			x.want, e.In = []casstore.Located{{Ref: ref}}, blobKey(ref.Sum())
			if x.w.young(b.seq) {
				e.Why = "its record was written since the last cycle began"
			}
		}
		return nil
	}
	for _, v := range x.m.packs {
		h, err := x.header(ctx, v.id)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		if _, ok := h.Find(ref); ok {
			x.want = append(x.want, casstore.Located{Ref: ref, Pack: v.id})
			e.In = packKey(v.id)
		}
	}
	if len(x.want) > 0 {
		return nil
	}
	e.State, e.Why = "missing", fmt.Sprintf("none of %d packs holds it", len(x.m.packs))
	for id, p := range x.w.packs {
		if !x.w.undeletable(id) {
			continue
		}
		h, err := x.header(ctx, id)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		if _, ok := h.Find(ref); ok {
			e.State, e.In, e.Why = "tombstone", packKey(id), condemned(p.age)
			break
		}
	}
	return nil
}

func (x *explainer) targetPack(ctx context.Context, id casstore.PackID, e *Explanation) error {
	at := x.w.end(id)
	e.In = packKey(at)
	p, ok := x.w.packs[at]
	if !ok || p.Gone {
		e.State, e.Why = "missing", "there is no record of it"
		if ok {
			e.State, e.Why = "tombstone", condemned(p.age)
		}
		return nil
	}
	h, err := x.header(ctx, at)
	if err != nil {
		return err
	}
	if h == nil {
		return x.away(ctx, at, e)
	}
	for i := range h.Len() {
		x.want = append(x.want, casstore.Located{Ref: h.Ref(i), Pack: at})
	}
	return nil
}

// header is that of a pack; nil when nothing of it is there.
func (x *explainer) header(ctx context.Context, id casstore.PackID) (*casstore.Header, error) {
	h, err := x.m.open(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("header of pack %s: %w", id, err)
	}
	return h, nil
}

// away tells what is the matter with a record without bytes (docs/adr/0022).
func (x *explainer) away(ctx context.Context, id casstore.PackID, e *Explanation) error {
	_, err := x.stays(ctx, id)
	switch {
	case errors.Is(err, ErrUnsafe):
		e.State, e.Why = "missing", "its bytes are not there, and a thread needs something that is missing: "+err.Error()
	case err != nil:
		return err
	default:
		e.State, e.Why = "returned", "it was collected, and a server that was killed brought its record back without the bytes; "+
			"no thread needs it, and the next cycle condemns it"
	}
	return nil
}

// chain finds a way from a root.
func (x *explainer) chain(ctx context.Context, e *Explanation) error {
	for _, l := range x.want {
		x.from[l] = casstore.Located{}
	}
	for _, v := range slices.Backward(x.m.packs) {
		h, err := x.header(ctx, v.id)
		if err != nil {
			return err
		}
		if h != nil {
			x.look(v.id, h)
		}
	}
	err := x.w.heads.each(false, func(h *head, c colour) error {
		for _, l := range h.roots {
			at := casstore.Located{Ref: l.Ref, Pack: x.w.end(l.Pack)}
			if _, ok := x.from[at]; ok && c == firm {
				e.State, e.Why = "live", "a thread reaches it"
				e.Chain = x.path(keyAt(ctx, x.c.Records, h.seq), at)
				return errReached
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	for _, v := range x.m.packs {
		for l := range x.from {
			if v.young && l.Pack == v.id {
				e.State, e.Why = "young", "no thread reaches it, but a pack that was written since the last cycle began holds it or refers to it"
				e.Chain = x.path(packKey(v.id), l)
				return nil
			}
		}
	}
	if e.State = "garbage"; e.Why != "" {
		e.State = "young"
		return nil
	}
	e.Why = "nothing reaches it: the next cycle condemns it, and its bytes go then, or with the first cycle after the quarantine"
	at := x.want[0]
	if stays, err := x.stays(ctx, at.Pack); err != nil || !stays {
		return err
	}
	e.Why = "nothing reaches it. Its pack stays for its other nodes: this one goes when less than half of the pack is live, " +
		"or it is merged with its neighbours"
	if h, err := x.m.open(ctx, at.Pack); err != nil {
		return err
	} else if i, ok := h.Find(at.Ref); ok && x.w.packs[at.Pack].IsBuried(i) {
		e.Why += "; it is buried, and nothing can refer to it any more"
	}
	return nil
}

var errReached = errors.New("a thread reaches it")

// condemned says when the bytes of a tombstone go.
func condemned(age time.Duration) string {
	return fmt.Sprintf("it was condemned %v ago; its bytes go with the first cycle after the quarantine that gc has then, "+
		"and spool gc undelete takes it back until then", age.Round(time.Second))
}

// stays reports whether a root reaches something of a pack.
func (x *explainer) stays(ctx context.Context, id casstore.PackID) (bool, error) {
	at, ok := x.m.place[id]
	if !ok {
		return false, nil
	}
	x.m.loose = true // what is missing is for a cycle to say
	if err := x.w.root(ctx, x.c.Records, x.m, nil); err != nil {
		return false, err
	}
	err := x.m.run(ctx)
	return x.m.count[at] > 0, err
}

// look adds the nodes of a pack that reach the target.
func (x *explainer) look(id casstore.PackID, h *casstore.Header) {
	for i := range h.Len() {
		at := casstore.Located{Ref: h.Ref(i), Pack: id}
		if _, ok := x.from[at]; ok {
			continue
		}
		for t := range h.Refs(i) {
			to := casstore.Located{Pack: id}
			if own, ok := t.Own(); ok {
				to.Ref = h.Ref(own)
			} else if out, ok := t.Outside(); ok {
				if to = h.OutsideAt(out); to.Ref.Kind() == casstore.KindNode {
					to.Pack = x.w.end(to.Pack)
				}
			}
			if _, ok := x.from[to]; ok {
				x.from[at] = to
				break
			}
		}
	}
}

// most is how many steps of a way are told.
const most = 20

func (x *explainer) path(root string, l casstore.Located) []string {
	out := []string{strings.Replace(root, ".", " ", 1)}
	for !l.IsZero() {
		out = append(out, l.String())
		l = x.from[l]
	}
	if n := len(out); n > most {
		out = slices.Concat(out[:most/2], []string{fmt.Sprintf("… %d more …", n-most)}, out[n-most/2:])
	}
	return out
}
