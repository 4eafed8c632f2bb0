package events_test

import (
	"math"
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestBelieved(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	day := (24 * time.Hour).Milliseconds()
	old := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	in9000 := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, tt := range []struct{ claim, stored, believed, noLater int64 }{
		{now - 5, now, now - 5, now},
		{now, now, now, now},
		{now + 5, now, now, now + 5},
		{now + day, now, now, now + day},
		{now + day + 1, now, now, now},
		{old, now, old, now},
		{0, now, now, now},
		{-5, now, now, now},
		{1000, now, now, now},
		{in9000, now, now, now},
		{math.MaxInt64, now, now, now},
		{math.MinInt64, now, now, now},
		{old, 0, old, old},
		{in9000, 0, in9000, in9000},
		{math.MaxInt64, 0, 0, math.MaxInt64},
		{1000, 0, 0, 1000},
		{0, 0, 0, 0},
	} {
		must.Same(t, events.Believed(tt.claim, tt.stored), tt.believed, "Believed(%d, %d) = %d, want %d", tt.claim, tt.stored)
		must.Same(t, events.NoLater(tt.claim, tt.stored), tt.noLater, "NoLater(%d, %d) = %d, want %d", tt.claim, tt.stored)
	}
}

func TestTimeStamp(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "", math.MaxInt64: "", math.MinInt64: "", 253402300800000: "", -62167219200001: "",
		253402300799999: "9999-12-31T23:59:59.999Z", -62167219200000: "0000-01-01T00:00:00.000Z",
		-5:            "1969-12-31T23:59:59.995Z",
		1795176000000: "2026-11-20T12:00:00.000Z",
	} {
		got := events.Stamp(ms)
		must.Same(t, got, want, "Stamp(%d) = %q, want %q", ms)
		if _, err := time.Parse(time.RFC3339, got); got != "" && err != nil {
			t.Errorf("Stamp(%d): %v", ms, err)
		}
	}
}

// TestMillis: what somebody says in milliseconds is a time of that length, or the longest.
func TestMillis(t *testing.T) {
	const most = math.MaxInt64 / time.Millisecond * time.Millisecond
	for n, want := range map[int64]time.Duration{
		0: 0, 1500: 1500 * time.Millisecond, -2: -2 * time.Millisecond, events.MaxLease: 7 * 24 * time.Hour,
		9223372036854: most, 9223372036855: most, 18446744673710: most, math.MaxInt64: most, math.MinInt64: -most,
	} {
		must.Same(t, events.Millis(n), want, "Millis(%d) = %v, want %v", n)
	}
}
