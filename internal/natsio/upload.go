package natsio

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"spool/internal/record"
	"spool/pkg/events"
)

// uploadGroup is how many bytes of an upload are on their way together, and all that it holds in memory.
const uploadGroup = 4 << 20

// uploading is an object that is written in pieces. Its meta message goes out when every chunk is acked. Not safe for
// concurrent use.
type uploading struct {
	ctx   context.Context // of the whole upload: io.Writer has no room for one
	u     *upload
	label func(sum [32]byte) string
	group []byte // filled up to len
	err   error
}

var _ record.Upload = (*uploading)(nil)

// NewUpload begins an object. label names it when its hash is known; the name must be unique to the upload.
func (obs Objects) newUpload(ctx context.Context, bucket string, label func(sum [32]byte) string) *uploading {
	return &uploading{ctx: ctx, u: obs.startUpload(bucket, ""), label: label}
}

// hashed is the label of an object that is called after its bytes.
func hashed(sum [32]byte) string { return hex.EncodeToString(sum[:]) + "." + ulid.Make().String() }

// Write implements io.Writer. It returns when all but the last uploadGroup bytes are durable.
func (w *uploading) Write(p []byte) (n int, err error) {
	if w.err == nil {
		w.err = w.u.obs.c.begun()
	}
	if w.err != nil {
		return 0, w.err
	}
	chunk := w.u.obs.chunkSize()
	full := max(uploadGroup/chunk, 1) * chunk
	for n < len(p) && w.err == nil {
		if w.group == nil {
			w.group = make([]byte, 0, full)
		}
		k := min(len(p)-n, full-len(w.group))
		w.group = append(w.group, p[n:n+k]...)
		if n += k; len(w.group) == full {
			w.flush(chunk)
		}
	}
	return n, w.err
}

func (w *uploading) flush(chunk int) {
	if err := w.u.send(w.ctx, slices.Collect(slices.Chunk(w.group, chunk))); err != nil {
		w.err = fmt.Errorf("upload to %s: %w", w.u.obj.Bucket, err)
	}
	w.group = w.group[:0]
}

// Commit implements record.Upload.
func (w *uploading) Commit() (record.Object, error) {
	o, err := w.end()
	if err == nil {
		err = w.u.obs.NameObject(w.ctx, o)
	}
	if err != nil {
		return record.Object{}, err
	}
	return o, nil
}

// end sends what is left, and gives the object, whose name does not lead to it yet.
func (w *uploading) end() (record.Object, error) {
	if w.err == nil && len(w.group) > 0 {
		w.flush(w.u.obs.chunkSize())
	}
	if w.err != nil {
		w.Abort()
		return record.Object{}, w.err
	}
	w.group = nil
	w.u.sum.Sum(w.u.obj.Sum[:0])
	w.u.obj.Name = w.label(w.u.obj.Sum)
	return w.u.obj, nil
}

// Abort implements record.Upload.
func (w *uploading) Abort() {
	w.group = nil
	if w.u.obj.Chunks == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.u.obs.c.timeout)
	defer cancel()
	if err := w.u.obs.purgeChunks(ctx, w.u.obj); err != nil {
		w.u.obs.c.log.Warn("drop an upload that was given up", "bucket", w.u.obj.Bucket, "error", err)
	}
}

// UploadFrom is Upload from a reader, in bounded memory; the meta message goes out when every chunk is acked.
func (obs Objects) UploadFrom(ctx context.Context, bucket, name string, r io.Reader) (record.Object, error) {
	return obs.uploadFrom(ctx, bucket, r, func([32]byte) string { return name })
}

// UploadAside is UploadFrom for a name that others may want too. The name leads to the object if it led nowhere, and at is then the
// sequence of the message that says so; else at is 0, and the name is for whoever has the record that gets it: NameObject. So
// no upload that comes to nothing writes over another's name, however late a message of it arrives.
func (obs Objects) UploadAside(ctx context.Context, bucket, name string, r io.Reader) (o record.Object, at uint64, err error) {
	w := obs.newUpload(ctx, bucket, func([32]byte) string { return name })
	if _, err := io.Copy(w, r); err != nil {
		w.Abort()
		return record.Object{}, 0, err
	}
	if o, err = w.end(); err != nil {
		return record.Object{}, 0, err
	}
	meta, err := metaMsg(o)
	if err != nil {
		return record.Object{}, 0, err
	}
	meta.Header = nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}
	seqs, err := obs.c.Streams().Send(ctx, []*nats.Msg{meta})
	switch {
	case errors.Is(err, record.ErrConflict):
		return o, 0, nil
	case err != nil:
		return record.Object{}, 0, fmt.Errorf("name %s/%s: %w", bucket, name, err)
	}
	return o, seqs[0], nil
}

// DropAside removes the bytes of an upload aside that no record names, and its name if it got that: at.
func (obs Objects) DropAside(ctx context.Context, o record.Object, at uint64) error {
	if at > 0 {
		s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(o.Bucket))
		if err == nil {
			err = UnlessGone(ctx, s, at, s.DeleteMsg(ctx, at))
		}
		if err != nil {
			return fmt.Errorf("drop %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
		}
	}
	return obs.purgeChunks(ctx, o)
}

func (obs Objects) uploadFrom(ctx context.Context, bucket string, r io.Reader, label func([32]byte) string) (record.Object, error) {
	w := obs.newUpload(ctx, bucket, label)
	if _, err := io.Copy(w, r); err != nil {
		w.Abort()
		return record.Object{}, err
	}
	return w.Commit()
}

// CheckIn puts a body of any size into the inbox, in bounded memory, for an event that carries the reference. A body whose
// event never comes is left to gc.
func (in Inbox) CheckIn(ctx context.Context, body io.Reader) (events.BodyRef, error) {
	o, err := in.c.Objects().uploadFrom(ctx, events.InboxBucket, body, hashed)
	if err != nil {
		return events.BodyRef{}, fmt.Errorf("check in a body: %w", err)
	}
	return events.BodyRef{Object: o.Name, Size: o.Size, Sum: o.Sum}, nil
}

// NewBlob begins a blob whose hash nobody knows yet. No record names it.
func (s *Store) NewBlob(ctx context.Context) record.Upload {
	return s.objects.newUpload(ctx, events.BlobsBucket, hashed)
}

// DropBlob drops a finished upload of NewBlob that no record names, and none will.
func (s *Store) DropBlob(ctx context.Context, o record.Object) error {
	return s.objects.discard(ctx, o.Bucket, o.Name)
}
