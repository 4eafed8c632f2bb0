package natsio

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// streamGroup is how many bytes of an object a reader asks for at once, and about all that it holds in memory.
const streamGroup = 4 << 20

// readOnce reads an object of any size in bounded memory, once, from its beginning. Its bytes are counted, not hashed. Missing
// chunks are record.ErrNotFound, at the place where they are missed.
func (obs Objects) readOnce(ctx context.Context, o record.Object) io.Reader {
	return &objectReader{ctx: ctx, obs: obs, o: o, next: o.First}
}

type objectReader struct {
	ctx    context.Context // of the whole reading: io.Reader has no room for one
	obs    Objects
	o      record.Object
	next   uint64   // no chunk that is wanted has a lower sequence
	got    int      // chunks received
	size   int64    // bytes of them
	chunks [][]byte // received and not read
}

func (r *objectReader) Read(p []byte) (int, error) {
	for len(r.chunks) == 0 {
		if r.got == r.o.Chunks {
			return 0, r.end()
		}
		if err := r.fetch(); err != nil {
			return 0, fmt.Errorf("read %s/%s: %w", r.o.Bucket, r.o.Name, err)
		}
	}
	n := copy(p, r.chunks[0])
	if r.chunks[0] = r.chunks[0][n:]; len(r.chunks[0]) == 0 {
		r.chunks[0] = nil
		r.chunks = r.chunks[1:]
	}
	return n, nil
}

// fetch gets the next chunks.
func (r *objectReader) fetch() error {
	r.chunks = r.chunks[:0]
	n, last, err := r.obs.readBatch(r.ctx, r.o, r.next, r.o.Chunks-r.got, streamGroup, func(chunk []byte) error {
		r.size += int64(len(chunk))
		r.chunks = append(r.chunks, chunk)
		return nil
	})
	if err == nil && n == 0 {
		err = r.missing()
	}
	r.got, r.next = r.got+n, last+1
	return err
}

// missing says why fewer chunks came than there must be: they are not there, or an answer was lost on its way.
func (r *objectReader) missing() error {
	s, err := r.obs.c.Streams().LeaderStream(r.ctx, events.ObjectStream(r.o.Bucket))
	if err != nil {
		return WrapErr(err)
	}
	subject := ChunkSubject(r.o.Bucket, r.o.NUID)
	info, err := s.Info(r.ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return WrapErr(err)
	}
	why := record.ErrNotFound
	if info.State.Subjects[subject] >= uint64(r.o.Chunks) {
		why = record.ErrUnknown
	}
	return fmt.Errorf("%w: %d of %d chunks", why, r.got, r.o.Chunks)
}

func (r *objectReader) end() error {
	if r.size != r.o.Size {
		return fmt.Errorf("read %s/%s: %w: %d bytes of %d", r.o.Bucket, r.o.Name, record.ErrNotFound, r.size, r.o.Size)
	}
	return io.EOF
}

// OpenBody redeems a claim check of any size: once, from the beginning. What is read is what the inbox holds; whoever
// reads it holds it against the claim check. record.ErrNotFound when nothing is there.
func (in Inbox) OpenBody(ctx context.Context, ref events.BodyRef) (io.Reader, error) {
	o, err := in.c.Objects().Stat(ctx, events.InboxBucket, ref.Object)
	if err != nil {
		return nil, err
	}
	return in.c.Objects().readOnce(ctx, o), nil
}

// OpenBlob reads a blob of any size in bounded memory. Where it ends and its bytes are not those that ref names, or some are
// missing, the reader fails with casstore.ErrCorrupt.
func (s *Store) OpenBlob(ctx context.Context, ref casstore.Ref) (io.Reader, error) {
	b, err := s.LiveBlob(ctx, ref)
	if err != nil {
		return nil, err
	}
	return casstore.Verify(storeReader{s.objects.readOnce(ctx, b.Object)}, ref), nil
}

// storeReader says in the store's words that bytes are missing which a record names.
type storeReader struct{ io.Reader }

func (r storeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = asStoreErr(err)
	}
	return n, err
}
