// Package gcnats is the world of collectors on NATS, beside what the driver has for all: what events and dead letters
// still claim (gc.Queue), what a cycle leaves for the next one (gc.Memory), and the requests by which of several
// collectors one runs a cycle.
package gcnats

import (
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/gc"
	"spool/internal/natsio"
)

// World is a system as its collectors see it. It keeps nothing, and is safe for concurrent use.
type World struct {
	js      jetstream.JetStream
	streams natsio.Streams
	log     *slog.Logger
}

// Of makes the World that a connection leads to.
func Of(conn *natsio.Conn) *World { return &World{conn.JetStream(), conn.Streams(), conn.Log()} }

// Deps are those of a collector that commits behind the fence of a lane. It logs nothing and asks nobody for alarms.
func Deps(conn *natsio.Conn, lane int) gc.Deps {
	w := Of(conn)
	return gc.Deps{
		Records: conn.Records(), Bulk: conn.Objects(), Streams: conn.Streams(), Packs: conn.Store(lane), Queue: w, Memory: w,
		MaxPayload: conn.MaxPayload,
	}
}
