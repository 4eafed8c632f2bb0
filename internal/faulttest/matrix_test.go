package faulttest_test

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
	"sync/atomic"
	"testing"

	"spool/internal/backup"
	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/ingest"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// job is work of one process that is done again by the next one when the first fails or dies.
type job struct {
	run   func(ctx context.Context, conn *natsio.Conn) error
	check func() // after it was done without faults, perhaps for the second time
}

// world is a server with a persister that meets no faults.
type world struct {
	t      *testing.T
	server natstest.Running
	conn   *natsio.Conn
	*client.Client
	persister *faulttest.Persister
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := natstest.Server(t)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), limits))
	return &world{t, server, conn, client.New(conn), faulttest.Start(t, conn, nil)}
}

// matrix does a job once to see what messages it sends, and then once for each fault that they can meet. prepare makes the job
// under a name that the world does not know yet; all is the class Any in the place of the classes that there are. Where own is not
// empty, the short form has rows for classes with these prefixes alone: the others are those of other matrices.
func matrix(t *testing.T, all bool, prepare func(w *world, name string) job, own ...string) {
	w := newWorld(t)
	fault := faulttest.Fault{}
	if all {
		fault.Class = faulttest.Any
	}
	quiet, conn := process(t, w.server, fault)
	j := prepare(w, "quiet")
	must.Do(t, j.run(within(t), conn))
	j.check()
	if len(rows(quiet)) == 0 {
		t.Fatal("it sends nothing")
	}
	others := func(class string) bool {
		return len(own) > 0 && !slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(class, prefix) })
	}
	run := 0
	for class, faults := range rows(quiet) {
		if others(class) && !long {
			continue
		}
		run++
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i, f := range faults {
				t.Run(fmt.Sprintf("%s %d", f.Mode, f.K), func(t *testing.T) {
					w := *w
					w.t = t
					jobRow(&w, fmt.Sprintf("r%d", i), f, 1, prepare)
				})
			}
		})
	}
	if run < len(own) {
		t.Errorf("it has rows for %d classes, want %q at least", run, own)
	}
}

func jobRow(w *world, name string, f faulttest.Fault, tries int, prepare func(w *world, name string) job) {
	t := w.t
	wire, faulty := process(t, w.server, f)
	j := prepare(w, name)
	ctx, cancel := context.WithTimeout(t.Context(), faulttest.Patience)
	done := make(chan error, 1)
	go func() { done <- j.run(ctx, faulty) }()
	died := f.Mode == faulttest.DieBefore || f.Mode == faulttest.DieAfter
	var err error
	if died {
		select {
		case <-wire.Fired():
			cancel() // a dead process does nothing more
			faulty.Close()
			err = <-done
		case err = <-done:
		}
	} else {
		err = <-done
	}
	cancel()
	if !fired(wire) {
		if tries > 5 {
			t.Errorf("it never came to %s: %v", f, err)
			return
		}
		if err == nil { // this run had fewer messages than the one that was counted
			f.K = 1
		} // else it did not wait long enough for a busy machine
		jobRow(w, fmt.Sprintf("%s-%d", name, tries), f, tries+1, prepare)
		return
	}
	faulty.Close()
	if err := j.run(within(t), w.conn); err != nil {
		t.Errorf("after %s, which ended with %v: %v", f, err, err)
	}
	j.check()
}

func fired(w *faulttest.Wire) bool {
	select {
	case <-w.Fired():
		return true
	default:
		return false
	}
}

// TestPublisherMatrix: who publishes meets each fault, and goes on or is followed by another process of its name.
func TestPublisherMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name, ThreadsEach: 2})
		large := events.Thread{Session: name + "-large", Name: events.MainThread}
		body := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("large "+name+" ", 1<<17))
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				c := client.New(conn)
				pub := c.Publisher(client.PublisherConfig{Producer: "large"})
				if _, err := pub.Publish(ctx, client.Entry{Thread: large, Dialect: "item", Body: body, Seq: 1}); err != nil {
					return err
				}
				return l.Publish(ctx, c, 30)
			},
			check: func() {
				w.t.Helper()
				if err := l.Check(within(w.t), w.conn); err != nil {
					w.t.Error(err)
				}
				checkExport(w, large, append(body, '\n'), 1, "large")
			},
		}
	})
}

