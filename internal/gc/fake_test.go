package gc

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// fake is a store in memory.
type fake struct {
	t       testing.TB
	seq     uint64
	recs    map[string]record.Record
	objects map[string][][]byte // chunks by token
	at      map[string]uint64   // bucket sequences by token
	bulk    uint64
	age     time.Duration // of everything, as the server's clock has it
}

func newFake(t testing.TB) *fake {
	return &fake{t: t, recs: map[string]record.Record{}, objects: map[string][][]byte{}, at: map[string]uint64{}}
}

func (f *fake) put(key string, value []byte) uint64 {
	f.seq++
	f.recs[key] = record.Record{Key: key, Value: value, Seq: f.seq}
	return f.seq
}

func (f *fake) Fences(context.Context) (uint64, error) {
	first := f.seq + 1
	for lane := range events.Lanes {
		f.put(events.FenceKey(lane), []byte("gc"))
	}
	return first, nil
}

func (f *fake) Scan(_ context.Context, from uint64, tell func(record.Stamped) error) (uint64, error) {
	all := slices.SortedFunc(maps.Values(f.recs), func(a, b record.Record) int { return int(a.Seq) - int(b.Seq) })
	for _, r := range all {
		if r.Seq < from {
			continue
		}
		if err := tell(record.Stamped{Record: r, Age: f.age}); err != nil {
			return 0, err
		}
	}
	return f.seq, nil
}

func (f *fake) Quiet(_ context.Context, last uint64) (bool, error) { return last >= f.seq, nil }

func (f *fake) EachName(_ context.Context, _ string, tell func(key string)) error {
	for key := range f.recs {
		tell(key)
	}
	return nil
}

func (f *fake) FindPack(ctx context.Context, id casstore.PackID) (record.FoundPack, error) {
	return record.FindPack(ctx, f.Records, id)
}

func (f *fake) Records(_ context.Context, keys ...string) ([]record.Record, error) {
	out := make([]record.Record, len(keys))
	for i, key := range keys {
		if out[i] = f.recs[key]; out[i].Seq == 0 {
			out[i].Key = key
		}
	}
	return out, nil
}

func (f *fake) Fence(_ context.Context, lane int) (record.Fence, error) {
	return record.Fence{Lane: lane, Seq: f.recs[events.FenceKey(lane)].Seq}, nil
}

func (f *fake) Commit(_ context.Context, fence record.Fence, puts []record.Put) (uint64, error) {
	if f.recs[events.FenceKey(fence.Lane)].Seq != fence.Seq {
		return 0, record.ErrConflict
	}
	for _, p := range puts {
		if p.Expect != record.Any && f.recs[p.Key].Seq != p.Expect {
			return 0, record.ErrConflict
		}
	}
	first := f.seq + 1
	for _, p := range puts {
		f.put(p.Key, p.Value)
	}
	return first, nil
}

func (f *fake) Forget(_ context.Context, seqs ...uint64) error {
	maps.DeleteFunc(f.recs, func(_ string, r record.Record) bool { return slices.Contains(seqs, r.Seq) })
	return nil
}

func (f *fake) LastSeqs(_ context.Context, streams ...string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, s := range streams {
		out[s] = f.bulk
	}
	out[events.RecordsStream] = f.seq
	return out, nil
}

func (f *fake) Stored(_ context.Context, bucket string) (out []record.Stored, err error) {
	for token, chunks := range f.objects {
		if bucket == events.NodesBucket {
			o := record.Object{Bucket: bucket, NUID: token, Size: int64(len(slices.Concat(chunks...)))}
			out = append(out, record.Stored{Object: o, Last: f.at[token], Age: f.age})
		}
	}
	for _, r := range f.recs { // the bytes of blobs are there as long as their records name them
		if b, err := record.DecodeBlob(r.Value); bucket == events.BlobsBucket && strings.HasPrefix(r.Key,
			"blob.") && err == nil {
			out = append(out, record.Stored{Object: b.Object, Age: f.age})
		}
	}
	return out, nil
}

