package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// remade is what a persister makes of events that were applied before.
type remade struct {
	nodes map[casstore.Ref]casstore.Node
	at    map[casstore.Ref]casstore.PackID // where nodes are that these refer to
}

// maxRemade bounds the bodies of the events that fill one gap, in bytes.
const maxRemade = 256 << 20

// remake applies the events of a gap again, from the head as it was before it. A persister does it, before a stage: it reads
// what is stored, and what it writes is kept here alone.
func (f *fixer) remake(ctx context.Context, g gap) (made remade, why string, err error) {
	before, evs, why, err := f.gapEvents(ctx, g)
	if err != nil || why != "" {
		return made, why, err
	}
	st := newStage(f, g.h.id, before)
	p := persist.New(persist.Deps{Records: st, Bulk: st, Outbox: st, Inbox: st, Packs: st, Secrets: f.c.cfg.Secrets}, persist.Config{})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var run errgroup.Group
	run.Go(func() error {
		defer stop()
		return p.Run(ctx)
	})
	run.Go(func() error {
		defer stop()
		subject := strings.TrimSuffix(events.StoredFilter(g.h.id), "*")
		applied := make(chan struct{})
		for i, e := range evs {
			e.Event.Prev = 0 // those before the gap are not applied again
			m := persist.Message{Subject: subject + e.Kind.String(), Data: e.Event.Encode(), Seq: uint64(i + 1), Ack: func() error { return nil }}
			if i == len(evs)-1 {
				m.Ack = sync.OnceValue(func() error { close(applied); return nil })
			}
			p.Deliver(ctx, m)
		}
		select {
		case <-applied:
		case <-ctx.Done():
		}
		return nil
	})
	if err := run.Wait(); err != nil {
		return made, "", err
	}
	made, err = st.made()
	return made, "", err
}

// gapEvents finds the events that made what a gap has lost, and the head that they were applied to.
func (f *fixer) gapEvents(ctx context.Context, g gap) (before threads.Head, evs []record.StoredEvent, why string, err error) {
	stored, err := f.events(ctx, g.h.id)
	if err != nil {
		return before, nil, "", err
	}
	index := int64(0)
	if !g.below.IsZero() {
		step, err := f.r.Step(ctx, g.below)
		if err != nil {
			return before, nil, "", err
		}
		if before, err = f.back(ctx, g.h, step); err != nil {
			return before, nil, "", err
		}
		index = step.Entry.Index
		before.Tips = slices.DeleteFunc(before.Tips, func(l casstore.Located) bool { return f.c.states[l.Ref].index > index })
		before.Entries, before.N, before.Producers, before.Applied = index, 0, nil, 0
		if last, ok := step.Entry.LastItem(); ok {
			before.N = last
		}
		first := slices.IndexFunc(stored, func(e record.StoredEvent) bool { return makesState(e.Event) && f.made(ctx, e.Event, step) })
		if first < 0 {
			return before, nil, fmt.Sprintf("SPOOL_EVENTS has not got entry %d any more, to begin behind it", index), nil
		}
		stored = stored[first+1:]
	}
	const refused = 64 // events that made no state because they were dead letters
	states, bytes := g.above-1-index, 0
	for i, e := range stored {
		if bytes += len(e.Body); bytes > maxRemade {
			return before, nil, fmt.Sprintf("its events have more than %d MiB", maxRemade>>20), nil
		}
		if makesState(e.Event) {
			states--
		}
		if states <= -refused {
			stored = stored[:i]
			break
		}
	}
	if states > 0 || len(stored) == 0 {
		return before, nil, fmt.Sprintf("SPOOL_EVENTS has not got %d of its entries", max(states, 1)), nil
	}
	return before, stored, "", nil
}

// stage is the world of a persister that makes nodes again: what is stored, under what it writes itself.
type stage struct {
	f *fixer

	mu      sync.Mutex
	records map[string]record.Record // written here, or put here at the beginning
	seq     uint64
	packs   map[casstore.PackID]*casstore.Pack
}

// stageSeq is above every revision of a stored record.
const stageSeq = 1 << 62

