package model_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"spool/internal/gc/model"
	"spool/internal/must"
)

// bounds raises the bounds: SPOOL_GC_MODEL_OPERATIONS operations and SPOOL_GC_MODEL_CYCLES cycles, with no bound on the states.
func bounds(t *testing.T, b model.Bounds) model.Bounds {
	t.Helper()
	for name, to := range map[string]*uint8{"SPOOL_GC_MODEL_OPERATIONS": &b.Operations, "SPOOL_GC_MODEL_CYCLES": &b.Cycles} {
		if text := os.Getenv(name); text != "" {
			n := must.Get(strconv.ParseUint(text, 10, 8))(t)
			*to, b.States = uint8(n), 0
		}
	}
	return b
}

// production is what internal/gc and internal/persist do, on packs that several threads share.
var production = model.Protocol{Mixed: true, Refs: true}

// perNode is a node to a pack, with one fence and records read one by one; forks build on any node.
var perNode = model.Protocol{AnyFork: true, OneFence: true, ByItem: true}

// What is tried beside, each by itself: together they make too many states.
var (
	keeping = model.Protocol{Mixed: true, Keep: true}
	merging = with(production, func(p *model.Protocol) { p.Merge = true })
	caching = model.Protocol{Mixed: true, Cached: true}
	killing = with(production, func(p *model.Protocol) { p.Returns = true })
	backing = with(production, func(p *model.Protocol) { p.Restore, p.Zombie = true, true })
)

func with(p model.Protocol, change func(*model.Protocol)) model.Protocol {
	change(&p)
	return p
}

