package gc_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// applied is what a plan says will be done: new values of records by key, records that are forgotten, bytes that are freed.
type applied struct {
	Buried, Condemned, Repacked, Forgotten, Freed []string
}

// promised reads it off the plan, as a person would who has its file.
func promised(t *testing.T, p *gc.Plan) (a applied) {
	t.Helper()
	file := must.Get(json.Marshal(p))(t)
	var kept gc.Plan
	must.Do(t, json.Unmarshal(file, &kept))
	for _, v := range kept.Bury {
		a.Buried = append(a.Buried, fmt.Sprintf("%s %x", v.Key, v.Nodes))
	}
	for _, v := range kept.Condemn {
		a.Condemned = append(a.Condemned, v.Key)
	}
	for _, g := range kept.Repack {
		for _, s := range g.Packs {
			a.Repacked = append(a.Repacked, fmt.Sprintf("%s %x", s.ID, s.Keep))
		}
	}
	for _, v := range kept.Forget {
		a.Forgotten = append(a.Forgotten, v.Key)
	}
	for _, v := range kept.Reclaim {
		a.Freed = append(a.Freed, v.Bucket+" "+v.Token)
	}
	return a.sorted()
}

func (a applied) sorted() applied {
	for _, list := range [][]string{a.Buried, a.Condemned, a.Repacked, a.Forgotten, a.Freed} {
		slices.Sort(list)
	}
	return a
}

// world is everything that is stored: records by key, and tokens in the buckets.
type world struct {
	records map[string][]byte
	bytes   map[string]bool
}

func (r *rig) world() world {
	r.t.Helper()
	w := world{map[string][]byte{}, map[string]bool{}}
	must.Get(r.conn.Records().Scan(r.t.Context(), 1, func(s record.Stamped) error {
		w.records[s.Key] = slices.Clone(s.Value)
		return nil
	}))(r.t)
	for _, bucket := range []string{events.NodesBucket, events.BlobsBucket, events.ArtifactsBucket, events.InboxBucket} {
		all := must.Get(r.conn.Objects().Stored(r.t.Context(), bucket))(r.t)
		for _, s := range all {
			w.bytes[bucket+" "+s.Object.NUID] = true
		}
	}
	return w
}

// happened reads off two worlds what was done between them. own is the bytes that a tombstone named, which go with it.
func happened(t *testing.T, was, now world) (a applied) {
	t.Helper()
	own := map[string]bool{}
	pack := func(v []byte) record.Pack {
		p := must.Get(record.DecodePack(v))(t)
		return p
	}
	for _, key := range slices.Sorted(maps.Keys(was.records)) {
		v, to := was.records[key], now.records[key]
		class, id := key[:5], key[5:]
		if class != "pack." && class != "blob." && class != "moved" {
			continue
		}
		switch _, moved := now.records[events.MovedKey(id)]; {
		case to == nil:
			a.Forgotten = append(a.Forgotten, key)
			if class == "pack." {
				own[events.NodesBucket+" "+pack(v).Object.NUID] = true
			}
		case string(v) == string(to) || class == "moved":
		case class == "blob.":
			a.Condemned = append(a.Condemned, key)
			b := must.Get(record.DecodeBlob(v))(t)
			own[events.BlobsBucket+" "+b.Object.NUID] = true
		case pack(to).Gone && moved:
			p := pack(to)
			a.Repacked = append(a.Repacked, fmt.Sprintf("%s %x", id, without(p)))
			if len(p.Buried) > 0 {
				a.Buried = append(a.Buried, fmt.Sprintf("%s %x", key, p.Buried))
			}
		case pack(to).Gone:
			a.Condemned = append(a.Condemned, key)
			own[events.NodesBucket+" "+pack(v).Object.NUID] = true
		default:
			a.Buried = append(a.Buried, fmt.Sprintf("%s %x", key, pack(to).Buried))
		}
	}
	for token := range was.bytes {
		if !now.bytes[token] && !own[token] {
			a.Freed = append(a.Freed, token)
		}
	}
	return a.sorted()
}

// without is the nodes of a pack that are not buried.
func without(p record.Pack) casstore.Bits {
	keep := casstore.NewBits(p.Nodes)
	for i := range p.Nodes {
		if !p.IsBuried(i) {
			keep.Set(i)
		}
	}
	return keep
}

// What a dry run says is what is then done: each record, each node, each object, and nothing beside (DESIGN 13.8).
func TestDryRunIsWhatHappens(t *testing.T) {
	r := newRig(t)
	r.mixed()
	for cycle := range 3 {
		c := r.collector(brave(), nil)
		dry := must.Get(c.Plan(t.Context()))(t)
		p := must.Get(c.Plan(t.Context()))(t) // the dry run moved the fences; it changes nothing else
		want := promised(t, dry)
		if diff := cmp.Diff(want, promised(t, p)); diff != "" {
			t.Errorf("cycle %d: the plan differs from the dry run (-dry +plan):\n%s", cycle, diff)
		}
		was := r.world()
		d := must.Get(c.Apply(t.Context(), p))(t)
		got := happened(t, was, r.world())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cycle %d (-promised +happened):\n%s", cycle, diff)
		}
		sum := p.Sum(0)
		if d.Buried != sum.Bury || d.Condemned != sum.Condemn || d.Repacked != sum.Repack || d.Made != sum.Into || d.Forgotten != sum.Forget ||
			d.Reclaimed != sum.Reclaim || d.Bytes != sum.ReclaimBytes {
			t.Errorf("cycle %d: Apply() = %+v, the plan was %+v", cycle, d, sum)
		}
		if cycle == 0 && (sum.Bury == 0 || sum.Condemn == 0 || sum.Repack == 0 || sum.Reclaim == 0) || cycle == 1 && sum.Forget == 0 {
			t.Errorf("cycle %d plans %+v: it does not try everything", cycle, sum)
		}
		r.verify(th("keep"))
	}
}
