package scrub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"spool/internal/record"
	"spool/internal/sleep"
	"spool/pkg/events"
)

// Mark is how far a stream was, and what it held.
type Mark struct {
	Created  int64  `json:"created"` // Unix nanoseconds
	First    uint64 `json:"first,omitempty"`
	Last     uint64 `json:"last"` // its last sequence
	Messages uint64 `json:"messages,omitempty"`
	Bytes    uint64 `json:"bytes,omitempty"`
	Store    string `json:"store,omitempty"` // the store that it said it is of
	At       int64  `json:"at"`              // by the server's clock, Unix nanoseconds
}

func markOf(s record.StreamState) Mark {
	return Mark{s.Created, s.First, s.Last, s.Messages, s.Bytes, s.Store, s.Now}
}

// Marks are those of all streams, and the rewinds that nobody has cleared.
//
// They are kept twice, in the record bucket and in the stream of gc: each stream's mark is so in another stream than itself. A
// stream that loses less than what came since its mark was taken (MarksEvery) is not noticed by it; what threads lose so is
// applied again when the server starts (Look), and a head that is ahead of its nodes is found by Heads.
//
// Floor is sound because it lies in the record bucket itself: a commit comes before the acks of what it holds, these before the
// marks, and a bucket that was set back, yet holds the marks, holds every commit before them.
type Marks struct {
	Store      string          `json:"store,omitempty"`      // whose marks these are: the store that the record bucket says it is of
	Generation uint64          `json:"generation,omitempty"` // how often somebody has said that what is there now is all there is (Cleared)
	Rebuilt    uint64          `json:"rebuilt,omitempty"`    // the generation in which that was said of records that had been lost
	Trusted    uint64          `json:"trusted,omitempty"`    // the same, of which a person has said that what nothing reaches may go (Trust)
	Streams    map[string]Mark `json:"streams"`
	Twice      bool            `json:"twice,omitempty"`  // a copy is in the stream of gc
	Before     uint64          `json:"before,omitempty"` // the revision of the record that these replace
	Server     string          `json:"server,omitempty"` // the one that was asked (Store.Incarnation)
	Floor      uint64          `json:"floor,omitempty"`  // what SPOOL_EVENTS has below it was applied
	Rewinds    []Rewind        `json:"rewinds,omitempty"`
	Lost       map[string]int  `json:"lost,omitempty"` // messages that a server had lost when somebody had looked and all was well
	record.Clock
}

// keptRewinds bounds the list.
const keptRewinds = 100

// DecodeMarks reads a copy. One that cannot be read is as good as none: it is written anew.
func DecodeMarks(b []byte) (m Marks) {
	if len(b) == 0 || json.Unmarshal(b, &m) != nil {
		m = Marks{}
	}
	if m.Streams == nil {
		m.Streams = map[string]Mark{}
	}
	return m
}

// join takes of two copies what is further: the stream that holds one of them may be the one that went back. What says how much
// the record bucket has of the events is its own copy's. Of different generations the earlier one knows nothing of what
// was cleared.
func join(own, other Marks) Marks {
	out := own
	out.Streams, out.Rewinds = maps.Clone(own.Streams), slices.Clone(own.Rewinds)
	out.Store, out.Generation = cmp.Or(own.Store, other.Store), max(own.Generation, other.Generation)
	out.Rebuilt, out.Trusted = max(own.Rebuilt, other.Rebuilt), max(own.Trusted, other.Trusted)
	for name, m := range other.Streams {
		if m.Last > out.Streams[name].Last {
			out.Streams[name] = m
		}
	}
	out.Clock = own.Clock.Latest(other.Clock)
	if other.Generation > own.Generation {
		out.Rewinds, out.Lost = nil, other.Lost
	}
	for _, r := range other.Rewinds {
		if other.Generation >= own.Generation &&
			!slices.ContainsFunc(out.Rewinds, func(o Rewind) bool { return o.Stream == r.Stream && o.Was == r.Was }) {
			out.Rewinds = append(out.Rewinds, r)
		}
	}
	return out
}

// Reused reports whether an event's sequence was given out before, to an event that EVENTS has lost: it is not above a mark
// and was stored after the mark was taken. What a thread has applied up to a sequence then says nothing about this one.
func (m Marks) Reused(seq uint64, stored int64) bool {
	return slices.ContainsFunc(m.Rewinds, func(r Rewind) bool {
		return r.Stream == events.EventsStream && r.reuses() && seq <= r.Was.Last && stored > r.Was.At
	})
}

