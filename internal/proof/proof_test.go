package proof

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/note"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet(string, int64, int64) {}

// keys are of a new signer.
func keys(t testing.TB) (note.Signer, note.Verifier) {
	t.Helper()
	skey, vkey := must.Two(note.GenerateKey(rand.Reader, "tester"))(t)
	return must.Get(note.NewSigner(skey))(t), must.Get(note.NewVerifier(vkey))(t)
}

// world is a store with threads, a pack for each of some entries.
type world struct {
	t     testing.TB
	store *casstore.Memory
	b     *casstore.PackBuilder
	id    casstore.PackID
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: casstore.NewMemory(), b: casstore.NewPackBuilder()}
	w.next()
	return w
}

func (w *world) next() {
	binary.BigEndian.PutUint64(w.id[:], binary.BigEndian.Uint64(w.id[:])+1)
	w.b.Reset()
}

func (w *world) flush() {
	w.t.Helper()
	header, body := must.Two(w.b.Finish())(w.t)
	must.Do(w.t, w.store.PutPack(context.Background(), w.id, header, body))
	w.next()
}

func (w *world) begin(task string) threads.Head {
	prompt := threads.Content{Text: []byte(task)}.Node()
	start := threads.Start{Name: "demo", Prompt: w.b.AddNode(&prompt)}.Node()
	h := threads.Head{Start: casstore.Located{Ref: w.b.AddNode(&start), Pack: w.id}}
	w.flush()
	return h
}

// add appends an entry of that text, in a pack of its own.
func (w *world) add(h *threads.Head, text string, refs ...casstore.Ref) {
	w.t.Helper()
	content := threads.Content{Text: []byte(text), Refs: refs}.Node()
	for _, l := range h.Located() {
		w.b.Locate(l)
	}
	s := h.Next("r")
	s.Content = w.b.AddNode(&content)
	h.Entries++
	h.N++
	s.Timestamp = 1778308464000 + h.Entries
	s.Entry = threads.Record{ID: fmt.Sprint(h.Entries), Index: h.Entries, First: h.N, Count: 1}
	n := s.Node()
	h.Advance(casstore.Located{Ref: w.b.AddNode(&n), Pack: w.id})
	w.flush()
}

// session is a thread with branches, in the head and in a node, another that forks off it, and one without a state.
func session(t testing.TB) (w *world, names []string, heads []threads.Head) {
	w = newWorld(t)
	h := w.begin("a task")
	for i := range 4 {
		w.add(&h, fmt.Sprint("entry ", i), casstore.SumBlob([]byte("an image")))
	}
	fork, second := h.Clone(), h.Recent[2]
	for i := range 3 {
		h.MoveTo(must.Get(w.reader().Recent(t.Context(), second))(t))
		w.add(&h, fmt.Sprint("branch ", i))
	}
	var d casstore.Draft
	for _, l := range h.Shrink(threads.HeadRoom{Tips: 2}, &d, w.id) {
		w.b.Locate(l)
	}
	if w.b.AddDraft(&d); h.Older.IsZero() || len(h.Tips) == 0 {
		t.Fatal("the head has not both kinds of tips")
	}
	w.flush()
	w.add(&fork, "of the fork")
	return w, []string{"fork", "main", "pending"}, []threads.Head{fork, h, w.begin("another task")}
}

func (w *world) reader() threads.Reader { return threads.Reader{Packs: w.store} }

// written is the proof of heads.
func (w *world) written(names []string, heads []threads.Head, signer note.Signer) []byte {
	w.t.Helper()
	scratch := must.Get(os.Create(filepath.Join(w.t.TempDir(), "scratch")))(w.t)
	defer scratch.Close()
	var out bytes.Buffer
	rep := must.Get(Write(w.t.Context(), &out, w.reader(), "s", names, heads, signer, scratch, quiet))(w.t)
	if rep.Bytes != int64(out.Len()) {
		w.t.Errorf("Write says %d bytes, and wrote %d", rep.Bytes, out.Len())
	}
	return out.Bytes()
}

func verified(t testing.TB, file []byte, key note.Verifier) *Report {
	t.Helper()
	return must.Get(Verify(context.Background(), bytes.NewReader(file), int64(len(file)), key, nil, quiet))(t)
}

