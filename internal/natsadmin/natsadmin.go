// Package natsadmin is what daemons and an operator's tools ask of the server beside the work: how full the streams
// are, where their copies are and how far they have come, whether the server stores at all, and which daemons are
// there. It also drops events that every partition has applied, and reads and writes whole streams for backups. It
// builds on the driver (natsio); persisters, collectors and clients do their work without it.
package natsadmin

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/natsio"
)

// Admin asks the server that a connection stands to. It keeps nothing, costs nothing to make, and is safe for
// concurrent use.
type Admin struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	streams natsio.Streams
	timeout time.Duration // of a request
	usable  func(context.Context) error
}

// New makes the Admin of a connection.
func New(conn *natsio.Conn) *Admin {
	return &Admin{
		nc: conn.JetStream().Conn(), js: conn.JetStream(), streams: conn.Streams(), timeout: conn.Timeout(),
		usable: func(ctx context.Context) error { return natsio.Usable(ctx, conn) },
	}
}

// System is all that checks read and repairs write (fsck.Store, fsck.Writer, scrub.Everything): records, objects,
// events, items and dead letters through the driver, and the streams themselves.
type System struct {
	records
	natsio.Objects
	natsio.Events
	natsio.Items
	natsio.DeadLetters
	*Admin
}

// records is named in lower case because a field Records would hide the role's method of that name.
type records = natsio.Records

// Of makes the System that a connection leads to.
func Of(conn *natsio.Conn) System {
	return System{conn.Records(), conn.Objects(), conn.Events(), conn.Items(), conn.DeadLetters(), New(conn)}
}
