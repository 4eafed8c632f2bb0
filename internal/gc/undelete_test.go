package gc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// keeping is a collector's configuration with a quarantine that merges whatever it may.
func keeping() gc.Config {
	cfg := brave()
	cfg.Quarantine, cfg.Follow, cfg.Merge = 24*time.Hour, 24*time.Hour, 2
	return cfg
}

// shared makes a thread whose older nodes are in packs that others use too, and whose newer ones are in packs of its own, with images,
// and removes it. It gives the thread's record.
func (r *rig) shared() record.Record {
	r.t.Helper()
	victim := th("victim")
	r.together(victim, th("keep"), func(i int) [][]byte { return append(talk(20, fmt.Sprint(i)), image(fmt.Sprint("shared", i), byte(i))) })
	stop := r.persister(0)
	for i := range 4 { // garbage of its own between packs that stay
		r.say(victim, append(talk(5, fmt.Sprint("later", i)), image(fmt.Sprint("own", i), byte(10+i)))...)
		r.say(th("keep"), talk(1, fmt.Sprint("later", i))...)
	}
	stop()
	rs := must.Get(r.conn.Records().Records(r.t.Context(), events.HeadKey(victim)))(r.t)
	r.remove(victim)
	return rs[0]
}

// together writes to two threads until a pack has nodes of both: a persister that finds what both are to have commits it in one.
func (r *rig) together(a, b events.Thread, bodies func(i int) [][]byte) {
	r.t.Helper()
	for i := 0; i < 2 || !r.sharePack(a, b); i++ {
		last := talk(3, fmt.Sprint("k", i))
		r.publish(said{a, bodies(i)}, said{b, last})
		stop := r.persister(0)
		r.await(b)
		must.Do(r.t, r.Thread(a).Await(r.t.Context(), "p", 0, r.seq-uint64(len(last)))) // of another partition
		stop()
	}
}

// back puts a thread's record back, and sees that all of it is there, that it can go on, and that the next cycle finds nothing missing.
func (r *rig) back(head record.Record, cfg gc.Config) {
	r.t.Helper()
	r.put(head.Key, head.Value)
	r.verify(th("victim"))
	if _, err := r.collector(cfg, nil).Plan(r.t.Context()); err != nil {
		r.t.Errorf("the next cycle: %v", err)
	}
	stop := r.persister(0)
	r.say(th("victim"), entry("on", "and on"))
	stop()
	for range 2 {
		r.collect(cfg)
	}
	r.verify(th("victim"))
	r.verify(th("keep"))
}

// What is in quarantine comes back whole, also the part of it that was in packs of others: those keep it as long, and nothing is merged
// over what is to come back in its place.
func TestUndeleteFromSharedPacks(t *testing.T) {
	r := newRig(t)
	head := r.shared()
	cfg := keeping()
	done := gc.Done{}
	for i := range 3 {
		p, d := r.collect(cfg)
		t.Logf("cycle %d: %+v; repack %d", i+1, d, len(p.Repack))
		done.Condemned, done.Buried = done.Condemned+d.Condemned, done.Buried+d.Buried
	}
	if done.Condemned == 0 || done.Buried == 0 {
		t.Fatalf("%+v: it was not tried", done)
	}
	back, err := r.collector(cfg, nil).Undelete(t.Context())
	if err != nil || len(back.Restored) != done.Condemned || back.Unburied == 0 {
		t.Errorf("Undelete() = %+v, %v, want %d records, and nodes of packs that stayed", back, err, done.Condemned)
	}
	if h := must.Get(threads.DecodeHead(head.Value))(t); !slices.Equal(back.States, []string{h.Head().Ref.String()}) {
		t.Errorf("newest states %v, want that of the removed thread, %s", back.States, h.Head().Ref)
	}
	r.back(head, cfg)
}

// A cycle that died between burying and condemning leaves no gap in the quarantine of the next one, which condemns: what refers to a
// buried node keeps it, however long that has been buried.
func TestUndeleteAfterHalfACycle(t *testing.T) {
	r := newRig(t)
	head := r.shared()
	cfg := keeping()
	cfg.Quarantine = time.Second
	killed := r.collector(cfg, func(s gc.Step) error {
		if s == gc.StepCondemn {
			return errKilled
		}
		return nil
	})
	p, err := killed.Plan(t.Context())
	if err == nil {
		_, err = killed.Apply(t.Context(), p)
	}
	if !errors.Is(err, errKilled) {
		t.Fatalf("Apply() = %v, want it killed", err)
	}
	must.Until(t, "what is buried is older than the quarantine", func() bool { return r.buriedFor() > cfg.Quarantine })
	p, d := r.collect(cfg)
	if d.Condemned == 0 || len(p.Bury) > 0 {
		t.Fatalf("%+v: it was not tried", d)
	}
	cfg.Quarantine = 24 * time.Hour
	if back, err := r.collector(cfg, nil).Undelete(t.Context()); err != nil {
		t.Errorf("Undelete() = %+v, %v", back, err)
	}
	r.back(head, cfg)
}