// checkExport waits for an event and holds the entries of a thread against what they should be.
func checkExport(w *world, t events.Thread, want []byte, seq uint64, producer string) {
	w.t.Helper()
	ctx := within(w.t)
	if err := w.Thread(t).Await(ctx, producer, 0, seq); err != nil {
		w.t.Error(err)
		return
	}
	var got bytes.Buffer
	if _, err := w.Thread(t).Export(ctx, &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		w.t.Errorf("%s: %d bytes, %v, want %d: %.80q", t, got.Len(), err, len(want), got.Bytes())
	}
}

// TestIngestMatrix: lines of a pipe are published by a process that fails, and by another one from the first line on.
func TestIngestMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		var text bytes.Buffer
		for i := range 60 {
			fmt.Fprintf(&text, `{"content":[{"type":"text","text":"line %d of %s"}]}`+"\n", i, name)
		}
		fmt.Fprintf(&text, `{"content":[{"type":"text","text":"%s"}]}`+"\n", strings.Repeat("large ", 900_000)) // to the inbox while it is read
		to := events.Thread{Session: name, Name: events.MainThread}
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				sum, err := ingest.Lines(ctx, bytes.NewReader(text.Bytes()), conn.Events(),
					ingest.Config{Thread: to, Dialect: "item", Producer: "pipe", Inbox: conn.Inbox()})
				if err == nil && (sum.Stored != 61 || sum.Refused != 0) {
					err = fmt.Errorf("summary = %+v, want 61 lines stored", sum)
				}
				return err
			},
			check: func() {
				w.t.Helper()
				checkExport(w, to, text.Bytes(), 61, "pipe")
				checkSound(w)
			},
		}
	})
}

func checkSound(w *world) {
	w.t.Helper()
	report, err := fsck.Check(within(w.t), natsadmin.Of(w.conn), fsck.Config{})
	if err != nil {
		w.t.Error(err)
		return
	}
	for _, f := range report.Findings {
		w.t.Errorf("fsck: %s", f)
	}
}

// TestImportMatrix: transcripts are imported by a process that fails, and again by another one.
func TestImportMatrix(t *testing.T) {
	files, err := filepath.Glob("../../examples/claude/*/*/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example: %v", err)
	}
	example := must.Get(os.ReadFile(files[0]))(t)
	id := sessionOf(t, example)
	var n atomic.Int64
	matrix(t, false, func(w *world, name string) job {
		session := fmt.Sprintf("%s%04d", id[:len(id)-4], n.Add(1))
		text := bytes.ReplaceAll(example, []byte(id), []byte(session))
		dir := w.t.TempDir()
		file := filepath.Join(dir, session+".jsonl")
		must.Do(w.t, os.WriteFile(file, text, 0o600))
		var last transcript.FileResult
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				sources, err := transcript.Find(os.DirFS(dir), ".")
				if err != nil {
					return err
				}
				res := transcript.New(client.New(conn).Internal(), conn.Events(), transcript.Config{}).Import(ctx, sources)
				if len(res.Files) != 1 {
					return fmt.Errorf("%d files, want 1", len(res.Files))
				}
				last = res.Files[0]
				return last.Err
			},
			check: func() {
				w.t.Helper()
				for _, p := range []transcript.Position{last.Last, last.Tail} {
					if p.Seq != 0 {
						w.await(last.ID(), p.Producer, p.Epoch, p.Seq)
					}
				}
				var got bytes.Buffer
				if _, err := w.Thread(last.ID()).Export(within(w.t), &got); err != nil || !bytes.Equal(got.Bytes(), text) {
					w.t.Errorf("%s: %d bytes, %v, want the %d of the file", last.ID(), got.Len(), err, len(text))
				}
				checkSound(w)
			},
		}
	})
}

