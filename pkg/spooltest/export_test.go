package spooltest

import (
	"testing"
	"time"
)

// Impatient has cases wait no longer than this, until the test has ended.
func Impatient(t *testing.T, d time.Duration) {
	before := patience
	patience = d
	t.Cleanup(func() { patience = before })
}
