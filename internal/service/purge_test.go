package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/retention"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// purged is a site whose streams somebody empties or deletes with other tools.
type purged struct {
	*site
	seq   uint64
	acked map[string][]string // by session, in order
}

func newPurged(t *testing.T) *purged {
	p := &purged{site: newSite(t), acked: map[string][]string{}}
	for _, session := range []string{"s1", "s2", "s3"} {
		for range 4 {
			p.say(session)
		}
	}
	picture := `{"type":"message","id":"i","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":"` +
		strings.Repeat("ABCD", 512) + `"}]}}`
	p.publish("s2", "omp", picture)
	must.Get(client.New(p.conn).Artifacts().Put(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s1",
		Filename: "f.txt"}},
		strings.NewReader("an artifact")))(p)
	must.Get(p.conn.JetStream().Publish(t.Context(), events.EventSubject(events.Thread{Session: "s3", Name: "main"},
		events.KindEntry), []byte("poison")))(p)
	must.Do(p, faulttest.Settle(t.Context(), p.conn))
	must.Get(p.collect())(p)
	p.look()
	p.look() // a mark tells of a record that was there before it
	return p
}

func (p *purged) publish(session, dialect, body string) {
	p.Helper()
	p.seq++
	to := events.Thread{Session: session, Name: "main"}
	pub := client.New(p.conn).Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(p.Context(), client.Entry{Thread: to, Dialect: dialect, Body: []byte(body), Seq: p.seq}))(p)
	p.acked[session] = append(p.acked[session], body)
}

func (p *purged) say(session string) {
	p.Helper()
	p.publish(session, "step", fmt.Sprintf(`{"id":"e%d","role":"user","content":"entry %d"}`, p.seq, p.seq))
}

// collect runs a cycle of gc as spool up does, and tells how many objects of the nodes are left.
func (p *purged) collect(allow ...gc.Brake) (objects uint64, err error) {
	p.Helper()
	cfg := gc.Safe()
	cfg.Allow = allow
	c, err := service.NewCollector(p.conn, cfg, slog.New(slog.DiscardHandler))
	must.Do(p, err)
	_, _, err = service.Collect(p.Context(), p.conn, c, true)
	return p.state(events.ObjectStream(events.NodesBucket)).Messages, err
}

// collectTwice is collect where records were lost and made again: what is twice there may be more of a small store than gc
// removes unasked, by how the entries fell into packs; then a person has to say so.
func (p *purged) collectTwice() (objects uint64) {
	p.Helper()
	if _, err := p.collect(); err != nil {
		must.Is(p, err, gc.ErrBrake, "gc after the records were lost")
	}
	return must.Get(p.collect(gc.BrakeShare))(p)
}

// missing are the entries that were acked and that no thread gives.
func (p *purged) missing() (out []string) {
	p.Helper()
	cl := client.New(p.conn)
	for session, want := range p.acked {
		var b strings.Builder
		if _, err := cl.Thread(events.Thread{Session: session, Name: "main"}).Export(p.Context(), &b); err != nil {
			p.Logf("export %s: %v", session, err)
		}
		at := 0
		for _, body := range want {
			i := strings.Index(b.String()[at:], strings.TrimSpace(body))
			if i < 0 {
				out = append(out, session+": "+body[:min(len(body), 60)])
				continue
			}
			at += i
		}
	}
	slices.Sort(out)
	return out
}

// repair runs fsck --repair until nothing is found, at most four times, and returns what it said.
func (p *purged) repair() (said []string, clean bool) { return p.repairWith(fsck.Config{}) }

func (p *purged) repairWith(cfg fsck.Config) (said []string, clean bool) {
	p.Helper()
	for range 4 {
		rep := must.Get(service.Fsck(p.Context(), p.conn, cfg, true))(p)
		for _, f := range rep.Findings {
			said = append(said, f.String())
		}
		for _, r := range rep.Repairs {
			said = append(said, r.Record+": "+r.Detail)
		}
		must.Do(p, faulttest.Settle(p.Context(), p.conn))
		if len(rep.Findings) == 0 {
			return said, true
		}
	}
	return said, false
}

