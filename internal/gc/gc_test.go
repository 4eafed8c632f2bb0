package gc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// What no thread reaches goes, with its bytes; what a thread reaches stays; a second run finds nothing (DESIGN 13.8).
func TestCollect(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), append(talk(5, "keep"), image("k", 1), image("both", 3))...)
	r.say(th("drop"), append(talk(5, "drop"), image("d", 2), image("both", 3))...)
	if _, d := r.collect(gc.Config{}); d.Condemned+d.Reclaimed != 0 {
		t.Errorf("with everything in use: %+v, want nothing condemned", d)
	}
	r.remove(th("drop"))
	blobs := r.bucket(events.BlobsBucket)

	plan, done := r.collect(brave())
	if done.Condemned != len(plan.Condemn) || done.Condemned < 1 || done.Spared != 0 || done.Bytes == 0 {
		t.Errorf("Apply(%+v) = %+v, want all of it condemned: the blob of one thread at least", plan.Sum(0), done)
	}
	if now := r.bucket(events.BlobsBucket); now != blobs-2 {
		t.Errorf("the bucket of blobs holds %d messages after %d, want one blob of chunk and meta fewer", now, blobs)
	}
	r.verify(th("keep"))
	_, done = r.collect(brave())
	if done.Condemned+done.Repacked+done.Spared != 0 {
		t.Errorf("a second run right after: %+v, want nothing condemned or repacked", done)
	}
	plan, _ = r.collect(brave())
	if !plan.Empty() || plan.Stock.Tombstones != 0 {
		t.Errorf("a third run plans %+v with %d tombstones, want nothing", plan.Sum(0), plan.Stock.Tombstones)
	}
	r.say(th("keep"), entry("more", "more"), image("again", 2)) // a blob that was collected is stored again
	r.verify(th("keep"))
}

// A pack that is mostly garbage is written anew; its readers, and writers that build on it, find it where it is now.
func TestRepack(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	for i := range 6 { // two threads in the same packs
		r.publish(said{th("drop"), talk(4, fmt.Sprint("drop", i))}, said{th("keep"), talk(1, fmt.Sprint("keep", i))})
		r.await(th("keep"))
	}
	r.say(th("drop"), entry("last", "last"))
	r.remove(th("drop"))
	nodes := r.bucket(events.NodesBucket)
	plan, done := r.collect(brave())
	if done.Repacked < 4 || done.Made == 0 || done.Skipped != 0 {
		t.Fatalf("Apply(%+v) = %+v, want the small neighbours in one pack", plan.Sum(0), done)
	}
	r.verify(th("keep"))
	r.say(th("keep"), entry("after", "after"))
	r.verify(th("keep"))
	if _, done = r.collect(brave()); done.Repacked != 0 || done.Forgotten < 4 {
		t.Errorf("the run after: %+v, want the old packs forgotten and nothing repacked", done)
	}
	if now := r.bucket(events.NodesBucket); now >= nodes {
		t.Errorf("the bucket of packs holds %d messages, had %d", now, nodes)
	}
	r.verify(th("keep"))
	for range 3 { // old names are followed as long as something has them
		r.say(th("keep"), talk(1, "x")...)
		r.collect(brave())
		r.verify(th("keep"))
	}
}

// A plan is a file: made now, applied later by another process, to the same effect; not in another world.
func TestPlanIsKept(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), talk(3, "keep")...)
	r.say(th("drop"), append(talk(3, "drop"), image("d", 1))...)
	r.remove(th("drop"))
	p := must.Get(r.collector(brave(), nil).Plan(t.Context()))(t)
	file := must.Get(json.Marshal(p))(t)
	r.say(th("keep"), image("k", 1)) // takes the blob up again
	r.say(th("more"), talk(3, "more")...)
	var kept gc.Plan
	must.Do(t, json.Unmarshal(file, &kept))
	d, err := r.collector(brave(), nil).Apply(t.Context(), &kept)
	if err != nil || d.Condemned != len(p.Condemn)-1 || d.Spared != 1 {
		t.Errorf("Apply() = %+v, %v, want all %d condemned but the blob that is in use again", d, err, len(p.Condemn))
	}
	if again, err := r.collector(brave(), nil).Apply(t.Context(), &kept); err != nil || again.Condemned != 0 {
		t.Errorf("Apply() again = %+v, %v, want nothing", again, err)
	}
	r.verify(th("keep"))
	r.verify(th("more"))

	must.Get(r.collector(brave(), nil).Plan(t.Context()))(t)
	for what, change := range map[string]func(*gc.Plan){
		"another cycle has begun": func(*gc.Plan) {},
		"is of one made":          func(p *gc.Plan) { p.Streams = map[string]string{events.RecordsStream: "2000"} },
		"the plan read up to":     func(p *gc.Plan) { p.Last += 1000 },
		"it has version":          func(p *gc.Plan) { p.Version++ },
	} {
		var other gc.Plan
		must.Do(t, json.Unmarshal(file, &other))
		change(&other)
		if _, err := r.collector(brave(), nil).Apply(t.Context(), &other); !errors.Is(err, gc.ErrStale) || !strings.Contains(err.Error(), what) {
			t.Errorf("Apply() = %v, want ErrStale: %s", err, what)
		}
	}
}

