package interchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Exporter writes sessions into a directory of the program's.
type Exporter struct {
	Client    *client.Client
	Artifacts Registry
	Dir       *os.Root
	Thread    string // whose file is that of the main one; empty: main
	Force     bool   // replace files that hold what their threads do not have
	Keep      bool   // and keep those beside them
	Ahead     bool   // leave files alone that go on from what is written
	Home, Tmp string // directories of whoever will open the sessions: the names of their folders depend on them
}

// Exported says what was written.
type Exported struct {
	File      string  `json:"file"` // of the main thread, below the directory
	Entries   int     `json:"entries"`
	Agents    int     `json:"agents"` // threads beside the main one
	Artifacts int     `json:"artifacts"`
	Blobs     int     `json:"blobs"`
	Migrated  bool    `json:"migrated"` // its entries were of an older version, and are of the current one in the file (SPEC S5)
	Warnings  []error `json:"-"`

	Notes []string `json:"notes,omitempty"` // what was done to files that were there, beside what is written

	Files []Written `json:"-"` // all of them, blobs and artifacts too
}

// ompDialect is the dialect of the program's entries.
const ompDialect = "omp"

// ErrNotOMP says that a session is not one of oh-my-pi.
var ErrNotOMP = errors.New("no session of oh-my-pi")

// Session writes a session: its main thread as a file of the current version, and what belongs to it. A file
// that holds what its thread does not have is kept, unless Force: of the main thread's the error wraps ErrThere, others are
// among the warnings (SPEC P7).
func (x *Exporter) Session(ctx context.Context, id string) (Exported, error) {
	all, err := x.Client.Session(id).Threads(ctx)
	out := &export{Exporter: x, id: id, blobs: map[casstore.Ref]bool{}, all: all}
	if err != nil {
		return out.Exported, err
	}
	main := events.Thread{Session: id, Name: cmp.Or(x.Thread, events.MainThread)}
	out.main = main
	text, tree, err := out.thread(ctx, main)
	if err != nil {
		return out.Exported, err
	}
	h := tree.Header()
	out.File = path.Join("sessions", fitted(sessions.DirName(h.Cwd, x.Home, x.Tmp), ""), fileName(h))
	out.Entries = len(tree.Entries())
	var unread error // of some artifacts
	if out.records, unread = x.Artifacts.Records(ctx, id, ""); unread != nil && !errors.Is(unread, artifacts.ErrRecord) {
		return out.Exported, unread
	}
	if err := out.write(ctx, out.File, main, tree, text); err != nil {
		return out.Exported, err
	}
	folder := strings.TrimSuffix(out.File, sessionExt)
	for _, t := range all {
		if t.Thread == main || t.Name == events.MainThread || events.FormerOf(t.Thread) != "" {
			continue
		}
		if err := out.agent(ctx, t, folder); err != nil {
			return out.Exported, err
		}
	}
	if err := errors.Join(out.artifacts(ctx, folder), unread); err != nil {
		return out.Exported, err
	}
	return out.Exported, out.earlier(text, out.has(ctx, main, text))
}

// export is one session on its way.
type export struct {
	*Exporter
	Exported
	id      string                // of the session
	main    events.Thread         // whose file is the session's
	blobs   map[casstore.Ref]bool // that were written
	all     []client.Thread
	records []artifacts.Record // of the session
}

func (x *export) warn(err error) { x.Warnings = append(x.Warnings, err) }

// fileName is the program's name of a session's file. One that is no path segment is made such.
func fileName(h sessions.Header) string {
	stem := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, strings.TrimSuffix(h.FileName(), sessionExt))
	return fitted(stem, sessionExt)
}

