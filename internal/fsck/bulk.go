package fsck

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// pack is a pack's record.
type pack struct {
	id   casstore.PackID
	seq  uint64
	rec  record.Pack
	lost bool      // it cannot be read
	away bool      // nothing of its bytes is there
	torn []Finding // why it cannot be read, if some of its bytes are there

	uses  []int32          // packs, by their index, that its nodes refer to
	newer casstore.Located // a ref of one of them into a pack that is not older
}

func (p pack) key() string   { return events.PackKey(p.id.String()) }
func (p pack) order() uint64 { return cmp.Or(p.rec.Order, p.seq) }

// blob is a blob's record.
type blob struct {
	seq  uint64
	rec  record.Blob
	good bool
}

// artifact is an artifact's row.
type artifact struct {
	key string
	seq uint64
	artifacts.Record
}

// misnamed is what a record says lies in an object whose bytes are good, and whose name is gone, or leads to others: of an artifact,
// because who lost the race for its id wrote the name over, and died before it put it back.
type misnamed struct {
	key string
	seq uint64
	o   record.Object
}

// listBulk reads the records that say where bytes are. A pack that had moved before its record was read, and whose record is live, was
// brought back by a server that was killed (docs/adr/0022): it counts as moved.
func (c *checker) listBulk(ctx context.Context) error {
	before, err := c.s.List(ctx, events.MovedKey("*"))
	if err != nil {
		return err
	}
	moved := map[string]bool{}
	for _, r := range before {
		moved[r.Key] = true
	}
	return errors.Join(
		c.each(ctx, events.PackKey("*"), func(r record.Record) error {
			rec, err := record.DecodePack(r.Value)
			if err != nil || rec.Gone {
				return err
			}
			id, err := casstore.ParsePackID(r.Key[len(events.PackKey("")):])
			if moved[events.MovedKey(id.String())] {
				c.report.Returned++
				return err
			}
			c.packs = append(c.packs, pack{id: id, seq: r.Seq, rec: rec})
			c.total += rec.Object.Size
			return err
		}),
		c.each(ctx, events.MovedKey("*"), func(r record.Record) error {
			m, err := record.DecodeMoved(r.Value)
			if err != nil {
				return err
			}
			id, err := casstore.ParsePackID(r.Key[len(events.MovedKey("")):])
			c.moved[id] = m.To
			return err
		}),
		c.each(ctx, events.BlobKey("*"), func(r record.Record) error {
			rec, err := record.DecodeBlob(r.Value)
			if err != nil || rec.Gone {
				return err
			}
			sum, err := hex.DecodeString(r.Key[len(events.BlobKey("")):])
			if err != nil || len(sum) != sha256.Size {
				return errors.New("the key is no SHA-256")
			}
			c.blobs[[32]byte(sum)] = &blob{seq: r.Seq, rec: rec}
			c.total += rec.Object.Size
			return nil
		}),
		c.each(ctx, events.ArtifactKeys("", ""), func(r record.Record) error {
			a, err := artifacts.DecodeRecord(r.Value)
			if err == nil {
				err = a.Validate()
			}
			if err == nil && r.Key != events.ArtifactKey(a.Session, string(a.ID)) {
				err = fmt.Errorf("it says that it is %s of %s", a.ID, a.Session)
			}
			if err != nil {
				return err
			}
			stored := artifact{r.Key, r.Seq, a}
			c.artifacts = append(c.artifacts, stored)
			c.total += max(a.Size, 0)
			if a.Seq.Compare(c.newest[a.Session].Seq) > 0 {
				c.newest[a.Session] = stored
			}
			return nil
		}),
	)
}

// misleads reports whether an object's name leads to another one, or nowhere.
func misleads(about *record.Damage) bool {
	return about != nil && (about.Kind == Misnamed || about.Kind == Missing)
}

