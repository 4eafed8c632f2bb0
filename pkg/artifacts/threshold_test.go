package artifacts

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestThresholdsLeast: no shorter text is over a threshold, and one of that length can be.
func TestThresholdsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Thresholds{Bytes: rapid.IntRange(1, 3000).Draw(t, "bytes"), Tokens: rapid.IntRange(1, 900).Draw(t, "tokens")}
		n := limit.Least()
		if limit.Exceeded([]byte(strings.Repeat("x", n-1))) || !limit.Exceeded([]byte(strings.Repeat("x", n))) {
			t.Fatalf("%v: %d bytes are not the least that exceed it", limit, n)
		}
		if got, err := ParseThresholds(limit.String()); err != nil || got != limit {
			t.Fatalf("ParseThresholds(%s) = %v, %v", limit, got, err)
		}
	})
}

func TestThresholdsValidate(t *testing.T) {
	for _, good := range []Thresholds{{}, {Bytes: 1024, Tokens: 256}, {Bytes: 499_998, Tokens: 1 << 40}} {
		if err := good.Validate(); err != nil {
			t.Errorf("Validate(%v) = %v", good, err)
		}
	}
	for says, bad := range map[string]Thresholds{
		"artifact bytes 1023: choose 1024 to 499998":   {Bytes: 1023},
		"artifact bytes 499999: choose 1024 to 499998": {Bytes: 499_999},
		"artifact tokens -1: choose 256 or more":       {Tokens: -1},
	} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Validate(%v) = %v, want %q", bad, err, says)
		}
	}
	if both := (Thresholds{Bytes: 1, Tokens: 1}).Validate(); both == nil || strings.Count(both.Error(), "choose") != 2 {
		t.Errorf("Validate = %v, want both mistakes at once", both)
	}
}
