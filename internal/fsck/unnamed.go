package fsck

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// What a bucket holds says by itself what it is: the name of a pack's object begins with the pack's id, that of a
// blob's with its hash. So records of packs and blobs that are lost are made again from the bytes. What was garbage is
// garbage again, and gc's.

// named makes records again of packs and blobs that no record names, if something is missing, and blobs that
// SPOOL_EVENTS still has; then it looks again.
func (c *checker) named(ctx context.Context, w Writer, packs Packs) (*checker, error) {
	if len(c.report.Findings) == 0 {
		return c, nil
	}
	u := &unnamed{c: c, w: w, packs: map[casstore.PackID]*foundPack{}, at: map[casstore.Ref]casstore.PackID{}}
	if err := u.findPacks(ctx); err != nil {
		return nil, err
	}
	if err := u.findBlobs(ctx); err != nil {
		return nil, err
	}
	if err := u.blobsOfEvents(ctx, packs); err != nil {
		return nil, err
	}
	files, err := u.files(ctx)
	if err != nil {
		return nil, err
	}
	if len(u.puts) == 0 {
		return c, nil
	}
	// A crash after any of these leaves records that lead to what is there.
	for batch := range slices.Chunk(u.puts, record.MaxCommit/2) {
		fence, err := w.Fence(ctx, 0)
		if err == nil {
			_, err = w.Commit(ctx, fence, batch)
		}
		if err != nil {
			return nil, fmt.Errorf("make records of packs and blobs again: %w", err)
		}
	}
	again, err := look(ctx, c.s, c.cfg)
	if err != nil {
		return nil, err
	}
	again.before = c.report.Findings
	done := Repair{Record: events.PackKey("*"), To: "their bytes", Detail: fmt.Sprintf(
		"%d packs and %d blobs that no record named have records again; %d blobs were made again from %s", len(u.packs), u.blobs,
		u.made, events.EventsStream)}
	if files > 0 && c.cfg.Lost == "" { // else fixNameless makes them
		done.Detail += text.Sprintf("; %d artifacts have bytes and no record, which cannot be made again: nats object get %s NAME reads them",
			files, events.ArtifactsBucket)
	}
	again.report.Repairs = append(again.report.Repairs, done)
	return again, nil
}

// unnamed is what no record names.
type unnamed struct {
	c     *checker
	w     Writer
	packs map[casstore.PackID]*foundPack
	at    map[casstore.Ref]casstore.PackID // where their nodes are
	top   uint64                           // an order above all that were given out
	blobs int
	made  int // blobs, from events
	puts  []record.Put
}

// foundPack is a pack that was found by its bytes.
type foundPack struct {
	rec     record.Pack
	expect  uint64
	outside []casstore.Located
	users   []casstore.PackID // that were found too
	order   uint64
}

// objects gives each object of a bucket that no record of a class names, and whose name begins with a key that has no
// record.
func (u *unnamed) objects(ctx context.Context, bucket, class string, f func(id string, expect uint64, o record.Object,
	raw [][]byte) error) error {
	rs, err := u.c.s.List(ctx, class+".*")
	if err != nil {
		return err
	}
	keys := map[string]bool{}
	readable := func(r record.Record) bool {
		class, err := record.ClassOf(r.Key)
		return r.Exists() && err == nil && class.Check(r.Value) == nil
	}
	for _, r := range rs {
		keys[r.Key] = readable(r)
	}
	all, err := u.c.s.Stored(ctx, bucket)
	if err != nil {
		return err
	}
	for _, s := range all {
		id, _, ok := strings.Cut(s.Object.Name, ".")
		if !ok || keys[class+"."+id] {
			continue
		}
		rs, err := u.c.s.Records(ctx, class+"."+id)
		if err != nil {
			return err
		}
		o, err := u.c.s.Stat(ctx, bucket, s.Object.Name)
		if err != nil || o.NUID != s.Object.NUID || readable(rs[0]) {
			continue
		}
		var raw [][]byte
		sum := sha256.New()
		err = u.c.s.ReadChunks(ctx, o, 0, func(chunk []byte) error {
			raw = append(raw, bytes.Clone(chunk))
			sum.Write(chunk)
			return nil
		})
		if err != nil || !bytes.Equal(sum.Sum(nil), o.Sum[:]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			continue // half an upload, or bytes that rotted
		}
		keys[class+"."+id] = true
		if err := f(id, rs[0].Seq, o, raw); err != nil {
			return err
		}
	}
	return nil
}

// findPacks finds packs, gives them an order and follows what was moved into them.
func (u *unnamed) findPacks(ctx context.Context) error {
	err := u.objects(ctx, events.NodesBucket, "pack", func(text string, expect uint64, o record.Object,
		raw [][]byte) error {
		id, err := casstore.ParsePackID(text)
		if err != nil || len(raw) == 0 || id.String() != text {
			return nil
		}
		p, err := casstore.OpenPack(raw[0], bytes.Join(raw[1:], nil))
		if err != nil || p.Verify() != nil {
			return nil
		}
		found := &foundPack{rec: record.Pack{Object: o, Header: int64(len(raw[0])), Nodes: p.Len(), Raw: p.RawLen()},
			expect: expect}
		for _, l := range p.Outside() {
			if l.Ref.Kind() == casstore.KindNode {
				found.outside = append(found.outside, l)
			}
		}
		for i := range p.Len() {
			u.at[p.Ref(i)] = id
		}
		u.packs[id] = found
		return nil
	})
	if err != nil || len(u.packs) == 0 {
		return err
	}
	states, err := u.c.s.StreamStates(ctx)
	for _, s := range states {
		if s.Stream == events.RecordsStream {
			u.top = s.Last
		}
	}
	if err != nil {
		return err
	}
	u.follow()
	for id, p := range u.packs {
		p.rec.Order = u.order(id)
		u.puts = append(u.puts, record.Put{Key: events.PackKey(id.String()), Value: p.rec.Encode(), Expect: p.expect})
	}
	return nil
}

