package memjs_test

import (
	"testing"

	"go.uber.org/goleak"
)

// nats.go leaves this one behind on a connection that is closed while it is being made again.
const left = "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(left)) }
