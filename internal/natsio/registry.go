package natsio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Records lists artifacts; "" matches every session, every id.
func (a *Artifacts) Records(ctx context.Context, session string, id artifacts.ID) ([]artifacts.Record, error) {
	var rs []record.Record
	var err error
	if session != "" && id != "" {
		rs, err = a.c.Records(ctx, events.ArtifactKey(session, string(id)))
	} else {
		rs, err = a.c.List(ctx, events.ArtifactKeys(session, string(id)))
	}
	if err != nil {
		return nil, err
	}
	out := make([]artifacts.Record, 0, len(rs))
	for _, r := range rs {
		if !r.Exists() {
			continue
		}
		one, err := artifacts.DecodeRecord(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// Remove deletes an artifact's record, and its bytes when no other record names them (SPEC A7). A crash in between leaves
// bytes to gc.
func (a *Artifacts) Remove(ctx context.Context, r artifacts.Record) error {
	key := events.ArtifactKey(r.Session, string(r.ID))
	err := retry.Do(ctx, nil, func() error {
		f, err := a.c.Fence(ctx, a.lane)
		if err != nil {
			return err
		}
		rs, err := a.c.Records(ctx, key)
		if err != nil || !rs[0].Exists() {
			return err
		}
		if r, err = artifacts.DecodeRecord(rs[0].Value); err != nil {
			return err
		}
		puts := []record.Put{{Key: key, Expect: rs[0].Seq}}
		if shared(r) {
			puts = append(puts, record.Put{Key: sharedKey(r), Expect: record.Any})
		}
		_, err = a.c.Commit(ctx, f, puts)
		return again(err)
	})
	if err != nil || r.Locator == nil {
		return err
	}
	// A record that names these bytes can only be made beside one that does (Fork): when there is none, there never will be.
	named, err := a.named(ctx, r.Object)
	if err != nil || named {
		return err
	}
	o, err := record.DecodeLocator(r.Locator)
	if err != nil {
		return err
	}
	return a.c.dropObject(ctx, o)
}

// shared tells that a record names bytes which are not its own alone.
func shared(r artifacts.Record) bool { return r.Locator != nil && r.Object != r.ObjectName() }

func sharedKey(r artifacts.Record) string {
	return events.SharedKey(objectToken(r.Object), r.Session, string(r.ID))
}

func objectToken(object string) string {
	sum := sha256.Sum256([]byte(object))
	return hex.EncodeToString(sum[:16])
}

// named tells whether a record names an object.
func (a *Artifacts) named(ctx context.Context, object string) (bool, error) {
	rs, err := a.c.List(ctx, events.SharedKeys(objectToken(object)))
	if err != nil || len(rs) > 0 {
		return len(rs) > 0, err
	}
	parts := strings.SplitN(object, "/", 3)
	if len(parts) < 3 || events.CheckToken("", parts[0]) != nil || events.CheckToken("", parts[1]) != nil {
		return false, nil
	}
	own, err := a.Records(ctx, parts[0], artifacts.ID(parts[1]))
	return len(own) > 0 && own[0].Object == object, err
}

// dropObject removes the bytes of an object that no record names, and its name if that is still its own.
func (c *Conn) dropObject(ctx context.Context, o record.Object) error {
	now, err := c.Stat(ctx, o.Bucket, o.Name)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return err
	}
	if err == nil && now.NUID == o.NUID {
		s, err := c.js.Stream(ctx, events.ObjectStream(o.Bucket))
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(metaSubject(o.Bucket, o.Name)))
		}
		if err != nil {
			return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
		}
	}
	return c.purgeChunks(ctx, o)
}

// dropUpload removes the bytes of an upload that no record names. Another upload may have the same name: that one keeps it.
func (c *Conn) dropUpload(ctx context.Context, o record.Object) error {
	s, err := c.leaderStream(ctx, events.ObjectStream(o.Bucket))
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	subject := metaSubject(o.Bucket, o.Name)
	newest, err := s.GetLastMsgForSubject(ctx, subject)
	var meta objectMeta
	if err == nil {
		err = json.Unmarshal(newest.Data, &meta)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		err = nil
	case err == nil && meta.NUID == o.NUID:
		err = s.DeleteMsg(ctx, newest.Sequence) // the one before it, if there is one, names the object again
	case err == nil:
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(1))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	return c.purgeChunks(ctx, o)
}

func (c *Conn) purgeChunks(ctx context.Context, o record.Object) error {
	s, err := c.js.Stream(ctx, events.ObjectStream(o.Bucket))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(chunkSubject(o.Bucket, o.NUID)))
	}
	if err != nil {
		return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, wrapErr(err))
	}
	return nil
}

// forkRows is how many artifacts of a fork go into one batch: three records each.
const forkRows = 200

// Fork gives the artifacts of a session to its fork: rows of its own with the same numbers over the same bytes (SPEC A7). The
// row that a new one is made from is touched with it, so that it cannot be removed in between. Repeating it adds nothing.
func (a *Artifacts) Fork(ctx context.Context, from, to string, at int64) (rows int, err error) {
	source, err := a.c.List(ctx, events.ArtifactKeys(from, ""))
	if err != nil || len(source) == 0 {
		return 0, err
	}
	if err := a.inherit(ctx, from, to); err != nil {
		return 0, err
	}
	for len(source) > 0 {
		n := min(len(source), forkRows)
		made, err := a.forkSome(ctx, source[:n], to, at)
		if err != nil {
			return rows, fmt.Errorf("fork the artifacts of session %s: %w", from, err)
		}
		rows, source = rows+made, source[n:]
	}
	return rows, nil
}