// follow notes which pack is used by which, and leads from the names of packs that are nowhere to those that hold what
// is looked for in them: they were repacked, and what said so is lost.
func (u *unnamed) follow() {
	gone := map[casstore.PackID]casstore.PackID{}
	use := func(l casstore.Located, user casstore.PackID) {
		to := u.c.final(l.Pack)
		if _, there := u.c.at[to]; there {
			return
		}
		if u.packs[to] == nil {
			holds, ok := u.at[l.Ref]
			if !ok || gone[to] != (casstore.PackID{}) && gone[to] != holds {
				return
			}
			gone[to], to = holds, holds
		}
		if user != (casstore.PackID{}) && user != to {
			u.packs[to].users = append(u.packs[to].users, user)
		}
		if least, known := u.c.users[l.Pack]; known && (u.packs[to].order == 0 || least-1 < u.packs[to].order) {
			u.packs[to].order = least - 1
		}
	}
	for id, p := range u.packs {
		for _, l := range p.outside {
			use(l, id)
		}
	}
	for ref, id := range u.c.absent {
		use(casstore.Located{Ref: ref, Pack: id}, casstore.PackID{})
	}
	for i := range u.c.heads {
		h := &u.c.heads[i]
		for _, l := range append(h.Roots(), h.Start) {
			use(l, casstore.PackID{})
		}
	}
	for from, to := range gone {
		u.puts = append(u.puts, record.Put{Key: events.MovedKey(from.String()), Value: record.Moved{To: to}.Encode(),
			Expect: record.Any})
	}
}

// order places a pack just below what refers to it (DESIGN 7): that is not below where it was, because each pack of a
// chain has an order of its own.
func (u *unnamed) order(id casstore.PackID) uint64 {
	p := u.packs[id]
	if p.users == nil && p.order > 0 {
		return p.order
	}
	users := p.users
	p.users = nil // it is known once this returns; packs that refer to each other are not sound, and end here
	p.order = cmp.Or(p.order, u.top)
	for _, user := range users {
		p.order = min(p.order, max(u.order(user), 2)-1)
	}
	return p.order
}

func (u *unnamed) findBlobs(ctx context.Context) error {
	return u.objects(ctx, events.BlobsBucket, "blob", func(text string, expect uint64, o record.Object, _ [][]byte) error {
		ref, err := casstore.ParseRef("blob:sha256:" + text)
		if err != nil || ref.Sum() != o.Sum {
			return nil
		}
		u.blobs++
		delete(u.c.wantBlobs, ref.Sum())
		u.puts = append(u.puts, record.Put{Key: events.BlobKey(ref.Hex()), Value: record.Blob{Object: o}.Encode(),
			Expect: expect})
		return nil
	})
}

// blobsOfEvents makes blobs again that threads refer to, from the events of the threads that miss something.
func (u *unnamed) blobsOfEvents(ctx context.Context, packs Packs) error {
	for i := range u.c.heads {
		if len(u.c.wantBlobs) == 0 {
			return nil
		}
		h := &u.c.heads[i]
		if !u.c.found(h) {
			continue
		}
		stored, err := u.c.s.ThreadEvents(ctx, h.id)
		if err != nil {
			return err
		}
		for _, ev := range stored {
			e := apply.Staged{Event: ev.Event, At: ev.Seq}
			apply.Clean(&e, u.c.cfg.Secrets)
			if e.Ref != nil || apply.Stage(&e) != nil {
				continue
			}
			all := e.Blobs
			if e.Cuts.Full != nil {
				all = append(all, apply.Blob{Ref: casstore.SumBlob(e.Cuts.Full), Bytes: e.Cuts.Full})
			}
			for _, b := range all {
				if err := u.blob(ctx, packs, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// blob stores a blob again that is missed.
func (u *unnamed) blob(ctx context.Context, packs Packs, b apply.Blob) error {
	if !u.c.wantBlobs[b.Ref.Sum()] || casstore.SumBlob(b.Bytes) != b.Ref {
		return nil
	}
	rs, err := u.c.s.Records(ctx, events.BlobKey(b.Ref.Hex()))
	if err != nil {
		return err
	}
	// A crash after this leaves bytes that no record names.
	rec, err := packs.UploadBlob(ctx, b.Ref, b.Bytes)
	if err != nil {
		return err
	}
	delete(u.c.wantBlobs, b.Ref.Sum())
	u.made++
	u.puts = append(u.puts, record.Put{Key: rs[0].Key, Value: rec.Encode(), Expect: rs[0].Seq})
	return nil
}

// files counts the artifacts that have bytes and no record.
func (u *unnamed) files(ctx context.Context) (n int, err error) {
	named := map[string]bool{}
	for _, a := range u.c.artifacts {
		named[a.Object] = true
	}
	all, err := u.c.s.Stored(ctx, events.ArtifactsBucket)
	if errors.Is(err, record.ErrNotFound) {
		return 0, nil
	}
	for _, s := range all {
		if strings.Count(s.Object.Name, "/") == 2 && !named[s.Object.Name] {
			n++
		}
	}
	return n, err
}
