package interchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"spool/internal/artifactstore"
	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/client"
)

// beside takes in what lies beside the files of sessions.
type beside struct {
	*Importer
	reg   Registry
	cl    *client.Client
	there map[string]bool // sessions that are in Spool, or not, as far as that is known

	patient context.Context // for persisters that are not done with what was published before
}

// takeBeside registers the files of the sources that lie beside transcripts, and puts their results between those of the others. The
// error is that of a store which cannot be reached.
func (im *Importer) takeBeside(
	ctx context.Context, reg Registry, cl *client.Client, sources []transcript.Source, res *transcript.Result,
) (err error) {
	patient, cancel := context.WithTimeout(ctx, mostPatient)
	defer cancel()
	b := beside{im, reg, cl, map[string]bool{}, patient}
	for _, f := range res.Files {
		if f.Err == nil && f.Session != "" {
			b.there[f.Session] = true
		}
	}
	files := res.Files
	res.Files = make([]transcript.FileResult, 0, len(sources))
	for _, s := range sources {
		is, ok := transcript.Beside(s.Path)
		if !ok {
			res.Files, files = append(res.Files, files[0]), files[1:]
			continue
		}
		f := transcript.FileResult{File: s.Path, Harness: is.Harness, Beside: is.Place}
		if err == nil {
			f.Err = b.take(ctx, s, is, &f)
		} else {
			f.Err = err
		}
		if f.Err != nil {
			res.Failed++
			f.Error = f.Err.Error()
			if record.Temporary(f.Err) || ctx.Err() != nil {
				err = f.Err
			}
		}
		res.Files = append(res.Files, f)
	}
	return err
}

// mostPatient is how long sessions are waited for, all together.
const mostPatient = 5 * time.Second

// take registers a file. It is told from others of its place by its size and time, so what is there already is not read.
func (b *beside) take(ctx context.Context, src transcript.Source, is transcript.Sidecar, f *transcript.FileResult) error {
	if there, err := b.isThere(ctx, is.Session, f); !there {
		return err
	}
	info, err := fs.Stat(src.FS, src.Path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // to open a pipe may take for ever
		return fmt.Errorf("%s: not a regular file", src.Path)
	}
	f.Session, f.Bytes = is.Session, info.Size()
	r := besideRecord(is, info.Size(), info.ModTime())
	places, err := b.placesOf(ctx, b.reg, is.Session)
	if err != nil {
		return err
	}
	for _, old := range places[r.Place] {
		there := false
		if old.ID == r.ID { // it may be gone since it was listed
			one, err := b.reg.Records(ctx, is.Session, r.ID)
			if there = len(one) > 0; err != nil && !errors.Is(err, artifacts.ErrRecord) {
				return err
			}
		} else {
			there = sameBytes(ctx, b.reg, src.FS, src.Path, old)
		}
		if there {
			f.Artifacts = 1
			return nil
		}
	}
	if r.Subagent() != "" {
		r.ToolCall = toolUseOf(src)
	}
	r, made, err := adoptFile(ctx, b.reg, src.FS, src.Path, r)
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	if made {
		f.Registered = 1
	}
	f.Artifacts = 1
	places[r.Place] = append(places[r.Place], r)
	return nil
}

// mostSidecars is how many sessions' sidecars are remembered.
const mostSidecars = 1000

// placesOf are the sidecars of a session, by their places. They are listed once: a session that grows for long costs no list for each file.
func (im *Importer) placesOf(ctx context.Context, reg Registry, session string) (map[string][]artifacts.Record, error) {
	if places, ok := im.sidecars[session]; ok {
		return places, nil
	}
	all, err := reg.Records(ctx, session, "")
	if err != nil && !errors.Is(err, artifacts.ErrRecord) {
		return nil, err
	}
	places := map[string][]artifacts.Record{}
	for _, r := range all {
		if r.Place != "" {
			places[r.Place] = append(places[r.Place], r)
		}
	}
	if im.sidecars == nil || len(im.sidecars) >= mostSidecars {
		im.sidecars = map[string]map[string][]artifacts.Record{}
	}
	im.sidecars[session] = places
	return places, nil
}

// isThere tells whether a session is in Spool. Of one that is not, it says so once.
func (b *beside) isThere(ctx context.Context, session string, f *transcript.FileResult) (bool, error) {
	there, known := b.there[session]
	if known {
		return there, nil
	}
	all, err := b.cl.Session(session).Threads(ctx)
	if err == nil && len(all) == 0 {
		err = b.cl.Session(session).Await(b.patient)
	}
	switch {
	case errors.Is(err, client.ErrSessionNotFound):
		b.there[session] = false
		f.Warnings = append(f.Warnings, fmt.Sprintf("its session %s is not in Spool: what lies beside that is not imported", session))
		return false, nil
	case ctx.Err() == nil && b.patient.Err() != nil:
		return false, fmt.Errorf("its session %s: %w", session, client.ErrBehind)
	case err != nil:
		return false, err
	}
	b.there[session] = true
	return true, nil
}

// besideRecord is the record of a file beside a session's. Its id follows from what it is told by.
func besideRecord(is transcript.Sidecar, size int64, at time.Time) artifacts.Record {
	session, place := is.Session, is.Place
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00%d\x00", session, place, size) // it never fails
	_ = binary.Write(h, binary.BigEndian, at.UnixNano())
	kind, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(place)))
	return artifacts.Record{
		ID: artifacts.NewID(at, [10]byte(h.Sum(nil))), Session: session, Created: at.UnixMilli(), Filename: path.Base(place), MIME: kind,
		Category: artifacts.Normal, Writer: artifacts.FromPayload, Size: artifacts.UnknownSize, Summary: place,
		Modified: at.UnixNano(), Place: is.Harness + ":" + place,
	}
}

