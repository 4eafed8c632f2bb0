package artifactstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/artifactstore"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

func newArtifact(session string) artifactstore.NewArtifact {
	return artifactstore.NewArtifact{Record: artifacts.Record{Session: session}, Tool: "bash"}
}

func put(t *testing.T, a *artifactstore.Artifacts, n artifactstore.NewArtifact, body string) artifacts.Record {
	t.Helper()
	return must.Get(a.Put(t.Context(), n, strings.NewReader(body)))(t)
}

func readArtifact(t *testing.T, a *artifactstore.Artifacts, r artifacts.Record) (string, error) {
	t.Helper()
	body, _, err := a.Open(t.Context(), r)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	return string(b), err
}

// What was put is a record, a number, and an object that any client of the object store reads (SPEC A1, A2).
func TestArtifactPut(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	text := strings.Repeat("0123456789abcdef", 100_000)
	r := put(t, a, newArtifact("s1"), text)
	if r.Seq != "0" || r.Filename != "0.bash.log" || r.Size != int64(len(text)) || r.Category != artifacts.Normal ||
		r.Writer != artifacts.FromPayload {
		t.Errorf("record = %+v", r)
	}
	must.Same(t, r.Object, "s1/"+string(r.ID)+"/0.bash.log", "object = %s, want %s")
	if got, err := readArtifact(t, a, r); err != nil || got != text {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, len(text))
	}
	store := must.Get(c.JetStream().ObjectStore(t.Context(), events.ArtifactsBucket))(t)
	if b, err := store.GetBytes(t.Context(), r.Object); err != nil || string(b) != text {
		t.Errorf("ObjectStore read %d bytes, %v", len(b), err)
	}
	second := put(t, a, newArtifact("s1"), "x")
	must.Do(t, a.Remove(t.Context(), second))
	if third := put(t, a, newArtifact("s1"), "x"); third.Seq != "2" {
		t.Errorf("number after 1 was removed = %s, want 2", third.Seq)
	}
	if other := put(t, a, newArtifact("s2"), ""); other.Seq != "0" || other.Size != 0 {
		t.Errorf("first of another session = %+v", other)
	}
	if rs, err := a.Records(t.Context(), "s1", ""); err != nil || len(rs) != 2 {
		t.Errorf("records of s1 = %v, %v, want 2", rs, err)
	}
}

// A number is given out once, however many ask at the same time (SPEC A1).
func TestArtifactNumbers(t *testing.T) {
	c := natstest.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[artifacts.Seq]bool{}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			n, err := artifactstore.Of(c, 0).TakeNumber(ctx, "s")
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[n] {
				t.Errorf("TakeNumber = %s, %v, seen before: %v", n, err, seen[n])
			}
			seen[n] = true
		})
	}
	wg.Wait()
	must.Same(t, must.Get(artifactstore.Of(c, 0).TakeNumber(ctx, "s"))(t), "100", "the next = %s, want %s")
	// A number that was taken is one artifact's, and one that was not is nobody's.
	for _, tt := range []struct {
		number artifacts.Seq
		writer artifacts.Writer
		want   error
	}{
		{"7", "", nil}, {"7", "", artifacts.ErrTaken}, {"101", "", artifacts.ErrRecord}, {"07", "", artifacts.ErrRecord},
		{"8", artifacts.FromAgent, artifacts.ErrRecord}, {"8", "", nil},
	} {
		n := artifactstore.NewArtifact{Number: tt.number, Tool: "make"}
		n.Session, n.Writer = "s", tt.writer
		if tt.writer == artifacts.FromAgent {
			n.Agent = "9-X"
		}
		r, err := artifactstore.Of(c, 0).Put(ctx, n, strings.NewReader("x"))
		if !errors.Is(err, tt.want) || err == nil && r.Filename != string(tt.number)+".make.log" {
			t.Errorf("put under %s = %+v, %v, want %v", tt.number, r, err, tt.want)
		}
	}
	var both sync.WaitGroup
	var put atomic.Int32
	for range 8 {
		both.Go(func() {
			n := artifactstore.NewArtifact{Number: "9"}
			n.Session = "s"
			switch _, err := artifactstore.Of(c, 0).Put(ctx, n, strings.NewReader("x")); {
			case err == nil:
				put.Add(1)
			case !errors.Is(err, artifacts.ErrTaken):
				t.Errorf("put under a number that others put under: %v", err)
			}
		})
	}
	both.Wait()
	must.Same(t, put.Load(), 1, "%d artifacts were put under one number, want %d")
	for _, want := range []string{"0-Review", "1-Review", "1-Review.0-Sub"} {
		parent, requested, nested := strings.Cut(want, ".0-")
		if !nested {
			parent, requested = "", "Review"
		}
		if id, err := artifactstore.Of(c, 0).TakeAgent(ctx, "s", parent, requested); err != nil || id != want {
			t.Errorf("TakeAgent(%q) = %s, %v, want %s", parent, id, err, want)
		}
	}
}

