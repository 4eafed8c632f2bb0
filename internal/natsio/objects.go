package natsio

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/events"
)

// objectMeta is the meta message of the object store's public layout.
type objectMeta struct {
	Name    string    `json:"name"`
	Bucket  string    `json:"bucket"`
	NUID    string    `json:"nuid"`
	Size    uint64    `json:"size"`
	ModTime time.Time `json:"mtime"`
	Chunks  uint32    `json:"chunks"`
	Digest  string    `json:"digest,omitempty"`
	Deleted bool      `json:"deleted,omitempty"`
}

const digestPrefix = "SHA-256="

// ChunkSubject is where the chunks of an object are stored.
func ChunkSubject(bucket, nuid string) string { return "$O." + bucket + ".C." + nuid }

func metaSubject(bucket, name string) string {
	return "$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// ChunkSize is the largest chunk to write, in bytes: it leaves room for a message's headers.
func (obs Objects) chunkSize() int { return min(obs.c.MaxPayload()-4096, 512<<10) }

// Upload writes an object from its chunks, each below the server's max_payload, and the meta message behind them, and
// returns when every one is durable. On an error, and after a crash in between, some are there and some are not, the meta
// message without its chunks even; but no record names the object then, and gc takes it.
func (obs Objects) Upload(ctx context.Context, bucket, name string, chunks [][]byte) (record.Object, error) {
	u := obs.startUpload(bucket, name)
	msgs := u.messages(chunks)
	u.sum.Sum(u.obj.Sum[:0])
	meta, err := metaMsg(u.obj)
	if err != nil {
		return record.Object{}, err
	}
	seqs, err := obs.c.Streams().Send(ctx, append(msgs, meta))
	if err != nil {
		return record.Object{}, fmt.Errorf("upload %s/%s: %w", bucket, name, err)
	}
	if len(chunks) > 0 {
		u.obj.First = seqs[0]
	}
	return u.obj, nil
}

type upload struct {
	obs Objects
	obj record.Object
	sum hash.Hash
}

func (obs Objects) startUpload(bucket, name string) *upload {
	return &upload{obs: obs, obj: record.Object{Bucket: bucket, Name: name, NUID: nuid.Next()}, sum: sha256.New()}
}

// messages takes chunks into the object.
func (u *upload) messages(chunks [][]byte) []*nats.Msg {
	msgs := make([]*nats.Msg, len(chunks), len(chunks)+1)
	for i, chunk := range chunks {
		u.sum.Write(chunk)
		u.obj.Size += int64(len(chunk))
		msgs[i] = &nats.Msg{Subject: ChunkSubject(u.obj.Bucket, u.obj.NUID), Data: chunk}
	}
	u.obj.Chunks += len(chunks)
	return msgs
}

func (u *upload) send(ctx context.Context, chunks [][]byte) error {
	first := u.obj.Chunks == 0
	seqs, err := u.obs.c.Streams().Send(ctx, u.messages(chunks))
	if err == nil && first && len(seqs) > 0 {
		u.obj.First = seqs[0]
	}
	return err
}

func metaMsg(o record.Object) (*nats.Msg, error) {
	body, err := json.Marshal(objectMeta{
		Name: o.Name, Bucket: o.Bucket, NUID: o.NUID, Size: uint64(o.Size), Chunks: uint32(o.Chunks), ModTime: time.Now().UTC(),
		Digest: digestPrefix + base64.URLEncoding.EncodeToString(o.Sum[:]),
	})
	return &nats.Msg{Subject: metaSubject(o.Bucket, o.Name), Data: body}, err
}

// NameObject makes an object's name lead to it, whatever it led to. The object's chunks are all there.
func (obs Objects) NameObject(ctx context.Context, o record.Object) error {
	meta, err := metaMsg(o)
	if err == nil {
		_, err = obs.c.Streams().Send(ctx, []*nats.Msg{meta})
	}
	if err != nil {
		return fmt.Errorf("name %s/%s: %w", o.Bucket, o.Name, err)
	}
	return nil
}

// Stat finds an object by its name, whoever wrote it. record.ErrNotFound when there is none or it was deleted.
func (obs Objects) Stat(ctx context.Context, bucket, name string) (record.Object, error) {
	s, err := MessagesOf(ctx, obs.c.Streams(), events.ObjectStream(bucket))
	if err != nil {
		return record.Object{}, fmt.Errorf("stat %s/%s: %w", bucket, name, WrapErr(err))
	}
	m, err := s.GetLastMsgForSubject(ctx, metaSubject(bucket, name))
	if err != nil {
		return record.Object{}, fmt.Errorf("stat %s/%s: %w", bucket, name, WrapErr(err))
	}
	var meta objectMeta
	if err := jsonscan.Decode(m.Data, &meta); err != nil {
		return record.Object{}, fmt.Errorf("stat %s/%s: meta: %w", bucket, name, err)
	}
	if meta.Deleted {
		return record.Object{}, fmt.Errorf("stat %s/%s: %w: deleted", bucket, name, record.ErrNotFound)
	}
	o := record.Object{Bucket: bucket, Name: name, NUID: meta.NUID, Size: int64(meta.Size), Chunks: int(meta.Chunks), First: 1}
	if sum, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(meta.Digest, digestPrefix)); err == nil && len(sum) == len(o.Sum) {
		o.Sum = [32]byte(sum)
	}
	return o, nil
}

