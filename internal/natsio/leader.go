package natsio

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/events"
)

// Who answers a read, when streams have several copies:
//
//	records                   the leader: direct reads are off for their bucket
//	a message by its place    the leader too (LeaderStream), whatever the stream allows: what is decided by it must not miss what was acked
//	chunks of objects         any copy: they never change. What a copy has not got is asked of the leader (readBatch)
//	consumers                 their own server, which may be behind: the stream's leader says where the end is
//
// The leader is who believes to be it. One that was cut off, or stopped, goes on to answer for some seconds: until it hears of
// the other one, or misses the majority for too long (20 s). What it answers was true once. So a read decides nothing by itself:
// commits expect the revisions that were read, and only a majority takes them.

// LeaderStream is a stream of which single messages are read from the leader. nats.go would ask any copy where the stream
// allows it, and one that is behind says "no such message" of what was acknowledged.
func (st Streams) LeaderStream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := st.c.js.Stream(ctx, name)
	if err == nil {
		s.CachedInfo().Config.AllowDirect = false // nats.go decides by it; TestMessagesComeFromTheLeader holds it to that
	}
	return s, err
}

// Messages reads and removes single messages of a stream, by its leader's word.
type Messages interface {
	GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error)
	GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error)
	DeleteMsg(ctx context.Context, seq uint64) error
	SecureDeleteMsg(ctx context.Context, seq uint64) error
	Purge(ctx context.Context, opts ...jetstream.StreamPurgeOpt) error
}

// MessagesOf gives those of a stream. nats.go asks the server about a stream before it reads of it; for this a
// connection does so once, because nothing of the answer but the name is used.
func MessagesOf(ctx context.Context, st Streams, name string) (Messages, error) {
	if s, known := st.c.asked.Load(name); known {
		return s.(jetstream.Stream), nil
	}
	s, err := st.LeaderStream(ctx, name)
	if err != nil {
		return nil, err
	}
	st.c.asked.Store(name, s)
	return s, nil
}

// leaderChunk is the first chunk of an object from a sequence on, by the leader's word.
func (obs Objects) leaderChunk(ctx context.Context, o record.Object, from uint64) (*jetstream.RawStreamMsg, error) {
	s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(o.Bucket))
	if err != nil {
		return nil, fmt.Errorf("chunk of %s/%s: %w", o.Bucket, o.Name, WrapErr(err))
	}
	m, err := s.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(ChunkSubject(o.Bucket, o.NUID)))
	if err != nil {
		return nil, fmt.Errorf("chunk of %s/%s from %s: %w", o.Bucket, o.Name, strconv.FormatUint(from, 10), WrapErr(err))
	}
	return m, nil
}

// heard is how long ago a leader has heard from the others at most, or it may have been replaced: it asks them every second, and an
// election takes four.
const heard = 3 * time.Second

// Leads reports whether the server that described a stream has lately heard from a majority of those that hold it.
func Leads(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil || info.Config.Replicas <= 1 {
		return true
	}
	with := 1
	for _, r := range info.Cluster.Replicas {
		if !r.Offline && r.Active < heard {
			with++
		}
	}
	return with > info.Config.Replicas/2
}