// An id is created once, and stays with its session (SPEC A1, A3).
func TestArtifactTaken(t *testing.T) {
	a := artifactstore.Of(natstest.Conn(t), 0)
	n := newArtifact("s1")
	n.ID = "art_mine"
	r := put(t, a, n, "one")
	for _, session := range []string{"s1", "s2"} {
		n.Session = session
		must.Is(t, must.Err(a.Put(t.Context(), n, strings.NewReader("two"))), artifacts.ErrTaken, "second put in %s", session)
	}
	must.Do(t, a.Remove(t.Context(), r))
	must.Is(t, must.Err(a.Put(t.Context(), n, strings.NewReader("two"))), artifacts.ErrTaken, "put after the removal")
	for _, bad := range []func(*artifactstore.NewArtifact){
		func(n *artifactstore.NewArtifact) { n.Session = "a.b" },
		func(n *artifactstore.NewArtifact) { n.Filename = "../x" },
		func(n *artifactstore.NewArtifact) { n.Category = "odd" },
		func(n *artifactstore.NewArtifact) { n.Writer = artifacts.FromAgent },
	} {
		n := newArtifact("s3")
		bad(&n)
		if _, err := a.Put(t.Context(), n, strings.NewReader("")); err == nil {
			t.Errorf("put of %+v went through", n)
		}
	}
	if r := put(t, a, newArtifact("s3"), ""); r.Seq != "0" {
		t.Errorf("refused puts took numbers: %s", r.Seq)
	}
}

// during calls f once, in the middle of being read.
type during struct {
	io.Reader
	f func()
}

func (d *during) Read(p []byte) (int, error) {
	if d.f != nil {
		d.f()
		d.f = nil
	}
	return d.Reader.Read(p)
}

// unreadOnce are objects whose bytes cannot be read the first time.
type unreadOnce struct {
	artifactstore.Objects
	reads atomic.Int32
}

func (u *unreadOnce) UploadAside(ctx context.Context, bucket, name string, body io.Reader) (record.Object, uint64, error) {
	if u.reads.Add(1) == 2 {
		return record.Object{}, 0, fmt.Errorf("read the bytes again: %w", record.ErrUnknown)
	}
	return u.Objects.UploadAside(ctx, bucket, name, body)
}

// A collector that begins while bytes are uploaded may take them for garbage: they are uploaded again (DESIGN 9), and until
// they are nothing is committed.
func TestArtifactPutFenced(t *testing.T) {
	t.Run("read at once", func(t *testing.T) { putFenced(t, func(o artifactstore.Objects) artifactstore.Objects { return o }) })
	t.Run("unread at first", func(t *testing.T) {
		putFenced(t, func(o artifactstore.Objects) artifactstore.Objects { return &unreadOnce{Objects: o} })
	})
}

