package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// site is a server on a directory that stays, with a persister.
type site struct {
	*testing.T
	dir    string
	server atomic.Pointer[embedded.Server] // of now
	conn   *natsio.Conn
	p      *service.Persister
	stop   func()
}

// InProcessConn implements nats.InProcessConnProvider: with the server of now.
func (s *site) InProcessConn() (net.Conn, error) {
	if srv := s.server.Load(); srv != nil {
		return srv.InProcessConn()
	}
	return nil, errors.New("the server is down")
}

// serve starts the server, over which the connection of before goes on.
func (s *site) serve() (stop func()) {
	srv := natstest.ServerIn(s.T, s.dir)
	s.server.Store(srv)
	return func() {
		s.server.Store(nil)
		srv.Stop()
	}
}

func (s *site) start() {
	s.Helper()
	halt := s.serve()
	var err error
	s.conn, err = natsio.Dial(context.Background(), natsio.Config{InProcess: s})
	must.Do(s, err)
	must.Do(s, s.conn.Ensure(s.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	ctx, cancel := context.WithCancel(context.Background())
	p, done := service.NewPersister(s.conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)), make(chan error, 1)
	s.p = p
	go func() { done <- p.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
		s.conn.Close()
		halt()
		s.stop = func() {}
	}
}

func newSite(t *testing.T) *site {
	s := &site{T: t, dir: t.TempDir()}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) must(err error) {
	s.Helper()
	must.Do(s, err)
}

// look takes the marks, as a persister does every few seconds.
func (s *site) look() scrub.Marks {
	s.Helper()
	m := must.Get(scrub.Look(s.Context(), natsadmin.Of(s.conn), natsadmin.Of(s.conn), slog.New(slog.DiscardHandler)))(s)
	return m
}

func (s *site) state(stream string) record.StreamState {
	s.Helper()
	states := must.Get(natsadmin.New(s.conn).StreamStates(s.Context()))(s)
	return states[slices.IndexFunc(states, func(st record.StreamState) bool { return st.Stream == stream })]
}

// cut takes the end off a stream's newest block, while its server is down: what a disk that lied about a sync leaves.
func (s *site) cut(stream string, keep func(size int64) int64) {
	s.Helper()
	newest := s.newest(stream)
	info := must.Get(os.Stat(newest))(s)
	if err := os.Remove(filepath.Join(filepath.Dir(newest), "index.db")); !errors.Is(err, fs.ErrNotExist) { // it knows of what goes
		must.Do(s, err)
	}
	must.Do(s, os.Truncate(newest, keep(info.Size())))
}

func (s *site) newest(stream string) (newest string) {
	s.Helper()
	var at int
	must.Do(s, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, string(filepath.Separator)+stream+string(filepath.Separator)+"msgs"+string(filepath.Separator)) {
			return err
		}
		var n int
		if _, err := fmt.Sscanf(d.Name(), "%d.blk", &n); err == nil && n > at {
			newest, at = path, n
		}
		return nil
	}))
	return newest
}

// A server that is started again may have forgotten commits whose events it knows to be acked: it syncs each stream by itself. What
// they held is applied again before anything that is published since, beside a persister that lives through it too, although no
// mark tells of so little.
func TestForgottenCommits(t *testing.T) {
	for name, lives := range map[string]bool{"the persister lives": true, "the persister starts": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			l := faulttest.NewLedger(faulttest.Workload{Sessions: 4, ThreadsEach: 2, ProducersEach: 2})
			publish := func(n int) {
				t.Helper()
				must.Do(s, l.Publish(t.Context(), client.New(s.conn), n))
				must.Do(s, faulttest.Settle(t.Context(), s.conn))
			}
			publish(20)
			s.look()
			info := must.Get(os.Stat(s.newest(events.RecordsStream)))(s)
			marked := info.Size()
			publish(60)
			forget := func() { s.cut(events.RecordsStream, func(size int64) int64 { return marked + (size-marked)/3 }) }
			if lives {
				s.server.Load().Stop()
				forget()
				t.Cleanup(s.serve())
			} else {
				s.stop()
				forget()
				s.start()
			}
			publish(20)
			if err := l.Check(t.Context(), s.conn); err != nil {
				t.Error(err)
			}
			for _, r := range s.look().Open() {
				t.Logf("a mark tells of it, too: %s", r)
			}
		})
	}
}

func (s *site) alarms(kind string) (out []scrub.Alarm) {
	s.Helper()
	all := must.Get(scrub.Alarms(s.Context(), natsadmin.Of(s.conn)))(s)
	for _, a := range all {
		if a.Kind == kind {
			out = append(out, a)
		}
	}
	return out
}

