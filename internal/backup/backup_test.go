package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/backup"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/internal/service"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// system is a server with a persister.
type system struct {
	conn *natsio.Conn
	*client.Client
}

func work(t *testing.T, conn *natsio.Conn) *system {
	t.Helper()
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1, BatchEvents: 20}}, nil).Run)
	return &system{conn, client.New(conn)}
}

func thread(i int) events.Thread { return events.Thread{Session: fmt.Sprintf("s%d", i), Name: "main"} }

func line(n int) []byte {
	text := fmt.Sprintf("line %d", n)
	if n%50 == 49 { // its text is a blob: it is cut
		text += strings.Repeat(" and so on", 60_000)
	}
	return fmt.Appendf(nil, `{"type":"message","id":"e%d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":%q}}`, n, text)
}

func (s *system) export(t *testing.T, th events.Thread) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := s.Thread(th).Export(t.Context(), &out); err != nil {
		t.Fatalf("Export(%s) = %v", th, err)
	}
	return out.Bytes()
}

func (s *system) await(t *testing.T, th events.Thread, producer string, seq uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, s.Thread(th).Await(ctx, producer, 0, seq))
}

// A backup that is taken while writers go on, restored elsewhere, holds every entry that was acknowledged before it began, in
// order; what was published again adds nothing; and the whole of it is sound.
func TestBackupUnderLoad(t *testing.T) {
	src := work(t, natstest.Conn(t))
	ctx := t.Context()
	const writers = 4
	acked := make([]int, writers) // entries that were acknowledged before the backup began
	go1 := make(chan struct{})
	stop := make(chan struct{})
	totals := make(chan [2]int, writers)
	begun := make(chan struct{}, writers)
	for w := range writers {
		go func() {
			pub := src.Publisher(client.PublisherConfig{Producer: fmt.Sprint("w", w)})
			n := 0
			for {
				if n == 120 {
					begun <- struct{}{}
					<-go1
				}
				select {
				case <-stop:
					totals <- [2]int{w, n}
					return
				default:
				}
				if _, err := pub.Publish(ctx, client.Entry{Thread: thread(w), Dialect: "omp", Body: line(n), Seq: uint64(n + 1)}); err != nil {
					t.Error(err)
					totals <- [2]int{w, n}
					return
				}
				n++
			}
		}()
	}
	for range writers {
		<-begun
	}
	for w := range writers {
		acked[w] = 120
	}
	report := strings.Repeat("42 tests passed\n", 100_000)
	put, err := src.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "s0"}, Tool: "make"}, strings.NewReader(report))
	must.Do(t, err)
	poison := events.Thread{Session: "s0", Name: "bad"}
	bad := src.Publisher(client.PublisherConfig{Producer: "bad"})
	must.Get(bad.Publish(ctx, client.Entry{Thread: poison, Dialect: "cobol", Body: []byte("1"), Seq: 1},
		client.Entry{Thread: poison, Dialect: "omp", Body: line(0), Seq: 2}))(t)
	src.await(t, poison, "bad", 2)
	large := bytes.Repeat([]byte(`{"type":"custom","data":1}       `), 60_000) // a body that waits in the inbox until it is applied
	large = append([]byte(`{"type":"custom","text":"`), append(bytes.Repeat([]byte("x"), len(large)), `"}`...)...)
	must.Get(bad.Publish(ctx, client.Entry{Thread: poison, Dialect: "omp", Body: large, Seq: 3}))(t)

	open, printed := openOutput(t, src)

	over := events.Thread{Session: "s0", Name: "over"} // its head is in the history
	must.Get(bad.Publish(ctx, client.Entry{Thread: over, Dialect: "omp", Body: line(0), Seq: 4}))(t)
	src.await(t, over, "bad", 4)
	must.Do(t, src.Thread(over).End(ctx, events.End{Summary: "done"}))

	close(go1)
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(ctx, src.conn, repo, nil))(t)
	close(stop)
	total := make([]int, writers)
	for range writers {
		n := <-totals
		total[n[0]] = n[1]
	}
	must.Do(t, backup.Verify(ctx, repo, m, nil))
	again, err := backup.Create(ctx, src.conn, repo, nil)
	if err != nil || again.NewObjects >= again.Objects || again.Objects < m.Objects-m.Events {
		t.Errorf("a second backup copied %d of %d objects anew, %v", again.NewObjects, again.Objects, err)
	}

	empty := natstest.Dial(t, natstest.Server(t))
	must.Do(t, backup.Restore(ctx, empty, repo, m, natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}, nil))
	dst := work(t, empty)
	for w := range writers {
		dst.await(t, thread(w), fmt.Sprint("w", w), uint64(acked[w]))
	}
	dst.await(t, poison, "bad", 3)
	for w := range writers {
		src.await(t, thread(w), fmt.Sprint("w", w), uint64(total[w]))
		got, want := dst.export(t, thread(w)), src.export(t, thread(w))
		if !bytes.HasPrefix(want, got) || bytes.Count(got, []byte("\n")) < acked[w] {
			t.Errorf("%s: %d lines, want the beginning of %d with %d at least", thread(w), bytes.Count(got, []byte("\n")), total[w], acked[w])
		}
	}
	for _, th := range []events.Thread{poison, over} {
		if got, want := dst.export(t, th), src.export(t, th); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", th, len(got), len(want))
		}
	}
	if dead, err := dst.EverySession().DeadLetters(ctx); err != nil || len(dead) != 1 || dead[0].Thread != poison {
		t.Errorf("dead letters = %+v, %v", dead, err)
	}
	endOutput(t, dst, open, printed)
	r, _ := must.Two(dst.Artifacts().Open(ctx, put))(t)
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(text) != report {
		t.Errorf("artifact of %d bytes, %v, want %d", len(text), err, len(report))
	}

	// What the writers publish again, because they do not know what the restored system has, is added once.
	for w := range writers {
		pub := dst.Publisher(client.PublisherConfig{Producer: fmt.Sprint("w", w)})
		for n := range total[w] {
			must.Get(pub.Publish(ctx, client.Entry{Thread: thread(w), Dialect: "omp", Body: line(n), Seq: uint64(n + 1)}))(t)
		}
		dst.await(t, thread(w), fmt.Sprint("w", w), uint64(total[w]))
		if got, want := dst.export(t, thread(w)), src.export(t, thread(w)); !bytes.Equal(got, want) {
			t.Errorf("%s: after publishing all again %d bytes, want %d", thread(w), len(got), len(want))
		}
	}
	checkSound(t, empty)
}