func putFenced(t *testing.T, wrap func(artifactstore.Objects) artifactstore.Objects) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 3).WithObjects(wrap)
	text := strings.Repeat("x", 3<<20)
	r, err := a.Put(t.Context(), newArtifact("s"), &during{strings.NewReader(text), func() {
		if _, err := c.Records().Write(t.Context(), record.Put{Key: events.FenceKey(3), Value: []byte{1}, Expect: record.Any}); err != nil {
			t.Error(err)
		}
	}})
	must.Do(t, err)
	f := must.Get(c.Records().Fence(t.Context(), 3))(t)
	if o, err := record.DecodeLocator(r.Locator); err != nil || o.First <= 1 {
		t.Errorf("locator = %+v, %v, want that of a second upload; fence %d", o, err, f.Seq)
	}
	stored, err := a.Records(t.Context(), "s", r.ID)
	if err != nil || len(stored) != 1 || !bytes.Equal(stored[0].Encode(), r.Encode()) {
		t.Fatalf("stored = %+v, %v, want %+v", stored, err, r)
	}
	if got, err := readArtifact(t, a, stored[0]); err != nil || got != text {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// A fork has rows of its own over the same bytes, which go with the last row (SPEC A7).
func TestArtifactFork(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	r := put(t, a, newArtifact("old"), "bytes")
	row := r.Fork("new", r.ForkID("new"), 5)
	for key, value := range map[string][]byte{
		events.ArtifactKey("new", string(row.ID)): row.Encode(), record.SharedKey(row): {1},
		events.CounterKey("new"): record.Counter{Artifacts: r.Seq}.Encode(),
	} {
		must.Get(c.Records().Write(t.Context(), record.Put{Key: key, Value: value}))(t)
	}
	forks, err := a.Records(t.Context(), "new", "")
	if err != nil || len(forks) != 1 || forks[0].ForkedFrom != r.ID || forks[0].Seq != r.Seq || forks[0].ID == r.ID {
		t.Fatalf("rows of the fork = %+v, %v", forks, err)
	}
	if next := put(t, a, newArtifact("new"), ""); next.Seq != "1" {
		t.Errorf("next number of the fork = %s, want 1", next.Seq)
	}
	must.Do(t, a.Remove(t.Context(), r))
	must.Same(t, must.Get(readArtifact(t, a, forks[0]))(t), "bytes", "the fork reads %q, want %q")
	must.Do(t, a.Remove(t.Context(), forks[0]))
	must.Is(t, must.Err(c.Objects().Stat(t.Context(), events.ArtifactsBucket, r.Object)), record.ErrNotFound, "object after its last row")
	if _, err := readArtifact(t, a, r); err == nil {
		t.Error("the chunks are still there")
	}
}

// What a tool stored itself is registered and not moved (SPEC A3).
func TestArtifactRegister(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	store := must.Get(c.JetStream().ObjectStore(t.Context(), events.ArtifactsBucket))(t)
	must.Get(store.PutString(t.Context(), "trace.bin", "traced"))(t)
	r, err := a.RegisterObject(t.Context(), newArtifact("s"), "trace.bin")
	if err != nil || r.Writer != artifacts.FromObject || r.Size != 6 {
		t.Fatalf("RegisterObject = %+v, %v", r, err)
	}
	must.Same(t, must.Get(readArtifact(t, a, r))(t), "traced", "read %q, want %q")
	var shot artifacts.Record
	for _, c := range []struct {
		object string
		n      artifactstore.NewArtifact
		name   string
		mime   string
	}{
		{"runs/7/plan.json", artifactstore.NewArtifact{}, "plan.json", "application/json"},
		{"runs/7/漢 字.png", artifactstore.NewArtifact{}, "漢 字.png", "image/png"},
		{"runs/7/", artifactstore.NewArtifact{}, "7", ""},
		{"..", artifactstore.NewArtifact{}, "4.tool.log", ""},
		{"a/shot.png", artifactstore.NewArtifact{Tool: "bash"}, "5.bash.log", "image/png"},
		{"b/shot", artifactstore.NewArtifact{Record: artifacts.Record{Filename: "x.gif", MIME: "image/webp"}}, "x.gif", "image/webp"},
	} {
		must.Get(store.PutString(t.Context(), c.object, "{}"))(t)
		c.n.Session = "s"
		got, err := a.RegisterObject(t.Context(), c.n, c.object)
		if err != nil || got.Filename != c.name || got.MIME != c.mime {
			t.Errorf("RegisterObject(%q) = %q %q, %v, want %q %q", c.object, got.Filename, got.MIME, err, c.name, c.mime)
		}
		shot = got
	}
	must.Get(store.PutString(t.Context(), "b/shot", "another"))(t)
	again := must.Get(a.RegisterObject(t.Context(), newArtifact("s"), "b/shot"))(t)
	must.Same(t, must.Get(readArtifact(t, a, again))(t), "another", "read %q, want %q")
	_, err = readArtifact(t, a, shot)
	if !errors.Is(err, record.ErrNotFound) || !strings.Contains(err.Error(), `another object was stored under the name "b/shot"`) {
		t.Errorf("read what was stored over = %v, want it to say so", err)
	}
	must.Do(t, a.Remove(t.Context(), shot))
	must.Same(t, must.Get(readArtifact(t, a, again))(t), "another", "once the one before is removed: %q, want %q")
	must.Do(t, a.Remove(t.Context(), r))
	if _, err := store.GetBytes(t.Context(), "trace.bin"); err == nil {
		t.Error("the object outlived its artifact")
	}
	must.Is(t, must.Err(a.RegisterObject(t.Context(), newArtifact("s"), "nothing")), record.ErrNotFound, "RegisterObject of nothing")

	file := filepath.Join(t.TempDir(), "with space.txt")
	must.Do(t, os.WriteFile(file, []byte("local"), 0o600))
	r, err = a.RegisterFile(t.Context(), newArtifact("s"), file)
	if err != nil || r.Filename != "with space.txt" || r.Size != 5 {
		t.Fatalf("RegisterFile = %+v, %v", r, err)
	}
	must.Is(t, must.Err(readArtifact(t, a, r)), artifacts.ErrNowhere, "reading it where files are not read")
	a.Local = true
	must.Same(t, must.Get(readArtifact(t, a, r))(t), "local", "read %q, want %q")
	must.Do(t, a.Remove(t.Context(), r))
	must.Is(t, must.Err(os.Stat(file)), nil, "Stat(the registered file)")
}

// TestArtifactRace: of several puts of one id at the same time, in one session or in many, one makes the artifact. The
// others are told that the id is taken, and leave neither a record nor bytes; the name of the object leads to the
// winner's bytes.
func TestArtifactRace(t *testing.T) {
	for name, session := range map[string]func(i int) string{
		"one session":   func(int) string { return "s" },
		"many sessions": func(i int) string { return fmt.Sprint("s", i) },
	} {
		t.Run(name, func(t *testing.T) {
			c := natstest.Conn(t)
			a, ctx := artifactstore.Of(c, 0), t.Context()
			const writers = 8
			var ready, wg sync.WaitGroup
			ready.Add(writers)
			errs, made := make([]error, writers), make([]artifacts.Record, writers)
			for i := range writers {
				wg.Go(func() {
					n := newArtifact(session(i))
					n.ID = "art_dup"
					body := &during{strings.NewReader(fmt.Sprint("the bytes of ", i)), func() {
						ready.Done()
						ready.Wait() // all have looked whether the id is free, and upload
					}}
					made[i], errs[i] = a.Put(ctx, n, body)
				})
			}
			wg.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner < 0:
					winner = i
				case err == nil:
					t.Errorf("puts %d and %d both made the artifact", winner, i)
				case !errors.Is(err, artifacts.ErrTaken) || !strings.Contains(err.Error(), "art_dup"):
					t.Errorf("put %d = %v, want ErrTaken that names the id", i, err)
				}
			}
			if winner < 0 {
				t.Fatal("no put made the artifact")
			}
			all, err := a.Records(ctx, "", "art_dup")
			if err != nil || len(all) != 1 || all[0].Session != session(winner) {
				t.Fatalf("records = %+v, %v, want that of put %d", all, err, winner)
			}
			want := fmt.Sprint("the bytes of ", winner)
			must.Same(t, must.Get(readArtifact(t, a, made[winner]))(t), want, "the artifact has %q, want %q")
			o := must.Get(c.Objects().Stat(ctx, events.ArtifactsBucket, made[winner].Object))(t)
			if got, err := c.Objects().Read(ctx, o); err != nil || string(got) != want {
				t.Errorf("the object has %q, %v, want %q", got, err, want)
			}
			s := must.Get(c.JetStream().Stream(ctx, events.ObjectStream(events.ArtifactsBucket)))(t)
			if n := s.CachedInfo().State.Msgs; n != 2 {
				t.Errorf("the bucket holds %d messages, want the winner's chunk and its name", n)
			}
		})
	}
}