// TestEarlier: each thread goes on from where an earlier proof had it, whatever other threads lead there, or that is found.
func TestEarlier(t *testing.T) {
	w, names, heads := session(t)
	signer, key := keys(t)
	file := w.written(names, heads, signer)
	fork, main := heads[0], heads[1]
	for name, c := range map[string]struct {
		fork, main casstore.Ref
		at, what   string
	}{
		"as it is":           {fork: fork.Recent[0].Ref, main: main.Recent[0].Ref},
		"before both parted": {fork: fork.Recent[2].Ref, main: fork.Recent[2].Ref},
		"a branch":           {main: fork.Recent[1].Ref},
		"before any":         {},
		"went back":          {main: fork.Recent[0].Ref, at: "thread main", what: "went back"},
		"what the other has": {fork: main.Recent[0].Ref, at: "thread fork", what: "went back"},
	} {
		earlier := &Report{Session: "s", Threads: []Thread{{Name: "fork"}, {Name: "main"}}}
		for i, end := range []casstore.Ref{c.fork, c.main} {
			if !end.IsZero() {
				earlier.Threads[i].ends = []casstore.Ref{end}
			}
		}
		rep := must.Get(Verify(t.Context(), bytes.NewReader(file), int64(len(file)), key, earlier, quiet))(t)
		if c.what == "" && len(rep.Findings) > 0 || c.what != "" && len(rep.Findings) != 1 {
			t.Errorf("%s: findings = %v", name, rep.Findings)
		}
		if c.what != "" {
			found(t, name, rep, c.at, c.what)
		}
	}
	for _, earlier := range []*Report{{Session: "other"}, {Session: "s", Threads: []Thread{{Name: "gone"}}}} {
		rep := must.Get(Verify(t.Context(), bytes.NewReader(file), int64(len(file)), key, earlier, quiet))(t)
		found(t, "another", rep, "", "earlier proof")
	}
}

// TestEarlierBranches: what an earlier proof had in a branch, or as the start, is found to be gone as its head is; a branch that is gone on
// from, or that the head does not name any more, is there.
func TestEarlierBranches(t *testing.T) {
	w := newWorld(t)
	signer, key := keys(t)
	h := w.begin("a task")
	w.add(&h, "one")
	first, other := h.Clone(), w.begin("another task")
	w.add(&h, "two")
	second := h.Clone()
	back := func(h *threads.Head) { h.MoveTo(must.Get(w.reader().Recent(t.Context(), first.Head()))(t)) }
	back(&h)
	branched := h.Clone()
	w.add(&h, "two otherwise")
	back(&h)
	more := h.Clone()
	var d casstore.Draft
	for _, l := range more.Shrink(threads.HeadRoom{Tips: 1}, &d, w.id) {
		w.b.Locate(l)
	}
	w.b.AddDraft(&d)
	w.flush()
	inNode := more.Clone()
	w.add(&more, "more")
	w.add(&second, "behind two")
	lie := first.Clone()
	w.add(&lie, "no such thing")
	for name, c := range map[string]struct {
		was, now threads.Head
		found    bool
	}{
		"gone on from the branch":        {branched, second, false},
		"other branches":                 {branched, more, false},
		"branches in a node":             {inNode, more, false},
		"another entry for the branch's": {branched, lie, true},
		"for one in a node":              {inNode, lie, true},
		"another start":                  {w.begin("a task of before"), other, true},
		"the start before any entry":     {threads.Head{Start: h.Start}, h, false},
	} {
		file := func(h threads.Head) []byte { return w.written([]string{"main"}, []threads.Head{h}, signer) }
		was, now := verified(t, file(c.was), key), file(c.now)
		rep := must.Get(Verify(t.Context(), bytes.NewReader(now), int64(len(now)), key, was, quiet))(t)
		if len(was.Findings) > 0 || !c.found && len(rep.Findings) > 0 {
			t.Errorf("%s: findings = %v and %v", name, was.Findings, rep.Findings)
		}
		if c.found {
			found(t, name, rep, "thread main", "another history")
		}
	}
}

// found fails unless a finding has both texts, of where and of what.
func found(t *testing.T, name string, rep *Report, at, what string) {
	t.Helper()
	if !slices.ContainsFunc(rep.Findings, func(f Finding) bool {
		return strings.Contains(f.At, at) && strings.Contains(f.What, what)
	}) {
		t.Errorf("%s: Verify finds %v, want %q at %q", name, rep.Findings, what, at)
	}
}