// Whatever is not as it must be stops a cycle before anything is deleted (DESIGN 9).
func TestFailClosed(t *testing.T) {
	for what, c := range map[string]struct {
		damage func(*rig)
		allow  gc.Brake
		want   error
	}{
		"head":    {func(r *rig) { r.put(events.HeadKey(th("bad")), []byte{0x91, 9}) }, "", gc.ErrUnsafe},
		"pack":    {func(r *rig) { r.put(events.PackKey(strings.Repeat("ab", 16)), []byte("?")) }, "", gc.ErrUnsafe},
		"class":   {func(r *rig) { r.put("future.x", []byte("?")) }, gc.BrakeClass, gc.ErrBrake},
		"bytes":   {func(r *rig) { r.purge(events.NodesBucket) }, "", gc.ErrUnsafe},
		"blob":    {func(r *rig) { r.dropRecords("blob.") }, gc.AllowMissing, gc.ErrUnsafe},
		"no head": {func(r *rig) { r.remove(th("keep")); r.remove(th("other")) }, gc.BrakeRoots, gc.ErrBrake},
		"share":   {func(r *rig) { r.remove(th("keep")) }, gc.BrakeShare, gc.ErrBrake},
		"records": {func(r *rig) {
			r.collect(brave())
			s, err := r.conn.JetStream().Stream(r.t.Context(), events.RecordsStream)
			if err == nil {
				err = s.Purge(r.t.Context(), jetstream.WithPurgeSubject(events.RecordSubject("session.>")))
			}
			must.Do(r.t, err)
		}, gc.BrakeWorld, gc.ErrBrake},
		"packs' records": {func(r *rig) {
			must.Get(r.conn.Objects().Upload(r.t.Context(), events.NodesBucket, "nobody.names", [][]byte{make([]byte, 1<<16)}))(r.t)
		}, gc.BrakeReclaim, gc.ErrBrake},
		"rewind": {func(r *rig) { r.remembered(1 << 40) }, gc.BrakeRewind, gc.ErrBrake},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			stop := r.persister(0)
			r.say(th("keep"), append(talk(3, "keep"), image("k", 1))...)
			r.say(th("other"), append(talk(3, "other"), image("o", 2))...)
			stop()
			c.damage(r)
			cycle := func(cfg gc.Config) (d gc.Done, err error) {
				col := r.collector(cfg, nil)
				p, err := col.Plan(t.Context())
				if err == nil {
					d, err = col.Apply(t.Context(), p)
				}
				return d, err
			}
			blobs, packs := r.bucket(events.BlobsBucket), r.bucket(events.NodesBucket)
			for range 2 {
				if d, err := cycle(gc.Config{Floor: 1}); !errors.Is(err, c.want) || d != (gc.Done{}) {
					t.Errorf("a cycle = %+v, %v, want %v and nothing done", d, err, c.want)
				}
			}
			if b, p := r.bucket(events.BlobsBucket), r.bucket(events.NodesBucket); b != blobs || p != packs {
				t.Errorf("the buckets hold %d and %d messages, had %d and %d", b, p, blobs, packs)
			}
			if c.allow != "" {
				allow := []gc.Brake{c.allow}
				if what == "no head" {
					allow = append(allow, gc.BrakeShare)
				}
				must.Is(t, must.Err(cycle(gc.Config{Allow: allow})), nil, "a cycle that allows %q", allow)
			}
		})
	}
}

func (r *rig) put(key string, value []byte) {
	r.t.Helper()
	must.Get(r.conn.Records().Write(r.t.Context(), record.Put{Key: key, Value: value, Expect: record.Any}))(r.t)
}

func (r *rig) purge(bucket string) {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.t.Context(), events.ObjectStream(bucket))
	if err == nil {
		err = s.Purge(r.t.Context())
	}
	must.Do(r.t, err)
}