func (p *purged) empty(stream string, opts ...jetstream.StreamPurgeOpt) {
	p.Helper()
	s := must.Get(p.conn.JetStream().Stream(p.Context(), stream))(p)
	must.Do(p, s.Purge(p.Context(), opts...))
}

// refused wants gc, retention and erasures to delete nothing, and somebody to say so.
func (p *purged) refused(stream string) {
	p.Helper()
	before := p.state(events.ObjectStream(events.NodesBucket)).Messages
	if left, err := p.collect(); err == nil || left < before { // a persister may add some
		p.Errorf("a cycle of gc = %v, and left %d of %d messages of packs; want it refused", err, left, before)
	}
	r := service.Retention{Conn: p.conn, Policies: []retention.Policy{{Name: "all", KeepLast: 1}},
		Log: slog.New(slog.DiscardHandler)}
	if rep, err := r.Apply(p.Context()); err == nil || len(rep.Removed) > 0 {
		p.Errorf("retention = %v, removed %v, want it refused", err, rep.Removed)
	}
	e := service.Erasure{Conn: p.conn, How: client.Deletion{By: "test"}, Log: slog.New(slog.DiscardHandler)}
	if out, err := e.Run(p.Context(), "s3"); err == nil || len(out) > 0 {
		p.Errorf("an erasure = %v, %v, want it refused", out, err)
	}
	all := must.Get(scrub.Alarms(p.Context(), natsadmin.Of(p.conn)))(p)
	if !slices.ContainsFunc(all, func(a scrub.Alarm) bool { return strings.Contains(a.Detail, stream) && a.Do != "" }) {
		p.Errorf("alarms = %+v, want one that names %s", all, stream)
	}
}

// What nats stream purge does to each stream: it is told, nothing is deleted while that stands, a repair brings back
// what is promised, and what it cannot bring back it says.
func TestPurged(t *testing.T) {
	for purged, c := range map[string]struct {
		lost  string // what no repair brings back: a part of each entry that is missing afterwards
		says  string // what the repair says, or the alarm
		alarm bool
		ready bool // /readyz goes on
	}{
		events.RecordsStream:                         {alarm: true, says: "applied again"},
		events.RecordsStream + " " + events.GCStream: {alarm: true, says: "applied again"}, // and so both copies of the marks
		events.EventsStream:                          {alarm: true, says: "published again"},
		events.ItemsStream:                           {alarm: true, ready: true, says: "readers of threads"},
		events.DeadStream:                            {alarm: true, ready: true, says: "dead letters are lost"},
		events.GCStream:                              {alarm: true, ready: true, says: "reports"},
		events.ObjectStream(events.NodesBucket):      {alarm: true, says: "again"},
		events.ObjectStream(events.BlobsBucket):      {alarm: true, says: "1 blobs were made again"},
		events.ObjectStream(events.ArtifactsBucket):  {alarm: true, says: "artifact"},
		events.ObjectStream(events.InboxBucket):      {ready: true},
	} {
		t.Run(purged, func(t *testing.T) {
			t.Parallel()
			p := newPurged(t)
			for one := range strings.FieldsSeq(purged) {
				p.empty(one)
			}
			stream, _, _ := strings.Cut(purged, " ")
			if c.alarm {
				p.refused(stream) // before anybody has taken marks
			}
			marks := p.look()
			ready := scrub.NotReady(t.Context(), p.conn.Records())
			if (ready == nil) != c.ready {
				t.Errorf("readyz: %v, want ready: %v", ready, c.ready)
			}
			if open := marks.Open(); c.alarm && (len(open) != 1 || open[0].Stream != stream) {
				t.Errorf("open = %v, want %s", open, stream)
			}
			said := fmt.Sprint(marks.Open(), func() (all []string) {
				for _, r := range marks.Open() {
					all = append(all, r.Done)
				}
				return all
			}())
			if c.alarm {
				p.refused(stream)
			}
			p.say("s1")
			must.Do(p, faulttest.Settle(t.Context(), p.conn))
			repairs, clean := p.repair()
			must.Do(p, scrub.Repaired(t.Context(), natsadmin.Of(p.conn)))
			must.Do(p, scrub.NotReady(t.Context(), p.conn.Records())) // whatever is lost for good
			said += strings.Join(repairs, "\n")
			t.Logf("clean: %v\n%s", clean, said)
			if !strings.Contains(said, c.says) {
				t.Errorf("it says %s, want %q", said, c.says)
			}
			for _, one := range p.missing() {
				if c.lost == "" || !strings.Contains(one, c.lost) {
					t.Errorf("missing: %s", one)
				} else if clean {
					t.Errorf("fsck finds nothing, and %s is missing", one)
				}
			}
			if clean {
				if stream == events.RecordsStream { // a person has to say that what is twice there may go, if it is much of a small store
					if marks := must.Get(scrub.ReadMarks(t.Context(), natsadmin.Of(p.conn)))(t); !marks.Unsure() {
						t.Error("gc trusts records that were made again")
					}
					p.collectTwice()
				}
				if left, err := p.collect(); err != nil || left == 0 {
					t.Errorf("gc after a clean fsck = %v, %d messages of packs", err, left)
				}
			}
		})
	}
}

