package model_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"spool/internal/gc/model"
)

// bounds raises the bounds: SPOOL_GC_MODEL_OPERATIONS operations and SPOOL_GC_MODEL_CYCLES cycles, with no bound on the states.
func bounds(t *testing.T, b model.Bounds) model.Bounds {
	t.Helper()
	for name, to := range map[string]*uint8{"SPOOL_GC_MODEL_OPERATIONS": &b.Operations, "SPOOL_GC_MODEL_CYCLES": &b.Cycles} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 8)
			if err != nil {
				t.Fatal(err)
			}
			*to, b.States = uint8(n), 0
		}
	}
	return b
}

// production is what internal/gc and internal/persist do, on packs that several threads share.
var production = model.Protocol{Mixed: true}

// perNode is the same with a node to a pack: then one fence is enough, and records may be read one by one; and forks may build
// on any node.
var perNode = model.Protocol{AnyFork: true, OneFence: true, ByItem: true}

// Whatever a thread reaches is there, in every state.
func TestSafe(t *testing.T) {
	zombie, any := production, perNode
	zombie.Zombie = true
	both := model.Protocol{AnyFork: true}
	for name, c := range map[string]struct {
		p model.Protocol
		b model.Bounds
	}{
		"production":           {production, model.Bounds{Operations: 3, Cycles: 1}},
		"two cycles":           {production, model.Bounds{Operations: 2, Cycles: 2}},
		"zombie collector":     {zombie, model.Bounds{Operations: 2, Cycles: 2}},
		"a node to a pack":     {any, model.Bounds{Operations: 3, Cycles: 1}},
		"two fences, any fork": {both, model.Bounds{Operations: 3, Cycles: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := model.Explore(c.p, bounds(t, c.b))
			t.Logf("%d states; something is condemned in %d, repacked in %d", r.States, r.Condemned, r.Repacked)
			if r.Trace != nil {
				t.Errorf("a thread reaches what is not there:\n%s", strings.Join(r.Trace, "\n"))
			}
			if r.Bounded || r.Condemned == 0 || c.p.Mixed && r.Repacked == 0 {
				t.Errorf("%+v: it was not tried", r)
			}
		})
	}
}

// Every rule is needed: without it a thread loses something.
func TestMutants(t *testing.T) {
	for name, c := range map[string]struct {
		base   model.Protocol
		change func(*model.Protocol)
	}{
		"one fence":                   {production, func(p *model.Protocol) { p.OneFence = true }},
		"no touch":                    {production, func(p *model.Protocol) { p.NoTouch = true }},
		"no fence":                    {production, func(p *model.Protocol) { p.NoFence = true }},
		"unconditional tombstones":    {production, func(p *model.Protocol) { p.Unconditional = true }},
		"young records are no roots":  {production, func(p *model.Protocol) { p.YoungNoRoots = true }},
		"repack in two steps":         {production, func(p *model.Protocol) { p.RepackInTwo = true }},
		"bytes reclaimed without B0":  {production, func(p *model.Protocol) { p.NoB0 = true }},
		"no touch, a node to a pack":  {perNode, func(p *model.Protocol) { p.NoTouch = true }},
		"no fence, a node to a pack":  {perNode, func(p *model.Protocol) { p.NoFence = true }},
		"young no roots, per node":    {perNode, func(p *model.Protocol) { p.YoungNoRoots = true }},
		"referents first":             {perNode, func(p *model.Protocol) { p.ReferentsFirst = true }},
		"no sparing":                  {perNode, func(p *model.Protocol) { p.NoSparing = true }},
		"parent of own head no touch": {perNode, func(p *model.Protocol) { p.OwnHeadUntouched = true }},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.base
			c.change(&p)
			for _, operations := range []uint8{2, 3, 4} {
				r := model.Explore(p, model.Bounds{Operations: operations, Cycles: 1, States: 8_000_000})
				if r.Trace != nil {
					t.Logf("found after %d states:\n%s", r.States, strings.Join(r.Trace, "\n"))
					return
				}
				t.Logf("not with %d operations, in %d states", operations, r.States)
			}
			t.Error("it was not found out")
		})
	}
}
