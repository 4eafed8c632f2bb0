package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Use is what one session takes.
type Use struct {
	Session       string `json:"session"`
	Threads       int    `json:"threads"`
	Entries       int64  `json:"entries"`
	Bytes         int64  `json:"bytes"` // of its entries as they came; packs and blobs are shared, and take less
	Artifacts     int    `json:"artifacts"`
	ArtifactBytes int64  `json:"artifact_bytes"`
}

// Classes is what is stored by its class, whoever uses it.
type Classes struct {
	Packs          int   `json:"packs"`
	PackBytes      int64 `json:"pack_bytes"`
	RawBytes       int64 `json:"raw_bytes"` // of their nodes before compression
	Blobs          int   `json:"blobs"`
	BlobBytes      int64 `json:"blob_bytes"`
	Artifacts      int   `json:"artifacts"`
	ArtifactBytes  int64 `json:"artifact_bytes"`
	Tombstones     int   `json:"tombstones"`
	TombstoneBytes int64 `json:"tombstone_bytes"` // still there, for their quarantine or until the next cycle
	// What is saved by storing what is equal once, and by compression: bytes of entries as they came to all threads, those that a
	// fork has from its source included, above those of packs and blobs.
	SavedBytes int64 `json:"saved_bytes"`
}

// DiskUse adds up what sessions take, largest first, and what is stored by class. session "" is every one. record.ErrClass: records
// of classes that this version does not know are left out; all else is told.
func DiskUse(ctx context.Context, rs Records, session string) (use []Use, all Classes, err error) {
	w, sum := newWorld(), usage{keys: newHasher(), parts: map[keyHash]part{}, places: map[string]int32{}, all: []Use{}}
	_, err = rs.Scan(ctx, 1, func(r record.Stamped) error {
		class, ok := w.unknown.Class(r.Record)
		if !ok {
			return nil
		}
		switch _, id, _ := strings.Cut(r.Key, "."); class.Keeps {
		case record.PackBytes:
			return w.takePack(id, r)
		case record.BlobBytes:
			return w.takeBlob(id, r)
		}
		u, err := useOf(r.Record, class)
		if delete(w.unreadable, r.Key); err != nil && class.Name == "artifact" {
			w.unreadable[r.Key] = fmt.Errorf("%w; spool session rm %s --force removes it with its session", err, events.SessionOf(r.Key))
			u, err = Use{}, nil
		}
		if err == nil {
			sum.take(r.Key, u)
		}
		return err
	})
	if err != nil {
		return nil, all, err
	}
	for _, u := range sum.all {
		all.Artifacts, all.ArtifactBytes, all.SavedBytes = all.Artifacts+u.Artifacts, all.ArtifactBytes+u.ArtifactBytes, all.SavedBytes+u.Bytes
	}
	use = slices.DeleteFunc(sum.all, func(u Use) bool {
		return u.Threads+u.Artifacts == 0 || session != "" && u.Session != session
	})
	slices.SortFunc(use, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.ArtifactBytes, a.Bytes+a.ArtifactBytes), strings.Compare(a.Session, b.Session))
	})
	w.classes(&all)
	return use, all, errors.Join(append(slices.Collect(maps.Values(w.unreadable)), w.unknown.Err())...)
}

// usage adds up what sessions take.
type usage struct {
	keys   hasher
	parts  map[keyHash]part // by record: one that is written meanwhile is told twice
	places map[string]int32 // of sessions, in all
	all    []Use
}

// part is what one record added to a session.
type part struct {
	entries, bytes int64 // of a thread; of an artifact entries is -1
	place          int32
}

func (s *usage) take(key string, u Use) {
	h := s.keys.of(key)
	if p, ok := s.parts[h]; ok {
		s.all[p.place].add(p, -1)
		delete(s.parts, h)
	}
	if u.Session == "" {
		return
	}
	at, ok := s.places[u.Session]
	if !ok {
		id := strings.Clone(u.Session)
		at = int32(len(s.all))
		s.all, s.places[id] = append(s.all, Use{Session: id}), at
	}
	p := part{u.Entries, u.Bytes, at}
	if u.Artifacts > 0 {
		p.entries, p.bytes = -1, u.ArtifactBytes
	}
	s.parts[h] = p
	s.all[at].add(p, 1)
}

func (u *Use) add(p part, times int64) {
	if p.entries < 0 {
		u.Artifacts, u.ArtifactBytes = u.Artifacts+int(times), u.ArtifactBytes+times*p.bytes
		return
	}
	u.Threads, u.Entries, u.Bytes = u.Threads+int(times), u.Entries+times*p.entries, u.Bytes+times*p.bytes
}

func (w *world) classes(all *Classes) {
	for _, p := range w.packs {
		if p.Gone {
			all.Tombstones, all.TombstoneBytes = all.Tombstones+1, all.TombstoneBytes+p.Object.Size
			continue
		}
		all.Packs, all.PackBytes, all.RawBytes = all.Packs+1, all.PackBytes+p.Object.Size, all.RawBytes+p.Raw
	}
	for _, b := range w.blobs {
		if b.gone {
			all.Tombstones, all.TombstoneBytes = all.Tombstones+1, all.TombstoneBytes+b.size
			continue
		}
		all.Blobs, all.BlobBytes = all.Blobs+1, all.BlobBytes+b.size
	}
	all.SavedBytes = max(all.SavedBytes-all.PackBytes-all.BlobBytes, 0)
}

// useOf is what one record adds; its Session is empty when that is nothing.
func useOf(r record.Record, class record.Class) (Use, error) {
	switch {
	case !r.Exists():
	case class.Keeps == record.Nodes:
		h, err := threads.DecodeHead(r.Value)
		if err != nil {
			return Use{}, fmt.Errorf("%s: %w", r.Key, err)
		}
		return Use{Session: events.SessionOf(r.Key), Threads: 1, Entries: h.Entries, Bytes: h.BytesIn}, nil
	case class.Name == "artifact":
		a, err := artifacts.DecodeRecord(r.Value)
		if err != nil {
			return Use{}, fmt.Errorf("%s: %w", r.Key, err)
		}
		return Use{Session: a.Session, Artifacts: 1, ArtifactBytes: max(a.Size, 0)}, nil
	}
	return Use{}, nil
}

// WriteUse prints it for people.
func WriteUse(t *text.Table, use []Use, all Classes) error {
	fmt.Fprintln(t, "SESSION\tTHREADS\tENTRIES\tBYTES\tARTIFACTS\tTHEIR BYTES")
	for _, u := range use {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\n", u.Session, u.Threads, u.Entries, text.Bytes(u.Bytes), u.Artifacts, text.Bytes(u.ArtifactBytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "\nSTORED\tNUMBER\tBYTES\t")
	fmt.Fprintf(t, "packs\t%d\t%s\t%s before compression\n", all.Packs, text.Bytes(all.PackBytes), text.Bytes(all.RawBytes))
	fmt.Fprintf(t, "blobs\t%d\t%s\t\n", all.Blobs, text.Bytes(all.BlobBytes))
	fmt.Fprintf(t, "artifacts\t%d\t%s\t\n", all.Artifacts, text.Bytes(all.ArtifactBytes))
	fmt.Fprintf(t, "tombstones\t%d\t%s\tgo with a later cycle of gc\n", all.Tombstones, text.Bytes(all.TombstoneBytes))
	fmt.Fprintf(t, "saved\t\t%s\tby storing what is equal once, and compressed\n", text.Bytes(all.SavedBytes))
	return t.Flush()
}
