package natsio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/sleep"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// Store is the content-addressed store over the record bucket and the object buckets: it reads what persisters committed,
// and can commit a single pack or blob itself. Safe for concurrent use.
type Store struct {
	records Records
	objects Objects
	lane    int
}

// Store returns the connection's store. lane is the fence its own commits are made behind.
func (c *Conn) Store(lane int) *Store {
	return &Store{records: c.Records(), objects: c.Objects(), lane: lane}
}

// Pack reads a pack, wherever it has moved to.
func (s *Store) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	live, err := s.records.FindPack(ctx, id)
	if err != nil {
		return nil, err
	}
	raw, err := s.objects.Read(ctx, live.Pack.Object)
	for errors.Is(err, record.ErrNotFound) { // it may have moved, and its bytes be reclaimed, while this waited
		now, e := s.records.FindPack(ctx, id)
		if e != nil {
			return nil, e
		}
		if now.Pack.Object == live.Pack.Object {
			break
		}
		live = now
		raw, err = s.objects.Read(ctx, live.Pack.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", id, asStoreErr(err))
	}
	header := live.Pack.Header
	if header > int64(len(raw)) {
		return nil, fmt.Errorf("pack %s: %w: header of %d bytes in %d", id, casstore.ErrCorrupt, header, len(raw))
	}
	p, err := casstore.OpenPack(raw[:header], raw[header:])
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", id, err)
	}
	return p, nil
}

// FindPack finds the pack that holds the nodes of a pack now: record.FindPack.
//
// In a cluster one that seems to be gone is looked for again: while a leader changes, its tombstone may be told by the new one, and
// where it moved to by the old one, who does not know that yet.
func (recs Records) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	for try := 0; ; try++ {
		live, err := record.FindPack(ctx, recs.Records, id)
		if !record.IsGone(err) || !recs.c.clustered() || try == goneTries {
			return live, err
		}
		if !sleep.For(ctx, goneWait) {
			return live, err
		}
	}
}

// A pack that seems to be gone is looked for that often again, for longer than a healed cluster leaves an old leader in the dark.
const (
	goneTries = 4
	goneWait  = 250 * time.Millisecond
)

// Find looks for a node in the headers of all packs: the last resort of a reader without a locator (DESIGN 7).
func (s *Store) Find(ctx context.Context, ref casstore.Ref) (casstore.Node, error) {
	at, err := s.locate(ctx, ref, math.MaxInt, 0)
	if err != nil {
		return casstore.Node{}, err
	}
	p, err := s.Pack(ctx, at.Pack)
	if err != nil {
		return casstore.Node{}, err
	}
	return p.Node(ref)
}

// locateHeaders is how many headers Locate reads.
const locateHeaders = 1024

// Locate looks for a node that is not buried in the headers of the newest packs.
func (s *Store) Locate(ctx context.Context, ref casstore.Ref) (casstore.Located, error) {
	return s.locate(ctx, ref, locateHeaders, 0)
}

// locate looks through that many headers, those of the newest records first, of the packs whose records are above a sequence.
func (s *Store) locate(ctx context.Context, ref casstore.Ref, most int, above uint64) (casstore.Located, error) {
	rs, err := s.records.List(ctx, events.PackKey("*"))
	if err != nil {
		return casstore.Located{}, err
	}
	slices.SortFunc(rs, func(a, b record.Record) int { return cmp.Compare(b.Seq, a.Seq) })
	read := 0
	for _, r := range rs {
		rec, err := record.DecodePack(r.Value)
		if err != nil || rec.Gone || r.Seq <= above {
			continue
		}
		if read++; read > most {
			break
		}
		var header []byte
		err = s.objects.ReadChunks(ctx, rec.Object, 1, func(b []byte) error { header = b; return nil })
		if errors.Is(err, record.ErrNotFound) {
			continue
		}
		if err != nil {
			return casstore.Located{}, err
		}
		h, err := casstore.OpenHeader(header)
		if err != nil {
			return casstore.Located{}, fmt.Errorf("%s: %w", r.Key, err)
		}
		if i, ok := h.Find(ref); !ok || rec.IsBuried(i) {
			continue
		}
		id, err := casstore.ParsePackID(r.Key[len(events.PackKey("")):])
		return casstore.Located{Ref: ref, Pack: id}, err
	}
	return casstore.Located{}, fmt.Errorf("%s: %w in the newest %d of %d packs", ref, casstore.ErrNotFound, min(read, most), len(rs))
}

