package interchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Materializer writes a session where its harness finds it: its files, byte for byte as they were imported, and those of the
// sessions that it is read together with. Sessions of oh-my-pi are written as Exporter does, in the current version.
type Materializer struct {
	Client    *client.Client
	Artifacts Registry
	Harness   Harness
	Dir       *os.Root // of the harness
	Path      string   // of Dir
	Thread    string   // of the session, which is written as its main thread's file; empty: the one that the harness's file is in
	Cwd       string   // working directory to find the session for; empty: its own
	Home, Tmp string   // as of Exporter
	Force     bool     // replace files that are something else, and keep them beside
	Ahead     bool     // leave files alone that go on from what is written
}

// Materialized says what was written.
type Materialized struct {
	Session string    `json:"session"`
	Harness string    `json:"harness"`
	File    string    `json:"file"`                   // of the main thread, or of the one that is written as it, below the harness's directory
	Files   []Written `json:"files"`                  // that one is the last
	Lost    []string  `json:"not_restored,omitempty"` // what lay beside the files and is not kept in Spool
	Notes   []string  `json:"notes,omitempty"`        // as of Exported
}

// Outcome is what became of the main thread's file.
func (m Materialized) Outcome() Outcome {
	for _, f := range m.Files {
		if f.File == m.File {
			return f.Outcome
		}
	}
	return ""
}

// Session writes a session. Where a file holds what would be lost nothing is written at all, but for sessions of oh-my-pi,
// which are written file by file; the error names each, and wraps ErrThere.
//
//  1. Write all files under other names, those of the sessions that it needs behind its own.
//  2. Give them their names, what others need first. A crash before leaves .part files; the next call makes new ones, and
//
// one after an hour removes them.
func (m *Materializer) Session(ctx context.Context, id string) (out Materialized, err error) {
	out = Materialized{Session: id, Harness: m.Harness.Name}
	if t := (events.Thread{Session: id, Name: m.Thread}); t.Name != "" && !isMain(t) {
		return out, fmt.Errorf("%s: %w: it is no copy of the session's file; spool session fork %s makes a session of it", t, errNoFile, t)
	}
	if m.Harness.Name == ompDialect {
		return out, m.omp(ctx, id, &out)
	}
	w := materialize{Materializer: m, out: &out, known: map[string]bool{}}
	if err := w.look(); err != nil {
		return out, err
	}
	if out.File, err = w.session(ctx, id, 0); err == nil {
		err = errors.Join(w.refused...)
	}
	if err != nil {
		return out, errors.Join(err, w.drop())
	}
	for _, s := range slices.Backward(w.staged) {
		w.staged = w.staged[:len(w.staged)-1]
		done, err := s.commit()
		switch {
		case err == nil:
			out.Files = append(out.Files, done)
		case s.Spare:
			out.Lost = append(out.Lost, fmt.Sprintf("%s: %v", s.Name, err))
		default:
			return out, errors.Join(err, w.drop())
		}
	}
	return out, nil
}

// omp writes a session of oh-my-pi as an export does.
func (m *Materializer) omp(ctx context.Context, id string, out *Materialized) error {
	x := Exporter{Client: m.Client, Artifacts: m.Artifacts, Dir: m.Dir, Home: m.Home, Tmp: m.Tmp, Thread: m.Thread, Force: m.Force,
		Keep: m.Force, Ahead: m.Ahead}
	done, err := x.Session(ctx, id)
	out.File, out.Files, out.Notes = done.File, done.Files, done.Notes
	for _, w := range done.Warnings {
		out.Lost = append(out.Lost, w.Error())
	}
	return err
}

// materialize is one session on its way.
type materialize struct {
	*Materializer
	out     *Materialized
	there   []thereFile // transcripts in the harness's directory
	staged  []*staged
	refused []error         // each wraps ErrThere
	known   map[string]bool // sessions that are staged
}

// thereFile is a transcript that is there.
type thereFile struct {
	name string // below the directory
	info fs.FileInfo
}