// Whatever a thread reaches is there, and what is in quarantine can be had back whole, in every state.
func TestSafe(t *testing.T) {
	zombie, byItem := production, production
	zombie.Zombie, byItem.ByItem = true, true
	for name, c := range map[string]struct {
		p model.Protocol
		b model.Bounds
	}{
		"production":            {production, model.Bounds{Operations: 3, Cycles: 1}},
		"two cycles":            {production, model.Bounds{Operations: 2, Cycles: 2}},
		"zombie collector":      {zombie, model.Bounds{Operations: 2, Cycles: 2}},
		"records one by one":    {byItem, model.Bounds{Operations: 2, Cycles: 1}},
		"a node to a pack":      {perNode, model.Bounds{Operations: 3, Cycles: 1}},
		"two fences, per node":  {model.Protocol{AnyFork: true}, model.Bounds{Operations: 3, Cycles: 1}},
		"no refs by their hash": {model.Protocol{Mixed: true}, model.Bounds{Operations: 3, Cycles: 1}},
		"quarantine":            {keeping, model.Bounds{Operations: 2, Cycles: 2}},
		"merges":                {merging, model.Bounds{Operations: 2, Cycles: 2}},
		"heads in memory":       {caching, model.Bounds{Operations: 2, Cycles: 3}},
		"records that return":   {killing, model.Bounds{Operations: 2, Cycles: 2}},
		"a restore":             {backing, model.Bounds{Operations: 1, Cycles: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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

// Every rule is needed: without it a thread loses something. One of them is needed only where a node has a pack of its own and
// records are read one by one (docs/adr/0020-two-fences.md): with what production does beside, it is a belt, and the model
// says that too.
func TestMutants(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*model.Protocol)
		base   model.Protocol // where it is the only guard
		belt   bool           // production does without
	}{
		"one fence":                      {func(p *model.Protocol) { p.OneFence = true }, production, false},
		"garbage is not buried":          {func(p *model.Protocol) { p.NoBury = true }, production, false},
		"no touch":                       {func(p *model.Protocol) { p.NoTouch = true }, production, false},
		"no fence":                       {func(p *model.Protocol) { p.NoFence = true }, production, false},
		"unconditional tombstones":       {func(p *model.Protocol) { p.Unconditional = true }, production, false},
		"referents first":                {func(p *model.Protocol) { p.ReferentsFirst = true }, production, false},
		"young records are no roots":     {func(p *model.Protocol) { p.YoungNoRoots = true }, production, false},
		"no sparing":                     {func(p *model.Protocol) { p.NoSparing = true }, production, false},
		"parent of own head no touch":    {func(p *model.Protocol) { p.OwnHeadUntouched = true }, perNode, true},
		"repack in two steps":            {func(p *model.Protocol) { p.RepackInTwo = true }, production, false},
		"bytes reclaimed without B0":     {func(p *model.Protocol) { p.NoB0 = true }, production, false},
		"no touch, per node":             {func(p *model.Protocol) { p.NoTouch = true }, perNode, false},
		"no fence, per node":             {func(p *model.Protocol) { p.NoFence = true }, perNode, false},
		"young no roots, per node":       {func(p *model.Protocol) { p.YoungNoRoots = true }, perNode, false},
		"unconditional, per node":        {func(p *model.Protocol) { p.Unconditional = true }, perNode, false},
		"referents first, per node":      {func(p *model.Protocol) { p.ReferentsFirst = true }, perNode, false},
		"no sparing, per node":           {func(p *model.Protocol) { p.NoSparing = true }, perNode, false},
		"reclaimed without B0, per node": {func(p *model.Protocol) { p.NoB0 = true }, perNode, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.belt {
				p := production
				c.change(&p)
				if r := model.Explore(p, model.Bounds{Operations: 3, Cycles: 1}); r.Trace != nil {
					t.Errorf("production needs it, too: it is no belt\n%s", strings.Join(r.Trace, "\n"))
				} else {
					t.Logf("a belt in production: nothing lost in %d states", r.States)
				}
			}
			p := c.base
			c.change(&p)
			for _, operations := range []uint8{2, 3} {
				if found(t, p, model.Bounds{Operations: operations, Cycles: 1}) {
					return
				}
			}
			t.Error("it was not found out")
		})
	}
}

// The same for what is tried beside, each within the least bounds that find it out.
func TestMutantsBeside(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*model.Protocol)
		base   model.Protocol
		b      model.Bounds
	}{
		"a repack drops what is in quarantine": {func(p *model.Protocol) { p.NoHold = true }, keeping, model.Bounds{Operations: 2, Cycles: 1}},
		"quarantine by age alone":              {func(p *model.Protocol) { p.HoldByAge = true }, keeping, model.Bounds{Operations: 2, Cycles: 2}},
		"what tombstones name is waste":        {func(p *model.Protocol) { p.WasteKept = true }, keeping, model.Bounds{Operations: 1, Cycles: 2}},
		"bytes go before their tombstone": {func(p *model.Protocol) { p.BytesFirst = true }, keeping,
			model.Bounds{Operations: 2, Cycles: 2}},
		"forgotten though it changed": {func(p *model.Protocol) { p.ForgetAny = true }, keeping, model.Bounds{Operations: 2, Cycles: 2}},
		"taken back whatever it leads to": {func(p *model.Protocol) { p.UndeleteBlind = true }, keeping,
			model.Bounds{Operations: 2, Cycles: 1}},
		"taken back behind no fence": {func(p *model.Protocol) { p.NoUndeleteStop = true }, keeping,
			model.Bounds{Operations: 2, Cycles: 1}},
		"taken back without a touch": {func(p *model.Protocol) { p.NoUndeleteHold = true }, keeping,
			model.Bounds{Operations: 2, Cycles: 1}},
		"a merge in two steps": {func(p *model.Protocol) { p.RepackInTwo = true }, merging,
			model.Bounds{Operations: 2, Cycles: 1}},
		"a verdict on a head in memory": {func(p *model.Protocol) { p.VerdictOnOld = true }, caching,
			model.Bounds{Operations: 2, Cycles: 1}},
		"a name is forgotten that is in use": {func(p *model.Protocol) { p.UnlinkNamed = true }, caching,
			model.Bounds{Operations: 1, Cycles: 3}},
		"a record counts that has moved": {func(p *model.Protocol) { p.RecordFirst = true }, killing,
			model.Bounds{Operations: 1, Cycles: 2}},
		"a blob's record says all": {func(p *model.Protocol) { p.NoHolds = true }, killing, model.Bounds{Operations: 2, Cycles: 2}},
		"a restored store begins anew": {func(p *model.Protocol) { p.RewoundFence = true }, backing,
			model.Bounds{Operations: 1, Cycles: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !found(t, with(c.base, c.change), c.b) {
				t.Error("it was not found out")
			}
		})
	}
}

func found(t *testing.T, p model.Protocol, b model.Bounds) bool {
	t.Helper()
	r := model.Explore(p, b)
	if r.Trace == nil {
		t.Logf("not with %d operations and %d cycles, in %d states", b.Operations, b.Cycles, r.States)
		return false
	}
	t.Logf("found with %d operations and %d cycles after %d states:\n%s", b.Operations, b.Cycles, r.States, strings.Join(r.Trace, "\n"))
	return true
}
