package interchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"spool/internal/transcript"
	"spool/pkg/artifacts"
	"spool/pkg/sessions"
)

// Registry keeps artifacts. natsio.Artifacts is one.
type Registry interface {
	Adopt(ctx context.Context, r artifacts.Record, body io.Reader) (_ artifacts.Record, made bool, err error)
	SeeAgents(ctx context.Context, session string, ids ...string) error
	Records(ctx context.Context, session string, id artifacts.ID) ([]artifacts.Record, error)
	Open(ctx context.Context, r artifacts.Record) (io.ReadCloser, int64, error)
}

// Adopted says what became of the folder of a session's artifacts.
type Adopted struct {
	New, Old int     // artifacts that were registered now, and that were before
	Warnings []error // what was left out, or has changed since it was registered
}

// Artifacts registers what lies in the folder beside a session's file, under the names and numbers that it has there or in the
// notes of an export (SPEC A1, A9). Files of threads are left to package transcript; the ids of their agents are taken.
// The same folder again adds nothing, nor does what an export wrote there.
func Artifacts(ctx context.Context, reg Registry, src transcript.Source, session string) (out Adopted, err error) {
	dir := strings.TrimSuffix(src.Path, sessionExt)
	if dir == src.Path {
		return out, nil
	}
	list, err := fs.ReadDir(src.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	created := createdAt(src)
	all, err := reg.Records(ctx, session, "")
	if err != nil && !errors.Is(err, artifacts.ErrRecord) {
		return out, err
	}
	said, _ := readNotes(src) // Restore has told what is wrong with them
	exported, taken := others(all, session, list, created)
	if err := seeAgents(ctx, reg, session, list); err != nil {
		return out, err
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		switch {
		case transcript.IsTranscript(d.Name()) || strings.HasSuffix(d.Name(), notesExt):
			continue
		case !d.Type().IsRegular():
			out.Warnings = append(out.Warnings, fmt.Errorf("%s is not imported: it is no file", name))
			continue
		}
		if sameBytes(ctx, reg, src.FS, name, exported[d.Name()]) {
			out.Old++
			continue
		}
		r := said.record(recordOf(session, d.Name(), created))
		number, holder := r.Seq, taken[r.Seq]
		if holder != "" {
			r.Seq, r.Writer = "", artifacts.FromOutput // it gets the next one
		}
		got, made, err := adoptFile(ctx, reg, src.FS, name, r)
		if made && got.Seq != number {
			of := cmp.Or(string(holder), "an artifact that is to come")
			out.Warnings = append(out.Warnings, fmt.Errorf("%s: the number %s is that of %s: this one is artifact://%s", name, number, of, got.Seq))
		}
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			out.Warnings = append(out.Warnings, fmt.Errorf("%s: %w", name, err))
		case made:
			out.New++
		default:
			out.Old++
		}
	}
	return out, nil
}

// seeAgents takes the ids of the agents whose transcripts lie in the folder.
func seeAgents(ctx context.Context, reg Registry, session string, folder []fs.DirEntry) error {
	var agents []string
	for _, d := range folder {
		if id, _, ok := strings.Cut(d.Name(), sessionExt); ok && transcript.IsTranscript(d.Name()) {
			agents = append(agents, id)
		}
	}
	if len(agents) == 0 {
		return nil
	}
	return reg.SeeAgents(ctx, session, agents...)
}

// others are the artifacts of the session that are not the folder's own: by the names under which an export writes them, and
// by their numbers, since a program that counts on its own side gives numbers that Spool has given, too.
func others(
	all []artifacts.Record, session string, folder []fs.DirEntry, created time.Time,
) (exported map[string]artifacts.Record, taken map[artifacts.Seq]artifacts.ID) {
	own := map[artifacts.ID]bool{}
	for _, d := range folder {
		own[recordOf(session, d.Name(), created).ID] = true
	}
	names, _ := fileNames(all)
	exported, taken = map[string]artifacts.Record{}, map[artifacts.Seq]artifacts.ID{}
	for _, r := range all {
		if own[r.ID] {
			continue
		}
		if r.Seq != "" {
			taken[r.Seq] = r.ID
		}
		if name, ok := names[r.ID]; ok {
			exported[name] = r
		}
	}
	return exported, taken
}