// TestArtifactLostAnswer: who made the artifact and did not hear of it is not told that the id is taken.
func TestArtifactLostAnswer(t *testing.T) {
	c := natstest.Conn(t)
	a, ctx := artifactstore.Of(c, 0), t.Context()
	n := newArtifact("s")
	n.ID = "art_mine"
	r := put(t, a, n, "one")
	again, err := a.CreateAgain(ctx, r)
	if err != nil || again.ID != r.ID {
		t.Errorf("the same record again = %+v, %v, want it taken for made", again, err)
	}
	must.Same(t, must.Get(readArtifact(t, a, r))(t), "one", "the artifact has %q, want %q")
}

// TestArtifactAdoptRace: of several imports of one artifact at the same time one makes it, and the others find it made.
func TestArtifactAdoptRace(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	r := artifacts.Record{
		ID: "art_old", Session: "s", Filename: "0.bash.log", Category: artifacts.Normal, Writer: artifacts.FromPayload, Seq: "0", Created: 1,
	}
	const writers = 6
	var ready, wg sync.WaitGroup
	ready.Add(writers)
	var makers atomic.Int64
	for range writers {
		wg.Go(func() {
			got, made, err := a.Adopt(t.Context(), r, &during{strings.NewReader("old bytes"), func() { ready.Done(); ready.Wait() }})
			if err != nil || got.ID != r.ID || got.Size != 9 {
				t.Errorf("Adopt = %+v, %v, want the artifact", got, err)
			}
			if made {
				makers.Add(1)
			}
		})
	}
	wg.Wait()
	must.Same(t, makers.Load(), 1, "%d imports say that they made the artifact, want %d")
	must.Same(t, must.Get(readArtifact(t, a, first(t, a)))(t), "old bytes", "the artifact has %q, want %q")
	r.Session, r.Seq = "s2", "1"
	if _, made, err := a.Adopt(t.Context(), r, strings.NewReader("others")); made || !errors.Is(err, artifacts.ErrTaken) {
		t.Errorf("Adopt in another session = %v, %v, want ErrTaken", made, err)
	}
}

