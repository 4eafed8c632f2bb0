// Package persistnats wires a persister to NATS: which part of the driver, and of what builds on it, is which of its
// dependencies.
package persistnats

import (
	"context"

	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/sessionstore"
	"spool/pkg/casstore"
)

type (
	outbox struct {
		natsio.Items
		natsio.DeadLetters
	}
	leases struct {
		natsio.Outputs
		natsio.Events
	}
	stored struct{ natsio.Streams }
)

// Event implements persist.Stored.
func (s stored) Event(ctx context.Context, partition int, seq uint64) ([]byte, error) {
	return natsio.EventOf(ctx, s.Streams, partition, seq)
}

// Deps are those of a persister that commits behind the fence of a lane and keeps so many bytes of packs. It has no
// secrets to look for, and nobody says when the store was set back.
func Deps(conn *natsio.Conn, lane, packCache int) persist.Deps {
	store := conn.Store(lane)
	outputs := conn.Outputs()
	return persist.Deps{
		Records: conn.Records(), Bulk: store, Inbox: conn.Inbox(), Outbox: outbox{conn.Items(), conn.DeadLetters()},
		Sessions: sessionstore.Of(conn), Past: conn.Events(), Stored: stored{conn.Streams()}, MaxRecord: conn.Records().MaxRecord,
		Parts: outputs, Wholes: conn.Objects(), Live: outputs, Leases: leases{outputs, conn.Events()},
		Packs: casstore.NewPackCache(store, packCache), Nodes: store, Search: store.Search(),
	}
}