// Blob reads a blob and hashes it.
func (s *Store) Blob(ctx context.Context, ref casstore.Ref) ([]byte, error) {
	b, err := s.LiveBlob(ctx, ref)
	if err != nil {
		return nil, err
	}
	raw, err := s.objects.Read(ctx, b.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, asStoreErr(err))
	}
	if casstore.SumBlob(raw) != ref {
		return nil, fmt.Errorf("%s: %w: the bytes have another hash", ref, casstore.ErrCorrupt)
	}
	return raw, nil
}

// LiveBlob finds the record of a blob. Errors wrap casstore.ErrNotFound or casstore.ErrGone.
func (s *Store) LiveBlob(ctx context.Context, ref casstore.Ref) (b record.Blob, err error) {
	rs, err := s.records.Records(ctx, events.BlobKey(ref.Hex()))
	if err != nil {
		return b, fmt.Errorf("%s: %w", ref, err)
	}
	if !rs[0].Exists() {
		return b, fmt.Errorf("%s: %w", ref, casstore.ErrNotFound)
	}
	if b, err = record.DecodeBlob(rs[0].Value); err != nil {
		return b, fmt.Errorf("%s: %w", ref, err)
	}
	if b.Gone {
		return b, fmt.Errorf("%s: %w", ref, casstore.ErrGone)
	}
	return b, nil
}

// asStoreErr says in the store's words that bytes are missing which a record names.
func asStoreErr(err error) error {
	if errors.Is(err, record.ErrNotFound) {
		return fmt.Errorf("%w: %w", casstore.ErrCorrupt, err)
	}
	return err
}

// PutPack uploads a pack and commits its record.
func (s *Store) PutPack(ctx context.Context, id casstore.PackID, header, body []byte) error {
	return retry.Do(ctx, nil, func() error {
		f, err := s.records.Fence(ctx, s.lane)
		if err != nil {
			return err
		}
		rec, err := s.UploadPack(ctx, id, header, body)
		if err != nil {
			return err
		}
		_, err = s.records.Commit(ctx, f, []record.Put{{Key: events.PackKey(id.String()), Value: rec.Encode(), Expect: record.Any}})
		return retry.Raced(err)
	})
}

// UploadPack writes a pack's bytes: its header is the first chunk. No record names them yet.
func (s *Store) UploadPack(ctx context.Context, id casstore.PackID, header, body []byte) (record.Pack, error) {
	if len(header) > s.objects.c.MaxPayload()-4096 {
		return record.Pack{}, fmt.Errorf("%w: a pack header of %d bytes does not fit one message", record.ErrRefused, len(header))
	}
	h, err := casstore.OpenHeader(header)
	if err != nil {
		return record.Pack{}, err
	}
	chunks := slices.AppendSeq([][]byte{header}, slices.Chunk(body, s.objects.chunkSize()))
	o, err := s.objects.Upload(ctx, events.NodesBucket, id.String()+"."+ulid.Make().String(), chunks)
	if err != nil {
		return record.Pack{}, err
	}
	return record.Pack{Object: o, Header: int64(len(header)), Nodes: h.Len(), Raw: h.RawLen()}, nil
}

// UploadBlob writes a blob's bytes. No record names them yet.
func (s *Store) UploadBlob(ctx context.Context, ref casstore.Ref, b []byte) (record.Blob, error) {
	chunks := slices.Collect(slices.Chunk(b, s.objects.chunkSize()))
	o, err := s.objects.Upload(ctx, events.BlobsBucket, ref.Hex()+"."+ulid.Make().String(), chunks)
	return record.Blob{Object: o}, err
}

// Holds is Objects.Holds.
func (s *Store) Holds(ctx context.Context, o record.Object) (bool, error) {
	return s.objects.Holds(ctx, o)
}

// PutBlob stores bytes under their SHA-256. When they are there already it only touches their record if a collector could
// take it for old.
func (s *Store) PutBlob(ctx context.Context, b []byte) (casstore.Ref, error) {
	ref := casstore.SumBlob(b)
	return ref, retry.Do(ctx, nil, func() error {
		f, err := s.records.Fence(ctx, s.lane)
		if err != nil {
			return err
		}
		rs, err := s.records.Records(ctx, events.BlobKey(ref.Hex()))
		if err != nil {
			return err
		}
		there, touches, err := f.TouchBlobs(ctx, s, rs)
		if err != nil || there[0] && len(touches) == 0 {
			return err
		}
		if there[0] {
			_, err := s.records.Write(ctx, touches[0])
			return retry.Raced(err)
		}
		rec, err := s.UploadBlob(ctx, ref, b)
		if err != nil {
			return err
		}
		_, err = s.records.Commit(ctx, f, []record.Put{{Key: events.BlobKey(ref.Hex()), Value: rec.Encode(), Expect: record.Any}})
		return retry.Raced(err)
	})
}
