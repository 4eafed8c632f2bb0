package natsio

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What packages that build on the driver share with it. They speak to JetStream themselves (Conn.JetStream), and find
// here what is the same for all: who answers a read, how messages are sent, and what an error means.

// LeaderStream is a stream of which single messages are read from the leader (leader.go).
func (st Streams) LeaderStream(ctx context.Context, name string) (jetstream.Stream, error) {
	return st.c.leaderStream(ctx, name)
}

// Send publishes messages, all at once, and returns their sequences in the same order when every one is durable. The
// first refusal is the error; beside it stand the sequences of what was stored nevertheless, 0 for the others.
func (st Streams) Send(ctx context.Context, msgs []*nats.Msg) (seqs []uint64, err error) {
	return st.c.publish(ctx, msgs)
}

// Each gives the messages of a stream that a consumer selects to f, in order, until there is none behind the last. It
// stops at the first error of f, and returns it.
func (st Streams) Each(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, f func(jetstream.Msg, *jetstream.MsgMetadata) error,
) error {
	return st.c.eachMessage(ctx, stream, cfg, f)
}

// Timeout is how long a request may take.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Log is where what goes wrong beside a call is told.
func (c *Conn) Log() *slog.Logger { return c.log }

// WrapErr maps what nats.go returns to the errors of package record.
func WrapErr(err error) error { return wrapErr(err) }

// Leads reports whether the server that described a stream has lately heard from a majority of those that hold it.
func Leads(info *jetstream.StreamInfo) bool { return leads(info) }

// RecordKey is the key of the record that is stored on a subject.
func RecordKey(subject string) string { return recordKey(subject) }

// ChunkSubject is where the chunks of an object are stored.
func ChunkSubject(bucket, nuid string) string { return chunkSubject(bucket, nuid) }

// How long a consumer that waits for messages asks at a time, and within which time it hears that the server is there.
const (
	PullExpiry    = pullExpiry
	PullHeartbeat = pullHeartbeat
)
