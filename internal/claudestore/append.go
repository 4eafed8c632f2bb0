package claudestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/interchange"
	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// dialectName is that of all entries.
const dialectName = "claude"

// entry is a line of an append.
type entry struct {
	body []byte
	uuid string
	typ  string
	time int64
}

// maxID bounds a uuid by which entries are known, in bytes. It is that of the dialect.
const maxID = 512

// parse reads lines; the error wraps ErrEntry.
func parse(body []byte) (entries []entry, err error) {
	n := 0
	for line := range bytes.Lines(body) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := jsonscan.Valid(line); err != nil || jsonscan.KindOf(line) != jsonscan.KindObject {
			return nil, fmt.Errorf("%w: line %d is no JSON object; nothing is stored", ErrEntry, n)
		}
		e := entry{body: line, time: dialect.Time(line)}
		e.typ, _ = jsonscan.Text(jsonscan.Get(line, "type"))
		if id := jsonscan.Get(line, "uuid"); len(id) <= maxID+2 {
			e.uuid, _ = jsonscan.Text(id)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// state is what a process knows of a thread, to decide by.
type state struct {
	sem   chan struct{} // the thread's lock
	users int           // requests that have it; Store.mu
	held  int           // ids, as last counted; Store.mu

	// Under the lock, and valid while known: the thread after all that was published to it.
	known    bool
	thread   events.Thread
	producer string
	epoch    uint64
	newest   uint64           // EVENTS sequence of its newest event
	entries  int64            // that its head counts
	next     uint64           // sequence of the next line
	aside    uint64           // sequence of the last aside
	time     int64            // of the last line
	lines    int32            // entries of the dialect
	began    uint64           // the event that began it
	sent     int32            // place of the last one that was appended here, or repeated: those behind it came by a file; -1: nobody knows
	last     string           // uuid of the last one of those that has one
	ids      map[string]int32 // their places among them, by uuid
}

// How many threads, and ids of entries in them, a process remembers of those that nobody appends to now.
const (
	maxStates = 4096
	maxIDs    = 1 << 20
)

func (s *Store) take(k Key) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[k]
	if st == nil {
		looks := 16
		for other, idle := range s.states {
			if len(s.states) < s.mostStates && s.ids < s.mostIDs || looks == 0 {
				break
			}
			if looks--; idle.users == 0 {
				s.ids -= idle.held
				delete(s.states, other)
			}
		}
		st = &state{sem: make(chan struct{}, 1), sent: -1}
		s.states[k] = st
	}
	st.users++
	return st
}

func (s *Store) drop(st *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.users--
}

// unlock counts what is remembered.
func (s *Store) unlock(st *state) {
	s.mu.Lock()
	s.ids += len(st.ids) - st.held
	st.held = len(st.ids)
	s.mu.Unlock()
	<-st.sem
}

// Appended says what became of an append.
type Appended struct {
	Entries  int `json:"entries"`            // that are new
	Repeated int `json:"repeated,omitempty"` // that the transcript had
	Total    int `json:"total,omitempty"`    // that it has with these; 0 where others have written behind them
}

// Append adds lines of JSON to a key's transcript, in their order, and returns once they are applied. Entries with a uuid that it has are
// repeats, and so is one without that stands where it stands in the transcript, beside such a repeat. charge is told what is to be stored,
// and may refuse it. Errors wrap ErrKey, ErrEntry, client.ErrEnded, client.ErrLatched, client.ErrRefused; others pass: it may be done
// again.
func (s *Store) Append(ctx context.Context, k Key, body []byte, charge func(entries, bytes int) error) (out Appended, err error) {
	entries, err := parse(body)
	if err == nil {
		err = k.Validate()
	}
	if err != nil || len(entries) == 0 {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st := s.take(k)
	defer s.drop(st)
	select {
	case st.sem <- struct{}{}:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	defer s.unlock(st)
	for rest := entries; len(rest) > 0; {
		n := batch(rest)
		fresh, err := s.append(ctx, k, st, rest[:n], charge)
		if err != nil {
			return out, err
		}
		out.Entries, out.Repeated = out.Entries+fresh, out.Repeated+n-fresh
		rest = rest[n:]
	}
	if err := s.keepBeside(ctx, k, st.thread, entries); err != nil {
		return out, err
	}
	if st.known {
		out.Total = int(st.lines)
	}
	return out, nil
}

// keepBeside registers what entries say of a subagent as the file that Claude Code has of it. Repeats too: what was killed behind their
// first append may not have come to it. Who may write no records goes without.
func (s *Store) keepBeside(ctx context.Context, k Key, t events.Thread, entries []entry) error {
	if t.Name != k.subagent() {
		return nil
	}
	for _, e := range entries {
		if !dialect.IsAside(dialectName, e.typ) {
			continue
		}
		at := time.Now()
		if e.time > 0 {
			at = time.UnixMilli(e.time)
		}
		err := interchange.AdoptAgent(ctx, s.conn, t.Session, k.Subpath, e.body, at)
		if err != nil && !errors.Is(err, record.ErrDenied) {
			return err
		}
	}
	return nil
}

// The most that is stored at once.
const (
	batchEntries = 500
	batchBytes   = 4 << 20
)

func batch(entries []entry) (n int) {
	for size := 0; n < len(entries) && n < batchEntries; n++ {
		if size += len(entries[n].body); n > 0 && size > batchBytes {
			break
		}
	}
	return n
}

// append decides and publishes until nobody was in between. What it says by a state that was known from before is confirmed by
// SPOOL_EVENTS; where nothing is to be stored, the state is loaded anew.
func (s *Store) append(
	ctx context.Context, k Key, st *state, entries []entry, charge func(entries, bytes int) error,
) (fresh int, err error) {
	charged := false
	for range tries {
		loaded := !st.known
		if loaded {
			if err := s.load(ctx, k, st); err != nil {
				return 0, err
			}
		}
		news, sent, err := s.news(ctx, st, entries)
		if err != nil {
			return 0, err
		}
		if len(news) == 0 {
			if loaded {
				st.passed(sent, entries)
				return 0, nil
			}
			st.known = false
			continue
		}
		if !charged {
			size := 0
			for _, e := range news {
				size += len(e.body)
			}
			if err := charge(len(news), size); err != nil {
				return 0, err
			}
			charged = true
		}
		switch err := s.publish(ctx, k, st, news); {
		case err == nil:
			st.passed(st.sent, entries)
			return len(news), nil
		case !errors.Is(err, record.ErrConflict):
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: too many others append to %s", record.ErrBusy, k.Session)
}

// passed notes that entries are in the thread, the last of them at that place.
func (st *state) passed(sent int32, entries []entry) {
	st.sent = max(st.sent, sent)
	for _, e := range entries {
		st.last = cmp.Or(e.uuid, st.last)
	}
}

// publish stores entries that were decided by a state, all or none, waits until they are applied, and brings the state up to them.
func (s *Store) publish(ctx context.Context, k Key, st *state, news []entry) error {
	base := events.Event{Kind: events.KindEntry, Dialect: dialectName, Thread: st.thread, Epoch: st.epoch, Producer: st.producer,
		User: events.UserFrom(ctx), File: k.file()}
	next, aside, at := st.next, st.aside, st.time
	evs := make([]*events.Event, len(news))
	for i := range news {
		e, event := &news[i], base
		if at = cmp.Or(e.time, at); dialect.IsAside(dialectName, e.typ) {
			aside++
			event.Producer, event.Seq = transcript.Asides(st.producer), aside
		} else {
			event.Seq, next = next, next+uint64(len(e.body))+1
		}
		event.Time, event.Body = at, e.body
		evs[i] = &event
	}
	last := evs[len(evs)-1]
	st.known = false // unless all goes well
	chain := &natsio.Chain{Last: st.newest, Events: evs, Scope: events.ScopeFrom(ctx)}
	if len(evs) > 1 {
		chain.Events = events.Link(evs, joined)
	}
	s.events.PublishChains(ctx, []*natsio.Chain{chain})
	if chain.Err != nil {
		return chain.Err
	}
	// From here on they are durable: who sends them again, since nobody answered, finds them by their uuids.
	head, err := s.applied(ctx, st.thread, chain.Seq, last)
	if err != nil {
		return err
	}
	st.began, st.sent = cmp.Or(st.began, head.Began), st.lines+int32(len(news))
	if head.Applied != chain.Seq || head.Entries != st.entries+int64(len(news)) { // others wrote since, or one was refused
		for _, e := range evs {
			err := s.client.Internal().AwaitStored(ctx, e)
			if errors.Is(err, client.ErrRemoved) { // the session is another one by now
				err = fmt.Errorf("%w: %w", record.ErrConflict, err)
			}
			if err != nil {
				return err
			}
		}
	}
	if st.known = head.Applied == chain.Seq; st.known {
		st.newest, st.entries, st.next, st.aside, st.time = chain.Seq, head.Entries, next, aside, at
		for _, e := range news {
			st.add(e.uuid)
		}
	}
	return nil
}

// joined is how many bytes of small entries share a message.
const joined = 64 << 10

// add counts an entry.
func (st *state) add(uuid string) {
	if st.lines++; uuid != "" {
		st.ids[uuid] = st.lines
	}
}

// applied waits until a thread has an event, which is stored at that sequence, or has refused it.
func (s *Store) applied(ctx context.Context, t events.Thread, seq uint64, last *events.Event) (head threads.Head, err error) {
	var unknown error // why the last look saw nothing
	err = natsio.Settle(ctx, s.events, t, natsio.UpTo(s.events, t, seq), func(done bool) (enough bool, err error) {
		head, err = s.client.Thread(t).Head(ctx)
		if unknown = nil; record.Again(err) {
			unknown, err = err, nil
		}
		if errors.Is(err, threads.ErrNoThread) && !errors.As(err, new(*client.Renamed)) {
			return done, nil
		}
		return done || head.Applied > seq || head.Applied == seq && head.Duplicate(last.Producer, last.Epoch, last.Seq), err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %s has not taken in what was appended yet; is a persister running?", record.ErrBusy, t)
	}
	return head, cmp.Or(err, unknown)
}

// load makes the state known: it gives the key its thread, and reads that once all that was published to it is applied.
func (s *Store) load(ctx context.Context, k Key, st *state) error {
	t, first, err := s.claim(ctx, k)
	if err != nil {
		return err
	}
	newest, err := s.events.NewestEvent(ctx, t)
	if err != nil {
		return err
	}
	head := threads.Head{}
	if newest.Seq > 0 {
		head, err = s.applied(ctx, t, newest.Seq, &newest.Last)
	} else if head, err = s.client.Thread(t).Head(ctx); errors.Is(err, threads.ErrNoThread) && !errors.As(err, new(*client.Renamed)) {
		err = nil
	}
	switch {
	case err != nil:
		return err
	case head.Ended() != "":
		return fmt.Errorf("%w: %s takes no more entries", client.ErrEnded, t)
	case head.Status == threads.StatusFailed:
		return fmt.Errorf("%w: %s: %s", client.ErrLatched, t, head.Failure)
	}
	st.thread, st.newest, st.entries, st.time = t, newest.Seq, head.Entries, 0
	st.producer, st.epoch = transcript.Producer(dialectName, t)
	st.next, st.aside, st.lines, st.ids = 1, 0, 0, map[string]int32{}
	if p, ok := head.Last(transcript.Asides(st.producer)); ok {
		st.aside = p.Seq
	}
	if head.Began != st.began { // another one of the name, or the first that this process sees
		st.began, st.sent = head.Began, -1
	}
	if first {
		st.sent = 0
	}
	if head.Start.IsZero() {
		st.known, st.sent = true, 0
		return nil
	}
	var last threads.Step
	for step, err := range s.client.Reader().Entries(ctx, head) {
		if err != nil {
			return err
		}
		if step.Entry.Dialect == dialectName {
			st.add(step.Entry.ID)
			st.time = step.Timestamp
		}
		if d := step.Entry.Dialect; d == "raw" || d == dialectName && !dialect.IsAside(d, step.Entry.Type) {
			last = step
		}
	}
	if p, ok := head.Last(st.producer); ok { // the line behind its last one
		var size counter
		if _, err := s.client.Internal().Source().RawTo(ctx, last, &size); err != nil {
			return err
		}
		st.next = p.Seq + uint64(size) + 1
	}
	if at := st.ids[st.last]; st.sent < 0 && at > 0 { // the file was rewritten meanwhile
		st.sent = at
	}
	if st.sent < 0 || st.sent > st.lines {
		st.sent = st.lines
	}
	st.known = true
	return nil
}

// news are the entries that a thread does not have. One without a uuid is a repeat if a neighbour of it in the append is, and the thread
// has the same bytes at that side of the neighbour; or if a file brought the same bytes behind all that was appended here.
// sent is the place of the last repeat.
func (s *Store) news(ctx context.Context, st *state, entries []entry) (news []entry, sent int32, err error) {
	at := make([]int32, len(entries)) // in the thread; 0: not there
	seen := map[string]bool{}
	had, bare := false, false
	for i, e := range entries {
		at[i] = st.ids[e.uuid]
		switch {
		case e.uuid == "":
			bare = true
		case at[i] > 0:
			had = true
		case seen[e.uuid]: // twice in one append
			at[i] = -1
		}
		seen[e.uuid] = true
	}
	if bare && (had || st.sent < st.lines) {
		if err := s.align(ctx, st, entries, at); err != nil {
			return nil, 0, err
		}
	}
	for i, e := range entries {
		if sent = max(sent, at[i]); at[i] == 0 {
			news = append(news, e)
		}
	}
	return news, sent, nil
}

// align finds the entries without a uuid that repeat what the thread has.
func (s *Store) align(ctx context.Context, st *state, entries []entry, at []int32) error {
	head, err := s.client.Thread(st.thread).Head(ctx)
	if err != nil {
		return err
	}
	from, to := st.sent+1, st.lines // where one can stand
	for i := range at {
		if at[i] > 0 {
			from, to = min(from, at[i]-int32(i)), max(to, at[i]+int32(len(at)-i))
		}
	}
	bare, place := map[int32][]byte{}, int32(0)
	for step, err := range s.client.Reader().Entries(ctx, head) {
		if err != nil {
			return err
		}
		if step.Entry.Dialect != dialectName {
			continue
		}
		if place++; place < from || place > to || step.Entry.ID != "" {
			continue
		}
		var raw bytes.Buffer
		if _, err := s.client.Internal().Source().RawTo(ctx, step, &raw); err != nil {
			return err
		}
		bare[place] = bytes.TrimSpace(raw.Bytes())
	}
	same := func(i int, place int32) bool {
		return at[i] == 0 && entries[i].uuid == "" && !slices.Contains(at, place) && bytes.Equal(bare[place], entries[i].body)
	}
	for i := 1; i < len(at); i++ {
		if at[i-1] > 0 && same(i, at[i-1]+1) {
			at[i] = at[i-1] + 1
		}
	}
	for i := len(at) - 2; i >= 0; i-- {
		if at[i+1] > 0 && same(i, at[i+1]-1) {
			at[i] = at[i+1] - 1
		}
	}
	sent := st.sent
	for i := range at {
		sent = max(sent, at[i])
		for place := sent + 1; at[i] == 0 && place <= st.lines; place++ {
			if same(i, place) {
				at[i], sent = place, place
			}
		}
	}
	return nil
}
