package gc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"spool/pkg/client"
	"spool/pkg/events"
)

// step is an event with a step of the thread "steps" that refers to nodes by their places.
func (r *rig) step(refs ...string) client.Entry {
	r.t.Helper()
	r.seq++
	body, err := json.Marshal(map[string]any{"id": fmt.Sprint("s", r.seq), "role": "coder", "content": "see there", "refs": refs})
	if err != nil {
		r.t.Fatal(err)
	}
	return client.Entry{Thread: th("steps"), Dialect: "step", Body: body, Seq: r.seq}
}

// A node that is garbage stays in its pack while the pack has others that are not. What it leads to is collected: so nobody
// may refer to it any more, however well they know where it is.
func TestBuriedNode(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	keep, drop := events.Thread{Session: "both", Name: "keep"}, events.Thread{Session: "both", Name: "drop"}
	r.publish(said{keep, talk(9, "keep")}, said{drop, [][]byte{image("d", 2)}})
	r.await(drop)
	h, err := r.Thread(t.Context(), drop)
	if err != nil {
		t.Fatal(err)
	}
	dead := h.Head()
	if h, err = r.Thread(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	alive := h.Head()
	if alive.Pack != dead.Pack {
		t.Fatalf("packs %s and %s, want one", alive.Pack, dead.Pack)
	}
	r.remove(drop)
	cfg := brave()
	cfg.Small = 1 // packs stay as they are
	p, d := r.collect(cfg)
	if d.Condemned != 1 || d.Buried != 1 || d.Repacked != 0 {
		t.Fatalf("Apply(%+v) = %+v, want the blob condemned and the pack left", p.Sum(), d)
	}
	bad := r.step(dead.String())
	if err := r.producer.Publish(t.Context(), bad); !errors.Is(err, client.ErrMissingRef) {
		t.Errorf("Publish of a step that refers to it = %v, want ErrMissingRef", err)
	}
	e := &events.Event{Producer: "p", Seq: bad.Seq, Kind: events.KindEntry, Dialect: "step", Thread: bad.Thread, Body: bad.Body}
	if err := r.conn.PublishEvents(t.Context(), []*events.Event{e}); err != nil { // somebody that does not ask
		t.Fatal(err)
	}
	good := r.step(alive.String())
	if err := r.producer.Publish(t.Context(), good); err != nil {
		t.Errorf("Publish of a step that refers to another node of the pack = %v", err)
	}
	r.await(good.Thread)
	if h, err := r.Thread(t.Context(), good.Thread); err != nil || h.Entries != 1 {
		t.Errorf("%d entries, %v, want the one of the good step", h.Entries, err)
	}
	if p, d := r.collect(cfg); len(p.Bury)+len(p.Condemn)+len(p.Repack) > 0 {
		t.Errorf("a second cycle plans %+v and does %+v, want nothing buried or condemned", p.Sum(), d)
	}
	if _, err := r.collector(cfg, nil).Plan(t.Context()); err != nil {
		t.Errorf("Plan() after a step referred to what is garbage = %v", err)
	}
}