// look finds the transcripts that are there: a session has the file that it has, whatever its folder. What a call that was killed had
// staged is removed, when no other can be at it any more.
func (w *materialize) look() error {
	for _, folder := range slices.Concat(w.Harness.Folders, w.Harness.Beside) {
		err := fs.WalkDir(w.Dir.FS(), folder, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			staged := partName.FindStringSubmatch(d.Name())
			if staged == nil && !transcript.IsTranscript(d.Name()) {
				return nil
			}
			info, err := d.Info()
			if staged != nil {
				ours := staged[1] == workspaceFile || transcript.IsWanted(path.Join(path.Dir(name), staged[1]))
				if err == nil && ours && time.Since(info.ModTime()) > partLives {
					_ = w.Dir.Remove(name) // else a later call does
				}
				return err
			}
			if err == nil {
				w.there = append(w.there, thereFile{name, info})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(w.there, func(a, b thereFile) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	return nil
}

// find is the newest file that is there and is one of those; "" for none.
func (w *materialize) find(is func(name string) bool) string {
	for _, f := range w.there {
		if is(f.name) {
			return f.name
		}
	}
	return ""
}

// session stages the files of a session, and of those that it needs. Of one that another needs, so many bytes do; 0: all.
func (w *materialize) session(ctx context.Context, id string, needs int64) (name string, err error) {
	if w.known[id] = true; ctx.Err() != nil {
		return "", ctx.Err()
	}
	all, err := w.Client.Session(id).Threads(ctx)
	if err != nil {
		return "", err
	}
	name = w.find(func(name string) bool { return w.Harness.isFileOf(name, id) })
	main, ok := w.main(all, needs)
	switch {
	case !ok && needs > 0 && w.has(name, needs): // it is only here
		return name, nil
	case !ok:
		return "", fmt.Errorf("%s: %w of %s is in it", strings.TrimSuffix(id+"/"+w.Thread, "/"), errNoFile, w.Harness.Title)
	}
	if name == "" {
		if name, err = w.name(ctx, id); err != nil {
			return "", err
		}
	}
	said := content{outputs: []byte(id + "/" + outputsDir + "/")}
	if err := w.thread(ctx, main, name, needs, &said); err != nil {
		return "", err
	}
	if w.Thread == "" && needs == 0 {
		w.noteGenerations(main, all)
	}
	kept := map[string]artifacts.Record{}
	sidecars := w.Harness.Name == "claude" || w.Harness.Name == "qwen"
	if sidecars {
		if kept, err = w.newest(ctx, id, name); err != nil {
			return "", err
		}
	}
	agents, err := w.agents(ctx, id, all, name, kept, &said)
	switch {
	case err != nil:
		return "", err
	case sidecars:
		return name, w.beside(ctx, kept, agents, name, &said)
	}
	switch w.Harness.Name {
	case "copilot":
		return name, w.workspace(ctx, main, name)
	}
	base, bytes, err := w.base(ctx, main)
	if err != nil || base == "" || w.known[base] {
		return name, err
	}
	if _, err = w.session(ctx, base, bytes); err != nil {
		err = fmt.Errorf("%s goes on from another session: %w", id, err)
	}
	return name, err
}

var errNoFile = errors.New("no transcript")

// has tells whether a file is there and has so many bytes.
func (w *materialize) has(name string, size int64) bool {
	return slices.ContainsFunc(w.there, func(f thereFile) bool { return f.name == name && f.info.Size() >= size })
}

// main is the thread that is written as the harness's file of a session: the one that was asked for, or the one that the file is in: main,
// or one beside what an agent wrote there itself.
func (w *materialize) main(all []client.Thread, needs int64) (main client.Thread, ok bool) {
	for _, t := range all {
		of := t.Head.Dialect == w.Harness.Dialect && isMain(t.Thread)
		if w.Thread != "" && needs == 0 {
			if of && t.Name == w.Thread {
				return t, true
			}
			continue
		}
		switch {
		case !of || events.FormerOf(t.Thread) != "":
		case t.Name == events.MainThread:
			return t, true
		default:
			main, ok = t, true
		}
	}
	return main, ok
}

// isMain tells whether a thread is of the file of its session: main, one beside it, or a former generation of such.
func isMain(t events.Thread) bool {
	return t.Name == events.MainThread || strings.HasPrefix(t.Name, events.MainThread+"-")
}

// noteGenerations says what else the session's file was, or is on another machine: who goes on may want that.
func (w *materialize) noteGenerations(main client.Thread, all []client.Thread) {
	all = slices.DeleteFunc(slices.Clone(all), func(t client.Thread) bool { return !isGeneration(main.Thread, t.Thread) })
	if len(all) == 0 {
		return
	}
	newest := slices.MaxFunc(all, func(a, b client.Thread) int { return cmp.Compare(a.Head.Updated, b.Head.Updated) })
	more := ""
	if len(all) > 1 {
		more = fmt.Sprintf(", the newest of %d such threads", len(all))
	}
	w.out.Notes = append(w.out.Notes, fmt.Sprintf("the session also went on otherwise, or was rewritten: "+
		"that is kept in %s%s, and %s goes on with it", newest.Thread, more, goesOn(newest.Thread)))
}

// isGeneration tells whether a thread is another generation of one.
func isGeneration(of, t events.Thread) bool { return t != of && events.AreGenerations(of, t) }

// goesOn is the command that goes on with a thread.
func goesOn(t events.Thread) string { return "spool resume " + t.String() }

// name is what the file of a session is called that is not there.
func (w *materialize) name(ctx context.Context, id string) (string, error) {
	info, err := w.Client.Internal().SessionInfo(ctx, id)
	if err != nil {
		return "", err
	}
	if w.Harness.Name == "codex" {
		if name, err := indexed(w.Dir, w.Path, id); name != "" || err != nil {
			return name, err
		}
	}
	name, err := w.Harness.fileOf(info, w.Cwd)
	if err == nil && w.Harness.Name == "gemini" {
		name, err = claimed(w.Dir, name, cmp.Or(w.Cwd, info.Cwd))
	}
	return name, err
}

// thread stages the file of a thread. It was written last when its newest entry was: programs list sessions by that, and go on with the
// newest.
func (w *materialize) thread(ctx context.Context, t client.Thread, name string, needs int64, said *content) error {
	f := File{Dir: w.Dir, Name: name, Shown: filepath.Join(w.Path, filepath.FromSlash(name)), Mode: 0o600, Force: w.Force, Keep: true,
		Ahead: w.Ahead, Needs: needs, Unpack: !strings.HasSuffix(name, sessionExt), Time: time.UnixMilli(t.Head.Updated)}
	s, err := f.stage(func(out io.Writer) error {
		var missing []error
		warn := func(m rehydrate.Missing) { missing = append(missing, m) }
		_, err := w.Client.Internal().ExportAs(ctx, t.Thread, rehydrate.InFile, io.MultiWriter(out, said), warn)
		if err = errors.Join(append(missing, err)...); err == nil && said.size < needs {
			err = fmt.Errorf("%s has %d bytes, and %d of it are needed: it was rewritten since", t.Thread, said.size, needs)
		}
		return err
	})
	switch {
	case errors.Is(err, ErrThere):
		kept, e := w.keptIn(ctx, t.Thread, name)
		switch {
		case kept.Name == "":
			err = fmt.Errorf("%w; spool import takes it in", err)
		case !isMain(kept):
			err = fmt.Errorf("%w; all of it is kept in %s", err, kept)
		default:
			err = fmt.Errorf("%w; all of it is kept in %s, and %s goes on with that", err, kept, goesOn(kept))
		}
		w.refused = append(w.refused, err)
		return e
	case err != nil:
		return err
	}
	w.staged = append(w.staged, s)
	return nil
}

// keptIn is the other generation of a thread that has all of a file: what the session became where somebody else went on with it, or
// what it was before a rewind. The zero thread: none has.
func (w *materialize) keptIn(ctx context.Context, t events.Thread, name string) (kept events.Thread, err error) {
	if info, err := w.Dir.Lstat(name); err != nil || !info.Mode().IsRegular() { // to open it may take for ever
		return kept, nil
	}
	all, err := w.Client.Session(t.Session).Threads(ctx)
	if err != nil {
		return kept, err
	}
	for _, was := range all {
		if !isGeneration(t, was.Thread) {
			continue
		}
		there, err := w.Dir.Open(name)
		if err != nil {
			return kept, err
		}
		_, differs := w.Client.Internal().ExportAs(ctx, was.Thread, rehydrate.InFile, beginning{there}, func(rehydrate.Missing) {})
		n, _ := there.Read(make([]byte, 1))
		if _ = there.Close(); differs == nil && n == 0 {
			return was.Thread, nil
		}
	}
	return kept, nil
}

// beginning is written what a file may be a beginning of.
type beginning struct{ there io.Reader }

func (b beginning) Write(p []byte) (int, error) {
	has := make([]byte, len(p))
	n, err := io.ReadFull(b.there, has)
	if !bytes.Equal(has[:n], p[:n]) {
		return 0, ErrThere
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return len(p), err
}

// drop takes back what is staged.
func (w *materialize) drop() (err error) {
	for _, s := range w.staged {
		err = errors.Join(err, s.drop())
	}
	return err
}

// base is the session whose file a rollout of Codex goes on from without having it, and how many bytes of that; "" for none.
func (w *materialize) base(ctx context.Context, t client.Thread) (id string, size int64, err error) {
	for line, err := range w.Client.Internal().RawEntries(ctx, t.Head) {
		if err != nil {
			return "", 0, err
		}
		if jsonscan.Valid(line.Head) != nil {
			return "", 0, nil
		}
		base := jsonscan.Get(line.Head, "payload", "history_base")
		if id, _ = jsonscan.Text(jsonscan.Get(base, "thread_id")); id == "" {
			return "", 0, nil
		}
		if err := events.CheckToken("session", id); err != nil {
			return "", 0, fmt.Errorf("%s: history_base: %w", t.Thread, err)
		}
		size, err = strconv.ParseInt(string(jsonscan.Get(base, "end_byte_offset")), 10, 64)
		if err != nil || size <= 0 {
			return "", 0, fmt.Errorf("%s: history_base has no end_byte_offset", t.Thread)
		}
		return id, size, nil
	}
	return "", 0, nil
}

// agents stages the files of a session's subagents: each where the file beside it is kept of, which may be some folders below.
func (w *materialize) agents(
	ctx context.Context, id string, all []client.Thread, main string, kept map[string]artifacts.Record, said *content,
) (names []string, err error) {
	for _, t := range all {
		agent, ok := strings.CutPrefix(t.Name, "agent-")
		name := w.Harness.agentFile(main, id, agent)
		if w.Harness.Name == "claude" && ofSDK.MatchString(t.Name) {
			w.out.Lost = append(w.out.Lost, t.String()+": Claude Code has no file for what its SDK calls so")
		}
		if !ok || name == "" || events.FormerOf(t.Thread) != "" || t.Head.Dialect != w.Harness.Dialect {
			continue
		}
		for _, file := range slices.Sorted(maps.Keys(kept)) {
			if of, ok := strings.CutSuffix(file, agentExt); ok && path.Base(of) == stemOf(name) {
				name = of + sessionExt
				break
			}
		}
		there := w.find(func(there string) bool {
			beside := strings.HasPrefix(there, strings.TrimSuffix(main, sessionExt)+"/") || path.Dir(there) == path.Dir(main)
			return beside && stemOf(there) == stemOf(name)
		})
		name = cmp.Or(there, name)
		if err := w.thread(ctx, t, name, 0, said); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// ofSDK is the name of a thread for what only the SDK of Claude Code calls something (docs/adr/0030).
var ofSDK = regexp.MustCompile(`^sub-[0-9a-f]{32}$`)

// beside stages what lay beside a session's files, and says what belongs there and is not kept.
func (w *materialize) beside(ctx context.Context, kept map[string]artifacts.Record, agents []string, main string, said *content) error {
	session := strings.TrimSuffix(main, sessionExt)
	lost := func(what string, name string) {
		for file := range kept {
			if file == name || strings.HasPrefix(file, name+"/") {
				return
			}
		}
		if _, err := w.Dir.Stat(name); errors.Is(err, fs.ErrNotExist) {
			w.out.Lost = append(w.out.Lost, what+": "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if err := w.besideFile(ctx, name, kept[name]); err != nil {
			return err
		}
	}
	if w.Harness.Name != "claude" {
		return nil
	}
	for _, name := range agents {
		lost("which call a subagent is of", strings.TrimSuffix(name, sessionExt)+agentExt)
	}
	for _, name := range slices.Sorted(maps.Keys(said.found)) {
		lost("an output beside the file", path.Join(session, outputsDir, name))
	}
	if said.history {
		lost("files as they were, for undo", path.Join("file-history", path.Base(session)))
	}
	return nil
}

// outputsDir is the folder with outputs of tools that Claude Code keeps out of a session's file.
const outputsDir = "tool-results"
