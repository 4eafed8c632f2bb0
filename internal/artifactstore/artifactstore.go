// Package artifactstore is the registry of artifacts in the record bucket, with their bytes in ArtifactsBucket (SPEC
// A).
package artifactstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"path"
	"slices"
	"time"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Records is what the registry asks of the record bucket. Errors are package record's.
type Records interface {
	Records(ctx context.Context, keys ...string) ([]record.Record, error)
	List(ctx context.Context, filter string) ([]record.Record, error)
	Fence(ctx context.Context, lane int) (record.Fence, error)
	Commit(ctx context.Context, f record.Fence, puts []record.Put) (first uint64, err error)
	Write(ctx context.Context, p record.Put) (seq uint64, err error)
}

// Objects is what the registry asks of the object buckets.
type Objects interface {
	Stat(ctx context.Context, bucket, name string) (record.Object, error)
	OpenObject(ctx context.Context, o record.Object) io.ReadSeekCloser // its end is an error where the digest is another

	// UploadAside stores bytes under a name that others may want too. It gets the name if that is free: at is not 0 then; else
	// NameObject gives it. DropAside removes what it stored.
	UploadAside(ctx context.Context, bucket, name string, r io.Reader) (o record.Object, at uint64, err error)
	DropAside(ctx context.Context, o record.Object, at uint64) error
	NameObject(ctx context.Context, o record.Object) error

	// Reclaim frees the bytes of an object, and its name if that is still its own; without a name it frees the bytes alone.
	Reclaim(ctx context.Context, o record.Object) error
}

// Blobs finds the record of a blob. Errors wrap casstore.ErrNotFound or casstore.ErrGone.
type Blobs interface {
	LiveBlob(ctx context.Context, ref casstore.Ref) (record.Blob, error)
}

// Artifacts is the registry. It is an artifacts.Registry. Safe for concurrent use.
//
// An artifact comes to be in this order; after each step, what a crash leaves:
//
//	0 fence read
//	1 number taken        a gap in the session's numbers
//	2 bytes uploaded      bytes that no record names; the next gc cycle takes them
//	3 record committed    the artifact; if its object's name was another's, that leads elsewhere until a repair by fsck
//	4 object named        the artifact
type Artifacts struct {
	records Records
	objects Objects
	blobs   Blobs
	log     *slog.Logger
	lane    int

	// Local lets Open read registered files of this machine (SPEC A3), with the rights of this process. It is for a
	// person's own tools; what serves others leaves it off.
	Local bool

	// Standing refuses a session that is not there, and a run ("": none) that is not one of it. What is put, registered or
	// counted for a session begins none then; nil: whoever puts begins it, as an import does.
	Standing func(ctx context.Context, session, run string) error
}

// Of makes the registry of the system that a connection leads to. lane is the fence its commits are made behind.
func Of(conn *natsio.Conn, lane int) *Artifacts {
	return &Artifacts{records: conn.Records(), objects: conn.Objects(), blobs: conn.Store(lane), log: conn.Log(), lane: lane}
}

// NewArtifact is an artifact to be stored. Session is required; of the rest, what is zero gets a default: a new ID, the
// category normal, the time, the session's next number, and the file name that goes with number and Tool. An agent's
// output (Writer artifacts.FromAgent) needs Agent, its id, has no number and is named after it (SPEC A9).
type NewArtifact struct {
	artifacts.Record
	Tool   string        // what made it
	Number artifacts.Seq // that TakeNumber gave for it; "": the next
}

// Put stores an artifact from its bytes (SPEC A3), however many.
func (a *Artifacts) Put(ctx context.Context, n NewArtifact, body io.Reader) (artifacts.Record, error) {
	f, err := a.begin(ctx, n.Record)
	if err != nil {
		return artifacts.Record{}, err
	}
	n.Writer = cmp.Or(n.Writer, artifacts.FromPayload)
	r, err := a.complete(ctx, f, n)
	if err != nil {
		return artifacts.Record{}, err
	}
	r.Object = r.ObjectName()
	return a.createFrom(ctx, f, r, body)
}

