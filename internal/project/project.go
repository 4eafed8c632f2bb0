// Package project makes the items of an entry: the projection of a dialect, stamped and held within the budget. The
// persister publishes what it makes; a reader of the past makes the same again from the nodes (DESIGN 8: the projection is
// recorded, so that an item rebuilt later equals the item sent).
package project

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// Version names the projection that made an entry's items, for its record.
func Version(d dialect.Dialect) string { return d.Name() + "/" + strconv.Itoa(d.Version()) }

// Stamp is what is put on an item besides its content and metadata (SPEC I1).
type Stamp struct {
	Thread  events.Thread
	User    string       // user_id, for the self-filter (SPEC I6)
	Claimed string       // claimed_user, where the publisher says to be another than it is (SPEC P4)
	Time    int64        // created_at, Unix milliseconds; 0 = nobody knows, and it is left out
	Node    casstore.Ref // state of the entry
	Source  string       // the entry's id where it came from
	Trace   string       // trace context of the event; not stored, so items that are made again have none

	Gaps bool // items that are too large are left out, without a number: so it was before they had stubs

	Results *Limit // results over it are artifacts, and their items refer to them (SPEC A4); nil: none are

	Room *Arena // where the items are written; nil = each in memory of its own
}

// measureFrom is the size in bytes from which an item could be over the budget: an ASCII escape is at most six bytes a byte.
const measureFrom = truncate.ItemBudget / 6

// post makes the k-th item of an entry (from 0) the n-th of its thread. truncate.ErrItemTooLarge: it can not be made
// small enough, and p is its stub. excerpt: all of the output is an artifact, and the item has its ends.
func (s Stamp) post(it events.Item, n int64, k int, excerpt bool) (p events.Posted, err error) {
	head := s.head(n, k, len(it.Content)+len(it.Metadata))
	content, metadata := it.Content, it.Metadata
	if excerpt || len(head)+len(content)+len(metadata) > measureFrom {
		res, err := truncate.Item(truncate.Parts{
			Content: content, Metadata: metadata, Extra: truncate.PythonLen(append(head, '}')), CutOutput: excerpt,
		}, truncate.Budget{LocalLog: LocalLog(s.Thread), Node: s.Node.String()})
		if err != nil {
			return Stub(s.posted(it, n, join(head, content, metadata))), fmt.Errorf("item %d of %s: %w", n, s.Thread, err)
		}
		content, metadata = res.Content, res.Metadata
	}
	data := join(head, content, metadata)
	if len(data) > longest {
		data = truncate.Respell(data)
	}
	if len(data) > longest {
		return Stub(s.posted(it, n, data)), fmt.Errorf("item %d of %s: %w: %d bytes, however it is spelled", n, s.Thread,
			truncate.ErrItemTooLarge, len(data))
	}
	return s.posted(it, n, data), nil
}

// longest is the most bytes of an item that a message of NATS is sure to hold, whose limit is 1 MiB.
const longest = 1_000_000

func (s Stamp) posted(it events.Item, n int64, data []byte) events.Posted {
	return events.Posted{Subject: events.ItemSubject(s.Thread, it.Type, it.Detail), N: n, Data: data, Trace: s.Trace}
}

// join completes an item's JSON.
func join(head, content, metadata []byte) []byte {
	data := append(head, `,"content":`...)
	data = append(data, content...)
	if metadata != nil {
		data = append(append(data, `,"metadata":`...), metadata...)
	}
	return append(data, '}')
}