// Store is where marks and reports are kept.
type Store interface {
	// Incarnation names the server that holds the streams, by another name each time that it is started; empty where several hold
	// them, so that none of what was acked is one server's alone to forget.
	Incarnation() string

	StreamStates(ctx context.Context) ([]record.StreamState, error)
	Unapplied(ctx context.Context) (uint64, error) // the lowest sequence of SPOOL_EVENTS that may not be applied yet
	StoredMarks(ctx context.Context) ([]byte, error)
	StoreMarks(ctx context.Context, marks []byte) error
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	List(ctx context.Context, filter string) ([]record.Record, error)
	Holds(ctx context.Context, o record.Object) (bool, error)
	Stored(ctx context.Context, bucket string) ([]record.Stored, error)
	Write(ctx context.Context, p record.Put) (seq uint64, err error)
}

// Replayer has the events that are stored, from a sequence on, applied again.
type Replayer interface {
	ReplayEvents(ctx context.Context, from uint64) error
}

// ReadMarks reads both copies.
func ReadMarks(ctx context.Context, s Store) (Marks, error) {
	c, err := readMarks(ctx, s)
	return c.Marks, err
}

// copies are both copies of the marks, joined.
type copies struct {
	Marks
	rev    uint64          // of the record
	absent map[string]bool // streams that have lost their copy, while the other stream has one that says so
	none   bool            // neither of them was ever written, or both are gone without a trace
}

func readMarks(ctx context.Context, s Store) (c copies, err error) {
	rs, err := s.Records(ctx, events.MarksKey)
	if err != nil {
		return c, err
	}
	copied, err := s.StoredMarks(ctx)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return c, err
	}
	own, other := DecodeMarks(rs[0].Value), DecodeMarks(copied)
	c = copies{Marks: join(own, other), rev: rs[0].Seq, absent: map[string]bool{}}
	// A record that was ever written leaves at least a marker behind: only what empties the bucket takes that.
	c.absent[events.RecordsStream] = rs[0].Seq == 0 && other.Before > 0
	c.absent[events.GCStream] = own.Twice && len(copied) == 0
	c.none = rs[0].Seq == 0 && len(copied) == 0
	return c, nil
}

// sureAfter is when a stream that seems to have gone back is looked at again: it is believed when it still does.
const sureAfter = 3 * time.Second

// Look compares how far every stream is with its mark, deals with those that went back, and takes new marks. The marks that it
// returns say what went back, now and before.
//
// When the record bucket went back, threads have lost what they had applied last, and so have consumers that think it done: all
// events that are stored are applied again. That is safe, because what a thread has it skips, by producer and sequence. When
// EVENTS went back, nothing can be had from anywhere but the publishers: it is told. Items, packs and blobs are fsck's to make
// again.
//
// A server that was started since the last marks may have lost less than they tell of, if it did not sync what it acked: what was
// not applied when they were taken is applied again then, as a matter of course.
func Look(ctx context.Context, s Store, replay Replayer, log *slog.Logger) (Marks, error) {
	server := s.Incarnation()
	m, err := readMarks(ctx, s)
	if err != nil {
		return m.Marks, err
	}
	if server != "" && server != m.Server && !m.absent[events.RecordsStream] {
		if err := replay.ReplayEvents(ctx, m.Floor); err != nil {
			return m.Marks, err
		}
		log.Debug("the server was started: what it may have lost is applied again", "from", m.Floor)
	}
	floor := uint64(0)
	if server != "" {
		if floor, err = s.Unapplied(ctx); err != nil {
			return m.Marks, err
		}
	}
	// After the marks: another process may take new ones any time, of streams that went on since an earlier look.
	states, err := s.StreamStates(ctx)
	if err != nil {
		return Marks{}, err
	}
	found, err := m.confirmed(ctx, s, states)
	if err != nil {
		return m.Marks, err
	}
	if len(found) > 0 { // in a cluster it may be the word of a server that ends just now, or does not know yet that it leads no more
		if !sleep.For(ctx, sureAfter) {
			return Marks{}, ctx.Err()
		}
		if states, err = s.StreamStates(ctx); err != nil {
			return Marks{}, err
		}
		if found, err = m.confirmed(ctx, s, states); err != nil {
			return m.Marks, err
		}
	}
	for _, r := range found {
		if r.Done, err = deal(ctx, r, states, replay); err != nil {
			return m.Marks, fmt.Errorf("%s: %w", r, err) // the marks stay as they are, so that it is found again
		}
		log.Error("a stream is not what it was", "stream", r.Stream, "found", r, "was", r.Was.Last, "now", r.Now, "done",
			r.Done)
		m.Rewinds = append(m.Rewinds, r)
		delete(m.Streams, r.Stream)
	}
	m.Rewinds = m.Rewinds[max(0, len(m.Rewinds)-keptRewinds):]
	m.time(states, log)
	for _, st := range states {
		if old := m.Streams[st.Stream]; st.Created != 0 && (st.Last >= old.Last) {
			m.Streams[st.Stream] = markOf(st)
		}
		if st.Stream == events.RecordsStream && m.Store == "" {
			m.Store = st.Store
		}
	}
	if s.Incarnation() != server { // it was started meanwhile: these marks are not its own
		return m.Marks, nil
	}
	m.Server, m.Floor = server, floor
	return m.Marks, m.store(ctx, s, m.rev)
}

