package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spool/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a directory with files, and a store that has what was captured of them.
type place struct {
	*testing.T
	dir string
	now time.Time

	mu     sync.Mutex
	id     string
	last   uint64
	away   bool
	bad    string            // a file that cannot be captured
	early  string            // one that cannot be yet
	parts  bool              // files of a directory are parts of one thing
	has    map[string]string // what the store has of each file
	reads  []string          // changes that were captured, "NAME SINCE-UNTIL"
	events []Kind
	told   chan struct{} // something happened
}

func newPlace(t *testing.T) *place {
	return &place{T: t, dir: t.TempDir(), now: time.Now(), id: "one", has: map[string]string{}, told: make(chan struct{}, 1)}
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) must(err error) {
	p.Helper()
	must.Do(p, err)
}

func (p *place) write(name, text string) {
	p.Helper()
	p.must(os.MkdirAll(filepath.Dir(p.path(name)), 0o700))
	p.must(os.WriteFile(p.path(name), []byte(text), 0o600))
}

func (p *place) add(name, text string) {
	p.Helper()
	f, err := os.OpenFile(p.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	p.must(err)
	_, err = f.WriteString(text)
	p.must(errors.Join(err, f.Close()))
}

func (p *place) config() Config {
	return Config{Roots: []string{p.dir}, Match: isJSONL, Store: p.store, Capture: p.capture, Tell: p.tell,
		Memory: p.dir + ".memory"}
}

func isJSONL(name string) bool { return strings.HasSuffix(name, ".jsonl") }

func (p *place) store(context.Context) (Store, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return Store{}, errors.New("away")
	}
	return Store{p.id, p.last}, nil
}

func (p *place) capture(_ context.Context, changes []Change) ([]Taken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.note()
	if p.away {
		return nil, errors.New("away")
	}
	took := make([]Taken, len(changes))
	for i, c := range changes {
		name, _ := filepath.Rel(p.dir, c.Path)
		if name == p.bad {
			took[i].Err = errors.New("bad")
			continue
		}
		if name == p.early {
			took[i].Wait = true
			continue
		}
		f, err := Disk{c}.Open(c.Path)
		if err != nil {
			took[i].Err = err
			continue
		}
		if _, had := p.has[name]; p.parts {
			took[i].Part, took[i].Anew = filepath.Dir(name), c.Since > 0 && !had
		}
		b := make([]byte, c.Until)
		n, _ := f.Read(b)
		_ = f.Close()
		p.has[name] = string(b[:n])
		p.reads = append(p.reads, fmt.Sprintf("%s %d-%d", name, c.Since, c.Until))
		p.last++
	}
	return took, nil
}

func (p *place) note() {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

func (p *place) tell(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e.Kind)
	p.note()
}

// tree is a Tree with the clock of the place.
func (p *place) tree() *Tree {
	t := NewTree([]string{p.dir}, isJSONL, nil)
	t.now = func() time.Time { return p.now }
	return t
}

// takes walks, captures what is due, and compares it: "NAME SINCE-UNTIL", by the order.
func (p *place) takes(t *Tree, want ...string) {
	p.Helper()
	p.must(t.Walk(nil))
	changes, err := t.Take(100, 1<<30, false)
	p.must(err)
	var got []string
	for _, c := range changes {
		name, _ := filepath.Rel(p.dir, c.Path)
		got = append(got, fmt.Sprintf("%s %d-%d", name, c.Since, c.Until))
		t.Captured(c)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		p.Fatalf("changes = %q, want %q", got, want)
	}
}