// inherit makes the numbers of a fork go on above those of its source.
func (a *Artifacts) inherit(ctx context.Context, from, to string) error {
	rs, err := a.c.Records(ctx, events.CounterKey(from))
	if err != nil {
		return err
	}
	c, err := record.DecodeCounter(rs[0].Value)
	if err != nil {
		return err
	}
	return a.count(ctx, to, func(own *record.Counter) { own.Raise(c.Artifacts) })
}

// forkSome copies rows that are still there, but for those that the fork has.
func (a *Artifacts) forkSome(ctx context.Context, source []record.Record, to string, at int64) (made int, err error) {
	err = retry.Do(ctx, nil, func() error {
		f, err := a.c.Fence(ctx, a.lane)
		if err != nil {
			return err
		}
		keys := make([]string, 0, 2*len(source))
		rows := make([]artifacts.Record, len(source))
		for i, s := range source {
			r, err := artifacts.DecodeRecord(s.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Key, err)
			}
			rows[i] = r.Fork(to, r.ForkID(to), at)
			keys = append(keys, s.Key, events.ArtifactKeys("", string(rows[i].ID)))
		}
		now, err := a.c.Records(ctx, keys...)
		if err != nil {
			return err
		}
		var puts []record.Put
		made = 0
		for i, r := range rows {
			src, holder, key := now[2*i], now[2*i+1], events.ArtifactKey(to, string(r.ID))
			switch {
			case !src.Exists(), holder.Key == key:
				continue
			case holder.Seq != 0:
				return taken(r)
			}
			made++
			puts = append(puts, record.Put{Key: src.Key, Value: src.Value, Expect: src.Seq},
				record.Put{Key: key, Value: r.Encode(), Alone: events.ArtifactKeys("", string(r.ID))})
			if shared(r) {
				puts = append(puts, record.Put{Key: sharedKey(r), Value: []byte{1}, Expect: record.Any})
			}
		}
		if len(puts) == 0 {
			return nil
		}
		_, err = a.c.Commit(ctx, f, puts)
		return again(err)
	})
	return made, err
}

// RegisterFile makes an artifact of a file of this machine (SPEC A3). It stays where it is and its tool's: removing the
// artifact does not remove it, and only this machine can read it.
func (a *Artifacts) RegisterFile(ctx context.Context, n NewArtifact, path string) (artifacts.Record, error) {
	f, err := a.c.Fence(ctx, a.lane)
	if err != nil {
		return artifacts.Record{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return artifacts.Record{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return artifacts.Record{}, err
	case !info.Mode().IsRegular():
		return artifacts.Record{}, fmt.Errorf("%w: %s is no regular file", artifacts.ErrRecord, path)
	}
	host, err := os.Hostname()
	if err != nil {
		return artifacts.Record{}, err
	}
	n.Writer = artifacts.FromFile
	if n.Filename == "" {
		n.Filename = filepath.Base(path)
	}
	r, err := a.complete(ctx, n)
	if err != nil {
		return artifacts.Record{}, err
	}
	r.Object = (&url.URL{Scheme: "file", Host: host, Path: filepath.ToSlash(path)}).String()
	r.Size, r.Locator = info.Size(), nil
	return a.create(ctx, f, r, nil)
}

// Open reads an artifact. Its bytes are checked against the digest that was taken when they were stored, where there is one.
// The reader can seek.
func (a *Artifacts) Open(ctx context.Context, r artifacts.Record) (io.ReadCloser, int64, error) {
	if r.Writer == artifacts.FromFile {
		return a.openFile(r)
	}
	o, err := record.DecodeLocator(r.Locator)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w", r.ID, err)
	}
	return a.c.OpenObject(ctx, o), o.Size, nil
}

func (a *Artifacts) openFile(r artifacts.Record) (io.ReadCloser, int64, error) {
	u, err := url.Parse(r.Object)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w: %w", r.ID, artifacts.ErrRecord, err)
	}
	if host, err := os.Hostname(); err != nil || host != u.Host || !a.Local {
		return nil, 0, fmt.Errorf("%w: artifact %s is the file %s of the machine %s: read it there", artifacts.ErrUnavailable, r.ID, u.Path, u.Host)
	}
	f, err := os.Open(filepath.FromSlash(u.Path))
	if err != nil {
		return nil, 0, fmt.Errorf("artifact %s: %w", r.ID, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Sources is what addresses lead to from within a session; "" is no session (SPEC A8, A9).
func (a *Artifacts) Sources(ctx context.Context, session string) (artifacts.Sources, error) {
	s := artifacts.Sources{Blobs: blobs{a.c.Store(a.lane)}}
	if session == "" {
		return s, nil
	}
	if err := events.CheckToken("session", session); err != nil {
		return s, err
	}
	records, err := a.Records(ctx, session, "")
	if err != nil {
		return s, err
	}
	s.Dirs = []artifacts.Dir{artifacts.NewFolder(records, a.Open)}
	if len(records) == 0 {
		counter, err := a.c.Records(ctx, events.CounterKey(session))
		if err != nil {
			return s, err
		}
		if !counter[0].Exists() { // it never had one
			s.Dirs[0] = noFolder{}
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

// blobs opens blobs by the text of their ref.
type blobs struct{ *Store }

func (b blobs) OpenBlob(ctx context.Context, text string) (io.ReadCloser, int64, error) {
	ref, err := casstore.ParseRef(text)
	if err != nil {
		return nil, 0, err
	}
	r, err := b.blobRecord(ctx, ref)
	if errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone) {
		return nil, 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(b.c.Open(ctx, r.Object)), r.Object.Size, nil
}
