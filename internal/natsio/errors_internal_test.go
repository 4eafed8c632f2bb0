package natsio

import (
	"testing"

	"spool/internal/must"
	"spool/internal/record"
)

// A stream that goes away in the middle of a fast batch refuses the rest of it for good, as the server says; but whoever publishes
// all of it again succeeds, on another server or when the stream is back.
func TestLostBatchIsTriedAgain(t *testing.T) {
	must.Is(t, (&apiError{Code: 400, ErrCode: codeBatchLost}).wrap(), record.ErrBusy, "verdict")
}
