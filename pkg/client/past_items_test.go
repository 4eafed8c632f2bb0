package client_test

import (
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// A state is found by its hash in whatever thread has it. Of one that none has the error says whether it is stored.
func TestFindNode(t *testing.T) {
	r, th := newRig(t), thread("s")
	p := r.Publisher(client.PublisherConfig{})
	must.Get(p.Publish(limited(t), posts(th, 1, 3)...))(t)
	await(t, r.Client, th, p.Producer(), 3)
	head := must.Get(r.Thread(th).Head(limited(t)))(t)
	ref := head.Head().Ref
	for _, hint := range []events.Thread{{}, th, thread("other")} {
		if at, n, err := r.FindNode(limited(t), ref, hint); err != nil || at != th || n != 3 {
			t.Errorf("FindNode beside %v = %v, %d, %v, want %v, 3", hint, at, n, err, th)
		}
	}
	must.Do(t, r.Thread(th).Remove(limited(t)))
	nowhere := casstore.SumNode([]byte("nowhere"))
	for ref, want := range map[casstore.Ref]string{
		ref:            "is stored, but in no thread",
		head.Start.Ref: "is a node, but no state",
		nowhere:        "not found",
	} {
		_, _, err := r.FindNode(limited(t), ref, events.Thread{})
		must.Is(t, err, threads.ErrNoStep, "FindNode")
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("FindNode = %v, want %q", err, want)
		}
	}
}

// TestFindNodeThatWasNotThere: a state is found once it is stored, however short before it was asked for.
func TestFindNodeThatWasNotThere(t *testing.T) {
	r, ctx, e := newRig(t), t.Context(), post(thread("s"), "1")
	e.Time = time.UnixMilli(1_700_000_000_000)
	before := newRig(t)
	before.publish(t, e)
	head := must.Get(before.Thread(thread("s")).Head(ctx))(t)
	state := head.Head().Ref
	_, _, err := r.FindNode(ctx, state, events.Thread{})
	must.Is(t, err, threads.ErrNoStep, "FindNode of what is not there")
	r.publish(t, e)
	if at, n, err := r.FindNode(ctx, state, events.Thread{}); err != nil || at != thread("s") || n != 1 {
		t.Errorf("FindNode = %v, %d, %v", at, n, err)
	}
}