// A stream whose newest block lost its end is noticed at the next start. What threads lost with it is applied again, and
// nothing that is acked afterwards is taken for what had its sequence before.
func TestRewound(t *testing.T) {
	for _, stream := range []string{events.RecordsStream, events.EventsStream} {
		t.Run(stream, func(t *testing.T) {
			s := newSite(t)
			l := faulttest.NewLedger(faulttest.Workload{Sessions: 4, ThreadsEach: 2, ProducersEach: 2})
			must.Do(s, l.Publish(t.Context(), client.New(s.conn), 60))
			must.Do(s, faulttest.Settle(t.Context(), s.conn))
			s.look()
			was := s.state(stream)
			s.stop()
			s.cut(stream, func(size int64) int64 { return size * 2 / 3 })

			s.start()
			if marks, err := scrub.ReadMarks(t.Context(), natsadmin.Of(s.conn)); err != nil || marks.Streams[stream].Last == 0 {
				t.Fatalf("marks = %+v, %v", marks, err)
			}
			must.Do(s, l.Publish(t.Context(), client.New(s.conn), 20))
			must.Do(s, faulttest.Settle(t.Context(), s.conn))
			marks := s.look()
			// the marks themselves are a record
			if open := marks.Open(); len(open) != 1 || open[0].Stream != stream || open[0].Was.Last+1 < was.Last ||
				open[0].Now >= was.Last || open[0].Anew {
				t.Fatalf("rewinds = %+v, want one of %s, which was at %d", open, stream, was.Last)
			}
			if len(s.alarms(scrub.AlarmRewind)) != 1 {
				t.Error("there is no alarm")
			}
			if err := l.Check(t.Context(), s.conn); err != nil {
				t.Error(err)
			}
			rep := must.Get(fsck.Check(t.Context(), natsadmin.Of(s.conn), fsck.Config{}))(s)
			for _, f := range rep.Findings {
				t.Errorf("finding: %s", f)
			}
			must.Do(s, scrub.Cleared(t.Context(), natsadmin.Of(s.conn), false))
			if all, err := scrub.Alarms(t.Context(), natsadmin.Of(s.conn)); err != nil || len(all) != 0 {
				t.Errorf("after a clean fsck: alarms %+v, %v", all, err)
			}
		})
	}
}

// What comes again at a start of the server, because it was not in the last marks, changes nothing: nothing that was removed is there
// again, nothing is there twice.
func TestAStartChangesNothing(t *testing.T) {
	s := newSite(t)
	cl := client.New(s.conn)
	id := func(session, name string) events.Thread { return events.Thread{Session: session, Name: name} }
	seq := uint64(0)
	say := func(to events.Thread) {
		t.Helper()
		seq++
		pub := cl.Publisher(client.PublisherConfig{Producer: "p"})
		body := fmt.Appendf(nil, `{"id":"e%d","role":"user","content":"x"}`, seq)
		must.Do(s, must.Get(pub.Publish(t.Context(), client.Entry{Thread: to, Dialect: "step", Body: body, Seq: seq}))(s).Applied(t.Context()))
	}
	s.look()
	for _, to := range []events.Thread{id("a", "main"), id("a", "main"), id("a", "old"), id("a", "removed"), id("a", "ended"),
		id("gone", "main"), id("back", "main")} {
		say(to)
	}
	must.Do(s, cl.Thread(id("a", "fork")).Fork(t.Context(), events.Fork{Session: "a", Thread: "main"}))
	must.Do(s, cl.Thread(id("a", "old")).Rename(t.Context(), "new"))
	must.Do(s, cl.Thread(id("a", "removed")).Remove(t.Context(), client.Force(true)))
	must.Do(s, cl.Thread(id("a", "ended")).End(t.Context(), events.End{}))
	for _, session := range []string{"gone", "back"} {
		must.Get(cl.Session(session).Delete(t.Context(), client.Deletion{Force: true}))(s)
	}
	say(id("back", "main"))
	_, err := s.conn.JetStream().Publish(t.Context(), events.EventSubject(id("a", "main"), events.KindEntry), []byte("poison"))
	must.Do(s, err)
	say(id("a", "fork"))
	must.Do(s, faulttest.Settle(t.Context(), s.conn))

	picture := func() string {
		t.Helper()
		var b strings.Builder
		all := must.Get(cl.EverySession().Threads(t.Context()))(s)
		for _, one := range all {
			fmt.Fprintf(&b, "%s %s: %d entries, %d items\n", one.Thread, one.Head.Status, one.Head.Entries, one.Head.N)
		}
		letters := must.Get(cl.EverySession().DeadLetters(t.Context()))(s)
		items := s.state(events.ItemsStream)
		fmt.Fprintf(&b, "%d dead letters, %d items in %s", len(letters), items.Messages, events.ItemsStream)
		return b.String()
	}
	before := picture()
	for range 2 {
		repeated := s.p.Stats().Repeated
		s.server.Load().Stop()
		t.Cleanup(s.serve())
		must.Eventually(s, "the connection is made again", func() error { return s.conn.Verify(t.Context()) })
		say(id("other", "main"))
		must.Do(s, faulttest.Settle(t.Context(), s.conn))
		if s.p.Stats().Repeated == repeated {
			t.Error("nothing came again: nothing is tried here")
		}
		must.Do(s, cl.Thread(id("other", "main")).Remove(t.Context(), client.Force(true)))
		if now := picture(); !strings.HasPrefix(now, before[:strings.LastIndex(before, ", ")]) {
			t.Errorf("before the server was started again:\n%s\nsince:\n%s", before, now)
		}
	}
	rep := must.Get(fsck.Check(t.Context(), natsadmin.Of(s.conn), fsck.Config{}))(s)
	for _, f := range rep.Findings {
		t.Errorf("fsck: %s", f)
	}
}

