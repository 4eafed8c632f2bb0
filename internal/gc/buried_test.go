package gc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// step is an event with a step of the thread "steps" that refers to nodes by their places.
func (r *rig) step(refs ...string) client.Entry {
	r.t.Helper()
	r.seq++
	body, err := json.Marshal(map[string]any{"id": fmt.Sprint("s", r.seq), "role": "coder", "content": "see there", "refs": refs})
	must.Do(r.t, err)
	return client.Entry{Thread: th("steps"), Dialect: "step", Body: body, Seq: r.seq}
}

// A node that is garbage stays in its pack while the pack has others that are not. What it leads to is collected: so nobody
// may refer to it any more, however well they know where it is.
func TestBuriedNode(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	var drop events.Thread
	var dead, alive casstore.Located
	for i := 0; dead.IsZero() || alive.Pack != dead.Pack; i++ { // until both are in one batch
		keep := events.Thread{Session: "both", Name: fmt.Sprint("keep", i)}
		drop = events.Thread{Session: "both", Name: fmt.Sprint("drop", i)}
		r.publish(said{keep, talk(9, "keep")}, said{drop, [][]byte{image("d", byte(i))}})
		r.await(drop)
		for at, th := range map[*casstore.Located]events.Thread{&alive: keep, &dead: drop} {
			h := must.Get(r.Thread(th).Head(t.Context()))(t)
			*at = h.Head()
		}
	}
	r.remove(drop)
	cfg := brave()
	cfg.Small = 1 // packs stay as they are
	p, d := r.collect(cfg)
	if d.Condemned != 1 || d.Buried != 1 || d.Repacked != 0 {
		t.Fatalf("Apply(%+v) = %+v, want the blob condemned and the pack left", p.Sum(0), d)
	}
	if _, err := r.collector(cfg, nil).Plan(t.Context()); err != nil { // the record of its pack is older than this cycle
		t.Fatal(err)
	}
	if e, err := r.collector(cfg, nil).Explain(t.Context(), dead.Ref.String()); err != nil || e.State != "garbage" ||
		!strings.Contains(e.Why, "it is buried") {
		t.Errorf("Explain(%s) = %+v, %v, want it buried garbage", dead.Ref, e, err)
	}
	bad := r.step(dead.String())
	must.Is(t, must.Err(r.producer.Publish(t.Context(), bad)), client.ErrMissingRef, "Publish of a step that refers to it")
	e := &events.Event{Producer: "p", Seq: bad.Seq, Kind: events.KindEntry, Dialect: "step", Thread: bad.Thread, Body: bad.Body}
	must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
	good := r.step(alive.String())
	must.Is(t, must.Err(r.producer.Publish(t.Context(), good)), nil, "Publish of a step that refers to another node of the pack")
	r.await(good.Thread)
	if h, err := r.Thread(good.Thread).Head(t.Context()); err != nil || h.Entries != 1 {
		t.Errorf("%d entries, %v, want the one of the good step", h.Entries, err)
	}
	if p, d := r.collect(cfg); len(p.Bury)+len(p.Condemn)+len(p.Repack) > 0 {
		t.Errorf("a second cycle plans %+v and does %+v, want nothing buried or condemned", p.Sum(0), d)
	}
	must.Is(t, must.Err(r.collector(cfg, nil).Plan(t.Context())), nil, "Plan() after a step referred to what is garbage")
}

// A step names a node by a pack that has moved, and the collector is about to forget where to: the step is stored with where the node
// is now.
func TestRefByAnOldName(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), talk(2, "first")...) // its head names the pack of its start
	r.say(th("keep"), talk(2, "old")...)
	h := must.Get(r.Thread(th("keep")).Head(t.Context()))(t)
	at := h.Head()
	r.say(th("keep"), talk(15, "new")...) // and that of these
	cfg := brave()
	cfg.Merge = 2
	if _, d := r.collect(cfg); d.Repacked < 3 || d.Made != 1 {
		t.Fatalf("Apply() = %+v, want all packs in one", d)
	}
	r.collect(cfg) // takes the tombstones
	published := false
	c := r.collector(cfg, func(s gc.Step) error {
		if s == gc.StepForget && !published {
			published = true
			e := r.step(at.String())
			if _, err := r.producer.Publish(t.Context(), e); err != nil {
				return err
			}
			r.await(e.Thread)
		}
		return nil
	})
	p := must.Get(c.Plan(t.Context()))(t)
	if !slices.ContainsFunc(p.Forget, func(o gc.Old) bool { return o.Key == events.MovedKey(at.Pack.String()) }) {
		t.Fatalf("plan forgets %+v, want where %s moved to among them", p.Forget, at.Pack)
	}
	must.Get(c.Apply(t.Context(), p))(t)
	if h, err := r.Thread(th("steps")).Head(t.Context()); err != nil || h.Entries != 1 || !published {
		t.Errorf("%d entries, %v, want the step", h.Entries, err)
	}
	must.Is(t, must.Err(r.collector(cfg, nil).Plan(t.Context())), nil, "Plan() afterwards")
}