func TestWhatFilesDo(t *testing.T) {
	p := newPlace(t)
	tree := p.tree()
	p.takes(tree)
	p.write("a.jsonl", "one\ntwo\n")
	p.write("sub/deep/b.jsonl", "one\n")
	p.write("notes.txt", "no transcript")
	p.takes(tree, "a.jsonl 0-8", "sub/deep/b.jsonl 0-4")
	p.takes(tree)

	p.add("a.jsonl", "three\nfo") // a partial line waits
	p.takes(tree, "a.jsonl 8-14")
	p.takes(tree)
	p.add("a.jsonl", "ur\n")
	p.takes(tree, "a.jsonl 14-19")

	p.add("a.jsonl", "five") // whose newline never comes
	p.takes(tree, "a.jsonl 19-19")
	p.now = p.now.Add(Quiet)
	p.takes(tree, "a.jsonl 19-23")
	p.takes(tree)

	p.write("new", "one\ntwo\nthree\nfour\nfive\nsix\n") // an atomic replace
	p.must(os.Rename(p.path("new"), p.path("a.jsonl")))
	p.takes(tree, "a.jsonl 0-28")
	p.must(os.Truncate(p.path("a.jsonl"), 4))
	p.takes(tree, "a.jsonl 0-4")
	p.write("a.jsonl", "ONE\n") // of the same size, within the tick of the clock or not
	p.takes(tree, "a.jsonl 0-4")
	p.write("a.jsonl", "head\nONE\nmore\n") // a compaction: it grew, and begins otherwise
	p.takes(tree, "a.jsonl 0-14")

	p.must(os.Rename(p.path("a.jsonl"), p.path("a.1.jsonl"))) // a rotation
	p.write("a.jsonl", "next\n")
	p.takes(tree, "a.1.jsonl 0-14", "a.jsonl 0-5")
	p.must(os.Remove(p.path("a.jsonl")))
	p.must(os.RemoveAll(p.path("sub")))
	p.takes(tree)
	if n := tree.Files(); n != 1 {
		t.Errorf("%d files are known, want the one that is left", n)
	}
	p.write("a.jsonl", "next\n") // born again
	p.takes(tree, "a.jsonl 0-5")
}

// TestStill: a file that is taken whole is taken when it has been quiet, however often it is looked at.
func TestStill(t *testing.T) {
	p := newPlace(t)
	tree := NewTree([]string{p.dir}, isJSONL, func(path string) bool { return filepath.Base(path) == "still.jsonl" })
	tree.now = func() time.Time { return p.now }
	at := p.now
	write := func(text string) {
		p.write("still.jsonl", text)
		p.must(os.Chtimes(p.path("still.jsonl"), at, at))
	}
	write("one\ntw")
	for range 3 {
		p.takes(tree)
		p.now = p.now.Add(Quiet / 2)
		at = p.now
		write("one\ntwo\nthr")
	}
	p.now = p.now.Add(Quiet)
	p.takes(tree, "still.jsonl 0-11")
	p.takes(tree)
	at = p.now.Add(time.Hour) // by the clock of another machine
	write("one\n")
	p.takes(tree, "still.jsonl 0-4")
	p.takes(tree)
}

// TestInPlace: a rewrite of the beginning that leaves size and times alone is seen while it could hide in a tick of
// the clock.
func TestInPlace(t *testing.T) {
	p := newPlace(t)
	tree := p.tree()
	p.write("a.jsonl", "slot  \nline\n")
	at := p.now
	p.must(os.Chtimes(p.path("a.jsonl"), at, at))
	p.takes(tree, "a.jsonl 0-12")
	m := tree.marks[p.path("a.jsonl")]
	p.write("a.jsonl", "titled\nline\n")
	p.must(os.Chtimes(p.path("a.jsonl"), at, at))
	info, err := os.Stat(p.path("a.jsonl"))
	p.must(err)
	m.Stat = statOf(info) // as if the clock had not moved
	tree.marks[p.path("a.jsonl")] = m
	p.takes(tree, "a.jsonl 0-12")
}

// TestWrittenMeanwhile: what is written between the look and the read is another change, and not in the first one.
func TestWrittenMeanwhile(t *testing.T) {
	p := newPlace(t)
	tree := p.tree()
	p.write("a.jsonl", "one\n")
	p.must(tree.Walk(nil))
	changes, err := tree.Take(1, 1, false)
	p.must(err)
	p.add("a.jsonl", "two\n")
	_, err = p.capture(t.Context(), changes)
	p.must(err)
	tree.Captured(changes[0])
	if p.has["a.jsonl"] != "one\n" {
		t.Errorf("captured %q, want the first line", p.has["a.jsonl"])
	}
	p.takes(tree, "a.jsonl 4-8")
}

func TestMemory(t *testing.T) {
	p := newPlace(t)
	w := func() { p.Helper(); p.must(New(p.config()).Once(t.Context())) }
	reads := func(want int) {
		p.Helper()
		if len(p.reads) != want {
			p.Fatalf("captured %q, want %d", p.reads, want)
		}
		p.reads = nil
	}
	p.write("a.jsonl", "one\n")
	p.write("b.jsonl", "one")
	w()
	reads(2)
	w()
	reads(0)
	p.add("a.jsonl", "two\n")
	w()
	reads(1)
	p.must(os.WriteFile(p.dir+".memory", []byte("{torn"), 0o600))
	w()
	reads(2)
	p.must(os.Remove(p.dir + ".memory"))
	w()
	reads(2)
	p.id = "another"
	w()
	reads(2)
	p.last = 0 // it lost what it had
	w()
	reads(2)
	p.bad = "b.jsonl"
	p.add("b.jsonl", "more\n")
	p.add("a.jsonl", "more\n")
	if err := New(p.config()).Once(t.Context()); err == nil {
		t.Error("Once = nil, want what could not be captured")
	}
	reads(1)
	p.bad = ""
	w()
	reads(1)
	p.away = true
	if err := New(p.config()).Once(t.Context()); err == nil {
		t.Error("Once = nil, want that the store is away")
	}
}

