package scrub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// What a store holds is compared here with what its marks say that it held: for whoever takes marks (Look), and for all
// who ask before they delete (Alarms). A number alone proves little, because gc, trimming and deletions take messages
// as well: what they can explain is no finding.

// How says in which way a stream is not what it was.
type How string

const (
	WentBack How = ""        // it ends before its mark: what came between is gone, and its sequences are given out again
	Anew     How = "anew"    // it was deleted, and made again
	Gone     How = "gone"    // it was deleted
	Foreign  How = "foreign" // it says that it is of another store
	Emptied  How = "emptied" // nothing that it held is there: it was purged
	Shrunk   How = "shrunk"  // more than half of what it held is gone
)

// Rewind is a stream that was found to be less than its mark says, or another one.
type Rewind struct {
	Stream string `json:"stream"`
	How    How    `json:"how,omitempty"`
	Found  int64  `json:"found"` // by the server's clock, Unix nanoseconds
	Was    Mark   `json:"was"`
	Now    uint64 `json:"now"`            // the last sequence when it was found
	Held   uint64 `json:"held,omitempty"` // the messages that were there then
	Anew   bool   `json:"anew"`           // it was made after the mark
	Done   string `json:"done"`           // what was done about it, or is to be done

	Repaired bool `json:"repaired,omitempty"` // somebody has repaired what can be since
}

func (r Rewind) String() string {
	switch {
	case r.How == Gone:
		return text.Sprintf("%s is gone: it was at %d and held %d messages", r.Stream, r.Was.Last, r.Was.Messages)
	case r.How == Foreign:
		return fmt.Sprintf("%s is of another store than the one that was here", r.Stream)
	case r.How == Emptied && r.Was.Messages == 0:
		return text.Sprintf("%s was emptied, and its marks with it: packs are there that no record names", r.Stream)
	case r.How == Emptied:
		return text.Sprintf("%s was emptied: it held %d messages, and none of them is there", r.Stream, r.Was.Messages)
	case r.How == Shrunk:
		return text.Sprintf("%s held %d messages, and holds %d: nothing that Spool does explains it", r.Stream,
			r.Was.Messages, r.Held)
	case r.Anew:
		return fmt.Sprintf("%s was made anew: it was at %d and is at %d", r.Stream, r.Was.Last, r.Now)
	}
	return fmt.Sprintf("%s went back: it was at %d and is at %d", r.Stream, r.Was.Last, r.Now)
}

// reuses reports whether the stream gives sequences out again.
func (r Rewind) reuses() bool { return r.Now < r.Was.Last }

// minShrunk is how many messages a stream must have lost before it counts as Shrunk.
const minShrunk = 1000

// how compares a stream with its mark. Emptied and Shrunk are a suspicion (confirm).
func how(was Mark, now record.StreamState) (h How, less bool) {
	switch {
	case now.Created == 0:
		return Gone, true
	case now.Last < was.Last:
		return WentBack, true
	case now.Created != was.Created:
		return Anew, true
	case was.Store != "" && now.Store != "" && now.Store != was.Store:
		return Foreign, true
	case was.Messages > 0 && now.First > was.Last:
		return Emptied, true
	}
	lost := was.Messages - min(was.Messages, now.Messages)
	return Shrunk, lost >= minShrunk && lost > was.Messages/2
}

// compare gives the streams that are not what their marks say, or may not be.
func (m Marks) compare(now []record.StreamState) (out []Rewind) {
	for _, s := range now {
		was, known := m.Streams[s.Stream]
		h, less := how(was, s)
		if !known || !less {
			continue
		}
		out = append(out, Rewind{
			Stream: s.Stream, How: h, Found: s.Now, Was: was, Now: s.Last, Held: s.Messages, Anew: s.Created != was.Created,
		})
	}
	return out
}

// confirmed gives the streams that are not what their marks say: what Spool itself did is left out.
func (c copies) confirmed(ctx context.Context, s Store, states []record.StreamState) (out []Rewind, err error) {
	byName := map[string]record.StreamState{}
	for _, st := range states {
		byName[st.Stream] = st
	}
	all := c.compare(states)
	for name, absent := range c.absent {
		st := byName[name]
		if name == events.RecordsStream && c.none {
			absent = st.First > 1 // else it has what was written first: marks were not taken yet
		}
		if absent && st.Created != 0 && !slices.ContainsFunc(all, func(r Rewind) bool { return r.Stream == name }) {
			all = append(all, Rewind{Stream: name, How: Emptied, Found: st.Now, Was: c.Streams[name], Now: st.Last,
				Held: st.Messages})
		}
	}
	for _, r := range all {
		sure, err := c.confirm(ctx, s, r, byName[r.Stream])
		if err != nil {
			return nil, err
		}
		if sure {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Rewind) int { return strings.Compare(a.Stream, b.Stream) })
	return out, nil
}