func (r *rig) dropRecords(prefix string) {
	r.t.Helper()
	all := must.Get(r.conn.Records().List(r.t.Context(), prefix+"*"))(r.t)
	for _, rec := range all {
		r.put(rec.Key, nil)
	}
}

func (r *rig) remembered(last uint64) {
	r.t.Helper()
	must.Do(r.t, gcnats.Of(r.conn).Remember(r.t.Context(), map[string]any{"last": last}))
}

// A collector that is killed at any step, any number of times, leaves what the next cycle finishes; nothing that is in use is
// ever touched.
func TestKilledAtEveryStep(t *testing.T) {
	for _, step := range gc.Steps {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.mixed()
			killed := 0
			cfg := brave()
			cfg.Merge = 2
			for n := range 6 {
				hits := 0
				c := r.collector(cfg, func(s gc.Step) error {
					if s == step {
						if hits++; hits > n/2 { // the first step of its name twice: some come in the second cycle alone
							return errKilled
						}
					}
					return nil
				})
				p, err := c.Plan(t.Context())
				if err == nil {
					_, err = c.Apply(t.Context(), p)
				}
				if errors.Is(err, errKilled) {
					killed++
				} else if err != nil {
					t.Fatal(err)
				}
				r.verify(th("keep"))
				stop := r.persister(0)
				r.say(th("keep"), entry(fmt.Sprint("more", n), "a small pack that is merged with its neighbour"))
				stop()
			}
			if killed == 0 {
				t.Errorf("no cycle came to the step %q", step)
			}
			for range 3 {
				r.collect(cfg)
			}
			r.verify(th("keep"))
			if p, _ := r.collect(cfg); !p.Empty() || p.Stock.Tombstones != 0 || p.Stock.Nodes != p.Stock.LiveNodes {
				t.Errorf("after all cycles: %+v to do, stock %+v, want nothing left to do and only what is live", p.Sum(0), p.Stock)
			}
		})
	}
}

// mixed makes packs with live and dead nodes, dead packs, dead blobs, bytes without a record, and a body that nobody claims.
func (r *rig) mixed() {
	r.t.Helper()
	stop := r.persister(0)
	for i := 0; i < 6 || !r.sharePack(th("drop"), th("keep")); i++ {
		var all []said
		for j := range 5 { // more than one commit: what comes while the first is under way shares the next
			id := fmt.Sprint(i, "-", j)
			all = append(all, said{th("drop"), append(talk(3, "drop"+id), image("i"+id, byte(i)))}, said{th("keep"), talk(1, "keep"+id)})
		}
		r.publish(all...)
		r.await(th("keep"))
	}
	r.say(th("drop"), entry("last", "last"))
	r.say(th("gone"), talk(3, "gone")...)
	stop()
	r.remove(th("drop"))
	r.remove(th("gone"))
	store := r.conn.Store(0)
	must.Get(store.UploadBlob(r.t.Context(), casstore.SumBlob([]byte("waste")), []byte("waste")))(r.t)
	must.Get(r.conn.Inbox().CheckIn(r.t.Context(), strings.NewReader("nobody claims this")))(r.t)
}

// sharePack reports whether newest nodes of two threads are in one pack: whether they are is up to the persister.
func (r *rig) sharePack(a, b events.Thread) bool {
	r.t.Helper()
	packs := map[casstore.PackID]bool{}
	for i, name := range []events.Thread{a, b} {
		h := must.Get(r.Thread(name).Head(r.t.Context()))(r.t)
		for _, l := range h.Recent {
			if i == 1 && packs[l.Pack] {
				return true
			}
			packs[l.Pack] = packs[l.Pack] || i == 0
		}
	}
	return false
}

// Two collectors that take turns at every step do no harm, and between them they finish (DESIGN 9: the older one stops).
func TestTwoCollectors(t *testing.T) {
	r := newRig(t)
	r.mixed()
	for _, step := range gc.Steps {
		other := false
		c := r.collector(brave(), func(s gc.Step) error {
			if s == step && !other {
				other = true
				r.collect(brave())
			}
			return nil
		})
		p, err := c.Plan(t.Context())
		if err == nil {
			_, err = c.Apply(t.Context(), p)
		}
		if err != nil && !errors.Is(err, gc.ErrStale) {
			t.Errorf("with another collector at %q: %v", step, err)
		}
		r.verify(th("keep"))
	}
	r.collect(brave())
	r.collect(brave())
	if p, _ := r.collect(brave()); !p.Empty() {
		t.Errorf("after all cycles: %+v to do, want nothing", p.Sum(0))
	}
}