// An earlier version did not mark of what a file is a part: where the store lost a part of something, those files are captured anew too.
func TestMemoryWithoutParts(t *testing.T) {
	p := newPlace(t)
	p.parts = true
	p.write("s/a.jsonl", "one\n")
	p.write("s/b.jsonl", "one\n")
	cfg := p.config()
	p.must(New(cfg).Once(t.Context()))
	text := must.Get(os.ReadFile(cfg.Memory))(t)
	part := regexp.MustCompile(`,"part":"[^"]*"`)
	must.Same(t, len(part.FindAll(text, -1)), 2, "%d marks have a part, want %d")
	p.must(os.WriteFile(cfg.Memory, part.ReplaceAll(text, nil), 0o600))
	clear(p.has) // it was deleted there
	p.add("s/a.jsonl", "two\n")
	p.must(New(cfg).Once(t.Context()))
	must.Same(t, len(p.has), 2, "the store has %d files, want %d")
}

// await waits until something holds.
func (p *place) await(what string, holds func() bool) {
	p.Helper()
	late := time.After(60 * time.Second)
	for {
		p.mu.Lock()
		ok := holds()
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.told:
		case <-late:
			p.Fatalf("never: %s: has %q, events %q", what, p.has, p.events)
		}
	}
}

func (p *place) run(cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan error, 1)
	go func() { done <- New(cfg).Run(ctx) }()
	return func() {
		p.Helper()
		cancel()
		p.must(<-done)
	}
}

// TestRun follows files by notifications alone (no walk comes within the test), and by walks alone.
func TestRun(t *testing.T) {
	for _, by := range []string{"notes", "walks"} {
		t.Run(by, func(t *testing.T) {
			p := newPlace(t)
			cfg := p.config()
			if cfg.Every = time.Hour; by == "walks" {
				cfg.Every = 10 * time.Millisecond
			}
			p.write("old.jsonl", "one\n")
			stop := p.run(cfg)
			p.await("the first walk", func() bool { return p.has["old.jsonl"] == "one\n" })
			p.add("old.jsonl", "two\n")
			p.await("a line", func() bool { return p.has["old.jsonl"] == "one\ntwo\n" })
			p.write("x/y/z/new.jsonl", "one\n")
			p.await("a file in new directories", func() bool { return p.has["x/y/z/new.jsonl"] == "one\n" })
			p.write("x/tmp", "two\n")
			p.must(os.Rename(p.path("x/tmp"), p.path("x/y/z/new.jsonl")))
			p.await("a file that replaced it", func() bool { return p.has["x/y/z/new.jsonl"] == "two\n" })
			p.add("old.jsonl", "no newline")
			p.await("its rest", func() bool { return p.has["old.jsonl"] == "one\ntwo\nno newline" })

			p.mu.Lock()
			p.away = true
			p.mu.Unlock()
			p.add("old.jsonl", "\nthree\n")
			p.await("that the store is away", func() bool { return len(p.events) > 1 && p.events[len(p.events)-1] == KindAway })
			p.add("old.jsonl", "four\n")
			p.mu.Lock()
			p.away = false
			p.mu.Unlock()
			p.await("what was written meanwhile", func() bool { return strings.HasSuffix(p.has["old.jsonl"], "\nthree\nfour\n") })

			p.add("old.jsonl", "five\nsi")
			stop()
			if !strings.HasSuffix(p.has["old.jsonl"], "\nfour\nfive\n") {
				t.Errorf("at the end the store has %q, want all that is whole", p.has["old.jsonl"])
			}
			away := 0
			for _, k := range p.events {
				if k == KindAway {
					away++
				}
			}
			if away != 1 {
				t.Errorf("events %q, want one %s", p.events, KindAway)
			}
		})
	}
}

