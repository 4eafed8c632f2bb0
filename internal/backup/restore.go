package backup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/events"
)

// ErrNotEmpty: there is something of Spool in the system already.
var ErrNotEmpty = errors.New("the system is not empty")

// ErrPart: the restore has failed, and the system may hold a part of the snapshot. Without it, the restore wrote nothing.
var ErrPart = errors.New("a part of the snapshot may be stored")

// part is an error that is ErrPart, too.
type part struct{ error }

func (p part) Unwrap() []error { return []error{p.error, ErrPart} }

// Restore puts a snapshot into a system that has nothing of Spool; limits are the sizes of the streams that it makes. After a
// crash, or an ErrPart, the system holds a part, which nobody writes to: empty it and begin anew. tell may be nil.
func Restore(ctx context.Context, conn *natsio.Conn, repo *Repository, m Manifest, limits natsio.Limits, tell func(Progress)) error {
	admin := natsadmin.New(conn)
	there, err := found(ctx, conn, admin)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: there is %s; restore into an account, or a data directory, without them", ErrNotEmpty, strings.Join(there, ", "))
	}
	limits.First, limits.Restore = m.First, m.ID+" "+rand.Text()
	switch err := conn.Ensure(ctx, limits); {
	case errors.Is(err, natsio.ErrTopology): // it was empty a moment ago
		return fmt.Errorf("%w: another restore, or a persister, was faster: %w", ErrNotEmpty, err)
	case err != nil:
		if there, e := admin.Empty(ctx); e == nil && len(there) == 0 && !record.Temporary(err) { // nothing is on its way either
			return err
		}
		return part{err}
	}
	switch own, err := conn.Restore().Own(ctx, limits.Restore); {
	case err != nil:
		return part{err}
	case !own:
		return fmt.Errorf("%w: another restore, or a persister, was faster", ErrNotEmpty)
	}
	if tell == nil {
		tell = func(Progress) {}
	}
	r := &restore{into: conn.Restore(), admin: admin, repo: repo, m: m, tell: tell}
	for _, step := range []func(context.Context) error{r.objects, r.records, r.dead, r.events, r.into.End} {
		if err := step(ctx); err != nil {
			return part{err}
		}
	}
	return nil
}

// answerTimes is how many times as long as for one answer a restore waits for the first word of a server.
const answerTimes = 12

// found names the streams that are there. A server that has just started, or is busy, may leave a question unanswered for a while.
func found(ctx context.Context, conn *natsio.Conn, admin *natsadmin.Admin) (there []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimes*conn.Timeout())
	defer cancel()
	err = retry.Do(ctx, retry.Tell(conn.Log(), "the streams"), func() error { there, err = admin.Empty(ctx); return err })
	return there, err
}

type restore struct {
	into  natsio.Restore
	admin *natsadmin.Admin
	repo  *Repository
	m     Manifest
	tell  func(Progress)
	parts map[string]record.Parts // where the chunks of uploads that go on are now, by token
	dealt dealt                   // what the records tell of events
	again map[uint64]bool         // the events that are published again, by the sequence that they had
}

func (r *restore) objects(ctx context.Context) error {
	r.parts = map[string]record.Parts{}
	var all []Object
	if err := read(r.repo, r.m, objectsFile, func(o Object) error { all = append(all, o); return nil }); err != nil {
		return err
	}
	done := Progress{All: len(all)}
	var mu sync.Mutex
	return eachAtOnce(ctx, slices.All(all), func(ctx context.Context, _ int, o Object) error {
		first, last, err := r.object(ctx, o)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", o.Bucket, o.Token, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if o.Name == "" {
			r.parts[o.Token] = record.Parts{Count: len(o.Chunks), First: first, Last: last}
		}
		done.Objects, done.Bytes = done.Objects+1, done.Bytes+o.Size
		r.tell(done)
		return nil
	})
}

// object stores one, and checks its bytes on the way: records, which would make it visible, come later.
func (r *restore) object(ctx context.Context, o Object) (first, last uint64, err error) {
	to := record.Object{Bucket: o.Bucket, NUID: o.Token, Name: o.Name, Size: o.Size, Chunks: len(o.Chunks)}
	raw, err := hex.DecodeString(o.Sum)
	if err != nil || len(raw) != len(to.Sum) {
		return 0, 0, fmt.Errorf("%w: SHA-256 %q", ErrRepository, o.Sum)
	}
	copy(to.Sum[:], raw)
	return r.into.PutObject(ctx, to, r.repo.chunks(o))
}

