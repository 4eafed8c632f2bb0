package natsio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// SessionKeys lists the key of every record that belongs to a session, removed ones included, by the stream's own list of
// subjects, which is exact.
func (c *Conn) SessionKeys(ctx context.Context, session string) ([]string, error) {
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, fmt.Errorf("list the records of session %s: %w", session, wrapErr(err))
	}
	var keys []string
	for _, filter := range events.OfSession(session) {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(filter)))
		if err != nil {
			return nil, fmt.Errorf("list the records of session %s: %w", session, wrapErr(err))
		}
		for subject := range info.State.Subjects {
			keys = append(keys, recordKey(subject))
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// SessionLive reads the runs and the open outputs of a session. A record that this version cannot read is listed beside them:
// one bad record must not decide that a session can never be removed, nor stop who removes it.
func (c *Conn) SessionLive(ctx context.Context, session string) (l record.Live, err error) {
	if l.Runs, l.Unread, err = c.runs(ctx, session); err != nil {
		return l, err
	}
	ages, err := c.recordAges(ctx, events.OutputKeys(session), math.MinInt64)
	if err != nil {
		return l, fmt.Errorf("open outputs of session %s: %w", session, err)
	}
	rs, err := c.List(ctx, events.OutputKeys(session))
	if err != nil {
		return l, err
	}
	for _, r := range rs {
		o, err := record.DecodeOutput(r.Value)
		if err != nil {
			l.Unread = append(l.Unread, record.Unread{Key: r.Key, Err: err})
			continue
		}
		silent := record.Silent{Session: session, Output: o, Rev: r.Seq}
		if a := ages[r.Key]; a.seq == r.Seq { // else it was written since, a moment ago
			silent.For = max(a.age, 0)
		}
		l.Outputs = append(l.Outputs, silent)
	}
	return l, nil
}

// visible leaves out records of sessions that are being removed: of those that are too large for one batch a reader sees
// nothing from the first batch on.
func (c *Conn) visible(ctx context.Context, rs []record.Record) ([]record.Record, error) {
	if !slices.ContainsFunc(rs, func(r record.Record) bool { return events.SessionOf(r.Key) != "" }) {
		return rs, nil
	}
	s, err := c.js.Stream(ctx, events.RecordsStream)
	if err != nil {
		return nil, wrapErr(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(events.RecordSubject(events.DeletingKeys)))
	if err != nil || len(info.State.Subjects) == 0 {
		return rs, wrapErr(err)
	}
	var keys []string
	for subject := range info.State.Subjects {
		keys = append(keys, recordKey(subject))
	}
	marks, err := c.Records(ctx, keys...)
	if err != nil {
		return nil, err
	}
	going := map[string]bool{}
	for _, m := range marks {
		if session, ok := events.ParseDeletingKey(m.Key); ok && m.Exists() {
			going[session] = true
		}
	}
	return slices.DeleteFunc(rs, func(r record.Record) bool { return going[events.SessionOf(r.Key)] }), nil
}

// BetweenDeletions calls read, and calls it again when a session was being deleted meanwhile: what several messages told may be of
// before and of after. Where deletions do not pause, the last of a few calls counts.
func (c *Conn) BetweenDeletions(ctx context.Context, read func() error) error {
	newest := func() (uint64, error) {
		rs, err := c.Records(ctx, events.DeletedKey("*"))
		if err != nil {
			return 0, err
		}
		return rs[0].Seq, nil
	}
	const tries = 5
	before, err := newest()
	for n := 1; err == nil; n++ {
		if err = read(); err != nil {
			return err
		}
		after, e := newest()
		if e != nil || after == before || n == tries {
			return e
		}
		before = after
	}
	return err
}

// FreeObjects drops bytes whose artifacts' records belong to a session that is being deleted, unless another session has a
// record that names them (SPEC A7). Doing it again changes nothing.
func (c *Conn) FreeObjects(ctx context.Context, session string, objects []record.Object) error {
	for _, o := range objects {
		if o.Name == "" { // parts of an output that never ended
			if err := c.purgeChunks(ctx, o); err != nil {
				return err
			}
			continue
		}
		users, err := c.NamedBy(ctx, o.Name)
		if delete(users, session); err == nil && len(users) == 0 {
			err = c.dropObject(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// NamedBy is the sessions with a record that names an object of ArtifactsBucket.
func (c *Conn) NamedBy(ctx context.Context, object string) (map[string]bool, error) {
	users := map[string]bool{}
	// Whoever names the bytes of another has a mark. Most objects never had one: then there is no such subject, which one
	// message tells.
	rs, err := c.Records(ctx, events.SharedKeys(objectToken(object)))
	if err == nil && rs[0].Seq != 0 {
		rs, err = c.List(ctx, events.SharedKeys(objectToken(object)))
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if r.Exists() {
			users[events.SessionOf(r.Key)] = true
		}
	}
	session, rest, ok := strings.Cut(object, "/")
	id, _, named := strings.Cut(rest, "/")
	if !ok || !named || events.CheckToken("", session) != nil || events.CheckToken("", id) != nil {
		return users, nil
	}
	own, err := c.Artifacts(0).Records(ctx, session, artifacts.ID(id))
	if len(own) > 0 && own[0].Object == object {
		users[session] = true
	}
	return users, err
}

// PurgeSession drops the items and the dead letters of a session, and its events below a sequence. Doing it again changes
// nothing more.
func (c *Conn) PurgeSession(ctx context.Context, session string, below uint64) error {
	for _, p := range []struct {
		stream, filter string
		below          uint64
	}{
		{events.ItemsStream, events.ItemsOfSession(session), math.MaxUint64},
		{events.DeadStream, events.DeadFilter(session), math.MaxUint64},
		{events.EventsStream, events.StoredOfSession(session), below},
	} {
		if err := c.purge(ctx, p.stream, p.filter, p.below); err != nil {
			return fmt.Errorf("purge session %s: %w", session, err)
		}
	}
	return nil
}

func (c *Conn) purge(ctx context.Context, stream, filter string, below uint64) error {
	s, err := c.js.Stream(ctx, stream)
	if err == nil {
		opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
		if below != math.MaxUint64 {
			opts = append(opts, jetstream.WithPurgeSequence(below))
		}
		err = s.Purge(ctx, opts...)
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", stream, wrapErr(err))
	}
	return nil
}

// SessionEnds is how far the streams of items and of dead letters are now.
func (c *Conn) SessionEnds(ctx context.Context) (items, dead uint64, err error) {
	last, err := c.LastSeqs(ctx, events.ItemsStream, events.DeadStream)
	return last[events.ItemsStream], last[events.DeadStream], err
}

// Overwritten is what was written over with random bytes in a stream's files.
type Overwritten struct {
	Stream   string `json:"stream"`
	Messages int64  `json:"messages"`
	Bytes    int64  `json:"bytes"`
}

// Overwrite writes over every message of a stream that matches a filter, up to a sequence, and drops it. The server rewrites a
// block file, of up to 8 MiB, for each: it is slow. Doing it again goes on where it stopped.
func (c *Conn) Overwrite(ctx context.Context, stream, filter string, upTo uint64) (w Overwritten, err error) {
	w.Stream = stream
	s, err := c.leaderStream(ctx, stream)
	if err != nil {
		return w, fmt.Errorf("overwrite in %s: %w", stream, wrapErr(err))
	}
	type found struct {
		seq  uint64
		size int64
	}
	var all []found
	err = c.eachMessage(ctx, stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverAllPolicy,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		if meta.Sequence.Stream <= upTo {
			all = append(all, found{meta.Sequence.Stream, int64(len(m.Data()))})
		}
		return nil
	})
	if err != nil {
		return w, fmt.Errorf("overwrite in %s: %w", stream, err)
	}
	for _, f := range all {
		if err := s.SecureDeleteMsg(ctx, f.seq); err != nil {
			if _, gone := s.GetMsg(ctx, f.seq); !errors.Is(gone, jetstream.ErrMsgNotFound) {
				return w, fmt.Errorf("overwrite message %d of %s: %w", f.seq, stream, wrapErr(err))
			}
			continue
		}
		w.Messages, w.Bytes = w.Messages+1, w.Bytes+f.size
	}
	return w, nil
}

// OverwriteObject is Overwrite for the bytes of an object, by its token, and its name if that is still its own.
func (c *Conn) OverwriteObject(ctx context.Context, o record.Object) (Overwritten, error) {
	w, err := c.Overwrite(ctx, events.ObjectStream(o.Bucket), chunkSubject(o.Bucket, o.NUID), math.MaxUint64)
	if err != nil || o.Name == "" {
		return w, err
	}
	return w, c.dropObject(ctx, o)
}

// OverwriteDead is Overwrite for the dead letters of a session, and for what they keep in the inbox.
func (c *Conn) OverwriteDead(ctx context.Context, session string, upTo uint64) ([]Overwritten, error) {
	inbox := Overwritten{Stream: events.ObjectStream(events.InboxBucket)}
	err := c.DeadLetters(ctx, session, func(d DeadLetter) error {
		if d.object == "" || d.At > upTo {
			return nil
		}
		o, err := c.Stat(ctx, events.InboxBucket, d.object)
		if errors.Is(err, record.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		w, err := c.OverwriteObject(ctx, o)
		inbox.Messages, inbox.Bytes = inbox.Messages+w.Messages, inbox.Bytes+w.Bytes
		return err
	})
	if err != nil {
		return nil, err
	}
	w, err := c.Overwrite(ctx, events.DeadStream, events.DeadFilter(session), upTo)
	return []Overwritten{w, inbox}, err
}