func first(t *testing.T, a *artifactstore.Artifacts) artifacts.Record {
	t.Helper()
	all, err := a.Records(t.Context(), "", "")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d artifacts, %v, want 1", len(all), err)
	}
	return all[0]
}

// An agent's id is given once, whoever gives it: what is put under a name of the caller's counts, and of several puts of
// one id at a time one succeeds (SPEC A9).
func TestAgentIDsAreGivenOnce(t *testing.T) {
	c := natstest.Conn(t)
	a := artifactstore.Of(c, 0)
	output := func(id string) error {
		n := newArtifact("s")
		n.Writer, n.Agent = artifacts.FromAgent, id
		_, err := a.Put(t.Context(), n, strings.NewReader(id))
		return err
	}
	must.Do(t, output("1-Plan"))
	must.Same(t, must.Get(a.TakeAgent(t.Context(), "s", "", "Plan"))(t), "2-Plan", "TakeAgent after 1-Plan was put = %s, want %s")
	must.Do(t, output("2-Plan"))
	if err := output("1-Plan"); !errors.Is(err, artifacts.ErrTaken) || !strings.Contains(err.Error(), "1-Plan") {
		t.Errorf("second put of 1-Plan = %v, want ErrTaken that names it", err)
	}
	errs := make(chan error)
	for range 8 {
		go func() { errs <- output("9-Same") }()
	}
	made := 0
	for range 8 {
		if err := <-errs; err == nil {
			made++
		} else if !errors.Is(err, artifacts.ErrTaken) {
			t.Errorf("put of 9-Same = %v, want ErrTaken", err)
		}
	}
	must.Same(t, made, 1, "%d of 8 puts of one agent id succeed, want %d")
}