// buriedFor is the age of the youngest record of a pack with buried nodes.
func (r *rig) buriedFor() time.Duration {
	r.t.Helper()
	least := time.Duration(1 << 62)
	must.Get(r.conn.Records().Scan(r.t.Context(), 1, func(s record.Stamped) error {
		if len(s.Key) > 5 && s.Key[:5] == "pack." && s.Exists() {
			if p, err := record.DecodePack(s.Value); err == nil && !p.Gone && len(p.Buried) > 0 {
				least = min(least, s.Age)
			}
		}
		return nil
	}))(r.t)
	return least
}

// What is lost is told, and nothing comes back that refers to it: the next cycle finds nothing missing.
func TestUndeleteTellsWhatIsLost(t *testing.T) {
	r := newRig(t)
	r.shared()
	cfg := keeping()
	r.collect(cfg)
	lost := 0
	for _, one := range r.bulk() { // the bytes of the oldest tombstone of a pack whose nodes are in no other one
		p, err := record.DecodePack(one.Value)
		id, isPack := packOf(one.Key)
		moved := must.Get(r.conn.Records().Records(t.Context(), events.MovedKey(id.String())))(t)[0].Exists()
		if isPack && err == nil && p.Gone && !moved && lost == 0 {
			must.Do(t, r.conn.Objects().Reclaim(t.Context(), p.Object))
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("no pack is in quarantine: it was not tried")
	}
	back, err := r.collector(cfg, nil).Undelete(t.Context())
	if !errors.Is(err, gc.ErrPartly) || len(back.Lost) == 0 {
		t.Errorf("Undelete() = %+v, %v, want it to say what is lost", back, err)
	}
	t.Logf("%+v", back)
	must.Is(t, must.Err(r.collector(cfg, nil).Plan(t.Context())), nil, "the next cycle")
	stop := r.persister(0)
	r.say(th("keep"), entry("on", "and on"))
	stop()
	r.collect(cfg)
	r.verify(th("keep"))
}

func packOf(key string) (casstore.PackID, bool) {
	if len(key) < 5 || key[:5] != "pack." {
		return casstore.PackID{}, false
	}
	id, err := casstore.ParsePackID(key[5:])
	return id, err == nil
}

// A cycle that begins, or ends, while something is taken back makes that begin anew, or passes it over; neither loses anything.
func TestUndeleteBesideACycle(t *testing.T) {
	for _, step := range gc.Steps {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			head := r.shared()
			r.collect(keeping())
			undone := false
			undelete := func() {
				undone = true
				back, err := r.collector(keeping(), nil).Undelete(t.Context())
				switch {
				case step == gc.StepForget && errors.Is(err, gc.ErrPartly): // the cycle has repacked what the rest leads to
				case err != nil:
					t.Errorf("Undelete() at %q = %+v, %v", step, back, err)
				default:
					r.put(head.Key, head.Value)
				}
			}
			cfg := brave() // without quarantine: it takes what is not taken back
			c := r.collector(cfg, func(s gc.Step) error {
				if s == step && !undone && s != gc.StepReclaim && s != gc.StepUnmark { // then its tombstones are no more
					undelete()
				}
				return nil
			})
			p, err := c.Plan(t.Context())
			if err == nil && (undone || step == gc.StepForget) {
				_, err = c.Apply(t.Context(), p)
			}
			if err != nil && !errors.Is(err, gc.ErrStale) {
				t.Fatal(err)
			}
			if !undone { // the cycle has no such step: it comes behind the plan
				undelete()
				if _, err = c.Apply(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if rs, err := r.conn.Records().Records(t.Context(), head.Key); err != nil || rs[0].Exists() {
				r.verify(th("victim"))
			}
			r.verify(th("keep"))
			r.collect(brave())
			r.verify(th("keep"))
		})
	}
}

// TestUndeleteOfABlobWithoutBytes: a blob that was condemned without a quarantine has no bytes any more. It does not come back beside the
// nodes that refer to it, in packs that stayed: whoever wrote its bytes again would take them for stored.
func TestUndeleteOfABlobWithoutBytes(t *testing.T) {
	r := newRig(t)
	picture := func(i int) []byte { return image(fmt.Sprint("picture", i), 7) } // alone, so that a pack with some of the victim has one
	r.together(th("victim"), th("keep"), func(i int) [][]byte { return [][]byte{picture(i)} })
	r.remove(th("victim"))
	cfg := keeping()
	cfg.Quarantine = 0
	cfg.Merge = 1000 // what stays stays as it is
	if p, d := r.collect(cfg); d.Buried == 0 || d.Condemned == 0 {
		t.Fatalf("%+v, repack %d: it was not tried", d, len(p.Repack))
	}
	back, err := r.collector(keeping(), nil).Undelete(t.Context())
	if !errors.Is(err, gc.ErrPartly) {
		t.Errorf("Undelete() = %+v, %v, want ErrPartly", back, err)
	}
	for _, key := range back.Restored {
		if strings.HasPrefix(key, "blob.") {
			t.Errorf("%s is back, without its bytes", key)
		}
	}
	stop := r.persister(0)
	r.say(th("keep"), picture(0)) // it is stored anew
	stop()
	r.verify(th("keep"))
}