// openOutput leaves an output open that has printed more than some parts of its artifact.
func openOutput(t *testing.T, s *system) (th events.Thread, printed string) {
	t.Helper()
	th = events.Thread{Session: "s0", Name: "printing"}
	out := must.Get(s.Thread(th).Output(t.Context(), client.OutputConfig{ID: "o1", Tool: "make", Input: []byte(`{}`)}))(t)
	for n := range 40_000 {
		printed += fmt.Sprintf("line %d of many\n", n)
	}
	must.Get(io.WriteString(out, printed))(t)
	t.Cleanup(func() { _ = out.Close(client.OutputEnd{}) }) // of no interest any more
	must.Until(t, "the output is applied", func() bool { return s.output(t).Total >= int64(len(printed)) })
	return th, printed
}

// output is the record of the output that is open.
func (s *system) output(t *testing.T) record.Output {
	t.Helper()
	rs := must.Get(s.conn.Records().List(t.Context(), events.OutputKeys("s0")))(t)
	if len(rs) == 0 {
		return record.Output{}
	}
	return must.Get(record.DecodeOutput(rs[0].Value))(t)
}

// endOutput goes on with an output where a backup found it: one more line, and its end.
func endOutput(t *testing.T, s *system, th events.Thread, printed string) {
	t.Helper()
	ctx := t.Context()
	o := s.output(t)
	var evs []*events.Event
	for i, c := range []events.Chunk{
		{Op: events.ChunkData, Output: o.ID, Seq: o.Seq + 1, Attempt: o.Start.Attempt, Stream: events.Stdout, Data: []byte("the last line\n")},
		{Op: events.ChunkEnd, Output: o.ID, Seq: o.Seq + 2, Attempt: o.Start.Attempt},
	} {
		evs = append(evs, &events.Event{Producer: "another", Seq: uint64(i + 1), Kind: events.KindChunk, Thread: th, Body: c.Encode()})
	}
	must.Do(t, s.conn.Events().PublishEvents(ctx, evs))
	s.await(t, th, "another", 2)
	rows := must.Get(s.Session("s0").Artifacts(ctx))(t)
	for _, row := range rows {
		if row.Size != int64(len(printed)+len("the last line\n")) {
			continue
		}
		r, _ := must.Two(s.Artifacts().Open(ctx, row))(t)
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(got) != printed+"the last line\n" {
			t.Errorf("the artifact of the output: %d bytes, %v", len(got), err)
		}
		return
	}
	t.Errorf("no artifact of %d bytes among %+v", len(printed), rows)
}

func checkSound(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	report, err := fsck.Check(t.Context(), natsadmin.Of(conn), fsck.Config{})
	if err != nil || len(report.Findings) != 0 {
		t.Errorf("fsck = %+v, %v", report, err)
	}
}