// A store that has forgotten its events and items, as one that was restored has, and whose heads alone are purged: marks
// see no stream that is empty, but gc counts the records, and no fsck is clean before each thread has a name again. What
// is removed then goes, and nothing else.
func TestPurgedHeads(t *testing.T) {
	p := newPurged(t)
	p.empty(events.EventsStream)
	p.empty(events.ItemsStream)
	if said, clean := p.repair(); !clean {
		t.Fatalf("fsck is not clean: %v", said)
	}
	must.Get(p.collect())(t) // it counts the records
	p.empty(events.RecordsStream, jetstream.WithPurgeSubject("$KV.spool."+events.HeadKey(events.Thread{Session: "*", Name: "*"})))
	must.Do(t, faulttest.Settle(t.Context(), p.conn))
	for _, repair := range []bool{false, true} {
		if left, err := p.collect(); err == nil || left == 0 {
			t.Errorf("a cycle of gc = %v, and left %d messages of packs; want it refused", err, left)
		}
		if rep := must.Get(service.Fsck(t.Context(), p.conn, fsck.Config{}, repair))(t); len(rep.Findings) != len(p.acked) {
			t.Errorf("findings = %v, want one of each of %d threads", rep.Findings, len(p.acked))
		}
	}
	if said, clean := p.repair(); !clean {
		t.Errorf("fsck is not clean in the end: %v", said)
	}
	cl := client.New(p.conn)
	heads := must.Get(p.conn.Records().List(t.Context(), "thread.>"))(t)
	for _, h := range heads {
		th, _ := events.ParseHeadKey(h.Key)
		var b strings.Builder
		must.Get(cl.Thread(th).Export(t.Context(), &b))(t)
		for session, all := range p.acked {
			if strings.Contains(b.String(), strings.TrimSpace(all[0])) {
				p.acked[th.Session] = all
				delete(p.acked, session)
				break
			}
		}
	}
	if missing := p.missing(); len(missing) > 0 || len(heads) != len(p.acked) {
		t.Errorf("%d threads, missing: %v", len(heads), missing)
	}
	must.Get(p.collect())(t)
	for session := range p.acked {
		must.Get(cl.Session(session).Delete(t.Context(), client.Deletion{Force: true}))(t)
		delete(p.acked, session)
		if len(p.acked) == 1 {
			break
		}
	}
	must.Get(p.collect(gc.BrakeShare))(t)
	must.Get(p.collect())(t)
	if said, clean := p.repair(); !clean || len(p.missing()) > 0 {
		t.Errorf("in the end: %v, missing %v", said, p.missing())
	}
}