// head is the item's JSON up to its content.
func (s Stamp) head(n int64, k, room int) []byte {
	b := s.Room.take(384 + len(s.User) + len(s.Claimed) + len(s.Source) + len(s.Thread.Session) + len(s.Thread.Name) + room)
	b = append(b, `{"id":"`...)
	b = hex.AppendEncode(b, s.Node[1:17])
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(k), 10)
	b = append(b, `","n":`...)
	b = strconv.AppendInt(b, n, 10)
	b = append(append(b, `,"session":"`...), s.Thread.Session...)
	b = append(append(b, `","thread":"`...), s.Thread.Name...)
	b = append(b, '"')
	if s.User != "" {
		b = jsonscan.AppendString(append(b, `,"user_id":`...), s.User)
	}
	if s.Claimed != "" {
		b = jsonscan.AppendString(append(b, `,"claimed_user":`...), s.Claimed)
	}
	const created = `,"created_at":"`
	if with := events.AppendStamp(append(b, created...), s.Time); len(with) > len(b)+len(created) {
		b = append(with, '"')
	}
	b = append(s.Node.AppendTo(append(b, `,"node":"`...)), '"')
	if s.Source != "" {
		b = jsonscan.AppendString(append(b, `,"source":`...), s.Source)
	}
	return b
}

// Rebuild makes the items of a stored entry again. text is the text of its content node.
func Rebuild(t events.Thread, at casstore.Ref, st threads.State, text []byte) ([]events.Posted, error) {
	if st.Entry.Count == 0 {
		return nil, nil
	}
	e, limit, err := reread(t, st, written(st, text))
	if err != nil {
		return nil, err
	}
	posted, _ := stampOf(t, at, st, e, limit).All(e.Items, st.Entry.First) // what was too large was so then
	if int64(len(posted)) != st.Entry.Count {
		return posted, fmt.Errorf("entry %d of %s makes %d items now, made %d then", st.Entry.Index, t, len(posted),
			st.Entry.Count)
	}
	return posted, nil
}

// written is the entry of a state as it was persisted. text is the text of its content node.
func written(st threads.State, text []byte) []byte {
	if st.Entry.Raw != nil {
		return st.Entry.Raw
	}
	return text
}

func stampOf(t events.Thread, at casstore.Ref, st threads.State, e dialect.Entry, limit *Limit) Stamp {
	return Stamp{Thread: t, User: st.Entry.User, Claimed: st.Entry.Claimed, Time: st.Timestamp, Node: at,
		Source: st.Entry.ID, Results: limit, Gaps: st.Entry.Count < int64(len(e.Items))}
}

// reread reads a stored entry as it was read when it came, and tells from what size on its results are artifacts.
func reread(t events.Thread, st threads.State, raw []byte) (e dialect.Entry, limit *Limit, err error) {
	version, limit, err := parseProjection(st.Entry.Projection)
	d, ok := Made(version) // an operation has no dialect, but a projection
	if err != nil || !ok {
		return e, nil, fmt.Errorf("entry %d of %s was projected by %s, which this program does not have", st.Entry.Index, t, st.Entry.Projection)
	}
	mem, err := dialect.DecodeMemory(st.Entry.Memory)
	if err == nil {
		e, err = d.Read(raw, &mem)
	}
	if err != nil {
		return e, nil, fmt.Errorf("entry %d of %s: %w", st.Entry.Index, t, err)
	}
	return e, limit, nil
}

// excerpt tells whether the k-th item has the ends of its output alone.
func (s Stamp) excerpt(large []Result, k int) bool {
	return len(large) > 0 && !s.Results.Whole && slices.ContainsFunc(large, func(r Result) bool { return r.Index == k })
}

// Made finds the dialect that made an entry's items, by what its record says (Version).
func Made(projection string) (dialect.Dialect, bool) {
	parts := strings.SplitN(projection, "/", 3)
	if len(parts) < 2 {
		return nil, false
	}
	n, err := strconv.Atoi(parts[1])
	d, ok := dialect.Made(parts[0], n)
	return d, err == nil && ok
}

// All posts the items of an entry as number first and on. One that is too large is the error, the first of them, and a
// stub has its number (SPEC P10), unless there are gaps: the others are good.
func (s Stamp) All(items []events.Item, first int64) (posted []events.Posted, err error) {
	items, large := s.attach(items)
	for k, it := range items {
		p, e := s.post(it, first+int64(len(posted)), k, s.excerpt(large, k))
		if e != nil {
			err = cmp.Or(err, e)
			if s.Gaps {
				continue
			}
		}
		posted = append(posted, p)
	}
	return posted, err
}