// A thread that had more producers than its head remembers takes what comes under sequences that EVENTS gives out again.
func TestReusedSequences(t *testing.T) {
	s := newSite(t)
	id := events.Thread{Session: "crowd", Name: "main"}
	publish := func(i int) {
		t.Helper()
		body := fmt.Appendf(nil, `{"id":"e%d","role":"user","content":"x"}`, i)
		e := events.Event{Thread: id, Producer: fmt.Sprintf("p%d", i), Seq: 1, Kind: events.KindEntry, Dialect: "step", Body: body}
		must.Do(s, s.conn.Events().PublishEvents(t.Context(), []*events.Event{&e}))
	}
	const crowd = threads.MaxProducers + 10
	for i := range crowd {
		publish(i)
	}
	must.Do(s, faulttest.Settle(t.Context(), s.conn))
	s.look()
	s.stop()
	s.cut(events.EventsStream, func(size int64) int64 { return size / 2 })
	s.start()
	publish(crowd)
	cl := client.New(s.conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// What the server counts as pending is not to be trusted right after it found its consumers to be ahead of their stream.
	must.Do(s, cl.Thread(id).Await(ctx, fmt.Sprintf("p%d", crowd), 0, 1))
	head := must.Get(cl.Thread(id).Head(ctx))(s)
	if st := s.state(events.EventsStream); st.Last >= head.Applied && st.Last > crowd {
		t.Fatalf("EVENTS is at %d: it did not go back", st.Last)
	}
	must.Same(t, head.Entries, crowd+1, "the thread has %d entries, want %d")
}

// Packs that a disk lost, while the heads that stand on them survived, are found at the next start, before anybody asks. What is
// published meanwhile is kept, and a repair makes again what was lost, from the events: under the same hashes, behind what came since.
func TestPacksLost(t *testing.T) {
	third := func(file []byte) int { return len(file) * 2 / 3 }
	t.Run("repaired behind what came since", func(t *testing.T) { packsLost(t, true, third) })
	t.Run("repaired before anything comes", func(t *testing.T) { packsLost(t, false, third) })
	t.Run("the last pack there is keeps its bytes and loses its name", func(t *testing.T) {
		packsLost(t, true, func(file []byte) int { return bytes.Index(file, []byte("$O."+events.NodesBucket+".M.")) })
	})
}

func packsLost(t *testing.T, before bool, keep func(file []byte) int) {
	s := newSite(t)
	l := faulttest.NewLedger(faulttest.Workload{Sessions: 3, ThreadsEach: 2})
	for range 2 {
		must.Do(s, l.Publish(t.Context(), client.New(s.conn), 30))
		must.Do(s, faulttest.Settle(t.Context(), s.conn))
	}
	s.look()
	s.stop()
	packs := events.ObjectStream(events.NodesBucket)
	file := must.Get(os.ReadFile(s.newest(packs)))(s)
	s.cut(packs, func(int64) int64 { return int64(keep(file)) })
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(s.alarms(scrub.AlarmHeads)) == 0 {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("heads that do not resolve are not found")
		}
	}
	if len(s.alarms(scrub.AlarmRewind)) != 1 {
		t.Error("that the bucket went back is not told")
	}
	more := func() {
		must.Do(s, l.Publish(ctx, client.New(s.conn), 20))
		must.Do(s, faulttest.Settle(ctx, s.conn))
	}
	if before {
		more()
	}
	repair := func() *fsck.Report {
		t.Helper()
		rep := must.Get(fsck.Fix(ctx, natsadmin.Of(s.conn), natsadmin.Of(s.conn), s.conn.Store(0), fsck.Config{}))(s)
		return rep
	}
	rep := repair()
	if len(rep.Repairs) == 0 {
		t.Fatalf("nothing is repaired of %v", rep.Findings)
	}
	for _, r := range rep.Repairs {
		if r.To == "" && r.Name == "" {
			t.Errorf("not repaired: %+v", r)
		}
	}
	must.Do(s, faulttest.Settle(ctx, s.conn))
	if !before {
		more()
	}
	if err := l.Check(ctx, s.conn); err != nil {
		t.Error(err)
	}
	must.Do(s, scrub.Cleared(ctx, natsadmin.Of(s.conn), false))
	if all, err := scrub.Alarms(ctx, natsadmin.Of(s.conn)); err != nil || len(all) != 0 {
		t.Errorf("after a clean fsck: alarms %+v, %v", all, err)
	}
}
