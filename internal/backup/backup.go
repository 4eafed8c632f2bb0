// Package backup copies all that is stored into a directory while writers go on, and back into an empty system. It stops nobody.
//
//	Create    events that may not be applied, with their bodies ─▶ all records, as they were at one moment
//	          ─▶ the objects that these records name ─▶ dead letters ─▶ manifest
//	Restore   objects ─▶ records, heads last ─▶ dead letters ─▶ events
//
// The order is what makes a backup whole. An event that was acknowledged before it began is among the events that were copied, or
// was dealt with when the records were read, or both: then a restore leaves it out (see dealt). A refused event is
// noted in a record until its letter is out: it is among the letters, or noted, and then a restore has the event
// refused again. What a record names is stored before it, and objects never change; only gc, or who removes an
// artifact, can take one away before it is copied, and then the records are read anew.
//
// The directory keeps one file an object, however many snapshots have it: a backup into the same directory copies what is new.
//
//	objects/<xx>/<token>           the bytes of an object
//	snapshots/<time>/manifest.json what the snapshot holds; written last: a snapshot without it is none
//	snapshots/<time>/*.ndjson.zst  records, objects, events, dead letters
//
// Items are not in it: they follow from the threads. Nor is the state of gc.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
)

// Progress is how far a copy is.
type Progress struct {
	Objects, All int
	Bytes        int64
}

// creation is a snapshot in the making.
type creation struct {
	bucket natsio.Records
	bulk   natsio.Objects
	admin  *natsadmin.Admin
	repo   *Repository
	tell   func(Progress)
	known  map[string]Object // objects of the snapshot before, by token

	unknown record.Unknown // records of no class that is known; they are left out

	mu      sync.Mutex
	objects map[string]Object // of this one, by token
	done    Progress
	new     int
	newSize int64
}

// Create adds a snapshot of the system to a repository. tell may be nil. record.ErrClass: it is there, but without records of
// classes that this version does not know.
func Create(ctx context.Context, conn *natsio.Conn, repo *Repository, tell func(Progress)) (m Manifest, err error) {
	if tell == nil {
		tell = func(Progress) {}
	}
	c := &creation{bucket: conn.Records(), bulk: conn.Objects(), admin: natsadmin.New(conn), repo: repo, tell: tell,
		objects: map[string]Object{}, unknown: record.Unknown{}}
	if c.known, err = repo.newestObjects(); err != nil {
		return m, err
	}
	snap, err := repo.begin(time.Now())
	if err != nil {
		return m, err
	}
	defer snap.abandon()
	m.First = map[string]uint64{}
	if m.Events, err = c.events(ctx, snap, m.First); err != nil {
		return m, err
	}
	if m.Records, err = c.stored(ctx, snap, m.First); err != nil {
		return m, err
	}
	if m.Dead, err = c.dead(ctx, snap); err != nil {
		return m, err
	}
	ends, err := conn.Streams().LastSeqs(ctx, append(bulk(), events.ItemsStream)...)
	if err != nil {
		return m, err
	}
	for stream, last := range ends { // above whatever a record says about where its chunks begin, and a reader of its position
		m.First[stream] = last + 1
	}
	if m.Objects, m.Bytes, err = snap.writeObjects(c.objects); err != nil {
		return m, err
	}
	m.NewObjects, m.NewBytes = c.new, c.newSize
	if m, err = snap.finish(m); err == nil {
		err = c.unknown.Err()
	}
	return m, err
}

func bulk() []string {
	var out []string
	for _, b := range []string{events.NodesBucket, events.BlobsBucket, events.ArtifactsBucket, events.InboxBucket} {
		out = append(out, events.ObjectStream(b))
	}
	return out
}

// events copies what some partition may not have applied, and the bodies that it refers to.
func (c *creation) events(ctx context.Context, snap *snapshot, first map[string]uint64) (n int, err error) {
	floor, err := c.admin.Unapplied(ctx)
	if err != nil {
		return 0, err
	}
	last := floor - 1
	n, err = snap.list(eventsFile, func(add func(any) error) error {
		return c.admin.EachMessage(ctx, events.EventsStream, floor, func(m natsadmin.StoredMessage) error {
			last = max(last, m.Seq)
			e, err := events.Decode(m.Data)
			if err == nil && e.Ref != nil {
				o, err := c.bulk.Stat(ctx, events.InboxBucket, e.Ref.Object)
				if err == nil {
					err = c.copy(ctx, o)
				}
				if errors.Is(err, record.ErrNotFound) {
					return nil // discarded since: it is applied, and its thread is read after this
				}
				if err != nil {
					return err
				}
			}
			return add(Message{Seq: m.Seq, Stored: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data})
		})
	})
	first[events.EventsStream] = last + 1
	return n, err
}

// dead copies the dead letters.
func (c *creation) dead(ctx context.Context, snap *snapshot) (int, error) {
	return snap.list(deadFile, func(add func(any) error) error {
		return c.admin.EachMessage(ctx, events.DeadStream, 1, func(m natsadmin.StoredMessage) error {
			for _, name := range m.Header[natsio.HeaderObject] {
				o, err := c.bulk.Stat(ctx, events.InboxBucket, name)
				if err == nil {
					err = c.copy(ctx, o)
				}
				if err != nil && !errors.Is(err, record.ErrNotFound) { // it was removed since
					return err
				}
			}
			return add(Message{Subject: m.Subject, Header: own(m.Header), Data: m.Data})
		})
	})
}

