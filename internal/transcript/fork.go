package transcript

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/internal/text"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Fork says of a fork's file where it branches off.
type Fork struct {
	Thread events.Thread // that the file is of
	From   events.Thread // that it was forked from
	Lines  int           // that both have, as an export says: the file's first ones; 0: the header alone names the other, and lines tell
}

// named is the fork that a session's file is by its header (SPEC S9): oh-my-pi names there the session that one goes on from, by its id or
// by its file. nil: it is none, or its header does not stand alone before its entries, as oh-my-pi writes it.
func (f *file) named() (*Fork, error) {
	if f.src.Fork != nil || f.id.Dialect != ompDialect || f.id.Agent != "" || f.id.Thread.Name != events.MainThread {
		return nil, nil
	}
	for r, err := range f.src.records() {
		if err != nil || r.start > 0 || !r.heads() {
			return nil, err
		}
		h, err := sessions.ParseHeader(r.body)
		if err != nil || h.Type != sessions.TypeHeader || h.Version != sessions.Version || h.ID != f.id.Thread.Session || !compact(r.body) {
			break
		}
		from := h.ParentSession
		if base, ok := strings.CutSuffix(from[1+strings.LastIndexAny(from, `/\`):], ".jsonl"); ok {
			from = base[1+strings.LastIndexByte(base, '_'):]
		}
		if from == "" || token(from) == f.id.Thread.Session {
			break
		}
		return &Fork{Thread: f.id.Thread, From: events.Thread{Session: token(from), Name: events.MainThread}}, nil
	}
	return nil, nil
}

// ofSession tells whether the fork is a session, which has a header of its own.
func (f *Fork) ofSession() bool { return f.Thread.Session != f.From.Session }

// name has the file be its fork's, where it is of the session that the export says.
func (f *file) name() {
	switch fork := f.src.Fork; {
	case fork == nil:
	case f.id.Thread.Session != fork.Thread.Session, f.id.Agent != "" && f.id.Thread != fork.Thread:
		f.src.Fork = nil
	default:
		f.id.Thread, f.id.Agent = fork.Thread, ""
	}
}

// compact tells whether a JSON text stays as it is inside another one.
func compact(text []byte) bool {
	var inside bytes.Buffer
	return json.Compact(&inside, text) == nil && bytes.Equal(inside.Bytes(), text)
}

// inOrder sorts forks so that each comes behind the one that it branches off from.
func inOrder(forks []Identity, files map[Identity][]*file) {
	from := map[events.Thread]events.Thread{}
	for _, id := range forks {
		from[id.Thread] = files[id][0].src.Fork.From
	}
	depth := func(id Identity) (n int) {
		for t, ok := from[id.Thread]; ok && n <= len(from); t, ok = from[t] {
			n++
		}
		return n
	}
	slices.SortStableFunc(forks, func(a, b Identity) int { return depth(a) - depth(b) })
}

// fork begins the thread of a file as the fork that an export says it is, so that it shares what both have with the thread that it
// branches off from. Where that thread does not have these lines, the file is imported whole. A crash behind it leaves a fork without
// lines of its own; the next import finds its producer there, and goes on. A fork that is refused leaves no thread, and the file is
// imported whole, too. errOther: it does not have what the file begins with.
func (im *Importer) fork(ctx context.Context, f *file, c *claim) error {
	fork := f.src.Fork
	if fork == nil || c.thread != fork.Thread || c.lines+c.before > 0 || c.exported || c.joined || !c.started && len(c.head.Producers) > 0 {
		return nil
	}
	from := c.head
	if !c.started {
		if fork.Lines == 0 { // an import of what no export wrote needs no persister
			if err := im.settled(ctx, fork.From); ctx.Err() != nil {
				return err
			} else if err != nil {
				f.warn(fmt.Sprintf("it is imported whole: what it shares with %s cannot be told yet: %v", fork.From, err))
				return nil
			}
		}
		im.mu.Lock()
		parent := im.claims[fork.From]
		im.mu.Unlock()
		if parent != nil {
			if err := im.settle(ctx, parent); err != nil {
				return err
			}
		}
		var err error
		if from, err = im.stored.Thread(ctx, fork.From); err != nil && !errors.Is(err, threads.ErrNoThread) {
			return err
		}
	}
	lines := fork.Lines
	if lines == 0 {
		if !c.started && (len(from.Producers) == 0 || from.Dialect != ompDialect || from.Entries > threads.MaxForkRead/2) {
			return nil
		}
		var err error
		if lines, err = im.agreeing(ctx, f, from); err != nil || lines == 0 && !c.started {
			return err
		}
	}
	have, err := im.common(ctx, f, from, lines)
	if err != nil {
		return err
	}
	switch {
	// since the fork was begun the file was rewritten, or is that of one which branches off earlier
	case c.started && (have.before == 0 || have.next):
		return errOther
	case have.before == 0:
		f.warn(text.Sprintf("it is imported whole: %s does not have the %d lines that it shares with it", fork.From, lines))
		return nil
	}
	if have.parted && !c.started {
		f.warn(fmt.Sprintf("it is imported whole: %s has branches, and too many lines, or others between those that it shares with it",
			fork.From))
		return nil
	}
	if !c.started {
		p := pass{im: im, f: f, c: c}
		op := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: fork.From.Session, Thread: fork.From.Name, Index: have.at}}
		if fork.ofSession() {
			op.Fork.Header, op.Fork.Own = have.header, fork.Lines == 0
		}
		if op.Fork.Whole = have.branches > 0 || fork.ofSession() && !have.more && !have.lacks; op.Fork.Whole && !have.more { // with its leaf
			op.Fork.Index = 0
		}
		e := &events.Event{Kind: events.KindControl, Seq: 1, Time: dialect.Time(op.Fork.Header), Body: op.Encode()}
		if err := p.publish(ctx, []*events.Event{p.stamp(e, startOf(c.producer))}); err != nil {
			return err
		}
		refused := im.stored.Await(ctx, c.thread, startOf(c.producer), epoch, 1)
		if c.head, err = im.stored.Thread(ctx, c.thread); refused != nil && ctx.Err() == nil && errors.Is(err, threads.ErrNoThread) {
			f.warn(fmt.Sprintf("it is imported whole: it could not begin as a fork of %s: %v", fork.From, refused))
			return nil
		}
		if err := cmp.Or(refused, err); err != nil {
			return err
		}
		c.started = true
	}
	if c.before, c.shared, c.forked = have.before, true, true; fork.Lines == 0 {
		c.header = have.header
	}
	return nil
}

// mostWaits is how many waits without an answer an import bears for forks in all. A wait is five seconds (client.Settled).
const mostWaits = 6

// settled returns when a thread has what was published to it. Forks come one after the other.
func (im *Importer) settled(ctx context.Context, t events.Thread) (err error) {
	for {
		if err = im.stored.Settled(ctx, t); err == nil {
			im.waits = 0
			return nil
		}
		if im.waits++; ctx.Err() != nil || im.waits >= mostWaits {
			return err
		}
	}
}

// shared is what a fork's file has in common with the thread that it branches off from.
type shared struct {
	before uint64 // the sequence in the file of the last line that both have; 0: the thread does not have them all, in their order
	at     int64  // the place of its entry
	more   bool   // the thread goes on
	lacks  bool   // and has lines between these that the file does not have
	next   bool   // with a line in the very next place, where it would have the entry of a fork
	header []byte // of the file

	branches int  // that what both have has beside that of its last line
	parted   bool // and it is no whole beginning of the thread, or has too many, or the thread has too many entries
}

// common finds what the file of a fork shares with the thread that it branches off from. What both say of their session before the entries
// does not count: it changes in an export when the session is named or moved, and a session's fork has a header of its own.
func (im *Importer) common(ctx context.Context, f *file, from threads.Head, left int) (have shared, err error) {
	if left <= 0 || len(from.Producers) == 0 {
		return shared{}, nil
	}
	next, stop := iter.Pull2(im.stored.RawEntries(ctx, from))
	defer stop()
	var last string
	heads := stoodFirst()
	for r, err := range f.src.records() {
		if err != nil {
			return shared{}, err
		}
		if r.torn {
			break
		}
		if r.heads() {
			have.header = r.body
		} else if id := member(r.body, "id"); !r.part {
			if member(r.body, "parentId") != last {
				have.branches++
			}
			last = id
		}
		for {
			line, err, ok := next()
			if err != nil || !ok {
				return shared{}, err
			}
			first := heads(line)
			if r.is(line) || r.heads() && first {
				have.at = line.Index
				break
			}
			have.lacks = have.lacks || line.Dialect == f.id.Dialect && !first
		}
		if have.before = r.seq(); r.part {
			continue
		}
		if left--; left > 0 {
			continue
		}
		line, err, ok := next()
		have.more, have.next = ok, ok && line.Index == have.at+1
		have.parted = have.branches > 0 && (have.lacks || have.more && (have.branches > threads.MaxTips || from.Entries > threads.MaxForkRead/2))
		return have, err
	}
	return shared{}, nil
}

// agreeing counts the lines that a file begins with and the thread that it branches off from has in their order, and nothing between them
// that the fork would have and the file has not; 0: no entry is among them.
func (im *Importer) agreeing(ctx context.Context, f *file, from threads.Head) (lines int, err error) {
	next, stop := iter.Pull2(im.stored.RawEntries(ctx, from))
	defer stop()
	n, entries, heads := 0, false, stoodFirst()
	for r, err := range f.src.records() {
		if err != nil {
			return 0, err
		}
		if r.torn || r.heads() && r.start > 0 {
			break
		}
		for same := r.heads(); !same; {
			line, err, ok := next()
			if err != nil || !ok {
				return lines, err
			}
			first := heads(line)
			same = !first && r.is(line)
			nameless := line.Dialect == rawDialect || line.Dialect == partDialect || line.Dialect == f.id.Dialect && member(line.Head, "id") == ""
			if !same && !first && nameless { // the path to what is behind it has it, and the file has not
				return lines, nil
			}
			entries = entries || same && r.json
		}
		if r.part {
			continue
		}
		if n++; entries {
			lines = n
		}
	}
	return lines, nil
}

// stoodFirst tells of the lines of a thread, in their order, whether they stood before the entries of a session's file.
func stoodFirst() func(rehydrate.Line) bool {
	first := true
	return func(line rehydrate.Line) bool {
		heads := first && jsonscan.Valid(line.Head) == nil && (record{body: line.Head, json: true, first: true}).heads()
		first = first && (heads || line.Dialect != ompDialect)
		return heads
	}
}