func newStage(f *fixer, t events.Thread, head threads.Head) *stage {
	s := &stage{f: f, records: map[string]record.Record{}, seq: stageSeq, packs: map[casstore.PackID]*casstore.Pack{}}
	for _, key := range []string{events.HeadKey(t), events.LeftKey(t), events.RefusedKey(0)} { // it has not ended and not left
		s.records[key] = record.Record{Key: key}
	}
	if !head.Start.IsZero() {
		s.records[events.HeadKey(t)] = record.Record{Key: events.HeadKey(t), Value: head.Encode(), Seq: s.seq}
	}
	return s
}

func (s *stage) Records(ctx context.Context, keys ...string) ([]record.Record, error) {
	s.mu.Lock()
	own := maps.Clone(s.records)
	s.mu.Unlock()
	var ask []string
	for _, key := range keys {
		if _, ok := own[key]; !ok {
			ask = append(ask, key)
		}
	}
	stored, err := s.f.c.s.Records(ctx, ask...)
	if err != nil {
		return nil, err
	}
	out := make([]record.Record, len(keys))
	for i, key := range keys {
		r, ok := own[key]
		if !ok {
			r, stored = stored[0], stored[1:]
		}
		out[i] = r
	}
	return out, nil
}

func (s *stage) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return record.FindPack(ctx, s.Records, id)
}

func (s *stage) Fence(context.Context, int) (record.Fence, error) { return record.Fence{}, nil }

func (s *stage) WillCommit(record.Fence) {}

func (s *stage) Commit(_ context.Context, _ record.Fence, puts []record.Put) (first uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.seq + 1
	for _, p := range puts {
		s.seq++
		s.records[p.Key] = record.Record{Key: p.Key, Value: p.Value, Seq: s.seq}
	}
	return first, nil
}

func (s *stage) UploadPack(_ context.Context, id casstore.PackID, header, body []byte) (record.Pack, error) {
	p, err := casstore.OpenPack(header, body)
	if err != nil {
		return record.Pack{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packs[id] = p
	return record.Pack{Header: int64(len(header)), Nodes: p.Len(), Raw: p.RawLen()}, nil
}

func (s *stage) UploadBlob(context.Context, casstore.Ref, []byte) (record.Blob, error) {
	return record.Blob{}, nil
}

// Holds: what records name counts as there; a stage has no bytes of its own.
func (s *stage) Holds(context.Context, record.Object) (bool, error) { return true, nil }

// errStage: the stage has no room for what is larger than memory.
var errStage = errors.New("it was larger than memory")

func (s *stage) NewBlob(context.Context) record.Upload { return refusedUpload{} }

// refusedUpload takes nothing.
type refusedUpload struct{}

func (refusedUpload) Write([]byte) (int, error)      { return 0, errStage }
func (refusedUpload) Commit() (record.Object, error) { return record.Object{}, errStage }
func (refusedUpload) Abort()                         {}

func (s *stage) DropBlob(context.Context, record.Object) error       { return nil }
func (s *stage) PublishItems(context.Context, []events.Posted) error { return nil }
func (s *stage) LastItemOf(context.Context, events.Thread, uint64) (int64, error) {
	return 0, nil
}
func (s *stage) Dead(context.Context, []events.Dead) error { return nil }
func (s *stage) HaveDead(_ context.Context, letters []events.Dead) ([]bool, error) {
	return make([]bool, len(letters)), nil
}
func (s *stage) DiscardBody(context.Context, events.BodyRef) error { return nil }
func (s *stage) OpenBody(context.Context, events.BodyRef) (io.Reader, error) {
	return nil, fmt.Errorf("%w: %w", record.ErrNotFound, errStage)
}

// Pack is a pack of the stage, else one that is stored.
func (s *stage) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	s.mu.Lock()
	p := s.packs[id]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	return s.f.r.Packs.Pack(ctx, id)
}

// made are the nodes of the stage.
func (s *stage) made() (out remade, err error) {
	out = remade{nodes: map[casstore.Ref]casstore.Node{}, at: map[casstore.Ref]casstore.PackID{}}
	for _, p := range s.packs {
		for i := range p.Len() {
			n, err := p.Node(p.Ref(i))
			if err != nil {
				return out, err
			}
			out.nodes[p.Ref(i)] = n
		}
		for _, l := range p.Outside() {
			if s.packs[l.Pack] == nil && l.Ref.Kind() == casstore.KindNode {
				out.at[l.Ref] = l.Pack
			}
		}
	}
	return out, nil
}