// confirm looks for what tells a purge from what Spool does by itself.
func (c copies) confirm(ctx context.Context, s Store, r Rewind, now record.StreamState) (bool, error) {
	if r.How != Emptied && r.How != Shrunk {
		return true, nil
	}
	switch r.Stream {
	case events.RecordsStream:
		if r.How == Emptied && !c.none {
			return c.absent[r.Stream], nil
		}
		return unnamed(ctx, s)
	case events.GCStream:
		return c.absent[r.Stream], nil
	case events.ObjectStream(events.NodesBucket):
		return away(ctx, s, "pack.*")
	case events.ObjectStream(events.BlobsBucket):
		return away(ctx, s, "blob.*")
	case events.ObjectStream(events.ArtifactsBucket):
		return away(ctx, s, "artifact.>")
	case events.ObjectStream(events.InboxBucket): // its bodies go with their commits, and one that is missed is a dead letter
		return false, nil
	}
	// What fills up is trimmed, and what is old is dropped: neither takes all, unless there is a limit that lets it.
	if now.MaxAge > 0 || now.Limit > 0 && r.Was.Bytes > uint64(now.Limit)/2 {
		return false, nil
	}
	return c.unexplained(ctx, s, r)
}

// unexplained reports whether no session was deleted, and no dead letter removed, since a mark was taken. A deletion
// that was begun before takes more for as long as it is not at its end.
func (c copies) unexplained(ctx context.Context, s Store, r Rewind) (bool, error) {
	since := c.Streams[events.RecordsStream].Last
	rs, err := s.List(ctx, events.DeletedKey("*"))
	if err != nil {
		return false, err
	}
	if r.Stream == events.DeadStream {
		letters, err := s.Records(ctx, events.LettersKey)
		if err != nil {
			return false, err
		}
		rs = append(rs, letters...)
	}
	return !slices.ContainsFunc(rs, func(one record.Record) bool { return one.Seq > since || underWay(one) }), nil
}

// underWay reports whether a record is of a deletion that may not have taken all that the streams hold of its session.
func underWay(r record.Record) bool {
	if _, ok := events.ParseDeletedKey(r.Key); !ok {
		return false
	}
	d, err := record.DecodeDeleted(r.Value)
	return err == nil && (d.State != record.Done || d.Erase && !d.Erased)
}

// sample is how many records, or objects, are looked at when a bucket holds much less than it did, and quarter of them
// is what must be wrong: a server that was killed can bring some records back whose bytes are gone (docs/adr/0022).
const (
	sample  = 64
	quarter = 4
)

// away reports whether the bytes that records name are not there.
func away(ctx context.Context, s Store, filter string) (bool, error) {
	rs, err := s.List(ctx, filter)
	if err != nil {
		return false, err
	}
	rand.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
	looked, missing := 0, 0
	for _, r := range rs {
		class, err := record.ClassOf(r.Key)
		if err != nil {
			return false, err
		}
		o, err := class.Object(r.Value)
		if err != nil || o.NUID == "" || looked == sample {
			continue
		}
		there, err := s.Holds(ctx, o)
		if err != nil {
			return false, err
		}
		if looked++; there {
			continue
		}
		again, err := s.Records(ctx, r.Key)
		if err != nil {
			return false, err
		}
		if again[0].Seq == r.Seq { // else gc took both meanwhile
			missing++
		}
	}
	return missing > 0 && missing*quarter >= looked, nil
}