// Holds reports whether an object is there, by its meta message. A record alone does not say so: a server that was killed can bring
// one back that was removed (docs/adr/0022).
func (obs Objects) Holds(ctx context.Context, o record.Object) (bool, error) {
	there, err := obs.Stat(ctx, o.Bucket, o.Name)
	if errors.Is(err, record.ErrNotFound) {
		return false, nil
	}
	return err == nil && there.NUID == o.NUID, err
}

// Read returns all bytes of an object. They are counted, not hashed: whoever asked knows what they must hash to.
func (obs Objects) Read(ctx context.Context, o record.Object) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, o.Size))
	err := obs.ReadChunks(ctx, o, 0, func(chunk []byte) error { buf.Write(chunk); return nil })
	if err != nil {
		return nil, err
	}
	if int64(buf.Len()) != o.Size {
		return nil, fmt.Errorf("read %s/%s: %w: %d bytes of %d", o.Bucket, o.Name, record.ErrNotFound, buf.Len(), o.Size)
	}
	return buf.Bytes(), nil
}

// readGroup is how many bytes one batched read asks for: it stays below what a subscription may hold.
const readGroup = 16 << 20

// ReadChunks calls f with the object's chunks in order, at most limit of them (0 = all), by batched direct reads: no
// consumer is made, and many may run at once. Missing chunks are record.ErrNotFound: the leader has not got them either.
func (obs Objects) ReadChunks(ctx context.Context, o record.Object, limit int, f func(chunk []byte) error) error {
	want := o.Chunks
	if limit > 0 {
		want = min(want, limit)
	}
	next := o.First
	for got := 0; got < want; {
		n, last, err := obs.readBatch(ctx, o, next, want-got, readGroup, f)
		if err != nil {
			return fmt.Errorf("read %s/%s: %w", o.Bucket, o.Name, err)
		}
		if n == 0 {
			return fmt.Errorf("read %s/%s: %w: %d of %d chunks", o.Bucket, o.Name, record.ErrNotFound, got, o.Chunks)
		}
		got, next = got+n, last+1
	}
	return nil
}

// readBatch calls f with up to count chunks from a sequence on, of most bytes together, by any copy of the bucket. A copy may be
// behind: only the leader can say that there is nothing.
func (obs Objects) readBatch(
	ctx context.Context, o record.Object, from uint64, count, most int, f func([]byte) error,
) (n int, last uint64, err error) {
	var failed error
	give := func(chunk []byte) error { failed = f(chunk); return failed }
	err = obs.c.denied.patience(ctx).once(ctx, o.Bucket+"/"+o.Name, func() (err error) {
		n, last, err = obs.readCopy(ctx, o, from, count, most, give)
		if n > 0 || failed != nil { // what came is not asked for again
			return nil
		}
		return err
	})
	if err = cmp.Or(failed, err); n > 0 || err != nil {
		return n, last, err
	}
	m, err := obs.leaderChunk(ctx, o, from)
	if errors.Is(err, record.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return 1, m.Sequence, f(m.Data)
}

// readCopy is readBatch by whichever copy answers.
func (obs Objects) readCopy(
	ctx context.Context, o record.Object, from uint64, count, most int, f func([]byte) error,
) (n int, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, obs.c.timeout)
	defer cancel()
	get := apiSubject(obs.c.js, "DIRECT.GET.OBJ_"+o.Bucket)
	ctx, done, err := obs.c.denied.watch(ctx, func(subject string) bool { return subject == get })
	if err != nil {
		return 0, 0, err
	}
	defer done()
	inbox := obs.c.nc.NewInbox()
	sub, err := obs.c.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(-1, 4*readGroup); err != nil {
		return 0, 0, err
	}
	body, err := json.Marshal(map[string]any{
		"seq": from, "batch": count, "max_bytes": most, "next_by_subj": ChunkSubject(o.Bucket, o.NUID)})
	if err != nil {
		return 0, 0, err
	}
	if err := obs.c.nc.PublishRequest(get, inbox, body); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", record.ErrBusy, err)
	}
	for n < count {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return n, last, outcome(ctx, fmt.Errorf("%w: %w", record.ErrUnknown, err))
		}
		switch m.Header.Get("Status") {
		case "":
		case "204", "404": // end of this batch, nothing there
			return n, last, nil
		default:
			return n, last, fmt.Errorf("%w: direct read: %s %s", record.ErrBusy, m.Header.Get("Status"), m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return n, last, fmt.Errorf("%w: direct read without a sequence", record.ErrUnknown)
		}
		if before := m.Header.Get(jetstream.LastSequenceHeader); before != strconv.FormatUint(last, 10) { // the message before it in the batch
			return n, last, fmt.Errorf("%w: direct read of %d behind %s: an answer was lost", record.ErrUnknown, seq, before)
		}
		last = seq
		if err := f(m.Data); err != nil {
			return n, last, err
		}
		n++
	}
	return n, last, nil
}
