package artifactstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Records lists artifacts; "" matches every session, every id. Those that cannot be read do not keep it from the others: it returns
// these beside an error that names each, and is an artifacts.ErrRecord.
func (a *Artifacts) Records(ctx context.Context, session string, id artifacts.ID) ([]artifacts.Record, error) {
	var rs []record.Record
	var err error
	if session != "" && id != "" {
		rs, err = a.records.Records(ctx, events.ArtifactKey(session, string(id)))
	} else {
		rs, err = a.records.List(ctx, events.ArtifactKeys(session, string(id)))
	}
	if err != nil {
		return nil, err
	}
	out := make([]artifacts.Record, 0, len(rs))
	var bad []error
	for _, r := range rs {
		if !r.Exists() {
			continue
		}
		one, err := artifacts.DecodeRecord(r.Value)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w; spool session rm %s --force removes it with its session", r.Key, err, events.SessionOf(r.Key)))
			continue
		}
		out = append(out, one)
	}
	return out, errors.Join(bad...)
}

// Find is the artifact of an id: its own row, else, where that was removed, one that a fork inherited, since entries of
// the fork name the artifact by the id that it had (SPEC P8). All rows are looked through for that. artifacts.ErrNotFound:
// there is none.
func (a *Artifacts) Find(ctx context.Context, id artifacts.ID) (artifacts.Record, error) {
	none := fmt.Errorf("artifact %w: %s", artifacts.ErrNotFound, id)
	held, err := a.holder(ctx, id)
	switch {
	case err != nil:
		return artifacts.Record{}, err
	case held.Exists():
		return artifacts.DecodeRecord(held.Value)
	case held.Seq == 0: // there never was
		return artifacts.Record{}, none
	}
	all, err := a.records.List(ctx, events.ArtifactKeys("", ""))
	if err != nil {
		return artifacts.Record{}, err
	}
	for _, r := range all {
		heir, err := artifacts.DecodeRecord(r.Value)
		if err == nil && (heir.ForkedFrom == id || heir.ForkedFrom != "" && strings.Contains(heir.Object, "/"+string(id)+"/")) {
			return heir, nil
		}
	}
	return artifacts.Record{}, none
}

// Open reads an artifact. Its bytes are checked against the digest that was taken when they were stored, where there is
// one. The reader can seek.
func (a *Artifacts) Open(ctx context.Context, r artifacts.Record) (io.ReadCloser, int64, error) {
	if r.Writer == artifacts.FromFile {
		return a.file(ctx, r)
	}
	o, err := record.DecodeLocator(r.Locator)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w", r.ID, err)
	}
	return &body{ReadSeekCloser: a.objects.OpenObject(ctx, o), ctx: ctx, a: a, r: r, o: o}, o.Size, nil
}

// body is the bytes of an artifact. Where they are gone it says why, if that can be known.
type body struct {
	io.ReadSeekCloser
	ctx context.Context // of the whole reading: io.Reader has no room for one
	a   *Artifacts
	r   artifacts.Record
	o   record.Object
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadSeekCloser.Read(p)
	if errors.Is(err, record.ErrNotFound) {
		err = fmt.Errorf("artifact %s: %w%s", b.r.ID, err, b.a.why(b.ctx, b.o))
	}
	return n, err
}

// why says it where a tool stored another object under the name of one that it had registered: that frees the bytes of the first.
func (a *Artifacts) why(ctx context.Context, o record.Object) string {
	now, err := a.objects.Stat(ctx, o.Bucket, o.Name)
	if err != nil || now.NUID == o.NUID {
		return ""
	}
	return fmt.Sprintf(": another object was stored under the name %q since, which frees the bytes of the one before; "+
		"store each object that is to be registered under a name of its own", o.Name)
}

// Sources is what addresses lead to from within a session; "" is no session (SPEC A8, A9).
func (a *Artifacts) Sources(ctx context.Context, session string) (artifacts.Sources, error) {
	s := artifacts.Sources{Blobs: blobTexts{a.blobs, a.objects}}
	if session == "" {
		return s, nil
	}
	if err := events.CheckToken("session", session); err != nil {
		return s, err
	}
	records, err := a.Records(ctx, session, "")
	s.Dir = artifacts.NewFolder(records, a.Open)
	if errors.Is(err, artifacts.ErrRecord) {
		s.Unreadable = err
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if len(records) == 0 {
		counter, err := a.records.Records(ctx, events.CounterKey(session))
		if err != nil {
			return s, err
		}
		if !counter[0].Exists() { // it never had one
			s.Dir = noFolder{}
		}
	}
	return s, nil
}

// noFolder is the folder of a session that never had an artifact.
type noFolder struct{}

func (noFolder) Names(context.Context) ([]string, error) { return nil, fs.ErrNotExist }

func (noFolder) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, fs.ErrNotExist
}

// blobTexts opens blobs by the text of their ref.
type blobTexts struct {
	blobs   Blobs
	objects Objects
}

func (b blobTexts) OpenBlob(ctx context.Context, text string) (io.ReadCloser, int64, error) {
	ref, err := casstore.ParseRef(text)
	if err != nil {
		return nil, 0, err
	}
	r, err := b.blobs.LiveBlob(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone) {
		return nil, 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, 0, err
	}
	return b.objects.OpenObject(ctx, r.Object), r.Object.Size, nil
}