// own are the headers that Spool wrote; the others are of the publishing.
func own(h map[string][]string) map[string][]string {
	out := map[string][]string{}
	for name, v := range h {
		if strings.HasPrefix(name, "Spool-") {
			out[name] = v
		}
	}
	return out
}

// tries is how often records are read again because what they name was taken away meanwhile.
const tries = 5

// stored copies the records as they are at one moment, and what they name.
func (c *creation) stored(ctx context.Context, snap *snapshot, first map[string]uint64) (n int, err error) {
	for try := 0; ; try++ {
		var named map[string]record.Object
		if n, named, err = c.records(ctx, snap, first); err != nil {
			return n, err
		}
		err = c.copyAll(ctx, named)
		if !errors.Is(err, record.ErrNotFound) || try == tries {
			return n, err
		}
	}
}

// records writes every record that decides existence, and says what they name, by key. A record that was written again while
// they were read is there twice: the later counts.
func (c *creation) records(
	ctx context.Context, snap *snapshot, first map[string]uint64,
) (n int, named map[string]record.Object, err error) {
	named = map[string]record.Object{}
	var moved []string
	n, err = snap.list(recordsFile, func(add func(any) error) error {
		last, err := c.bucket.Scan(ctx, 1, func(r record.Stamped) error {
			class, ok := c.unknown.Class(r.Record)
			if !ok {
				return nil
			}
			if r.Value = class.Lasts(r.Value); class.Own && r.Value == nil {
				return nil
			}
			delete(named, r.Key)
			if class.Keeps == record.MovedTo && r.Exists() {
				moved = append(moved, strings.TrimPrefix(r.Key, events.MovedKey("")))
			}
			value, o, err := keep(class, r.Record)
			if err != nil {
				return fmt.Errorf("record %s: %w", r.Key, err)
			}
			if o.NUID != "" {
				named[r.Key] = o
			}
			return add(Record{Key: r.Key, Value: value})
		})
		first[events.RecordsStream] = last + 1
		return err
	})
	for _, id := range moved { // a record of it that is live was brought back by a server that was killed: it names no bytes
		delete(named, events.PackKey(id))
	}
	return n, named, err
}

// keep is the value of a record in a backup, nil for one that is gone, and the object that it names.
func keep(class record.Class, r record.Record) (value []byte, o record.Object, err error) {
	if !r.Exists() {
		return nil, o, nil
	}
	value = r.Value
	if o, err = class.Object(value); err != nil {
		return nil, o, err
	}
	switch class.Keeps {
	case record.PackBytes:
		p, err := record.DecodePack(value)
		if err != nil || p.Gone {
			return nil, record.Object{}, err
		}
		if p.Order == 0 { // of a record without an order its own sequence is
			p.Order = r.Seq
			value = p.Encode()
		}
	case record.BlobBytes:
		if o.NUID == "" {
			return nil, o, nil
		}
	case record.FileBytes:
		if o.Name == "" && o.Chunks == 0 { // an output that has no part yet
			o = record.Object{}
		}
	}
	return value, o, nil
}

// copies is how many objects are copied at a time.
const copies = 4

func (c *creation) copyAll(ctx context.Context, named map[string]record.Object) error {
	c.done.All = len(named)
	return eachAtOnce(ctx, maps.All(named), func(ctx context.Context, key string, o record.Object) error {
		if err := c.copy(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
}

// eachAtOnce calls do for all of a sequence, for a few of them at a time, until one fails.
func eachAtOnce[K, V any](ctx context.Context, all iter.Seq2[K, V], do func(context.Context, K, V) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(copies)
	for k, v := range all {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, k, v) })
	}
	return g.Wait()
}

// copy stores the bytes of an object, unless they are there already, and checks them against what its record says they are.
func (c *creation) copy(ctx context.Context, o record.Object) error {
	key := o.Bucket + "/" + o.NUID
	c.mu.Lock()
	have, ok := c.objects[key]
	if !ok {
		have, ok = c.known[key]
	}
	c.mu.Unlock()
	if ok && len(have.Chunks) == o.Chunks && c.repo.has(have) {
		c.took(key, have, false)
		return nil
	}
	made := Object{Bucket: o.Bucket, Token: o.NUID, Name: o.Name}
	sum := sha256.New()
	err := c.repo.putObject(o.NUID, func(w io.Writer) error {
		return c.bulk.ReadChunks(ctx, o, 0, func(chunk []byte) error {
			made.Chunks = append(made.Chunks, len(chunk))
			made.Size += int64(len(chunk))
			sum.Write(chunk)
			_, err := w.Write(chunk)
			return err
		})
	})
	if err != nil {
		return err
	}
	made.Sum = hex.EncodeToString(sum.Sum(nil))
	if o.Sum != [32]byte{} && made.Sum != hex.EncodeToString(o.Sum[:]) {
		return fmt.Errorf("%s/%s is damaged: its bytes have SHA-256 %s, its record says %x; find out more with spool fsck",
			o.Bucket, o.Name, made.Sum, o.Sum)
	}
	c.took(key, made, true)
	return nil
}

func (c *creation) took(key string, o Object, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[key] = o
	if c.done.Objects++; fresh {
		c.new++
		c.newSize += o.Size
	}
	c.done.Bytes += o.Size
	c.tell(c.done)
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