func (w *world) await(t events.Thread, producer string, epoch, seq uint64) {
	w.t.Helper()
	if err := w.Thread(t).Await(within(w.t), producer, epoch, seq); err != nil {
		w.t.Error(err)
	}
}

// sessionOf finds the session's id in a transcript.
func sessionOf(t *testing.T, text []byte) string {
	t.Helper()
	const key = `"sessionId":"`
	i := bytes.Index(text, []byte(key))
	if i < 0 {
		t.Fatal("the example names no session")
	}
	id, _, _ := bytes.Cut(text[i+len(key):], []byte{'"'})
	return string(id)
}

// TestArtifactMatrix: an artifact exists with all its bytes, or not at all.
func TestArtifactMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		text := strings.Repeat("what "+name+" printed\n", 20_000)
		session := events.Thread{Session: name, Name: events.MainThread}
		pub := w.Publisher(client.PublisherConfig{Producer: "p"})
		must.Get(pub.Publish(within(w.t), client.Entry{Thread: session, Dialect: "raw", Body: []byte("a session"), Seq: 1}))(w.t)
		w.await(session, "p", 0, 1)
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				_, err := client.New(conn).Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: name}}, strings.NewReader(text))
				return err
			},
			check: func() {
				w.t.Helper()
				list, err := w.Session(name).Artifacts(within(w.t))
				if err != nil || len(list) == 0 || len(list) > 2 {
					w.t.Errorf("%d artifacts, %v, want one for each time it was put", len(list), err)
				}
				for _, a := range list {
					r, _, err := w.Artifacts().Open(within(w.t), a)
					if err != nil {
						w.t.Error(err)
						continue
					}
					got, err := io.ReadAll(r)
					if err = errors.Join(err, r.Close()); err != nil || string(got) != text {
						w.t.Errorf("artifact %s: %d bytes, %v, want %d", a.ID, len(got), err, len(text))
					}
				}
				checkSound(w)
			},
		}
	})
}

// TestCollectMatrix: a collector meets each fault, while a persister runs; the next ones finish, and nothing that is in use is
// touched.
func TestCollectMatrix(t *testing.T) {
	matrix(t, false, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name, ThreadsEach: 2, Batch: 4})
		waste(w, name, l)
		collect := func(ctx context.Context, conn *natsio.Conn) error {
			const lane = events.Lanes - 1
			c, err := gc.New(gcnats.Deps(conn, lane), gc.Config{Lane: lane, Allow: []gc.Brake{gc.BrakeShare}})
			if err != nil {
				return err
			}
			p, err := c.Plan(ctx)
			if err == nil {
				_, err = c.Apply(ctx, p)
			}
			return err
		}
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				for range 2 { // the second one reclaims what the first one condemned
					if err := collect(ctx, conn); err != nil {
						return err
					}
				}
				return nil
			},
			check: func() {
				w.t.Helper()
				if err := errors.Join(l.Publish(within(w.t), w.Client, 5), l.Check(within(w.t), w.conn)); err != nil {
					w.t.Error(err)
				}
			},
		}
	})
}

// waste gives a collector something of everything to do: a session that is deleted and shares packs with one that stays, blobs
// and bytes that nobody names, packs that are worth repacking.
func waste(w *world, name string, l *faulttest.Ledger) {
	w.t.Helper()
	ctx := within(w.t)
	gone := events.Thread{Session: name + "-gone", Name: events.MainThread}
	pub := w.Publisher(client.PublisherConfig{Producer: "p"})
	for i := range 5 {
		image := fmt.Appendf(nil, `{"type":"message","id":"i%d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`,
			i, strings.Repeat(fmt.Sprintf("%c%c%cA", 'A'+i, 'a'+len(name), name[len(name)-1]), 600))
		must.Do(w.t, errors.Join(must.Err(pub.Publish(ctx, client.Entry{Thread: gone, Dialect: "omp", Body: image, Seq: uint64(i + 1)})),
			l.Publish(ctx, w.Client, 3)))
		w.await(gone, "p", 0, uint64(i+1))
	}
	must.Get(w.Session(gone.Session).Delete(ctx, client.Deletion{Force: true}))(w.t)
	bytes := []byte("waste of " + name)
	must.Get(w.conn.Store(0).UploadBlob(ctx, casstore.SumBlob(bytes), bytes))(w.t)
	must.Get(w.conn.Inbox().CheckIn(ctx, strings.NewReader("nobody claims this")))(w.t)
	must.Do(w.t, faulttest.Settle(ctx, w.conn))
}