// unnamed reports whether packs are there that no record has ever named, or whose records are gone.
func unnamed(ctx context.Context, s Store) (bool, error) {
	all, err := s.Stored(ctx, events.NodesBucket)
	if err != nil {
		return false, err
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	looked, missing := 0, 0
	for _, o := range all[:min(len(all), sample)] {
		text, _, _ := strings.Cut(o.Object.Name, ".")
		id, err := casstore.ParsePackID(text)
		if err != nil {
			continue
		}
		rs, err := s.Records(ctx, events.PackKey(id.String()))
		if err != nil {
			return false, err
		}
		if looked++; rs[0].Seq == 0 {
			missing++
		}
	}
	return missing > 0 && missing*quarter >= looked, nil
}

// RecordsLost says how the record bucket has lost what it held, as its marks tell; "": it has not, or all that could be
// found was.
func RecordsLost(ctx context.Context, s Store) (why string, err error) {
	marks, err := readMarks(ctx, s)
	if err != nil {
		return "", err
	}
	states, err := s.StreamStates(ctx)
	if err != nil {
		return "", err
	}
	now, err := marks.confirmed(ctx, s, states)
	for _, r := range append(now, marks.Open()...) {
		// One that went back has lost its newest records alone, and the events that they are made of are applied again.
		if r.Stream == events.RecordsStream && (r.How != WentBack || r.Anew) {
			return r.String(), err
		}
	}
	return "", err
}

// deal does about a stream what can be done at once, and says what is to be done.
func deal(ctx context.Context, r Rewind, states []record.StreamState, replay Replayer) (string, error) {
	const fsck = "run: spool fsck --repair"
	lost := r.How != WentBack && r.How != Anew
	switch r.Stream {
	case events.RecordsStream:
		// Where SPOOL_EVENTS has forgotten the oldest entries, what is applied again would begin threads in their middle.
		whole := slices.ContainsFunc(states, func(s record.StreamState) bool {
			return s.Stream == events.EventsStream && s.First <= 1 && s.Deleted == 0
		})
		if (lost || r.Anew) && !whole {
			return fsck, nil
		}
		if err := replay.ReplayEvents(ctx, 0); err != nil {
			return "", err
		}
		return "all events that are stored are applied again; then run: spool fsck --repair", nil
	case events.EventsStream:
		if lost {
			return "what was acked and not applied before is lost, and has to be published again; " + fsck, nil
		}
		return fmt.Sprintf("what was published as its events %d to %d is lost where no thread has it: publish it again, "+
			"under the same producers and sequences", r.Now+1, r.Was.Last), nil
	case events.DeadStream:
		return "those dead letters are lost", nil
	case events.GCStream:
		return "nothing is lost but reports and the schedule of gc: restart spool up, or the collectors", nil
	case events.ItemsStream:
		if lost {
			return "readers of threads get their items from the nodes; who follows the stream may have missed some", nil
		}
	}
	return fsck, nil
}

// AlarmClock: a clock is wrong, by which ages and quarantines are told.
const AlarmClock = "clock"

// MaxSkew is how far clocks may be apart.
const MaxSkew = 5 * time.Minute

// trustClock is the command by which an operator says that the server's clock is right.
const trustClock = "spool fsck --trust-clock"

// TrustClock notes, on an operator's word, that the server's clock is right as it is, although it has said more before: what was stored
// by then counts as stored now where it says that it is stored later. An error if this host's clock says something else.
func TrustClock(ctx context.Context, s Store) (now time.Time, err error) {
	for range 5 { // another process may take marks at the same time
		m, err := readMarks(ctx, s)
		if err != nil {
			return now, err
		}
		states, err := s.StreamStates(ctx)
		if err != nil {
			return now, err
		}
		last := map[string]uint64{}
		for _, st := range states {
			now, last[st.Stream] = time.Unix(0, max(now.UnixNano(), st.Now)), st.Last
		}
		if d := time.Until(now); d.Abs() > MaxSkew {
			return now, fmt.Errorf("the server's clock says %s, and this host's is %v apart: set the one that is wrong first", stamp(now),
				d.Abs().Round(time.Second))
		}
		m.Clock.Trust(now.UnixNano(), last)
		if err := m.store(ctx, s, m.rev); err != nil {
			return now, err
		}
		if is, err := readMarks(ctx, s); err != nil || is.Trusts >= m.Trusts {
			return now, err
		}
	}
	return now, fmt.Errorf("%w: other processes take marks all the time", record.ErrBusy)
}

// clocks holds the server's clock against this host's, against what it stored, and against the latest that it ever said.
func clocks(states []record.StreamState, known record.Clock, here time.Time) []Alarm {
	const do = "set the clock that is wrong; if all are right now, and the server's was ahead: " + trustClock
	for _, st := range states {
		if st.Created == 0 {
			continue
		}
		now := time.Unix(0, st.Now)
		if newest := time.Unix(0, st.Newest); newest.Sub(now) > MaxSkew && st.Last > known.Skew.To[st.Stream] {
			return []Alarm{{AlarmClock, fmt.Sprintf("the server's clock says %s, and the newest message of %s was stored at %s",
				stamp(now), st.Stream, stamp(newest)), do, 1}}
		}
		if before := time.Unix(0, known.High); before.Sub(now) > MaxSkew {
			return []Alarm{{AlarmClock, fmt.Sprintf("the server's clock says %s, and said %s before", stamp(now), stamp(before)),
				do, 1}}
		}
		if d := here.Sub(now); d.Abs() > MaxSkew {
			return []Alarm{{AlarmClock, fmt.Sprintf("the server's clock says %s, this host's %s", stamp(now), stamp(here)), do,
				1}}
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
