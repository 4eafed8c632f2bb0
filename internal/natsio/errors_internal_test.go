package natsio

import (
	"errors"
	"testing"

	"spool/internal/record"
)

// A stream that goes away in the middle of a fast batch refuses the rest of it for good, as the server says; but whoever publishes
// all of it again succeeds, on another server or when the stream is back.
func TestLostBatchIsTriedAgain(t *testing.T) {
	if err := (&apiError{Code: 400, ErrCode: codeBatchLost}).wrap(); !errors.Is(err, record.ErrBusy) {
		t.Errorf("verdict = %v, want %v", err, record.ErrBusy)
	}
}