// RegisterObject makes an artifact of an object of ArtifactsBucket that its tool stored itself. The bytes stay where
// they are, and go with the last artifact that names them: an object that is being removed must not be registered
// again. Its name gives file name and media type where n says neither them nor the tool.
func (a *Artifacts) RegisterObject(ctx context.Context, n NewArtifact, object string) (artifacts.Record, error) {
	f, err := a.begin(ctx, n.Record)
	if err != nil {
		return artifacts.Record{}, err
	}
	o, err := a.objects.Stat(ctx, events.ArtifactsBucket, object)
	if errors.Is(err, record.ErrNotFound) {
		err = fmt.Errorf("%w: the bucket %s has no object %q: store it there first", record.ErrNotFound, events.ArtifactsBucket, object)
	}
	if err != nil {
		return artifacts.Record{}, err
	}
	n.Writer = artifacts.FromObject
	if base := path.Base(object); n.Filename == "" && n.Tool == "" && artifacts.CheckFilename(base) == nil {
		n.Filename = base
	}
	n.MIME = cmp.Or(n.MIME, mime.TypeByExtension(path.Ext(n.Filename)), mime.TypeByExtension(path.Ext(object)))
	r, err := a.complete(ctx, f, n)
	if err != nil {
		return artifacts.Record{}, err
	}
	r.Object, r.Size, r.Locator = object, o.Size, o.Locator()
	return a.create(ctx, f, r, func(ctx context.Context, o record.Object) (record.Object, error) {
		return a.objects.Stat(ctx, o.Bucket, o.Name)
	})
}

// complete fills in what a new record does not say, and takes its number once all else is right.
func (a *Artifacts) complete(ctx context.Context, f *fence, n NewArtifact) (artifacts.Record, error) {
	r := n.Record
	r.Created = cmp.Or(r.Created, time.Now().UnixMilli())
	given := r.ID != ""
	if !given {
		var entropy [10]byte
		if _, err := rand.Read(entropy[:]); err != nil {
			return r, err
		}
		r.ID = artifacts.NewID(time.UnixMilli(r.Created), entropy)
	}
	r.Category = cmp.Or(r.Category, artifacts.Normal)
	r.Seq, r.ForkedFrom = n.Number, ""
	f.given = n.Number != ""
	named := r.Filename != ""
	if r.MIME == "" && named {
		r.MIME = mime.TypeByExtension(path.Ext(r.Filename))
	}
	switch {
	case r.Writer == artifacts.FromAgent && r.Agent == "":
		return r, fmt.Errorf("%w: an agent's output needs the agent's id", artifacts.ErrRecord)
	case r.Writer == artifacts.FromAgent && f.given:
		return r, fmt.Errorf("%w: an agent's output has no number", artifacts.ErrRecord)
	case r.Writer == artifacts.FromAgent:
		r.Filename = artifacts.AgentFile(r.Agent)
	case !named:
		r.Filename = artifacts.ToolFile("0", n.Tool)
	}
	if err := r.Validate(); err != nil {
		return r, err
	}
	if given { // create decides; this spares the upload
		if own, err := a.holder(ctx, r.ID); err != nil || own.Seq != 0 {
			return r, cmp.Or(err, taken(r))
		}
	}
	if _, err := a.claim(ctx, f, r); err != nil { // create decides this too
		return r, err
	}
	if r.Writer == artifacts.FromAgent {
		return r, a.count(ctx, r.Session, f, func(c *record.Counter) { c.SeeAgent(r.Agent) })
	}
	err := a.count(ctx, r.Session, f, func(c *record.Counter) {
		c.SeeAgent(r.Agent) // whose tool made it
		if !f.given {
			r.Seq = c.Take()
		}
	})
	if err == nil && !named {
		r.Filename = artifacts.ToolFile(r.Seq, n.Tool)
	}
	return r, err
}

// check refuses what belongs to a session, or to a run of it, that is not there.
func (a *Artifacts) check(ctx context.Context, session, run string) error {
	if a.Standing == nil {
		return nil
	}
	return a.Standing(ctx, session, run)
}

// fence is what a new record is made behind: no collector began since its bytes were uploaded, and its session was not deleted since
// it took its number. The next life of the session gives out the same numbers.
type fence struct {
	record.Fence
	session string        // "": no number was taken
	given   bool          // the number was taken before, for this record
	deleted record.Record // of events.DeletedKey, as it was then
	adopts  bool          // the id is that of a file, in each life of the session
}