// The bytes of what was condemned stay for the quarantine, and can be had back.
func TestUndelete(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), talk(3, "keep")...)
	r.say(th("drop"), append(talk(3, "drop"), image("d", 1))...)
	rs := must.Get(r.conn.Records().Records(t.Context(), events.HeadKey(th("drop"))))(t)
	r.remove(th("drop"))
	cfg := brave()
	cfg.Quarantine = 24 * time.Hour
	_, done := r.collect(cfg)
	if done.Condemned < 2 || done.Reclaimed != 0 {
		t.Fatalf("in quarantine: %+v, want packs and a blob condemned and nothing reclaimed", done)
	}
	for range 2 {
		if p, _ := r.collect(cfg); !p.Empty() || p.Stock.Tombstones != done.Condemned {
			t.Errorf("the next cycle plans %+v with %d tombstones, want nothing done before the time", p.Sum(0), p.Stock.Tombstones)
		}
	}
	r.put(rs[0].Key, rs[0].Value)
	must.Is(t, must.Err(r.collector(cfg, nil).Plan(t.Context())), gc.ErrUnsafe, "Plan() with a head on what was collected")
	back, err := r.collector(cfg, nil).Undelete(t.Context())
	if err != nil || len(back.Restored) != done.Condemned || !strings.HasPrefix(back.Restored[0], "blob.") {
		t.Errorf("Undelete() = %+v, %v, want all %d records, blobs first", back, err, done.Condemned)
	}
	r.verify(th("drop"))
	r.say(th("drop"), entry("on", "and on"))
	r.verify(th("drop"))
	must.Is(t, must.Err(r.collector(cfg, nil).Undelete(t.Context())), gc.ErrNothing, "Undelete() again")

	r.remove(th("drop"))
	r.collect(brave())
	if back, err := r.collector(cfg, nil).Undelete(t.Context()); !errors.Is(err, gc.ErrNothing) {
		t.Errorf("Undelete() after the bytes went = %+v, %v, want ErrNothing", back, err)
	}
}

// Bodies in the inbox stay while an event that is not applied, or a dead letter, claims them.
func TestInbox(t *testing.T) {
	r := newRig(t)
	r.publish(said{th("waits"), [][]byte{entry("big", strings.Repeat("y", 2<<20))}})
	must.Get(r.conn.Inbox().CheckIn(t.Context(), strings.NewReader("nobody claims this")))(t)
	big := bytes.Repeat([]byte("x"), 2<<20)
	must.Do(t, r.conn.DeadLetters().Dead(t.Context(),
		[]events.Dead{{Thread: th("d"), Kind: "entry", Subject: "s", Seq: 1, Data: big, Reason: "too bad"}}))
	safe := gc.Safe()
	if p, _ := r.collect(safe); len(p.Reclaim) != 0 {
		t.Errorf("plan of the safe collector reclaims %+v, want nothing: the body is young", p.Reclaim)
	}
	p, _ := r.collect(brave())
	if len(p.Reclaim) != 1 || p.Reclaim[0].Bucket != events.InboxBucket || p.Reclaim[0].Bytes != 18 {
		t.Errorf("plan reclaims %+v, want the body of 18 bytes that nobody claims", p.Reclaim)
	}
	r.persister(0)
	r.await(th("waits"))
	r.verify(th("waits"))
	s, err := r.conn.JetStream().Stream(t.Context(), events.DeadStream)
	if err == nil {
		err = s.Purge(t.Context())
	}
	must.Do(t, err)
	if p, _ := r.collect(brave()); len(p.Reclaim) != 1 || !strings.HasPrefix(p.Reclaim[0].Name, "dead.") {
		t.Errorf("plan reclaims %+v, want the dead letter's body once the letter is gone", p.Reclaim)
	}
}

// A blob that an event mentions which is not applied yet is kept for it.
func TestMentionedBlob(t *testing.T) {
	r := newRig(t)
	cfg := brave()
	cfg.Allow = append(cfg.Allow, gc.BrakeRoots)
	ref := must.Get(r.conn.Store(0).PutBlob(t.Context(), bytes.Repeat([]byte("image"), 300)))(t)
	r.publish(said{th("keep"), [][]byte{fmt.Appendf(nil,
		`{"type":"message","id":"m","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`, ref)}})
	if p, _ := r.collect(cfg); len(p.Condemn) != 0 {
		t.Errorf("plan condemns %+v, want nothing", p.Condemn)
	}
	r.persister(0)
	r.await(th("keep"))
	r.collect(cfg)
	must.Is(t, must.Err(r.conn.Store(0).Blob(t.Context(), ref)), nil, "Blob(%s)", ref)
}