func TestVerify(t *testing.T) {
	w, names, heads := session(t)
	signer, key := keys(t)
	file := w.written(names, heads, signer)
	rep := verified(t, file, key)
	if len(rep.Findings) > 0 || rep.Session != "s" || len(rep.Threads) != 3 || rep.Blobs != 1 ||
		rep.Threads[1].Entries != 7 || rep.Threads[1].Head != heads[1].Head().Ref.String() ||
		rep.SignedBy != fmt.Sprintf("tester+%08x", key.KeyHash()) {
		t.Errorf("Verify = %+v", rep)
	}
	if again := w.written(names, heads, signer); !bytes.Equal(again, file) {
		t.Error("the same heads have two proofs")
	}
	_, other := keys(t)
	found(t, "other key", verified(t, file, other), "note", "signed by the key tester+")
}

// No bit of a file can be another one, none can be cut off, and none be added.
func TestNoBitIsFree(t *testing.T) {
	w := newWorld(t)
	h := w.begin("a task")
	w.add(&h, "one")
	w.add(&h, "two")
	signer, key := keys(t)
	file := w.written([]string{"main"}, []threads.Head{h}, signer)
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if rep := verified(t, file, key); len(rep.Findings) == 0 {
				t.Errorf("bit %d of byte %d of %d is flipped, and Verify finds nothing", bit, i, len(file))
			}
			file[i] ^= 1 << bit
		}
		if rep := verified(t, file[:i], key); len(rep.Findings) == 0 {
			t.Errorf("the file is cut off at %d of %d bytes, and Verify finds nothing", i, len(file))
		}
	}
	more := verified(t, append(bytes.Clone(file), 0), key)
	found(t, "more", more, fmt.Sprint("byte ", len(file)), "1 bytes stand behind")
	at := bytes.Index(file, []byte("\n\n")) + 2
	line := file[at : at+1+bytes.IndexByte(file[at:], '\n')]
	found(t, "signed twice", verified(t, slices.Concat(file[:at], line, file[at:]), key), "byte", "behind the last pack")
	found(t, "a flip in a pack", verified(t, flip(file, len(file)-1), key), "pack 1, bytes", "not those that were signed")
	found(t, "a cut", verified(t, file[:len(file)-1], key), "pack 1, bytes", "its tail was cut off")
	found(t, "a flip in the note", verified(t, flip(file, 30), key), "note", "was changed")
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// forged is a file whose statement and packs are as somebody with the key made them.
type forged struct {
	*statement
	packs [][2][]byte
}

func (f *forged) file(t testing.TB, signer note.Signer) []byte {
	f.statement.packs = nil
	var all []byte
	for _, p := range f.packs {
		whole := slices.Concat(p[0], p[1])
		f.statement.packs = append(f.statement.packs,
			packed{header: int64(len(p[0])), body: int64(len(p[1])), sum: sha256.Sum256(whole)})
		all = append(all, whole...)
	}
	return append(must.Get(note.Sign(&note.Note{Text: f.text()}, signer))(t), all...)
}

