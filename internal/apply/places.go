package apply

import (
	"context"

	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// Places is where the entries of a thread are, by their ids: all of them, those of commits under way too. So an entry
// that names its parent needs neither a walk over the thread nor that what lies before it is committed. It is made for
// a thread whose entries branch often, and is right for as long as no pack is repacked.
type Places struct {
	of   map[string]*place // nil: it cannot be known
	head *place            // of the newest state; nil: not known
}

// place is a state.
type place struct {
	at     casstore.Located
	up     *place             // its parent; nil: see the others, or there is none
	recent []casstore.Located // it and its ancestors, as threads.Head has them, where they are known
	stored bool               // its node can be read
	twice  bool               // another state has its id
}

// When Places are made, and for how many entries at most.
const (
	oftenBranched = 8
	MostPlaces    = 200_000
)

// readPlaces reads all of a thread. The error passes.
func readPlaces(ctx context.Context, r threads.Reader, head threads.Head) (*Places, error) {
	p := &Places{of: map[string]*place{}}
	for step, err := range r.EntriesBack(ctx, head) {
		if err != nil && Passing(err) {
			return nil, err
		}
		if err != nil { // a part of it is lost, and what is asked for may not be in it
			return &Places{}, nil
		}
		p.add(step.Entry.ID, &place{at: step.At, stored: true})
	}
	return p, nil
}

// Len is how many entries there are.
func (p *Places) Len() int {
	if p == nil {
		return 0
	}
	return len(p.of)
}

func (p *Places) add(id string, at *place) {
	if id == "" || p.of == nil {
		return
	}
	at.twice = p.of[id] != nil
	if p.of[id] = at; len(p.of) > MostPlaces {
		p.of = nil
	}
}

// find gives the place of an entry, nil if there is none; false: it is not known which one is meant.
func (p *Places) find(id string) (*place, bool) {
	if p == nil || p.of == nil || id == "" {
		return nil, false
	}
	at := p.of[id]
	return at, at == nil || !at.twice
}

// recentOf is the state and its ancestors.
func (p *place) recentOf(ctx context.Context, r threads.Reader) (recent []casstore.Located, err error) {
	for ; p != nil && len(recent) < threads.MaxRecent; p = p.up {
		rest := p.recent
		if p.stored {
			if rest, err = r.Recent(ctx, p.at); err != nil {
				return nil, err
			}
		}
		if rest != nil {
			recent = append(recent, rest...)
			break
		}
		recent = append(recent, p.at)
	}
	return recent[:min(len(recent), threads.MaxRecent)], nil
}

// placed is a state that an event brings.
type placed struct {
	id string
	at casstore.Located
}

// take adds what an event brings.
func (p *Places) take(c *Change) {
	up := c.under
	if len(c.On.Recent) > 0 && (up == nil || up.at.Ref != c.On.Recent[0].Ref) {
		if up = p.head; up == nil || up.at.Ref != c.On.Recent[0].Ref {
			up = &place{at: c.On.Recent[0], recent: append([]casstore.Located(nil), c.On.Recent...)}
		}
	}
	if len(c.On.Recent) == 0 {
		up = nil
	}
	for _, n := range c.placed {
		up = &place{at: n.at, up: up}
		p.add(n.id, up)
	}
	p.head = up
}