// TestBackupMatrix: a backup whose process fails at any request leaves no snapshot, or a whole one; the next one is whole.
func TestBackupMatrix(t *testing.T) {
	matrix(t, true, func(w *world, name string) job {
		l := faulttest.NewLedger(faulttest.Workload{Name: name})
		must.Do(w.t, errors.Join(l.Publish(within(w.t), w.Client, 20), l.CheckThreads(within(w.t), w.conn)))
		repo := must.Get(backup.Open(filepath.Join(w.t.TempDir(), "b"), true))(w.t)
		return job{
			run: func(ctx context.Context, conn *natsio.Conn) error {
				_, err := backup.Create(ctx, conn, repo, nil)
				return err
			},
			check: func() {
				w.t.Helper()
				list, err := repo.Snapshots()
				if err != nil || len(list) == 0 || len(list) > 2 {
					w.t.Fatalf("%d snapshots, %v, want one or two", len(list), err)
				}
				for _, m := range list {
					conn := natstest.Dial(w.t, natstest.Server(w.t))
					if err := backup.Restore(within(w.t), conn, repo, m, limits, nil); err != nil {
						w.t.Error(err)
						continue
					}
					p := faulttest.Start(w.t, conn, nil)
					if err := l.Check(within(w.t), conn); err != nil {
						w.t.Errorf("snapshot %s: %v", m.ID, err)
					}
					_ = p.Stop()
				}
			},
		}
	})
}

// TestRestoreMatrix: a restore that fails at any message leaves a system that no restore adds to, or that the next one makes whole.
func TestRestoreMatrix(t *testing.T) {
	src := newWorld(t)
	l := faulttest.NewLedger(faulttest.Workload{ThreadsEach: 2})
	must.Do(t, errors.Join(l.Publish(within(t), src.Client, 40), l.CheckThreads(within(t), src.conn)))
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(within(t), src.conn, repo, nil))(t)
	restore := func(t *testing.T, f faulttest.Fault) (*faulttest.Wire, natstest.Running, error) {
		server := natstest.Server(t)
		wire, conn := process(t, server, f)
		ctx, cancel := context.WithTimeout(t.Context(), faulttest.Patience)
		defer cancel()
		if f.Mode == faulttest.DieBefore || f.Mode == faulttest.DieAfter {
			go func() {
				select {
				case <-wire.Fired():
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		err := backup.Restore(ctx, conn, repo, m, limits, nil)
		return wire, server, err
	}
	quiet, server := must.Two(restore(t, faulttest.Fault{}))(t)
	conn := natstest.Dial(t, server)
	faulttest.Start(t, conn, nil)
	must.Do(t, l.Check(within(t), conn))
	for class, faults := range rows(quiet) {
		for _, f := range faults {
			if strings.HasPrefix(class, "create ") && f.Mode != faulttest.DieAfter && !long {
				continue
			}
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				wire, server, err := restore(t, f)
				for tries := 1; !fired(wire); tries++ { // it did not wait long enough for a busy machine
					if tries > 5 || err == nil {
						t.Fatalf("it never came to %s of %s: %v", f, class, err)
					}
					wire, server, err = restore(t, f)
				}
				conn := natstest.Dial(t, server)
				if err != nil {
					err = backup.Restore(within(t), conn, repo, m, limits, nil)
				}
				if errors.Is(err, backup.ErrNotEmpty) {
					return
				}
				must.Do(t, err)
				faulttest.Start(t, conn, nil) // it got over it, or left nothing in the streams that it made
				if err := l.Check(within(t), conn); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
