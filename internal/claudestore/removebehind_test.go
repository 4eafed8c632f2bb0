package claudestore_test

import (
	"context"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/record"
)

// TestRemoveBehind: what SPOOL_EVENTS took for a key is not said to be nowhere while no persister comes to it: the removal would be
// told that there was nothing, and it is all there a moment later.
func TestRemoveBehind(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := r.store.Append(ctx, key(""), []byte(line(1, "")), func(int, int) error { return nil })
	must.Is(t, err, record.ErrBusy, "Append while no persister runs")
	was, err := r.store.Remove(t.Context(), key(""), "ada")
	if err == nil {
		t.Errorf("Remove = %t, nil", was)
	}
}