// toolUseOf is the call that a subagent is of, as the file beside its transcript says.
func toolUseOf(src transcript.Source) string {
	f, err := src.FS.Open(src.Path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return toolUseIn(text)
}

func toolUseIn(text []byte) string {
	if jsonscan.Valid(text) != nil {
		return ""
	}
	said := func(key string) string { v, _ := jsonscan.Text(jsonscan.Get(text, key)); return v }
	id := said("toolUseId")
	if name := cmp.Or(said("subagentName"), said("agentType")); id == "" && name != "" { // Qwen Code calls it after its name and call
		id, _ = strings.CutPrefix(said("agentId"), name+"-")
	}
	return id[:min(len(id), 256)]
}

// agentExt ends the name of the file that says which call a subagent is of, behind that of its transcript.
const agentExt = ".meta.json"

// AdoptAgent registers what the SDK of Claude Code says of a subagent in an entry, as an import does with the file that Claude Code has
// beside the transcript, which is called name. What the session has is not registered again.
func AdoptAgent(ctx context.Context, conn *natsio.Conn, session, name string, entry []byte, at time.Time) error {
	is, ok := transcript.Beside("projects/-/" + session + "/" + name + agentExt)
	if !ok {
		return nil
	}
	text := []byte("{")
	err := jsonscan.Object(entry, func(key, value []byte) bool {
		if string(key) != "type" {
			text = append(append(append(jsonscan.AppendString(text, string(key)), ':'), value...), ',')
		}
		return true
	})
	if err != nil {
		return err
	}
	text = append(bytes.TrimSuffix(text, []byte(",")), '}')
	r := besideRecord(is, int64(len(text)), at)
	r.ToolCall = toolUseIn(text)
	reg := artifactstore.Of(conn, 0)
	all, err := reg.Records(ctx, session, "")
	if err != nil && !errors.Is(err, artifacts.ErrRecord) {
		return err
	}
	for _, old := range all {
		if old.Place != r.Place || old.Size != int64(len(text)) {
			continue
		}
		body, _, err := reg.Open(ctx, old)
		if err != nil {
			continue
		}
		had, _ := io.ReadAll(io.LimitReader(body, old.Size))
		if _ = body.Close(); bytes.Equal(had, text) {
			return nil
		}
	}
	_, _, err = reg.Adopt(ctx, r, bytes.NewReader(text))
	return err
}

// newest are the newest files of each place beside a session's file, by their names for a session whose file has that name.
func (m *Materializer) newest(ctx context.Context, session, main string) (map[string]artifacts.Record, error) {
	all, err := m.Artifacts.Records(ctx, session, "")
	if err != nil && !errors.Is(err, artifacts.ErrRecord) {
		return nil, err
	}
	out := map[string]artifacts.Record{}
	for _, r := range all {
		place, ok := strings.CutPrefix(r.Place, m.Harness.Name+":")
		if !ok || !filepath.IsLocal(place) {
			continue
		}
		name := m.Harness.besideName(main, session, place)
		if at, ok := transcript.Beside(name); !ok || at != (transcript.Sidecar{Harness: m.Harness.Name, Session: session, Place: place}) {
			continue
		}
		if old, ok := out[name]; !ok || r.Modified > old.Modified {
			out[name] = r
		}
	}
	return out, nil
}

// besideFile stages a file beside a session's. One that is there and says something else is kept.
func (w *materialize) besideFile(ctx context.Context, name string, r artifacts.Record) error {
	f := File{Dir: w.Dir, Name: name, Mode: 0o600, Force: w.Force, Keep: true, Spare: true, Time: time.Unix(0, r.Modified)}
	s, err := f.stage(func(out io.Writer) error {
		body, _, err := w.Artifacts.Open(ctx, r)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, body)
		return errors.Join(err, body.Close())
	})
	switch {
	case err == nil:
		w.staged = append(w.staged, s)
	case ctx.Err() != nil || record.Temporary(err):
		return err
	case errors.Is(err, ErrThere):
		w.out.Lost = append(w.out.Lost, name+": another one is there, and is kept")
	default:
		w.out.Lost = append(w.out.Lost, fmt.Sprintf("%s: %v", name, err))
	}
	return nil
}

// content is what matters of the text of files, as it passes.
type content struct {
	size    int64
	outputs []byte // begins the name of an output
	found   map[string]bool
	history bool
	last    []byte // of the text before
}

// maxOutput bounds the name of an output.
const maxOutput = 255

// Write implements io.Writer.
func (c *content) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	text := append(c.last, p...)
	c.history = c.history || bytes.Contains(text, []byte(`"file-history-snapshot"`))
	for rest := text; ; {
		_, behind, ok := bytes.Cut(rest, c.outputs)
		if !ok {
			break
		}
		end := bytes.IndexFunc(behind, func(r rune) bool {
			return r != '.' && r != '_' && r != '-' && !unicode.IsDigit(r) && !unicode.IsLetter(r)
		})
		if name := string(behind[:max(end, 0)]); name != "" && len(name) <= maxOutput && filepath.IsLocal(name) {
			if c.found == nil {
				c.found = map[string]bool{}
			}
			c.found[name] = true
		}
		rest = behind
	}
	c.last = bytes.Clone(text[max(0, len(text)-2*maxOutput):])
	return len(p), nil
}