// frees tells whether what has a record's id is gone with an earlier life of its session, and it may have that again.
func (f *fence) frees(had record.Record, key string) bool {
	return f.adopts && had.Key == key && !had.Exists() && had.Seq < f.deleted.Seq
}

func (a *Artifacts) begin(ctx context.Context, r artifacts.Record) (*fence, error) {
	if err := a.check(ctx, r.Session, r.Run); err != nil {
		return nil, err
	}
	f, err := a.records.Fence(ctx, a.lane)
	return &fence{Fence: f}, err
}

// demand is the message that carries the demand that the session was not deleted.
func (f *fence) demand() []record.Put {
	if f.session == "" {
		return nil
	}
	return []record.Put{{
		Key: events.LaneKey(f.Lane), Value: []byte{1}, Expect: f.deleted.Seq, Of: events.DeletedKey(f.session),
	}}
}

// errDeleted: the number that a new record has is one of a life of the session that is over.
var errDeleted = errors.New("the session was deleted meanwhile; store the artifact again")

// refused is the error of a caller whose record was not made: after errDeleted trying again from the beginning helps.
func refused(err error) error {
	if errors.Is(err, errDeleted) {
		return fmt.Errorf("%w: %w", record.ErrBusy, err)
	}
	return err
}

// renew reads again what the fence demands.
func (a *Artifacts) renew(ctx context.Context, f *fence) (err error) {
	if f.session != "" {
		rs, err := a.records.Records(ctx, events.DeletedKey(f.session))
		if err != nil {
			return err
		}
		if rs[0].Seq != f.deleted.Seq {
			before, err := record.DecodeDeleted(f.deleted.Value)
			now, e := record.DecodeDeleted(rs[0].Value)
			removed := before.State == record.Removed || before.State == record.Done
			if err != nil || e != nil || before.Seq != now.Seq || !removed {
				return errDeleted
			}
			f.deleted = rs[0] // of the same deletion, which had removed all records when the number was taken
		}
	}
	f.Fence, err = a.records.Fence(ctx, a.lane)
	return err
}

// holder reads the record that has, or had, an artifact's id, in whatever session (SPEC A1); Seq 0: none.
func (a *Artifacts) holder(ctx context.Context, id artifacts.ID) (record.Record, error) {
	rs, err := a.records.Records(ctx, events.ArtifactKeys("", string(id)))
	if err != nil {
		return record.Record{}, err
	}
	return rs[0], nil
}

func taken(r artifacts.Record) error {
	return fmt.Errorf("%w: %s; a new artifact needs a new id", artifacts.ErrTaken, r.ID)
}

// createFrom is create with the bytes of the record's object, which are uploaded for it alone: when another artifact got the id first,
// or the session was deleted, they go. Of several who want the object's name the first has it, and then whoever got the id. A crash
// between the two leaves the name to fsck's repair, and one before them the bytes to gc: readers go by the record.
func (a *Artifacts) createFrom(ctx context.Context, f *fence, r artifacts.Record, body io.Reader) (artifacts.Record, error) {
	o, at, err := a.objects.UploadAside(ctx, events.ArtifactsBucket, r.Object, body)
	if err != nil {
		return artifacts.Record{}, err
	}
	drop := func() {
		if err := retry.Do(ctx, nil, func() error { return a.objects.DropAside(ctx, o, at) }); err != nil {
			a.log.Warn("drop the bytes of an artifact that no record names", "object", o.Name, "error", err)
		}
	}
	r.Size, r.Locator = o.Size, o.Locator()
	made, err := a.create(ctx, f, r, func(ctx context.Context, old record.Object) (record.Object, error) {
		fresh, now, err := a.objects.UploadAside(ctx, o.Bucket, o.Name, a.objects.OpenObject(ctx, old))
		if err == nil {
			drop()
			o, at = fresh, now
		}
		return fresh, err
	})
	switch {
	case err == nil && at == 0:
		if e := retry.Do(ctx, nil, func() error { return a.objects.NameObject(ctx, o) }); e != nil {
			a.log.Warn("name the object of an artifact: fsck --repair does", "object", o.Name, "error", e)
		}
	case errors.Is(err, artifacts.ErrTaken), errors.Is(err, errDeleted):
		drop()
	}
	return made, err
}

