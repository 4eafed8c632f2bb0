package httpapi_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A Durable Stream is watched for two more seconds when nobody reads it any more.
		goleak.IgnoreAnyFunction("spool/internal/dstreams.(*follower).run"),
		// nats.go leaves this one behind on a connection that ends while the first message is published without waiting.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