// sameBytes tells whether a file is known to have the bytes of an artifact; the zero Record has none.
func sameBytes(ctx context.Context, reg Registry, fsys fs.FS, name string, r artifacts.Record) bool {
	if r.ID == "" {
		return false
	}
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() != r.Size {
		return false
	}
	theirs, ours := sha256.New(), sha256.New()
	if _, err = io.Copy(theirs, f); err != nil {
		return false
	}
	if r.Writer == artifacts.FromFile { // it may be another machine's
		return bytes.Equal(theirs.Sum(nil), r.Digest)
	}
	body, _, err := reg.Open(ctx, r)
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(ours, body)
	return err == nil && bytes.Equal(theirs.Sum(nil), ours.Sum(nil))
}

// adoptFile registers one file. One that is registered and has another size now is an error: records are never changed.
func adoptFile(ctx context.Context, reg Registry, fsys fs.FS, name string, r artifacts.Record) (got artifacts.Record,
	made bool, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return got, false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return got, false, err
	}
	got, made, err = reg.Adopt(ctx, r, f)
	if err == nil && !made && got.Size != info.Size() {
		err = fmt.Errorf("it had %d bytes when it was imported and has %d now: artifact %s stays as it is", got.Size, info.Size(), got.ID)
	}
	return got, made, err
}

// recordOf is the record of a file in the folder of a session's artifacts. Its id follows from session and name.
func recordOf(session, name string, created time.Time) artifacts.Record {
	sum := sha256.Sum256([]byte(session + "\x00" + name))
	r := artifacts.Record{
		ID: artifacts.NewID(created, [10]byte(sum[:10])), Session: session, Created: created.UnixMilli(), Filename: name,
		Category: artifacts.Normal, Writer: artifacts.FromPayload, Size: artifacts.UnknownSize,
	}
	var numbered artifacts.Counter
	numbered.See(name)
	switch id, agent := strings.CutSuffix(name, ".md"); {
	case numbered.Last() != "":
		r.Seq, r.Writer, r.MIME = numbered.Last(), artifacts.FromOutput, "text/plain"
	case agent && id != "":
		r.Agent, r.Writer, r.MIME = id, artifacts.FromAgent, "text/markdown"
	}
	return r
}

// artifactNote is about one file in the folder of a session's artifacts: what its name does not say.
type artifactNote struct {
	File     string             `json:"file"`           // in the folder
	Name     string             `json:"name,omitempty"` // of the artifact, if another one has the file's
	Number   artifacts.Seq      `json:"number,omitempty"`
	MIME     string             `json:"mime,omitempty"`
	Category artifacts.Category `json:"category,omitempty"`
	ToolCall string             `json:"tool_call,omitempty"`
	Summary  string             `json:"summary,omitempty"`
}

// aboutArtifact is what is to be said of an artifact whose bytes are in a file; ok is false for nothing.
func aboutArtifact(file string, r artifacts.Record) (n artifactNote, ok bool) {
	n = artifactNote{File: file, Number: r.Seq, MIME: r.MIME, ToolCall: r.ToolCall, Summary: r.Summary}
	if r.Filename != file {
		n.Name = r.Filename
	}
	if r.Category != artifacts.Normal {
		n.Category = r.Category
	}
	plain := recordOf(r.Session, file, time.Time{})
	told := n.over(plain)
	return n, told.Filename != plain.Filename || told.Seq != plain.Seq || told.MIME != plain.MIME || told.Category != plain.Category ||
		told.ToolCall != plain.ToolCall || told.Summary != plain.Summary
}

// over is the record of a file with what the note says.
func (n artifactNote) over(r artifacts.Record) artifacts.Record {
	r.Filename, r.MIME, r.Category = cmp.Or(n.Name, r.Filename), cmp.Or(n.MIME, r.MIME), cmp.Or(n.Category, r.Category)
	r.ToolCall, r.Summary = n.ToolCall, n.Summary
	if r.Writer != artifacts.FromAgent { // that has no number
		r.Seq = cmp.Or(n.Number, r.Seq)
	}
	return r
}

// record is the record of a file with what the notes say of it, where that makes a record.
func (n notes) record(r artifacts.Record) artifacts.Record {
	for _, one := range n.Artifacts {
		if one.File != r.Filename {
			continue
		}
		if told := one.over(r); told.Validate() == nil {
			return told
		}
	}
	return r
}

// createdAt is the time of a session's header, the same whenever the file is read.
func createdAt(src transcript.Source) time.Time {
	f, err := src.FS.Open(src.Path)
	if err != nil {
		return time.UnixMilli(0)
	}
	defer func() { _ = f.Close() }()
	head, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	h, _ := sessions.ParseHeader(head)
	t, err := time.Parse(time.RFC3339Nano, h.Timestamp)
	if err != nil {
		return time.UnixMilli(0)
	}
	return t
}
