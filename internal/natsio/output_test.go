package natsio_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// TestPutPart: a part is stored once, whoever puts it and however often, and never behind anything but the part before it.
func TestPutPart(t *testing.T) {
	c := natstest.Conn(t)
	ctx := t.Context()
	put := func(after uint64, part string) uint64 {
		t.Helper()
		seq, err := c.Outputs().PutPart(ctx, "token", after, []byte(part))
		if err != nil {
			t.Fatalf("PutPart(%d, %s) = %v", after, part, err)
		}
		return seq
	}
	first := put(0, "one")
	must.Get(c.Outputs().PutPart(ctx, "another", 0, []byte("x")))(t)
	second := put(first, "two")
	third := put(second, "three")
	if a, b := put(first, "two"), put(0, "one"); a != second || b != first {
		t.Errorf("putting them again = %d, %d, want %d, %d", a, b, second, first)
	}
	for _, after := range []uint64{0, first, third + 7} {
		if _, err := c.Outputs().PutPart(ctx, "token", after, []byte("other")); !errors.Is(err, record.ErrRefused) {
			t.Errorf("PutPart of other bytes behind %d = %v, want ErrRefused", after, err)
		}
	}
	o := record.Object{Bucket: events.ArtifactsBucket, Name: "s/a/f.log", NUID: "token", Size: 11, Chunks: 3, First: first,
		Sum: sha256.Sum256([]byte("onetwothree"))}
	for range 2 {
		must.Do(t, c.Outputs().FinishParts(ctx, o))
	}
	store := must.Get(c.JetStream().ObjectStore(ctx, events.ArtifactsBucket))(t)
	if got, err := store.GetBytes(ctx, o.Name); err != nil || string(got) != "onetwothree" {
		t.Errorf("GetBytes = %q, %v", got, err)
	}
	var got bytes.Buffer
	n, next, err := c.Outputs().ReadParts(ctx, "token", second, 5, func(b []byte) error { got.Write(b); return nil })
	if err != nil || n != 2 || next != third+1 || got.String() != "twothree" {
		t.Errorf("ReadParts = %d, %d, %v, %q", n, next, err, got.String())
	}
}

// TestSilentOutputs: what is listed is old enough, by the server's clock, and open.
func TestSilentOutputs(t *testing.T) {
	c := natstest.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	write := func(id string, value []byte) {
		must.Get(c.Records().Write(ctx, record.Put{Key: events.OutputKey("s", id), Value: value, Expect: record.Any}))(t)
	}
	open := func(id string) []byte { return record.Output{ID: id, Thread: "main", Seq: 3}.Encode() }
	write("old", open("old"))
	write("ended", open("ended"))
	write("ended", nil)
	for {
		old := must.Get(c.Outputs().SilentOutputs(ctx, 300*time.Millisecond))(t)
		if len(old) > 0 {
			if len(old) != 1 || old[0].ID != "old" || old[0].Session != "s" || old[0].Output.Seq != 3 || old[0].For < 300*time.Millisecond {
				t.Errorf("SilentOutputs = %+v, want the old one", old)
			}
			break
		}
	}
	write("old", open("old"))
	if again, err := c.Outputs().SilentOutputs(ctx, 300*time.Millisecond); err != nil || len(again) != 0 {
		t.Errorf("SilentOutputs after a new piece = %+v, %v, want none", again, err)
	}
}