// object reads an object and its meta message; findings name the record. If nothing of it is there it is away, which is no finding
// yet: a server that was killed can bring the record back of what was collected, and whatever needs it says that it is missing.
func (c *checker) object(ctx context.Context, key string, seq uint64, o record.Object, f func([]byte)) (good, away bool, err error) {
	size := int64(0)
	wrong, err := record.CheckBytes(ctx, c.s, o, func(chunk []byte) error {
		size += int64(len(chunk))
		f(chunk)
		return nil
	})
	c.report.Bytes += size
	if c.cfg.Progress != nil {
		c.cfg.Progress(c.report.Bytes, max(c.total, c.report.Bytes))
	}
	if err != nil {
		return false, false, err
	}
	artifact := strings.HasPrefix(key, "artifact.")
	about, err := record.CheckMeta(ctx, c.s, o)
	for try := 0; err == nil && artifact && wrong == nil && misleads(about) && try < 4; try++ { // it may be getting its name now
		select {
		case <-time.After(250 * time.Millisecond):
			about, err = record.CheckMeta(ctx, c.s, o)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return false, false, err
	}
	if size == 0 && wrong != nil && wrong.Kind == Missing && about != nil && about.Kind == Missing {
		return false, true, nil
	}
	if wrong == nil && misleads(about) && (artifact || about.Kind == Missing) {
		c.misnamed = append(c.misnamed, misnamed{key, seq, o})
	}
	switch {
	case artifact && wrong == nil && misleads(about):
		about.Kind = Misnamed
	case about != nil && about.Kind == Misnamed:
		about.Kind = Inconsistent
	}
	for _, w := range []*record.Damage{wrong, about} {
		if w != nil {
			if err := c.find(ctx, seq, Finding{Kind: w.Kind, Record: key, Detail: w.Detail}); err != nil {
				return false, false, err
			}
		}
	}
	return wrong == nil, false, nil
}

func (c *checker) checkBlobs(ctx context.Context) error {
	for want, b := range c.blobs {
		c.report.Blobs++
		key, sum := events.BlobKey(hex.EncodeToString(want[:])), sha256.New()
		good, away, err := c.object(ctx, key, b.seq, b.rec.Object, func(chunk []byte) { sum.Write(chunk) })
		if err != nil {
			return err
		}
		if away {
			c.report.Returned++
		}
		b.good = good && bytes.Equal(sum.Sum(nil), want[:])
		if good && !b.good {
			if err := c.find(ctx, b.seq, Finding{Kind: Corrupt, Record: key,
				Detail: fmt.Sprintf("its bytes have the SHA-256 %x", sum.Sum(nil))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPacks reads every pack, the oldest first: what a node refers to is known when it comes.
func (c *checker) checkPacks(ctx context.Context) error {
	slices.SortFunc(c.packs, func(a, b pack) int { return cmp.Compare(a.order(), b.order()) })
	for i, p := range c.packs {
		c.at[p.id] = i
	}
	for i := range c.packs {
		if err := c.checkPack(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkPack(ctx context.Context, i int) error {
	p := &c.packs[i]
	c.report.Packs++
	note := func(kind string, err error) error {
		return c.find(ctx, p.seq, Finding{Kind: kind, Record: p.key(), Detail: err.Error()})
	}
	raw, before := make([]byte, 0, p.rec.Object.Size), len(c.report.Findings)
	_, away, err := c.object(ctx, p.key(), p.seq, p.rec.Object, func(chunk []byte) { raw = append(raw, chunk...) })
	if err != nil {
		return err
	}
	if away {
		p.lost, p.away = true, true
		return nil
	}
	open, kind, err := p.open(raw)
	if err != nil {
		p.lost = true
		err = note(kind, err)
		p.torn, c.report.Findings = slices.Clone(c.report.Findings[before:]), c.report.Findings[:before]
		return err
	}
	if open.Len() != p.rec.Nodes || open.RawLen() != p.rec.Raw {
		err := fmt.Errorf("it holds %d nodes of %d bytes, its record says %d of %d", open.Len(), open.RawLen(), p.rec.Nodes, p.rec.Raw)
		if err := note(Inconsistent, err); err != nil {
			return err
		}
	}
	alive, outside := p.alive(open.Len()), casstore.NewBits(open.OutsideLen())
	open.Mark(alive, outside)
	for k, l := range open.Outside() {
		if l.Ref.Kind() != casstore.KindNode || !outside.Has(k) {
			continue
		}
		id := c.final(l.Pack)
		to, ok := c.at[id]
		if ok {
			p.uses = append(p.uses, int32(to))
		}
		if !ok || c.packs[to].lost {
			if least, known := c.users[id]; !known || p.order() < least {
				c.users[id] = p.order()
			}
		} else if c.packs[to].order() > p.order() {
			p.newer = l
		}
	}
	if err := open.Verify(); err != nil {
		if err := note(Corrupt, err); err != nil {
			return err
		}
	}
	return c.index(ctx, i, open)
}

// alive is the nodes that are not buried: what the others refer to may be collected.
func (p *pack) alive(n int) casstore.Bits {
	bits := casstore.NewBits(n)
	for i := range n {
		if !p.rec.IsBuried(i) {
			bits.Set(i)
		}
	}
	return bits
}

// open opens a pack from all its bytes; kind says what is wrong if that fails.
func (p *pack) open(raw []byte) (open *casstore.Pack, kind string, err error) {
	if p.rec.Header > int64(len(raw)) {
		return nil, Missing, fmt.Errorf("header of %d bytes in %d", p.rec.Header, len(raw))
	}
	open, err = casstore.OpenPack(raw[:p.rec.Header], raw[p.rec.Header:])
	return open, Corrupt, err
}

func (c *checker) open(ctx context.Context, p *pack) (*casstore.Pack, error) {
	var raw []byte
	err := c.s.ReadChunks(ctx, p.rec.Object, 0, func(b []byte) error { raw = append(raw, b...); return nil })
	if err != nil {
		return nil, err
	}
	open, _, err := p.open(raw)
	return open, err
}

// final is the pack that holds the nodes of another one now.
func (c *checker) final(id casstore.PackID) casstore.PackID {
	for range len(c.moved) {
		to, ok := c.moved[id]
		if _, live := c.at[id]; live || !ok {
			break
		}
		id = to
	}
	return id
}

func (c *checker) checkArtifacts(ctx context.Context) error {
	for _, a := range c.artifacts {
		c.report.Artifacts++
		if a.Writer == artifacts.FromFile { // its bytes are its tool's, on a machine that it names
			c.report.Files = append(c.report.Files, a.Record)
			continue
		}
		o, err := record.DecodeLocator(a.Locator)
		if len(a.Locator) == 0 {
			o, err = c.s.Stat(ctx, events.ArtifactsBucket, a.Object)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.find(ctx, a.seq, Finding{Kind: Missing, Record: a.key, Detail: err.Error()}); err != nil {
				return err
			}
			continue
		}
		_, away, err := c.object(ctx, a.key, a.seq, o, func([]byte) {})
		if err == nil && away {
			err = c.find(ctx, a.seq, Finding{Kind: Missing, Record: a.key, Detail: "nothing of its bytes is there"})
		}
		if err != nil {
			return err
		}
		if a.Size != artifacts.UnknownSize && a.Size != o.Size {
			if err := c.find(ctx, a.seq, Finding{Kind: Inconsistent, Record: a.key,
				Detail: fmt.Sprintf("it says %d bytes, the object has %d", a.Size, o.Size)}); err != nil {
				return err
			}
		}
	}
	return nil
}
