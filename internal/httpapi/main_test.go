package httpapi_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A Durable Stream is watched for two more seconds when nobody reads it any more.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("spool/internal/dstreams.(*follower).run"))
}
