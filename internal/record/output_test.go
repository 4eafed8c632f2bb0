package record_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestOutputRecord(t *testing.T) {
	want := record.Output{
		ID: "o1", Thread: "main", User: "u", Claimed: "c", Start: events.OutputStart{Tool: "Bash", Cwd: "/srv", Head: 5, Lease: 90_000},
		Begun: 1_000, Touched: 2_000, Seq: 9, Total: 300_000, Artifact: "art_1", NUID: "token",
		Parts: record.Parts{Count: 2, First: 10, Last: 12}, Base: 7,
		Pieces: []record.Piece{{Stream: events.Stdout, Bytes: []byte("out")}, {Stream: events.Stderr, Bytes: []byte("err")}},
		Held:   []record.Held{{Stream: events.Stderr, Context: []byte("before"), Bytes: []byte("end")}},
	}
	b := want.Encode()
	got := must.Get(record.DecodeOutput(b))(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("DecodeOutput(Encode) (-want +got):\n%s", d)
	}
	if got := got.Lease(time.Second); got != 90*time.Second {
		t.Errorf("Lease = %v, want its own", got)
	}
	for _, ms := range []int64{9223372036855, 18446744673710, 1e18, math.MaxInt64} { // programs without the SDK may say so
		if got := (record.Output{Start: events.OutputStart{Lease: ms}}).Lease(time.Second); got < 200*365*24*time.Hour {
			t.Errorf("Lease of %d ms = %v, want the longest", ms, got)
		}
	}
	for n := range len(b) {
		if _, err := record.DecodeOutput(b[:n]); !errors.Is(err, record.ErrValue) {
			t.Fatalf("DecodeOutput of %d of %d bytes = %v, want ErrValue", n, len(b), err)
		}
	}
}

func TestOutputBaseRecord(t *testing.T) {
	want := record.OutputBase{Seq: 7, Part: []byte("part"), Sum: []byte("sum"), Sink: []byte("sink")}
	b := want.Encode()
	got := must.Get(record.DecodeOutputBase(b))(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("DecodeOutputBase(Encode) (-want +got):\n%s", d)
	}
	for n := range len(b) {
		if _, err := record.DecodeOutputBase(b[:n]); !errors.Is(err, record.ErrValue) {
			t.Fatalf("DecodeOutputBase of %d of %d bytes = %v, want ErrValue", n, len(b), err)
		}
	}
}