// A store whose records are purged has forgotten the oldest events before: no replay can make it again. Its packs are
// found by what they hold, its threads by their items, and a thread to which something came in between is put behind
// what it had.
func TestPurgedRecordsOfTrimmedEvents(t *testing.T) {
	p := newPurged(t)
	p.empty(events.EventsStream, jetstream.WithPurgeSequence(3)) // as trimming does: entries of s1
	p.empty(events.RecordsStream)
	p.say("s1")
	p.say("s2")
	must.Do(p, faulttest.Settle(t.Context(), p.conn))
	p.look()
	p.refused(events.RecordsStream)
	if len(p.missing()) == 0 {
		t.Fatal("nothing is missing: nothing is tried here")
	}
	said, clean := p.repair()
	t.Log(strings.Join(said, "\n"))
	if !clean {
		t.Error("fsck is not clean in the end")
	}
	for _, one := range p.missing() {
		t.Errorf("missing: %s", one)
	}
	if left := p.collectTwice(); left == 0 {
		t.Error("gc after a clean fsck left no pack")
	}
	p.say("s1")
	must.Do(p, faulttest.Settle(t.Context(), p.conn))
	if missing := p.missing(); len(missing) > 0 {
		t.Errorf("then missing: %v", missing)
	}
}

// A small store gets the room of what is removed, whatever share of it that is.
func TestSmallStoreIsCollected(t *testing.T) {
	p := newPurged(t)
	for _, session := range []string{"s1", "s2"} {
		must.Get(client.New(p.conn).Session(session).Delete(t.Context(), client.Deletion{Force: true}))(p)
		delete(p.acked, session)
	}
	r := must.Get(p.collectAny())(p)
	p.look()
	if all, err := scrub.Alarms(t.Context(), natsadmin.Of(p.conn)); err != nil || len(all) > 0 || r.Done.Reclaimed == 0 {
		t.Errorf("alarms %v, %v; %+v, want objects reclaimed", all, err, r.Done)
	}
	if missing := p.missing(); len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
}

// What nats stream rm does to each stream: gc refuses, and a start makes again what is derived, and nothing else.
func TestStreamRemoved(t *testing.T) {
	derived := []string{events.ItemsStream, events.GCStream, events.DeadStream}
	for _, cfg := range natsio.Topology(natsio.Limits{EventsBytes: 1, ItemsBytes: 1}) {
		t.Run(cfg.Name, func(t *testing.T) {
			t.Parallel()
			p := newPurged(t)
			must.Do(p, p.conn.JetStream().DeleteStream(t.Context(), cfg.Name))
			must.Get(service.NewCollector(p.conn, gc.Safe(), nil))(t)
			if _, err := p.collectAny(); err == nil {
				t.Error("a cycle of gc ended well")
			}
			err := p.conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28})
			if !slices.Contains(derived, cfg.Name) {
				must.Is(t, err, natsio.ErrGone, "a start")
				return
			}
			must.Do(p, err)
			marks := p.look()
			if open := marks.Open(); len(open) != 1 || open[0].Stream != cfg.Name {
				t.Errorf("open = %v, want %s", open, cfg.Name)
			}
			p.refused(cfg.Name)
			p.say("s1")
			must.Do(p, faulttest.Settle(t.Context(), p.conn))
			if said, clean := p.repair(); !clean {
				t.Errorf("fsck is not clean: %v", said)
			}
			if missing := p.missing(); len(missing) > 0 {
				t.Errorf("missing: %v", missing)
			}
		})
	}
}

// collectAny is collect where a stream may be gone.
func (p *purged) collectAny() (gc.Report, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	c := must.Get(service.NewCollector(p.conn, gc.Safe(), slog.New(slog.DiscardHandler)))(p)
	_, r, err := service.Collect(ctx, p.conn, c, true)
	return r, err
}
