package natsio_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// messages is how many messages a bucket holds.
func messages(t *testing.T, c *natsio.Conn, bucket string) uint64 {
	t.Helper()
	s := must.Get(c.JetStream().Stream(t.Context(), events.ObjectStream(bucket)))(t)
	return s.CachedInfo().State.Msgs
}

func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestUploadInPieces(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	store := c.Store(0)
	for _, size := range []int{0, 1, 512 << 10, 4 << 20, 4<<20 + 1, 21<<20 + 12345} {
		want := noise(size)
		up := store.NewBlob(ctx)
		for rest := want; len(rest) > 0; {
			n := must.Get(up.Write(rest[:min(len(rest), 300_007)]))(t)
			rest = rest[n:]
		}
		o, err := up.Commit()
		if err != nil || o.Size != int64(size) || o.Sum != sha256.Sum256(want) {
			t.Fatalf("Commit() = %+v, %v, want %d bytes with their hash", o, err, size)
		}
		got, err := io.ReadAll(iotest.OneByteReader(c.Objects().OpenObject(ctx, o)))
		if size > 1<<20 {
			got, err = io.ReadAll(c.Objects().OpenObject(ctx, o))
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Open(%d bytes) = %d bytes, %v", size, len(got), err)
		}
		ref := casstore.SumBlob(want)
		must.Is(t, must.Err(store.OpenBlob(ctx, ref)), casstore.ErrNotFound, "OpenBlob before a record names it")
		must.Get(c.Records().Write(ctx, record.Put{Key: events.BlobKey(ref.Hex()), Value: record.Blob{Object: o}.Encode(),
			Expect: record.Any}))(t)
		r := must.Get(store.OpenBlob(ctx, ref))(t)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("OpenBlob(%d bytes) = %d bytes, %v", size, len(got), err)
		}
	}
}

// TestUploadGivenUp: whatever ends an upload, and whenever, leaves nothing.
func TestUploadGivenUp(t *testing.T) {
	c := natstest.Conn(t)
	store := c.Store(0)
	for _, size := range []int{0, 100, 9 << 20} {
		up := store.NewBlob(t.Context())
		must.Get(up.Write(noise(size)))(t)
		up.Abort()
	}
	ctx, cancel := context.WithCancel(t.Context())
	up := store.NewBlob(ctx)
	must.Get(up.Write(noise(9 << 20)))(t)
	cancel()
	must.Is(t, must.Err(up.Commit()), context.Canceled, "Commit() after the end of its context")
	up = store.NewBlob(t.Context())
	must.Get(up.Write(noise(5 << 20)))(t)
	o := must.Get(up.Commit())(t)
	must.Do(t, store.DropBlob(t.Context(), o))
	must.Same(t, messages(t, c, events.BlobsBucket), 0, "%d messages are left, want %d")
	failing := io.MultiReader(bytes.NewReader(noise(9<<20)), iotest.ErrReader(io.ErrNoProgress))
	must.Is(t, must.Err(c.Inbox().CheckIn(t.Context(), failing)), io.ErrNoProgress, "CheckIn(reader that fails)")
	must.Same(t, messages(t, c, events.InboxBucket), 0, "%d messages are left in the inbox, want %d")
}

// TestOpenDamaged: bytes that are missing or wrong are an error where the reader ends, never fewer bytes.
func TestOpenDamaged(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	store := c.Store(0)
	body := noise(9 << 20)
	ref := must.Get(store.PutBlob(ctx, body))(t)
	rs := must.Get(c.Records().Records(ctx, events.BlobKey(ref.Hex())))(t)
	good := must.Get(record.DecodeBlob(rs[0].Value))(t)
	wrong := bytes.Clone(body)
	wrong[len(wrong)-1] ^= 1
	other := must.Get(c.Objects().UploadFrom(ctx, events.BlobsBucket, "other", bytes.NewReader(wrong)))(t)
	more, fewer, longer := good.Object, good.Object, good.Object
	more.Chunks++
	fewer.Chunks--
	longer.Size++
	for name, o := range map[string]record.Object{"a bit": other, "a chunk is missing": more, "a chunk too many": fewer,
		"a byte is missing": longer} {
		must.Get(c.Records().Write(ctx, record.Put{Key: rs[0].Key, Value: record.Blob{Object: o}.Encode(), Expect: record.Any}))(t)
		r, err := store.OpenBlob(ctx, ref)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		must.Is(t, err, casstore.ErrCorrupt, "%s: reading it", name)
	}
	must.Is(t, must.Err(c.Inbox().OpenBody(ctx, events.BodyRef{Object: "nothing"})), record.ErrNotFound, "OpenBody(nothing)")
}
