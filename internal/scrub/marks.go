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
	"spool/pkg/events"
)

// Mark is how far a stream was.
type Mark struct {
	Created int64  `json:"created"` // Unix nanoseconds
	Last    uint64 `json:"last"`    // its last sequence
	At      int64  `json:"at"`      // by the server's clock, Unix nanoseconds
}

// Rewind is a stream that was found to be behind its mark: it was set back, or deleted and made anew. What came between is gone
// from it, and its sequences are given out again.
type Rewind struct {
	Stream string `json:"stream"`
	Found  int64  `json:"found"` // by the server's clock, Unix nanoseconds
	Was    Mark   `json:"was"`
	Now    uint64 `json:"now"` // the last sequence when it was found
	Anew   bool   `json:"anew"`
	Done   string `json:"done"` // what was done about it, or is to be done
}

func (r Rewind) String() string {
	how := "went back"
	if r.Anew {
		how = "was made anew"
	}
	return fmt.Sprintf("%s %s: it was at %d and is at %d", r.Stream, how, r.Was.Last, r.Now)
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
	Streams map[string]Mark `json:"streams"`
	Server  string          `json:"server,omitempty"` // the one that was asked (Store.Incarnation)
	Floor   uint64          `json:"floor,omitempty"`  // what SPOOL_EVENTS has below it was applied
	Rewinds []Rewind        `json:"rewinds,omitempty"`
	Lost    map[string]int  `json:"lost,omitempty"` // messages that a server had lost when somebody had looked and all was well
}

// keptRewinds bounds the list.
const keptRewinds = 100

func decodeMarks(b []byte) (m Marks) {
	// One that cannot be read is as good as none: it is written anew.
	if len(b) == 0 || json.Unmarshal(b, &m) != nil {
		m = Marks{}
	}
	if m.Streams == nil {
		m.Streams = map[string]Mark{}
	}
	return m
}

// join takes of two copies what is further: the stream that holds one of them may be the one that went back. What says how much
// the record bucket has of the events is its own copy's.
func join(own, other Marks) Marks {
	out := Marks{Streams: maps.Clone(own.Streams), Server: own.Server, Floor: own.Floor, Rewinds: slices.Clone(own.Rewinds), Lost: own.Lost}
	for name, m := range other.Streams {
		if m.Last > out.Streams[name].Last {
			out.Streams[name] = m
		}
	}
	for _, r := range other.Rewinds {
		if !slices.ContainsFunc(out.Rewinds, func(o Rewind) bool { return o.Stream == r.Stream && o.Was == r.Was }) {
			out.Rewinds = append(out.Rewinds, r)
		}
	}
	return out
}

// compare gives the streams that are behind their marks.
func (m Marks) compare(now []record.StreamState) (out []Rewind) {
	for _, s := range now {
		was, known := m.Streams[s.Stream]
		if known && s.Last < was.Last {
			out = append(out, Rewind{Stream: s.Stream, Found: s.Now, Was: was, Now: s.Last, Anew: s.Created != was.Created})
		}
	}
	return out
}