func (f *fake) ReadChunks(_ context.Context, o record.Object, limit int, tell func([]byte) error) error {
	chunks := f.objects[o.NUID]
	if len(chunks) == 0 {
		return record.ErrNotFound
	}
	if limit > 0 {
		chunks = chunks[:min(limit, len(chunks))]
	}
	for _, c := range chunks {
		if err := tell(c); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Read(_ context.Context, o record.Object) ([]byte, error) {
	if len(f.objects[o.NUID]) == 0 {
		return nil, record.ErrNotFound
	}
	return slices.Concat(f.objects[o.NUID]...), nil
}

func (f *fake) Reclaim(_ context.Context, o record.Object) error {
	delete(f.objects, o.NUID)
	return nil
}

func (f *fake) MaxPayload() int { return 1 << 20 }

func (f *fake) UploadPack(_ context.Context, _ casstore.PackID, header, body []byte) (record.Pack, error) {
	o := f.upload(header, body)
	h, err := casstore.OpenHeader(header)
	return record.Pack{Object: o, Header: int64(len(header)), Nodes: h.Len(), Raw: h.RawLen()}, err
}

func (f *fake) upload(chunks ...[]byte) record.Object {
	f.bulk++
	token := fmt.Sprint("o", f.bulk)
	f.objects[token], f.at[token] = chunks, f.bulk
	size := 0
	for _, c := range chunks {
		size += len(c)
	}
	return record.Object{Bucket: events.NodesBucket, Name: token, NUID: token, Size: int64(size), Chunks: len(chunks)}
}

func (f *fake) Claims(context.Context) (*record.Claims, error) { return &record.Claims{}, nil }

func (f *fake) Birth(context.Context) (map[string]string, error) { return map[string]string{}, nil }
func (f *fake) Remember(context.Context, any) error              { return nil }
func (f *fake) Recall(context.Context, any) error                { return nil }

func (f *fake) collector(cfg Config) *Collector {
	f.t.Helper()
	c := must.Get(New(Deps{Records: f, Bulk: f, Streams: f, Packs: f, Queue: f, Memory: f, MaxPayload: f.MaxPayload}, cfg))(f.t)
	return c
}

func packID(n int) (id casstore.PackID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1)
	return id
}

// pack stores a pack.
func (f *fake) pack(id casstore.PackID, b *casstore.PackBuilder) {
	f.t.Helper()
	header, body := must.Two(b.Finish())(f.t)
	p := must.Get(f.UploadPack(f.t.Context(), id, header, body))(f.t)
	f.put(packKey(id), p.Encode())
}

// blob stores a blob.
func (f *fake) blob(b []byte) casstore.Ref {
	ref := casstore.SumBlob(b)
	f.put(blobKey(ref.Sum()), record.Blob{Object: f.upload(b)}.Encode())
	return ref
}

// head stores a thread's head.
func (f *fake) head(key string, start casstore.Located, recent ...casstore.Located) {
	f.put(key, threads.Head{Start: start, Recent: recent}.Encode())
}

// lives tells whether a node can be read, by way of its pack, wherever it is now.
func (f *fake) lives(l casstore.Located) error {
	_, p, err := f.open(l.Pack)
	if err == nil {
		_, err = p.Node(l.Ref)
	}
	return err
}

// open reads a pack, or the one that it moved to.
func (f *fake) open(at casstore.PackID) (casstore.PackID, *casstore.Pack, error) {
	for range 100 {
		r := f.recs[packKey(at)]
		if r.Exists() {
			p, err := record.DecodePack(r.Value)
			if err != nil {
				return at, nil, err
			}
			if !p.Gone {
				raw, err := f.Read(f.t.Context(), p.Object)
				if err != nil {
					return at, nil, err
				}
				pack, err := casstore.OpenPack(raw[:p.Header], raw[p.Header:])
				return at, pack, err
			}
		}
		m := f.recs[events.MovedKey(at.String())]
		if !m.Exists() {
			return at, nil, casstore.ErrGone
		}
		moved, err := record.DecodeMoved(m.Value)
		if err != nil {
			return at, nil, err
		}
		at = moved.To
	}
	return at, nil, casstore.ErrCorrupt
}