// An entry holds on to the blobs that it names first; one behind a thousand others is kept for who else refers to it.
func TestManyMentions(t *testing.T) {
	r := newRig(t)
	cfg := brave()
	cfg.Allow = append(cfg.Allow, gc.BrakeRoots)
	put := func(text string) casstore.Ref {
		return must.Get(r.conn.Store(0).PutBlob(t.Context(), bytes.Repeat([]byte(text), 300)))(t)
	}
	near, far := put("near"), put("far")
	line := []byte(`{"type":"message","id":"m","message":{"role":"user","content":"` + near.String())
	for i := range 1024 {
		line = append(append(line, ' '), casstore.SumBlob([]byte{byte(i), byte(i >> 8)}).String()...)
	}
	line = append(line, " "+far.String()+`"}}`...)
	r.persister(0)
	r.publish(said{th("many"), [][]byte{line}})
	must.Do(t, r.Thread(th("many")).Settled(t.Context())) // an event that is not acknowledged keeps all that it mentions
	p, _ := r.collect(cfg)
	var condemned []string
	for _, c := range p.Condemn {
		condemned = append(condemned, c.Key)
	}
	must.Same(t, strings.Join(condemned, " "), events.BlobKey(far.Hex()), "gc condemns %q, want %q")
}

// Two plans of the same world are the same plan (DESIGN 13.8).
func TestPlansAgree(t *testing.T) {
	r := newRig(t)
	r.mixed()
	plan := func() *gc.Plan {
		p := must.Get(r.collector(brave(), nil).Plan(t.Context()))(t)
		p.Cycle, p.First, p.Second, p.Last = "", 0, 0, 0
		return p
	}
	a, b := plan(), plan()
	unexported := cmpopts.IgnoreUnexported(gc.Plan{}) // what the cycle before remembered
	if diff := cmp.Diff(a, b, unexported); diff != "" {
		t.Errorf("two plans differ (-first +second):\n%s", diff)
	}
}

// Explain says what keeps something.
func TestExplain(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), append(talk(2, "keep"), image("k", 1))...)
	r.say(th("drop"), append(talk(2, "drop"), image("d", 2))...)
	gone := must.Get(r.Thread(th("drop")).Head(t.Context()))(t)
	dropped := gone.Head()
	r.remove(th("drop"))
	r.collect(gc.Config{Allow: []gc.Brake{gc.BrakeShare}, Quarantine: time.Hour})
	states := map[string]int{}
	all := must.Get(r.conn.Records().List(t.Context(), "blob.*"))(t)
	for _, b := range all {
		e := must.Get(r.collector(brave(), nil).Explain(t.Context(), "blob:sha256:"+strings.TrimPrefix(b.Key, "blob.")))(t)
		states[e.State]++
		if e.State == "live" && (len(e.Chain) < 3 || e.Chain[0] != "thread keep.main" || e.Chain[len(e.Chain)-1] != e.Ref) {
			t.Errorf("Explain(%s) = %+v, want a chain from its thread", e.Ref, e)
		}
	}
	if want := map[string]int{"live": 1, "tombstone": 1}; !cmp.Equal(states, want) {
		t.Errorf("states = %v, want %v", states, want)
	}
	h := must.Get(r.Thread(th("keep")).Head(t.Context()))(t)
	for _, name := range []string{h.Head().Ref.String(), h.Head().Pack.String()} {
		if e, err := r.collector(brave(), nil).Explain(t.Context(), name); err != nil || e.State != "live" ||
			!slices.Contains(e.Chain, h.Head().String()) {
			t.Errorf("Explain(%s) = %+v, %v, want live", name, e, err)
		}
	}
	if e, err := r.collector(brave(), nil).Explain(t.Context(), dropped.Ref.String()); err != nil || e.State != "tombstone" &&
		e.State != "garbage" {
		t.Errorf("Explain(collected) = %+v, %v, want it in quarantine, or garbage in a pack that stays", e, err)
	}
	if e, err := r.collector(brave(), nil).Explain(t.Context(), casstore.SumNode(nil).String()); err != nil || e.State != "missing" {
		t.Errorf("Explain(unknown) = %+v, %v, want missing", e, err)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []gc.Config{
		{Lane: -1}, {Lane: events.Lanes}, {Share: 2}, {Allow: []gc.Brake{"clock"}}, {Quarantine: -1}, {Small: 8 << 20}, {Merge: 1},
	} {
		if _, err := gc.New(gc.Deps{}, cfg); err == nil {
			t.Errorf("New(%+v) = nil, want an error", cfg)
		}
	}
}