// create commits a record whose bytes are uploaded, if its id is new in every session. When a collector began meanwhile
// it may be taking them for garbage: then again says where they are now.
func (a *Artifacts) create(
	ctx context.Context, f *fence, r artifacts.Record, again func(context.Context, record.Object) (record.Object, error),
) (artifacts.Record, error) {
	key := events.ArtifactKey(r.Session, string(r.ID))
	behind := false // the fence: nothing is committed until it and the bytes are fresh
	err := retry.Do(ctx, nil, func() error {
		if behind {
			if err := a.refresh(ctx, f, &r, again); err != nil {
				return busy(err)
			}
			behind = false
		}
		puts := []record.Put{{Key: key, Value: r.Encode(), Alone: events.ArtifactKeys("", string(r.ID))}}
		if f.adopts {
			before, err := a.holder(ctx, r.ID)
			if err != nil {
				return err
			}
			if f.frees(before, key) {
				puts[0].Alone, puts[0].Expect = "", before.Seq
			}
		}
		if key := record.SharedKey(r); key != "" {
			puts = append(puts, record.Put{Key: key, Value: []byte{1}, Expect: record.Any})
		}
		claim, err := a.claim(ctx, f, r)
		if err != nil {
			return err
		}
		_, err = a.records.Commit(ctx, f.Fence, slices.Concat(puts, claim, f.demand()))
		if !errors.Is(err, record.ErrConflict) && !errors.Is(err, record.ErrUnknown) {
			return err
		}
		holder, e := a.holder(ctx, r.ID)
		switch {
		case e != nil:
			return e
		case holder.Key == key && bytes.Equal(holder.Value, r.Encode()):
			return nil // an attempt whose answer was lost
		case holder.Seq != 0 && !f.frees(holder, key):
			return taken(r)
		case errors.Is(err, record.ErrUnknown):
			return err
		}
		behind = true
		return busy(nil)
	})
	if err != nil {
		return artifacts.Record{}, fmt.Errorf("create artifact %s: %w", r.ID, refused(err))
	}
	return r, nil
}

// refresh reads the fence anew, and has the record lead to where its bytes are now. On an error the record is as it was.
func (a *Artifacts) refresh(
	ctx context.Context, f *fence, r *artifacts.Record, again func(context.Context, record.Object) (record.Object, error),
) error {
	if err := a.renew(ctx, f); err != nil || r.Locator == nil {
		return err
	}
	o, err := record.DecodeLocator(r.Locator)
	if err == nil {
		o, err = again(ctx, o)
	}
	if err == nil {
		r.Locator = o.Locator()
	}
	return err
}

// claim is what a commit writes so that an agent's id, and a number that was taken before, are given once in their
// session (SPEC A1, A9): the counter, as it was before no other artifact was seen to have them. Nothing for any other
// record.
func (a *Artifacts) claim(ctx context.Context, f *fence, r artifacts.Record) ([]record.Put, error) {
	agent := r.Writer == artifacts.FromAgent
	if !agent && !f.given {
		return nil, nil
	}
	rs, err := a.records.Records(ctx, events.CounterKey(r.Session))
	if err != nil {
		return nil, err
	}
	c, err := record.DecodeCounter(rs[0].Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rs[0].Key, err)
	}
	if !agent && !c.Took(r.Seq) {
		return nil, fmt.Errorf("%w: number %q of session %s was not taken: spool artifact number %s takes the next",
			artifacts.ErrRecord, r.Seq, r.Session, r.Session)
	}
	all, err := a.Records(ctx, r.Session, "")
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		switch {
		case other.ID == r.ID:
		case agent && other.Writer == artifacts.FromAgent && other.Agent == r.Agent:
			return nil, fmt.Errorf("%w: the agent id %s of session %s is that of %s; take the next one", artifacts.ErrTaken,
				r.Agent, r.Session, other.ID)
		case !agent && other.Seq == r.Seq:
			return nil, fmt.Errorf("%w: number %s of session %s is that of %s; take the next one", artifacts.ErrTaken,
				r.Seq, r.Session, other.ID)
		}
	}
	if agent {
		c.SeeAgent(r.Agent)
	} else {
		c.Keep(r.Seq)
	}
	return []record.Put{{Key: rs[0].Key, Value: c.Encode(), Expect: rs[0].Seq}}, nil
}

// busy is the reason to try again when nothing else is.
func busy(err error) error {
	if err == nil {
		err = record.ErrBusy
	}
	return err
}
