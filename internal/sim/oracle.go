package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/jsonscan"
	"spool/internal/memjs"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// judge holds what is stored, at rest, against what the model makes of the events and what the agents were told.
func (d *driver) judge() []string {
	m := newModel(d.ledger)
	m.small = d.p.Payload > 0
	m.kept = math.MaxUint64
	if stored := d.srv.Messages(events.EventsStream); len(stored) > 0 {
		m.kept = stored[0].Seq
	}
	m.deleted, m.tried, m.untaken = d.deleted, d.tried, d.untaken
	for seq := range d.deleted {
		if e, err := events.Open(d.events[seq].Subject, d.events[seq].Data); err == nil {
			m.emptied[e.Thread.Session] = max(m.emptied[e.Thread.Session], seq)
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(d.letters)) {
		l := d.letters[seq]
		var at uint64
		_, _ = fmt.Sscan(l.Header(natsio.HeaderEventSeq), &at)
		m.letter(l.Header(natsio.HeaderSubject), l.Data, at, l.Header(natsio.HeaderReason), l.Header(natsio.HeaderUnread) != "")
	}
	for _, seq := range slices.Sorted(maps.Keys(d.events)) {
		m.now = d.events[seq].Time
		m.take(d.events[seq].Subject, d.events[seq].Data, seq)
	}
	j := &judgement{driver: d, model: m, broken: append(slices.Clone(d.ledger.faults), m.faults()...)}
	j.accounts()
	j.orders()
	j.policies()
	err := d.await(func(ctx context.Context) error {
		conn, err := d.operator.connect()
		if err != nil {
			return err
		}
		cl := client.New(conn)
		return errors.Join(j.threads(ctx, cl), j.artifacts(ctx, cl), j.checks(ctx, conn), j.refusalsKept(ctx, conn), j.signs(ctx, cl), j.indexed(ctx, cl, conn))
	})
	if err != nil {
		j.fail("what is stored cannot be read: %v", err)
	}
	j.read()
	j.restored()
	return j.broken
}

type judgement struct {
	*driver
	*model
	broken []string
}

func (j *judgement) fail(format string, args ...any) {
	j.broken = append(j.broken, fmt.Sprintf(format, args...))
}

// accounts asks for every acknowledged entry what became of it (SPEC P1).
func (j *judgement) accounts() {
	for _, w := range j.ledger.wrote {
		f := j.fates[w.Mark]
		if w.Told == Failed && f != nil && f.outcome == applied {
			j.fail("%s of %s is applied, and who published it was told that it is not stored", w.Mark, w.Thread)
		}
		if w.Told != Acked || w.Producer == "output" {
			continue
		}
		switch {
		case f != nil && len(j.kepts[w.Mark]) < w.Echoes && !j.replaced(w.Process):
			j.fail("%s of %s was acknowledged %d times, and %d of these entries are kept (SPEC P1)", w.Mark, w.Thread,
				w.Echoes, len(j.kepts[w.Mark]))
		case f == nil:
			j.fail("%s of %s was acknowledged, and SPOOL_EVENTS never had it (SPEC P1)", w.Mark, w.Thread)
		case f.outcome == fenced && j.replaced(w.Process): // that is what an epoch is for
		case f.outcome == buried && f.why == overtaken && !j.p.numbers(w.Op) && !j.replaced(w.Process):
			j.fail("%s of %s was acknowledged, and is a dead letter: its publisher let a later one pass", w.Mark, w.Thread)
		case f.outcome == buried && f.why == givenTwice && !j.p.numbers(w.Op) && !j.replaced(w.Process):
			j.fail("%s of %s was acknowledged, and is a dead letter: its publisher gave a sequence out twice", w.Mark, w.Thread)
		case f.outcome == superseded || f.outcome == repeated || f.outcome == fenced:
			j.fail("%s of %s was acknowledged, and is %s at %d: it is applied nowhere (SPEC P1, P3)", w.Mark, w.Thread,
				f.outcome, f.at)
		}
	}
}

// policies checks that no policy removed a session to which an entry was published less than the policy's age before.
func (j *judgement) policies() {
	if !j.p.wants(Retain) || j.p.wants(Crash) {
		return
	}
	age := time.Hour
	for _, o := range j.p.Ops {
		if o.Do == Retain {
			age = min(age, ms(o.Ms))
		}
	}
	newest := map[string]memjs.Msg{}
	for _, seq := range slices.Sorted(maps.Keys(j.events)) {
		msg := j.events[seq]
		e, err := events.Open(msg.Subject, msg.Data)
		if err != nil {
			continue
		}
		was, some := newest[e.Thread.Session]
		switch op := operation(&e); {
		case op == nil:
			if f := j.fates[markOf(e.Body)]; f != nil && f.outcome == applied && f.at == seq {
				newest[e.Thread.Session] = msg
			}
		case op.Op == events.OpDelete && op.Delete.By != "" && j.deleted[seq] && some && msg.Time.Sub(was.Time) < age:
			j.fail("the session %s was removed by a policy, at %d: its entry at %d is %v old, and the policy says %v",
				e.Thread.Session, seq, was.Seq, msg.Time.Sub(was.Time), age)
		}
	}
}

// replaced reports whether an agent's process lived on beside another one in its place.
func (j *judgement) replaced(name string) bool {
	return slices.ContainsFunc(j.agents, func(a *agent) bool {
		return slices.ContainsFunc(a.replaced, func(p *process) bool { return p.name == name })
	})
}

// orders checks that a producer's entries are in its order: that in which it published them, or that of their sequences, where it does not
// publish by these.
func (j *judgement) orders() {
	for _, t := range j.lives {
		last := map[string]held{}
		for _, h := range t.held {
			w := j.ledger.byMark[h.mark]
			if w == nil {
				continue
			}
			before, ok := last[w.Producer]
			wrong := ok && j.ledger.byMark[before.mark].Number > w.Number
			if strings.Contains(w.Producer, "-"+string(Skip)) {
				wrong = before.seq > h.seq
			}
			if wrong {
				j.fail("%s holds %s before %s of the same producer", t.thread, before.mark, w.Mark)
			}
			last[w.Producer] = h
		}
	}
}

// threads compares every thread that there is with its life in the model.
func (j *judgement) threads(ctx context.Context, cl *client.Client) error {
	stored, err := cl.EverySession().Threads(ctx)
	if err != nil {
		return err
	}
	there := map[events.Thread]client.Thread{}
	for _, t := range stored {
		there[t.Thread] = t
		if j.model.threads[t.Thread] == nil {
			j.fail("%s is stored, and no event that was published begins it", t.Thread)
		}
	}
	if err := j.counts(ctx, cl, stored); err != nil {
		return err
	}
	for _, t := range sortedThreads(j.model.threads) {
		life := j.model.threads[t]
		s, ok := there[t]
		if !ok {
			if slices.ContainsFunc(life.held, func(h held) bool { return h.must }) {
				j.fail("%s is not there, and must hold %s", t, marks(life.held))
			}
			continue
		}
		if err := j.thread(ctx, cl, life, s); err != nil {
			j.fail("%s cannot be read: %v", t, err)
		}
	}
	return nil
}

// counts holds how many threads the record of a session counts, for quotas, against those that it has.
func (j *judgement) counts(ctx context.Context, cl *client.Client, stored []client.Thread) error {
	has := map[string]int64{}
	for _, t := range stored {
		has[t.Session]++
	}
	for _, session := range slices.Sorted(maps.Keys(has)) {
		info, err := cl.Internal().SessionInfo(ctx, session)
		if err != nil {
			return err
		}
		if info.Threads != has[session] {
			j.fail("the record of %s counts %d threads, and it has %d", session, info.Threads, has[session])
		}
	}
	return nil
}

func sortedThreads[V any](m map[events.Thread]V) []events.Thread {
	return slices.SortedFunc(maps.Keys(m), func(a, b events.Thread) int { return strings.Compare(a.String(), b.String()) })
}

func marks(hs []held) string {
	var out []string
	for _, h := range hs {
		out = append(out, h.mark)
	}
	return strings.Join(out, " ")
}

// thread compares the entries and the items of one.
func (j *judgement) thread(ctx context.Context, cl *client.Client, life *life, s client.Thread) error {
	if ended := s.Head.Status == threads.StatusCompleted; ended != life.ended {
		j.fail("%s is %s; its end was applied: %t", life.thread, s.Head.Status, life.ended)
	}
	var got []string
	for line, err := range cl.Internal().RawEntries(ctx, s.Head) {
		if err != nil {
			return err
		}
		mark := markOf(line.Head)
		if mark == "" {
			continue
		}
		got = append(got, mark)
		if w := j.ledger.byMark[mark]; w != nil && w.body != nil && !bytes.Equal(line.Head, w.body) {
			j.fail("%s: %s was published as %.200q, and comes back as %.200q", life.thread, mark, w.body, line.Head)
		}
	}
	j.same(life, got)
	return j.items(ctx, cl, life, s)
}

// same compares what a thread holds with what it must, and may, hold, in this order.
func (j *judgement) same(life *life, got []string) {
	at := 0
	if life.foreign && len(life.held) > 0 {
		at = max(slices.Index(got, life.held[0].mark), 0)
	}
	for _, h := range life.held {
		switch {
		case at < len(got) && got[at] == h.mark:
			at++
		case h.must:
			j.fail("%s holds %s where it must hold %s: it has %v, and must have %s", life.thread, nth(got, at), h.mark,
				got, marks(life.held))
			return
		}
	}
	if at < len(got) && !(life.foreign && len(life.held) == 0) {
		j.fail("%s holds %s, which it must not: it has %v, and must have %s", life.thread, got[at], got, marks(life.held))
	}
}

func nth(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "nothing"
}

// items holds what subscribers were sent of a thread against what its nodes give.
func (j *judgement) items(ctx context.Context, cl *client.Client, life *life, s client.Thread) error {
	sent, before := map[int64][]byte{}, map[itemHead]bool{} // before: under the names that threads of the session have, or had
	for _, seq := range slices.Sorted(maps.Keys(j.posted)) {
		m := j.posted[seq]
		t, _ := events.ParseItemSubject(m.Subject)
		it := itemOf(m.Data)
		if before[it] = before[it] || t.Session == s.Session; t == s.Thread && lifeOf(m) == s.Head.Life && it.N > 0 {
			sent[it.N] = m.Data
		}
	}
	want, settled := int64(1), map[string]events.Resolution{}
	for posted, err := range cl.Thread(s.Thread).ItemsFrom(ctx, s.Head, 1) {
		if err != nil {
			return fmt.Errorf("items: %w", err)
		}
		if posted.N != want {
			j.fail("%s: its nodes give item %d where %d is due", s.Thread, posted.N, want)
		}
		want = posted.N + 1
		if id, how, is := settles(posted.Data); is {
			if _, twice := settled[id]; twice {
				j.fail("%s: the prompt %s is settled twice, again by item %d: %.200q", s.Thread, id, posted.N, posted.Data)
			}
			settled[id] = how
		} else if id != "" { // it is asked, perhaps again
			delete(settled, id)
		}
		if data, ok := sent[posted.N]; ok && !bytes.Equal(data, posted.Data) && !life.foreign && !life.forked {
			j.fail("%s: item %d was sent as %.120q, and its nodes give %.120q", s.Thread, posted.N, data, posted.Data)
		} else if !ok && !life.forked && !(life.moved && before[itemOf(posted.Data)]) && !j.deadly(life) {
			j.fail("%s: item %d was never sent", s.Thread, posted.N)
		}
	}
	if !life.forked && !life.foreign && !life.moved && !life.ended {
		j.settlements(ctx, cl, s.Thread, settled)
	}
	if want-1 != s.Head.N {
		j.fail("%s: its head counts %d items, and its nodes give %d", s.Thread, s.Head.N, want-1)
	}
	return nil
}

// deadly reports whether so many persisters died over an event of a thread that its items are left out.
func (j *judgement) deadly(l *life) bool {
	for seq, lives := range j.model.tried {
		of, _, err := events.ParseStored(j.events[seq].Subject)
		if len(lives) >= enoughDied && err == nil && (of == l.thread || l.moved && of.Session == l.thread.Session) {
			return true
		}
	}
	return false
}

// settles gives the prompt that an item asks or settles, which of both it does, and how.
func settles(item []byte) (id string, how events.Resolution, is bool) {
	meta := jsonscan.Get(item, "metadata")
	if id, _ = jsonscan.Text(jsonscan.Get(meta, "prompt", "id")); id == "" {
		return "", how, false
	}
	kind, _ := jsonscan.Text(jsonscan.Get(meta, "type"))
	how.By, _ = jsonscan.Text(jsonscan.Get(meta, "resolution", "by"))
	how.At, _ = jsonscan.Int(jsonscan.Get(meta, "resolution", "at"))
	return id, how, kind == events.TypePendingPromptResolved
}

// settlements checks that whoever answers a prompt that is settled is told how, as the thread says it.
func (j *judgement) settlements(ctx context.Context, cl *client.Client, t events.Thread,
	settled map[string]events.Resolution) {
	for _, id := range slices.Sorted(maps.Keys(settled)) {
		r, err := cl.Thread(t).Answer(ctx, events.Answer{Prompt: id, Answer: []byte(`"late"`), By: "judge"})
		if how := settled[id]; !errors.Is(err, client.ErrAnswered) || r.By != how.By || r.At != how.At {
			j.fail("%s: the prompt %s was settled by %q at %d, and is said to be by %q at %d (%v)", t, id, how.By, how.At,
				r.By, r.At, err)
		}
	}
}

// lifeOf says of which of the threads that had its thread's name an item is (SPEC P12).
func lifeOf(m memjs.Msg) (life uint64) {
	_, _ = fmt.Sscan(m.Header(events.HeaderLife), &life)
	return life
}

type itemHead struct {
	N    int64
	Node string
}

func itemOf(data []byte) (h itemHead) {
	h.N, _ = jsonscan.Int(jsonscan.Get(data, "n"))
	h.Node, _ = jsonscan.Text(jsonscan.Get(data, "node"))
	return h
}

// artifacts checks that each that somebody was told is stored is there, with its bytes.
func (j *judgement) artifacts(ctx context.Context, cl *client.Client) error {
	for _, id := range slices.Sorted(maps.Keys(j.ledger.artifacts)) {
		a := j.ledger.artifacts[id]
		if j.deletedSession(a.session) {
			continue
		}
		r, err := cl.Artifacts().Record(ctx, id)
		if err != nil {
			j.fail("artifact %s was stored, and is not there: %v", id, err)
			continue
		}
		body, _, err := cl.Artifacts().Open(ctx, r)
		if err != nil {
			j.fail("artifact %s cannot be opened: %v", id, err)
			continue
		}
		b, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil || string(b) != a.text {
			j.fail("artifact %s holds %q (%v), and was stored as %q", id, b, err, a.text)
		}
	}
	all, err := cl.EverySession().Artifacts(ctx)
	if err != nil {
		return err
	}
	numbers := map[string]artifacts.ID{}
	for _, r := range all {
		key := r.Session + " " + string(r.Seq)
		if other, taken := numbers[key]; taken && r.Seq != "" {
			j.fail("artifacts %s and %s of %s have the same number %s", other, r.ID, r.Session, r.Seq)
		}
		if r.ForkedFrom != "" { // also when its source is gone
			if err := opens(ctx, cl, r); err != nil {
				j.fail("artifact %s, which %s inherited, cannot be read: %v", r.ID, r.Session, err)
			}
		}
		numbers[key] = r.ID
	}
	return nil
}

func opens(ctx context.Context, cl *client.Client, r artifacts.Record) error {
	body, _, err := cl.Artifacts().Open(ctx, r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (j *judgement) deletedSession(s string) bool {
	for id := range j.deletes {
		if id.thread.Session == s {
			return true
		}
	}
	return false
}

// checks has the product look at itself: fsck finds nothing, every event is accounted for, and gc misses nothing.
func (j *judgement) checks(ctx context.Context, conn *natsio.Conn) error {
	every := uint64(24) // it costs as much as many a program
	switch {
	case j.p.wants(Collect, Undelete, Fsck, Crash):
		every = 3
	case j.p.wants(PutArtifact, Output):
		every = 6
	}
	if j.p.Seed%every != 0 {
		return nil
	}
	sys, cfg := natsadmin.Of(conn), fsck.Config{Items: true}
	r, err := fsck.Check(ctx, sys, cfg)
	misnamed := func(f fsck.Finding) bool { return f.Kind == fsck.Misnamed }
	if err == nil && j.ledger.gaveUp && slices.ContainsFunc(r.Findings, misnamed) { // who dies so leaves this to a repair
		if _, err = fsck.Fix(ctx, sys, sys, conn.Store(0), cfg); err == nil {
			r, err = fsck.Check(ctx, sys, cfg)
		}
	}
	if err != nil {
		return fmt.Errorf("fsck: %w", err)
	}
	for _, f := range r.Findings {
		j.fail("fsck: %s", f)
	}
	acc, err := fsck.Account(ctx, sys, client.New(conn).Internal().Source()) // it judges as the model does, by what is stored alone
	if err != nil {
		return fmt.Errorf("fsck --events: %w", err)
	}
	for _, f := range acc.Findings {
		if j.p.EventsBytes > 0 && j.p.countsBadly(f) { // it was trimmed
			continue
		}
		j.fail("fsck --events: %s", f)
	}
	c, err := service.NewCollector(conn, gc.Config{Share: 1}, j.log)
	if err != nil {
		return err
	}
	if _, err := c.Plan(ctx); err != nil {
		j.fail("gc cannot plan: %v", err)
	}
	return nil
}