// A change names the other files of the same, as they were captured, also by a watch before this one.
func TestCopies(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"a.jsonl", "b.jsonl", "c.jsonl"} {
		p.write(name, "one\n")
	}
	tree := p.tree()
	p.must(tree.Walk(nil))
	changes, err := tree.Take(10, 1<<20, false)
	p.must(err)
	for i, c := range changes {
		c.mark.Of = []string{"s/main", "s/main", ""}[i]
		tree.Captured(c)
	}
	store := Store{ID: "one"}
	p.must(tree.save(p.dir+".memory", store))
	tree = p.tree()
	_, err = tree.load(p.dir+".memory", store)
	p.must(err)
	p.add("a.jsonl", "two\n")
	p.add("c.jsonl", "two\n")
	p.must(tree.Walk(nil))
	changes, err = tree.Take(10, 1<<20, false)
	p.must(err)
	if len(changes) != 2 || fmt.Sprint(changes[0].Copies) != fmt.Sprint([]string{p.path("b.jsonl")}) || changes[1].Copies != nil {
		t.Errorf("changes = %v, want a.jsonl with its copy b.jsonl, and c.jsonl without", changes)
	}
}

// TestRemovedAndWrittenAgain: where the store lost what it had of a file that goes on, the other files of the same are captured again, too,
// also by a watch that knows them from its memory alone; and no others.
func TestRemovedAndWrittenAgain(t *testing.T) {
	for _, again := range []bool{false, true} {
		p := newPlace(t)
		p.parts = true
		for _, name := range []string{"s/a.jsonl", "s/b.jsonl", "t/c.jsonl"} {
			p.write(name, "one\n")
		}
		w := New(p.config())
		p.must(w.Once(t.Context()))
		clear(p.has)
		p.reads = nil
		p.add("s/a.jsonl", "two\n")
		if again {
			w = New(p.config())
		} else {
			w.walked = time.Time{}
		}
		p.must(w.Once(t.Context()))
		must.Same(t, strings.Join(p.reads, ", "), "s/a.jsonl 4-8, s/b.jsonl 0-4", "captured %s, want %s")
		p.reads = nil
		p.must(New(p.config()).Once(t.Context()))
		must.Same(t, len(p.reads), 0, "captured %d files when nothing changed, want %d")
	}
}

// TestWhatLiesBeside: files that belong to others come behind all of them, and one whose other is not there yet is tried again, and
// nobody is told.
func TestWhatLiesBeside(t *testing.T) {
	p := newPlace(t)
	beside := func(path string) bool { return strings.HasPrefix(path, p.path("beside")) }
	match := func(path string) bool { return isJSONL(path) || beside(path) }
	for i := range batchFiles + 1 {
		p.write(fmt.Sprintf("beside/%03d", i), "x")
	}
	p.write("s.jsonl", "one\n")
	tree := NewTree([]string{p.dir}, match, beside)
	p.must(tree.Walk(nil))
	changes, err := tree.Take(batchFiles, batchBytes, true)
	p.must(err)
	if changes[0].Path != p.path("s.jsonl") {
		t.Errorf("the first of a batch is %s, want s.jsonl", changes[0].Path)
	}

	tree.now = func() time.Time { return p.now }
	takes := func(want bool) {
		t.Helper()
		changes, err := tree.Take(batchFiles, batchBytes, false)
		p.must(err)
		must.Same(t, len(changes) > 0, want, "something is due: %v, want %v")
	}
	for len(tree.pending) > 1 {
		tree.Captured(changes[0])
		changes, err = tree.Take(batchFiles, batchBytes, true)
		p.must(err)
	}
	for _, wait := range []time.Duration{lastRetry, 2 * lastRetry} { // more each time
		tree.Waits(changes[0])
		p.now = p.now.Add(wait - time.Second)
		p.must(tree.Walk(nil))
		takes(false)
		p.now = p.now.Add(time.Second)
		takes(true)
	}
	p.write(strings.TrimPrefix(changes[0].Path, p.dir), "more")
	tree.Waits(changes[0])
	p.must(tree.Note(changes[0].Path, nil))
	p.now = p.now.Add(firstRetry)
	takes(true)

	p.early = "beside/007"
	cfg := p.config()
	cfg.Match, cfg.Still = match, beside
	p.must(New(cfg).Once(t.Context()))
	if n := len(p.has); n != batchFiles+1 {
		t.Errorf("%d files are captured, want all but one", n)
	}
	p.early = ""
	p.must(New(cfg).Once(t.Context()))
	if p.has["beside/007"] != "x" {
		t.Error("a file that waited is not captured by the next watch")
	}
}