// Who has the key cannot prove what does not hold either.
func TestLiesOfASigner(t *testing.T) {
	w, names, heads := session(t)
	signer, key := keys(t)
	file := w.written(names, heads, signer)
	// nodes are those of the honest proof, in their order, without the one that keep does not want.
	nodes := func(keep func(casstore.Node) bool) *casstore.PackBuilder {
		b := casstore.NewPackBuilder()
		c := opened(t, file, key)
		for i := range c.statement.packs {
			p, _, err := c.open(i)
			must.Do(t, err)
			for n := range p.Len() {
				if node := must.Get(p.Node(p.Ref(n)))(t); keep(node) {
					b.AddNode(&node)
				} else {
					b.Locate(casstore.Located{Ref: p.Ref(n), Pack: packID(0)})
				}
			}
		}
		return b
	}
	all := func(casstore.Node) bool { return true }
	one := func(b *casstore.PackBuilder) [][2][]byte {
		header, body := must.Two(b.Finish())(t)
		return [][2][]byte{{header, body}}
	}
	content := func(text string) casstore.Node { return threads.Content{Text: []byte(text)}.Node() }
	for _, c := range []struct {
		name     string
		forge    func(f *forged)
		at, what string
	}{
		{"nothing", func(*forged) {}, "", ""},
		{"a head of before", func(f *forged) { f.threads[0].head.Ref = heads[0].Recent[1].Ref }, "thread fork",
			"head counts 5 entries"},
		{"a head of another thread", func(f *forged) { f.threads[0].start = f.threads[2].start }, "thread fork",
			"its start is"},
		{"a head that is nowhere", func(f *forged) { f.threads[1].head.Ref = casstore.SumNode([]byte("x")) }, "thread main",
			"not found"},
		{"a node that is no state", func(f *forged) { f.threads[1].head = f.threads[1].start }, "thread main", "wrong shape"},
		{"fewer entries", func(f *forged) { f.threads[1].Entries-- }, "thread main", "the head counts 6 entries"},
		{"more items", func(f *forged) { f.threads[1].Items++ }, "thread main", "its last item"},
		{"a branch left out", func(f *forged) { f.threads[1].tips = nil }, "packs", "others were added"},
		{"a node missing", func(f *forged) {
			f.packs = one(nodes(func(n casstore.Node) bool { return !strings.Contains(string(n.Payload), "branch 1") }))
		}, "thread main", "not found"},
		{"a node added", func(f *forged) {
			b, n := nodes(all), content("added")
			b.AddNode(&n)
			f.packs = one(b)
		}, "packs", "others were added"},
		{"a node twice", func(f *forged) {
			b, n := casstore.NewPackBuilder(), content("of the fork")
			b.AddNode(&n)
			f.packs = append(f.packs, one(b)...)
		}, "packs", "stand twice"},
		{"packs exchanged", func(f *forged) {
			b, n := casstore.NewPackBuilder(), content("of the fork")
			b.AddNode(&n)
			f.packs = append(one(b), f.packs...)
		}, "thread main", "not found"},
		{"nodes exchanged", func(f *forged) {
			h := bytes.Clone(f.packs[0][0])
			first, second := h[40:72], h[72:104]
			for i := range first {
				first[i], second[i] = second[i], first[i]
			}
			sum := sha256.Sum256(h[:len(h)-32])
			f.packs[0][0] = append(h[:len(h)-32], sum[:]...)
		}, "pack 1", "corrupt"},
		{"a thread twice", func(f *forged) { f.threads = append(f.threads, f.threads[2]) }, "note", "stands twice"},
		{"a pack too large to be", func(f *forged) { // a kilobyte that says it is 64 MB
			b, n := nodes(all), content(strings.Repeat("x", packRaw))
			b.AddNode(&n)
			f.packs = one(b)
		}, "pack 1", "the limit is"},
	} {
		s := *opened(t, file, key).statement
		s.threads = slices.Clone(s.threads)
		f := &forged{statement: &s, packs: one(nodes(all))}
		c.forge(f)
		rep := verified(t, f.file(t, signer), key)
		if c.what == "" {
			if len(rep.Findings) > 0 {
				t.Errorf("%s: Verify finds %v", c.name, rep.Findings)
			}
			continue
		}
		found(t, c.name, rep, c.at, c.what)
	}
}

// opened is a proof whose note holds.
func opened(t testing.TB, file []byte, key note.Verifier) *checked {
	t.Helper()
	msg := must.Get(readNote(bytes.NewReader(file)))(t)
	s := must.Get(parseStatement(must.Get(openNote(msg, key))(t)))(t)
	c := &checked{Report: s.report("", 0), file: bytes.NewReader(file), statement: s}
	c.place(int64(len(msg)), int64(len(file)))
	return c
}

// What does not hold is not signed.
func TestWriteRefuses(t *testing.T) {
	w, names, heads := session(t)
	signer, _ := keys(t)
	w.store.CorruptPack(heads[0].Recent[2].Pack)
	scratch := must.Get(os.Create(filepath.Join(t.TempDir(), "scratch")))(t)
	defer scratch.Close()
	var out bytes.Buffer
	_, err := Write(t.Context(), &out, w.reader(), "s", names, heads, signer, scratch, quiet)
	if must.Is(t, err, casstore.ErrCorrupt, "Write"); out.Len() > 0 || !strings.Contains(fmt.Sprint(err), "thread fork") {
		t.Errorf("Write wrote %d bytes, and says %v", out.Len(), err)
	}
}