// thread is the text of a thread's file: what it was imported from, but for what the size rules did (SPEC T), or, if that is
// not how the session is now, the session in the current version. Its leaf is where the thread has it (SPEC S3).
func (x *export) thread(ctx context.Context, t events.Thread) ([]byte, *client.Tree, error) {
	tree, err := x.Client.Thread(t).Tree(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !tree.OMP && tree.Head.Dialect != ompDialect {
		return nil, nil, fmt.Errorf("%s: %w: its entries are of the dialect %q; spool export writes them", t, ErrNotOMP, tree.Head.Dialect)
	}
	var text bytes.Buffer
	if _, err := x.Client.Internal().ExportAs(ctx, t, rehydrate.Stored, &text, x.missing); err != nil {
		return nil, nil, err
	}
	f, err := sessions.Load(text.Bytes())
	if h := tree.Header(); h.Timestamp == "" {
		h.Timestamp = sessions.FormatTime(time.UnixMilli(tree.Head.Created))
		tree.SetHeader(h)
	}
	if err != nil || !sameEntries(f, tree) { // no header, or entries without their places: nothing of the program's
		var b bytes.Buffer
		_, err := tree.WriteTo(&b)
		return b.Bytes(), tree, err
	}
	same := f.Tree()
	if same.Leaf() == tree.Leaf() && !f.Migrated {
		return text.Bytes(), tree, nil
	}
	x.Migrated = x.Migrated || f.Migrated
	if leaf := tree.Leaf(); leaf.ID() == "" {
		same.ResetLeaf()
	} else if err := same.Branch(leaf.ID()); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	_, err = same.WriteTo(&b)
	return b.Bytes(), tree, err
}

// writeThread writes the text of a thread's file; nothing of one that no session of the program has.
func writeThread(ctx context.Context, cl *client.Client, t events.Thread, w io.Writer) error {
	x := export{Exporter: &Exporter{Client: cl}}
	text, _, err := x.thread(ctx, t)
	if errors.Is(err, ErrNotOMP) {
		return nil
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// sameEntries tells whether a file says of its entries and of itself what the thread does.
func sameEntries(f *sessions.File, tree *client.Tree) bool {
	entries := tree.Entries()
	return f.Header.ID == tree.Header().ID && slices.EqualFunc(f.Entries, entries,
		func(a, b sessions.Entry) bool { return bytes.Equal(trim(a.JSON()), trim(b.JSON())) })
}

// trim takes off what may stand around the JSON of a line.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// missing says that an entry is not whole.
func (x *export) missing(m rehydrate.Missing) { x.warn(m) }

// write writes a thread's file, its notes, and the blobs that both refer to: those first, so that whoever finds the file finds
// them.
func (x *export) write(ctx context.Context, name string, t events.Thread, tree *client.Tree, text []byte) error {
	has := x.has(ctx, t, text)
	if err := x.file(name, has).Check(bytes.NewReader(text)); err != nil {
		return err
	}
	var n notes
	if err := x.notes(ctx, tree, text, &n); err != nil {
		return err
	}
	f, err := sessions.Load(text)
	if err != nil {
		return fmt.Errorf("export %s: %w", t, err)
	}
	for raw := range f.Objects() {
		if err := x.refs(ctx, raw); err != nil {
			return err
		}
	}
	if t == x.main {
		names, _ := fileNames(x.records)
		for _, r := range x.records {
			if one, ok := aboutArtifact(names[r.ID], r); ok && one.File != "" {
				n.Artifacts = append(n.Artifacts, one)
			}
		}
		slices.SortFunc(n.Artifacts, func(a, b artifactNote) int { return strings.Compare(a.File, b.File) })
	}
	if n.Fork, err = x.fork(ctx, t); err != nil {
		return err
	}
	if len(n.Entries)+len(n.Artifacts) > 0 || n.Fork != nil {
		n.Version = notesVersion
		raw, err := json.MarshalIndent(n, "", " ")
		if err == nil {
			err = x.put(NotesFile(name), bytes.NewReader(append(raw, '\n')), x.isNotes(NotesFile(name)))
		}
		if err != nil {
			return err
		}
	}
	return x.put(name, bytes.NewReader(text), has)
}

// refs writes the blobs that an object refers to.
func (x *export) refs(ctx context.Context, object []byte) error {
	for _, ref := range rehydrate.Refs(object) {
		if _, err := x.blob(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// blob writes one blob, once. One that is missing or corrupt is said, and is nil.
func (x *export) blob(ctx context.Context, ref casstore.Ref) ([]byte, error) {
	if x.blobs[ref] {
		return nil, nil
	}
	x.blobs[ref] = true
	b, err := x.Client.Blob(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrCorrupt) {
		x.warn(rehydrate.Missing{Ref: ref, Err: err})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x.Blobs++
	name := path.Join(blobsDir, ref.Hex())
	file := x.file(name, func([]byte) (bool, error) { return true, nil }) // what its name does not say is worth nothing
	file.Ahead = false
	done, err := file.Write(func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return b, err
	}
	if done.Outcome == Forwarded || done.Outcome == Replaced {
		x.Notes = append(x.Notes, name+" had other bytes than its name says, and is written anew")
	}
	x.Files = append(x.Files, done)
	return b, nil
}

// agent writes another thread of the session beside its artifacts.
func (x *export) agent(ctx context.Context, t client.Thread, folder string) error {
	start, err := x.Client.Reader().Start(ctx, t.Head.Start)
	if err != nil {
		return err
	}
	text, tree, err := x.thread(ctx, t.Thread)
	if errors.Is(err, ErrNotOMP) {
		x.warn(err)
		return nil
	}
	if err != nil {
		return err
	}
	name := t.Name
	if _, unnamed := dialect.Lookup(start.Name); start.Name != "" && !unnamed && artifacts.CheckFilename(start.Name+sessionExt) == nil {
		name = start.Name // what the program calls it; a thread that nobody named starts under its dialect
	}
	err = x.write(ctx, path.Join(folder, name+sessionExt), t.Thread, tree, text)
	if errors.Is(err, ErrThere) {
		x.warn(err)
		return nil
	}
	x.Agents++
	return err
}

// artifacts writes the artifacts of the session under their file names.
func (x *export) artifacts(ctx context.Context, folder string) error {
	names, doubles := fileNames(x.records)
	for _, d := range doubles {
		x.warn(fmt.Errorf("artifact %s is not exported: another file is called %s", d.ID, d.DirName()))
	}
	for _, r := range x.records {
		name, ok := names[r.ID]
		if !ok {
			continue
		}
		if err := x.artifact(ctx, r, path.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// fileNames are the artifacts of a session by the names of their files in its folder; doubles have the name of another file.
func fileNames(list []artifacts.Record) (names map[artifacts.ID]string, doubles []artifacts.Record) {
	names, taken := map[artifacts.ID]string{}, map[string]bool{}
	for _, r := range list {
		if r.Writer == artifacts.FromResult { // its text is in the entry, and an import makes it again
			continue
		}
		name := r.Filename
		number, _, ok := strings.Cut(name, ".")
		others := ok && number != "" && strings.Trim(number, "0123456789") == "" && // as the program finds them: 007 is 7
			cmp.Or(strings.TrimLeft(number, "0"), "0") != string(r.Seq)
		if taken[name] || others {
			name = r.DirName()
		}
		if transcript.IsTranscript(name) || strings.HasSuffix(name, notesExt) { // in the folder these are none
			name += ".txt"
		}
		if taken[name] {
			doubles = append(doubles, r)
			continue
		}
		names[r.ID], taken[name] = name, true
	}
	return names, doubles
}

// put writes a file; nil: no line of one that is there is known.
func (x *export) put(name string, r io.Reader, has func([]byte) (bool, error)) error {
	done, err := x.file(name, has).Write(func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	if err == nil {
		x.Files = append(x.Files, done)
	}
	return err
}

func (x *export) file(name string, has func([]byte) (bool, error)) File {
	return File{Dir: x.Dir, Name: name, Mode: 0o666, Force: x.Force, Keep: x.Keep, Ahead: x.Ahead, Has: has}
}

// has tells whether a line stands in the text that is written, in its thread, or in what that was before its source was
// rewritten, as it came or as it is stored. What another thread has stands in another file.
func (x *export) has(ctx context.Context, thread events.Thread, text []byte) func([]byte) (bool, error) {
	var own, all map[[sha256.Size]byte]bool
	return func(line []byte) (bool, error) {
		if own == nil {
			own = map[[sha256.Size]byte]bool{}
			addLines(own, text)
		}
		if own[sumLine(line)] {
			return true, nil
		}
		if all == nil {
			lines := map[[sha256.Size]byte]bool{}
			for _, t := range x.all {
				if !events.AreGenerations(thread, t.Thread) {
					continue
				}
				for _, form := range []rehydrate.Form{rehydrate.Stored, rehydrate.Full} {
					var b bytes.Buffer
					_, err := x.Client.Internal().ExportAs(ctx, t.Thread, form, &b, nil)
					if b.WriteByte('\n'); err == nil { // and as it was before the session was named or moved
						_, err = x.Client.Internal().Source().Export(ctx, t.Head, form, &b)
					}
					if err != nil {
						return false, err
					}
					addLines(lines, b.Bytes())
				}
			}
			all = lines
		}
		return all[sumLine(line)], nil
	}
}

func addLines(to map[[sha256.Size]byte]bool, text []byte) {
	for line := range bytes.Lines(text) {
		to[sumLine(bytes.TrimSpace(line))] = true
	}
}

// sumLine stands for a line. Where a header says that its leaf is does not count: an export writes that.
func sumLine(line []byte) [sha256.Size]byte {
	if jsonscan.Get(line, "leaf") != nil && jsonscan.Valid(line) == nil {
		if _, err := sessions.ParseHeader(line); err == nil {
			line = sessions.WithoutLeaf(line)
		}
	}
	return sha256.Sum256(line)
}

// artifact writes one artifact. One whose bytes cannot be had here is said.
func (x *export) artifact(ctx context.Context, r artifacts.Record, name string) error {
	body, _, err := x.Exporter.Artifacts.Open(ctx, r)
	if err == nil {
		defer func() { _ = body.Close() }()
		err = x.put(name, body, nil)
	}
	if err == nil {
		x.Exported.Artifacts++
		return nil
	}
	for _, known := range []error{ErrThere, artifacts.ErrNowhere, artifacts.ErrChanged, fs.ErrNotExist, record.ErrNotFound,
		casstore.ErrCorrupt} {
		if errors.Is(err, known) {
			x.warn(err)
			return nil
		}
	}
	return fmt.Errorf("artifact %s: %w", r.ID, err)
}