// time notes since when the server's clock is behind what it said before, and until when: before the marks are taken anew.
func (m *Marks) time(states []record.StreamState, log *slog.Logger) {
	now, last := int64(0), map[string]uint64{}
	for _, st := range states {
		now, last[st.Stream] = max(now, st.Now), st.Last
	}
	switch behind := time.Duration(m.High - now); {
	case behind > MaxSkew && !m.Skew.Open():
		if m.Skew.From == nil { // else what was noted before goes on: one time is kept, from the first to the last
			m.Skew.From = map[string]uint64{}
			for name, mark := range m.Streams {
				m.Skew.From[name] = mark.Last
			}
		}
		m.Skew.To = nil
		log.Error("the server's clock went back", "by", behind)
	case behind <= MaxSkew && m.Skew.Open():
		m.Skew.To, m.Skew.Right = last, now
		log.Warn("the server's clock is right again: ages of what was stored meanwhile count from now on")
	}
	m.High = max(m.High, now)
}

// store writes both copies: the one in the other stream first, so that no moment has neither.
func (m Marks) store(ctx context.Context, s Store, rev uint64) error {
	m.Twice, m.Before = true, rev
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	switch err := s.StoreMarks(ctx, b); {
	case errors.Is(err, record.ErrDenied), errors.Is(err, record.ErrNotFound): // one copy is better than none
		m.Twice = false
		if b, err = json.Marshal(m); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("keep the streams' marks: %w", err)
	}
	_, err = s.Write(ctx, record.Put{Key: events.MarksKey, Value: b, Expect: rev})
	if errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrBusy) { // another process took its marks
		return nil
	}
	return err
}

// forgetRewinds forgets the rewinds, and what servers have lost so far: somebody has looked, and what can be had back is back. rebuilt:
// the records had lost something.
func forgetRewinds(ctx context.Context, s Store, rebuilt bool) error {
	states, err := s.StreamStates(ctx)
	if err != nil {
		return err
	}
	m, err := readMarks(ctx, s)
	if err != nil {
		return err
	}
	lost := map[string]int{}
	for _, st := range states {
		if st.Lost > 0 {
			lost[st.Stream] = st.Lost
		}
	}
	now := maps.Clone(m.Streams)
	for _, st := range states {
		now[st.Stream] = markOf(st)
	}
	m.Lost, m.Streams, m.Generation = lost, now, m.Generation+1
	if rebuilt {
		m.Rebuilt = m.Generation
	}
	// Those of EVENTS say what sequences mean, for as long as threads can hold on to the ones before.
	m.Rewinds = slices.DeleteFunc(m.Rewinds, func(r Rewind) bool { return r.Stream != events.EventsStream || !r.reuses() })
	for i := range m.Rewinds {
		m.Rewinds[i].Done = cleared
	}
	return m.store(ctx, s, m.rev)
}

// Unsure reports whether records that had been lost were made again, and nobody has said since that what nothing reaches
// may go (Trust).
func (m Marks) Unsure() bool { return m.Rebuilt > m.Trusted }

// Trust notes, on a person's word, that what nothing reaches may go, although records had been lost.
func Trust(ctx context.Context, s Store) error {
	m, err := readMarks(ctx, s)
	if err != nil || !m.Unsure() {
		return err
	}
	m.Trusted = m.Rebuilt
	return m.store(ctx, s, m.rev)
}

// Repaired notes that a repair has brought back what can be, whatever it could not: the alarms stand, and the store is ready again.
func Repaired(ctx context.Context, s Store) error {
	for range 3 { // another process may take marks at the same time
		m, err := readMarks(ctx, s)
		if err != nil {
			return err
		}
		news := false
		for i := range m.Rewinds {
			news = news || !m.Rewinds[i].Repaired
			m.Rewinds[i].Repaired = true
		}
		if !news {
			return nil
		}
		if err := m.store(ctx, s, m.rev); err != nil {
			return err
		}
	}
	return nil
}

// cleared is what Rewind.Done says of one that nobody is told of any more.
const cleared = "cleared"

// Open are the rewinds that nobody has cleared, newest first.
func (m Marks) Open() (out []Rewind) {
	for _, r := range m.Rewinds {
		if r.Done != cleared {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Rewind) int { return cmp.Compare(b.Found, a.Found) })
	return out
}

// MarksEvery is how often marks are taken.
const MarksEvery = 10 * time.Second