// A thread of several packs, with a node that is larger than a pack is else.
func TestSeveralPacks(t *testing.T) {
	w := newWorld(t)
	h := w.begin("a task")
	w.add(&h, strings.Repeat("a", packRaw+1))
	for i := range 5 {
		w.add(&h, strings.Repeat(fmt.Sprint(i), packRaw/3))
	}
	signer, key := keys(t)
	file := w.written([]string{"main"}, []threads.Head{h}, signer)
	if rep := verified(t, file, key); len(rep.Findings) > 0 || rep.Nodes != 14 {
		t.Errorf("Verify = %+v", rep)
	}
	if c := opened(t, file, key); len(c.statement.packs) < 3 {
		t.Errorf("there are %d packs, want 3 at least", len(c.statement.packs))
	}
}

// Whatever somebody signs, Verify ends without harm, and what has no finding is in its one form.
func FuzzVerify(f *testing.F) {
	w, names, heads := session(f)
	signer, key := keys(f)
	file := w.written(names, heads, signer)
	msg := must.Get(readNote(bytes.NewReader(file)))(f)
	f.Add([]byte(must.Get(openNote(msg, key))(f)), file[len(msg):])
	f.Add([]byte("spool proof 1\nsession s\nthread t\n"), []byte{})
	f.Add([]byte("spool proof 1\nsession s\npack 67108864 268435456 "+strings.Repeat("0", 64)+"\n"), []byte("SPK1"))
	f.Add([]byte("spool proof 2\n"), []byte{})
	f.Fuzz(func(t *testing.T, text, packs []byte) {
		if s, err := parseStatement(string(text)); err == nil && s.text() != string(text) {
			t.Errorf("%q is read as %q", text, s.text())
		}
		msg, err := note.Sign(&note.Note{Text: string(text)}, signer)
		if err != nil {
			return
		}
		if rep := verified(t, append(msg, packs...), key); len(rep.Findings) == 0 && rep.Session == "" {
			t.Errorf("Verify(%q) = %+v", text, rep)
		}
	})
}

var errDisk = errors.New("the disk does not do it")

// broken is a scratch, or a file, of which one read or write fails, and all that come behind.
type broken struct {
	in    *os.File
	whole int
}

func (b *broken) use() error {
	if b.whole--; b.whole < 0 {
		return errDisk
	}
	return nil
}

func (b *broken) Write(p []byte) (int, error) {
	if err := b.use(); err != nil {
		return 0, err
	}
	return b.in.Write(p)
}

func (b *broken) ReadAt(p []byte, at int64) (int, error) {
	if err := b.use(); err != nil {
		return 0, err
	}
	return b.in.ReadAt(p, at)
}

// What fails beside the threads, at whatever step, is told as what it is, and never as something that they lack.
func TestFailureIsNoFinding(t *testing.T) {
	w := newWorld(t)
	h := w.begin("a task")
	for range 5 { // more than is buffered
		w.add(&h, rand.Text()+strings.Repeat("0", 400_000))
	}
	signer, key := keys(t)
	heads := []threads.Head{h, w.begin("another task")}
	names := []string{"a", "b"}
	write := func(ctx context.Context, whole int) (err error) {
		scratch := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
		defer scratch.Close()
		_, err = Write(ctx, io.Discard, w.reader(), "s", names, heads, signer, &broken{scratch, whole}, quiet)
		return err
	}
	told := func(what string, err, want error) {
		t.Helper()
		if must.Is(t, err, want, what); strings.Contains(err.Error(), "thread") {
			t.Errorf("%s = %v, which tells of a thread", what, err)
		}
	}
	whole := 0
	for ; ; whole++ {
		err := write(t.Context(), whole)
		if err == nil {
			break
		}
		told(fmt.Sprint("Write on a disk that fails after ", whole), err, errDisk)
	}
	if whole < 4 {
		t.Errorf("Write used the disk %d times, want that it fails at several", whole)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	told("Write that is ended", write(ended, whole), context.Canceled)

	file := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	size := int64(must.Get(file.Write(w.written(names, heads, signer)))(t))
	for whole = 0; ; whole++ {
		rep, err := Verify(t.Context(), &broken{file, whole}, size, key, nil, quiet)
		if err == nil {
			must.Same(t, len(rep.Findings), 0, "%d findings, want %d")
			break
		}
		told(fmt.Sprint("Verify on a disk that fails after ", whole), err, errDisk)
	}
	if whole < 3 {
		t.Errorf("Verify used the disk %d times, want that it fails at several", whole)
	}
}