// Reused reports whether an event's sequence was given out before, to an event that EVENTS has lost: it is not above a mark
// and was stored after the mark was taken. What a thread has applied up to a sequence then says nothing about this one.
func (m Marks) Reused(seq uint64, stored int64) bool {
	return slices.ContainsFunc(m.Rewinds, func(r Rewind) bool {
		return r.Stream == events.EventsStream && seq <= r.Was.Last && stored > r.Was.At
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
	Write(ctx context.Context, p record.Put) (seq uint64, err error)
}

// Replayer has the events that are stored, from a sequence on, applied again.
type Replayer interface {
	ReplayEvents(ctx context.Context, from uint64) error
}

// ReadMarks reads both copies.
func ReadMarks(ctx context.Context, s Store) (Marks, error) {
	m, _, err := readMarks(ctx, s)
	return m, err
}

func readMarks(ctx context.Context, s Store) (m Marks, rev uint64, err error) {
	rs, err := s.Records(ctx, events.MarksKey)
	if err != nil {
		return m, 0, err
	}
	copied, err := s.StoredMarks(ctx)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return m, 0, err
	}
	return join(decodeMarks(rs[0].Value), decodeMarks(copied)), rs[0].Seq, nil
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
	m, rev, err := readMarks(ctx, s)
	if err != nil {
		return m, err
	}
	if server != "" && server != m.Server {
		if err := replay.ReplayEvents(ctx, m.Floor); err != nil {
			return m, err
		}
		log.Debug("the server was started: what it may have lost is applied again", "from", m.Floor)
	}
	floor := uint64(0)
	if server != "" {
		if floor, err = s.Unapplied(ctx); err != nil {
			return m, err
		}
	}
	// After the marks: another process may take new ones any time, of streams that went on since an earlier look.
	states, err := s.StreamStates(ctx)
	if err != nil {
		return Marks{}, err
	}
	if len(m.compare(states)) > 0 { // in a cluster it may be the word of a server that ends just now, or does not know yet that it leads no more
		select {
		case <-ctx.Done():
			return Marks{}, ctx.Err()
		case <-time.After(sureAfter):
		}
		if states, err = s.StreamStates(ctx); err != nil {
			return Marks{}, err
		}
	}
	for _, r := range m.compare(states) {
		if r.Done, err = deal(ctx, r, replay); err != nil {
			return m, fmt.Errorf("%s: %w", r, err) // the marks stay as they are, so that it is found again
		}
		log.Error("a stream has lost its newest messages", "stream", r.Stream, "was", r.Was.Last, "now", r.Now, "anew", r.Anew, "done", r.Done)
		m.Rewinds = append(m.Rewinds, r)
		delete(m.Streams, r.Stream)
	}
	m.Rewinds = m.Rewinds[max(0, len(m.Rewinds)-keptRewinds):]
	for _, st := range states {
		if old := m.Streams[st.Stream]; st.Created != 0 && (st.Last >= old.Last) {
			m.Streams[st.Stream] = Mark{st.Created, st.Last, st.Now}
		}
	}
	if s.Incarnation() != server { // it was started meanwhile: these marks are not its own
		return m, nil
	}
	m.Server, m.Floor = server, floor
	return m, m.store(ctx, s, rev)
}

// store writes both copies: the one in the other stream first, so that no moment has neither.
func (m Marks) store(ctx context.Context, s Store, rev uint64) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := s.StoreMarks(ctx, b); err != nil && !errors.Is(err, record.ErrDenied) { // permissions that are older than the marks: one copy is better than none
		return fmt.Errorf("keep the streams' marks: %w", err)
	}
	_, err = s.Write(ctx, record.Put{Key: events.MarksKey, Value: b, Expect: rev})
	if errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrBusy) { // another process took its marks
		return nil
	}
	return err
}

func deal(ctx context.Context, r Rewind, replay Replayer) (string, error) {
	switch r.Stream {
	case events.RecordsStream:
		if err := replay.ReplayEvents(ctx, 0); err != nil {
			return "", err
		}
		return "all events that are stored are applied again; then run: spool fsck", nil
	case events.EventsStream:
		return fmt.Sprintf("what was published as its events %d to %d is lost where no thread has it: publish it again, under the same producers and sequences", r.Now+1, r.Was.Last), nil
	case events.DeadStream:
		return "those dead letters are lost", nil
	case events.GCStream:
		return "nothing is lost but reports", nil
	}
	return "run: spool fsck --repair", nil
}

// Clear forgets the rewinds, and what servers have lost so far: somebody has looked, and what can be had back is back.
func Clear(ctx context.Context, s Store) error {
	states, err := s.StreamStates(ctx)
	if err != nil {
		return err
	}
	m, rev, err := readMarks(ctx, s)
	if err != nil {
		return err
	}
	lost := map[string]int{}
	for _, st := range states {
		if st.Lost > 0 {
			lost[st.Stream] = st.Lost
		}
	}
	if len(m.Open()) == 0 && maps.Equal(lost, m.Lost) {
		return nil
	}
	m.Lost = lost
	// Those of EVENTS say what sequences mean, for as long as threads can hold on to the ones before.
	m.Rewinds = slices.DeleteFunc(m.Rewinds, func(r Rewind) bool { return r.Stream != events.EventsStream })
	for i := range m.Rewinds {
		m.Rewinds[i].Done = cleared
	}
	return m.store(ctx, s, rev)
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