// chunks reads the file of an object; the last thing that it gives is an error if the bytes are not what they were.
func (r *Repository) chunks(o Object) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(filepath.Clean(r.objectPath(o.Token)))
		if err != nil {
			yield(nil, fmt.Errorf("%w: %w", ErrRepository, err))
			return
		}
		defer f.Close()
		sum := sha256.New()
		buf := []byte{}
		for _, n := range o.Chunks {
			buf = slices.Grow(buf[:0], n)[:n]
			if _, err := io.ReadFull(f, buf); err != nil {
				yield(nil, fmt.Errorf("%w: %s: %w", ErrRepository, f.Name(), err))
				return
			}
			sum.Write(buf)
			if !yield(buf, nil) {
				return
			}
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != o.Sum {
			yield(nil, fmt.Errorf("%w: %s has SHA-256 %s, was %s", ErrRepository, f.Name(), got, o.Sum))
		}
	}
}

// putBatch is how many records are stored before their acks are awaited.
const putBatch = 1000

// marks are the classes of records of which it matters that there was one: a removed thread is in the history, and of an output and
// of an artifact the id is taken.
var marks = map[string]bool{"thread": true, "history": true, "output": true, "artifact": true}

// records stores what there was at the moment of the backup, heads last.
func (r *restore) records(ctx context.Context) error {
	all := map[string][]byte{}
	err := read(r.repo, r.m, recordsFile, func(rec Record) error { all[rec.Key] = rec.Value; return nil })
	if err == nil {
		err = r.judge(ctx, all)
	}
	if err != nil {
		return err
	}
	var first, heads []record.Put
	for key, value := range all {
		put := record.Put{Key: key, Value: value, Expect: record.Any}
		switch class, _, _ := strings.Cut(key, "."); {
		case value == nil && !marks[class]:
			continue
		case class == "thread", class == "history":
			heads = append(heads, put)
			continue
		case class == "output" && value != nil:
			if put.Value, err = r.output(value); err != nil {
				return fmt.Errorf("record %s: %w", key, err)
			}
		}
		first = append(first, put)
	}
	for batch := range slices.Chunk(append(first, heads...), putBatch) {
		if err := r.into.PutRecords(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// output says of an open one where its parts are now.
func (r *restore) output(value []byte) ([]byte, error) {
	o, err := record.DecodeOutput(value)
	if err != nil || o.Parts.Count == 0 {
		return value, err
	}
	parts, ok := r.parts[o.NUID]
	if !ok || parts.Count != o.Parts.Count {
		return nil, fmt.Errorf("%w: %d parts of %d", ErrRepository, parts.Count, o.Parts.Count)
	}
	o.Parts = parts
	return o.Encode(), nil
}

// dead stores the letters, but for those whose events come again: they are refused again, or are not.
func (r *restore) dead(ctx context.Context) error {
	return r.messages(ctx, deadFile, func(m *Message) (string, error) {
		if at, ok := eventOf(*m); ok && (r.again[at] && !r.dealt.refused(*m, at) || r.dealt.purged(m.Subject, at)) {
			return "", nil
		}
		return m.Subject, nil
	})
}

// eventOf is the sequence that the event of a letter had.
func eventOf(letter Message) (at uint64, ok bool) {
	for _, text := range letter.Header[natsio.HeaderEventSeq] {
		at, err := strconv.ParseUint(text, 10, 64)
		return at, err == nil
	}
	return 0, false
}

// events publishes what was not dealt with, in the order in which it came.
func (r *restore) events(ctx context.Context) error {
	return r.messages(ctx, eventsFile, func(m *Message) (string, error) {
		if m.Seq != 0 && !r.again[m.Seq] {
			return "", nil
		}
		r.dealt.unlink(m)
		return events.PublishedSubject(m.Subject)
	})
}

// messages publishes those for which there is a subject, as that leaves them.
func (r *restore) messages(ctx context.Context, file string, subject func(*Message) (string, error)) error {
	var batch []natsadmin.StoredMessage
	size := 0
	flush := func() error {
		err := r.admin.PutMessages(ctx, batch)
		batch, size = batch[:0], 0
		return err
	}
	err := read(r.repo, r.m, file, func(m Message) error {
		to, err := subject(&m)
		if err != nil || to == "" {
			return err
		}
		batch = append(batch, natsadmin.StoredMessage{Subject: to, Header: m.Header, Data: m.Data})
		if size += len(m.Data); size >= 4<<20 || len(batch) == putBatch {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// Verify reads a snapshot wholly and says what is wrong with it, all of it.
func Verify(ctx context.Context, repo *Repository, m Manifest, tell func(Progress)) error {
	if tell == nil {
		tell = func(Progress) {}
	}
	done := Progress{All: m.Objects}
	var errs []error
	err := read(repo, m, objectsFile, func(o Object) error {
		for _, err := range repo.chunks(o) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s/%s: %w", o.Bucket, o.Token, err))
			}
		}
		done.Objects, done.Bytes = done.Objects+1, done.Bytes+o.Size
		tell(done)
		return ctx.Err()
	})
	skip := func(Record) error { return nil }
	pass := func(Message) error { return nil }
	return errors.Join(append(errs, err, read(repo, m, recordsFile, skip), read(repo, m, eventsFile, pass), read(repo, m, deadFile, pass))...)
}