// checkHalf holds a store of which a restore made a part against what nobody may do to it.
func checkHalf(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	_, fences := conn.Records().Fences(t.Context())
	_, write := conn.Records().Write(t.Context(), record.Put{Key: events.RetentionKey, Value: []byte("x"), Expect: record.Any})
	for what, err := range map[string]error{
		"a persister starts": conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}),
		"gc begins a cycle":  fences, "a tool writes a record": write, "it is ready": conn.Verify(t.Context()),
	} {
		if !errors.Is(err, natsio.ErrTopology) || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("half of a restore, %s: %v, want a refusal that says so", what, err)
		}
	}
}

// Of two restores at a time into one system one is refused, and the other one is whole.
func TestRestoreTwice(t *testing.T) {
	src := work(t, natstest.Conn(t))
	pub := src.Publisher(client.PublisherConfig{Producer: "p"})
	for n := range 20 {
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: line(n), Seq: uint64(n + 1)}))(t)
	}
	src.await(t, thread(0), "p", 20)
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(t.Context(), src.conn, repo, nil))(t)
	into := natstest.Server(t)
	ended := make(chan error, 2)
	for range 2 {
		conn := natstest.Dial(t, into)
		go func() {
			ended <- backup.Restore(t.Context(), conn, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil)
		}()
	}
	one, other := <-ended, <-ended
	if one != nil {
		one, other = other, one
	}
	if one != nil || !errors.Is(other, backup.ErrNotEmpty) {
		t.Fatalf("two restores = %v, %v, want one that ends, and %v", one, other, backup.ErrNotEmpty)
	}
	conn := natstest.Dial(t, into)
	must.Is(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}), nil, "Ensure behind a restore")
	checkSound(t, conn)
}

// A record of a class that this version does not know is left out and named, and the snapshot is whole without it; one that was removed
// is as none.
func TestUnknownClass(t *testing.T) {
	src := work(t, natstest.Conn(t))
	put := func(value []byte) {
		must.Get(src.conn.Records().Write(t.Context(), record.Put{Key: "future.x", Value: value, Expect: record.Any}))(t)
	}
	must.Get(src.Publisher(client.PublisherConfig{Producer: "p"}).Publish(t.Context(), client.Entry{
		Thread: thread(0), Dialect: "omp", Body: line(0), Seq: 1,
	}))(t)
	src.await(t, thread(0), "p", 1)
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	put([]byte("?"))
	m, err := backup.Create(t.Context(), src.conn, repo, nil)
	if !errors.Is(err, record.ErrClass) || !strings.Contains(err.Error(), "future.x") {
		t.Errorf("Create() = %v, want that it names future.x", err)
	}
	must.Do(t, backup.Verify(t.Context(), repo, m, nil))
	put(nil)
	must.Get(backup.Create(t.Context(), src.conn, repo, nil))(t)
}

// A restore refuses what is not empty, and what is damaged before anything of it can be seen.
func TestRestoreRefuses(t *testing.T) {
	src := work(t, natstest.Conn(t))
	ctx := t.Context()
	pub := src.Publisher(client.PublisherConfig{Producer: "p"})
	for n := range 60 {
		must.Get(pub.Publish(ctx, client.Entry{Thread: thread(0), Dialect: "omp", Body: line(n), Seq: uint64(n + 1)}))(t)
	}
	src.await(t, thread(0), "p", 60)
	dir := filepath.Join(t.TempDir(), "b")
	repo := must.Get(backup.Open(dir, true))(t)
	m, err := backup.Create(ctx, src.conn, repo, nil)
	must.Do(t, err)
	must.Is(t, backup.Restore(ctx, src.conn, repo, m, natsio.Limits{}, nil), backup.ErrNotEmpty, "Restore over what is there")
	must.Is(t, must.Err(backup.Open(filepath.Dir(dir), true)), backup.ErrRepository, "Open of a directory with other things")
	var files []string
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(path) != "manifest.json" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		was := must.Get(os.ReadFile(path))(t)
		bad := slices.Clone(was)
		bad[len(bad)/2] ^= 4
		must.Do(t, os.WriteFile(path, bad, 0o600))
		if err := backup.Verify(ctx, repo, m, nil); err == nil {
			t.Errorf("Verify with a bit flipped in %s finds nothing", path)
		}
		empty := natstest.Dial(t, natstest.Server(t))
		if err := backup.Restore(ctx, empty, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil); err == nil {
			t.Errorf("Restore with a bit flipped in %s says nothing", path)
		}
		checkHalf(t, empty)
		must.Do(t, os.WriteFile(path, was, 0o600))
	}
}
