package record_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/artifacts"
)

func TestRunRecord(t *testing.T) {
	want := record.Run{
		ID: "r1", Thread: "main", Agent: "coder", Status: artifacts.RunRunning, Lease: 60_000, Summary: "half done", Begun: 1_000, Touched: 2_000,
	}
	b := want.Encode()
	got := must.Get(record.DecodeRun(b))(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("DecodeRun(Encode) (-want +got):\n%s", d)
	}
	for n := range len(b) {
		if _, err := record.DecodeRun(b[:n]); !errors.Is(err, record.ErrValue) {
			t.Fatalf("DecodeRun of %d of %d bytes = %v, want ErrValue", n, len(b), err)
		}
	}
}

// The lease counts from when the record was written, whatever the reader's clock says (SPEC A6).
func TestRunSeen(t *testing.T) {
	now := time.UnixMilli(7)
	seen := record.Seen{Run: record.Run{ID: "r", Status: artifacts.RunRunning, Lease: 1_000}, Ago: 999 * time.Millisecond}
	if got := seen.At(now).Standing(now); got != artifacts.RunRunning {
		t.Errorf("1 ms before its lease is over it stands as %s", got)
	}
	seen.Ago += time.Millisecond
	if got := seen.At(now).Standing(now); got != artifacts.RunFailed {
		t.Errorf("when its lease is over it stands as %s", got)
	}
	seen.Status, seen.Lease = artifacts.RunQueued, 0
	if got := seen.At(now); !got.Lease.IsZero() || got.Standing(now) != artifacts.RunQueued {
		t.Errorf("queued without a lease = %+v", got)
	}
}
