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
	parts := map[string]Use{} // by record: one that is written meanwhile is told twice
	w := newWorld()
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
		delete(parts, r.Key)
		if delete(w.unreadable, r.Key); err != nil && class.Name == "artifact" {
			w.unreadable[r.Key] = fmt.Errorf("%w; spool session rm %s --force removes it with its session", err, events.SessionOf(r.Key))
			return nil
		}
		if err == nil && u.Session != "" {
			parts[r.Key] = u
		}
		return err
	})
	if err != nil {
		return nil, all, err
	}
	sum := map[string]*Use{}
	for _, p := range parts {
		all.Artifacts, all.ArtifactBytes, all.SavedBytes = all.Artifacts+p.Artifacts, all.ArtifactBytes+p.ArtifactBytes, all.SavedBytes+p.Bytes
		if session != "" && p.Session != session {
			continue
		}
		u := sum[p.Session]
		if u == nil {
			u = &Use{Session: p.Session}
			sum[p.Session] = u
		}
		u.Threads, u.Entries, u.Bytes = u.Threads+p.Threads, u.Entries+p.Entries, u.Bytes+p.Bytes
		u.Artifacts, u.ArtifactBytes = u.Artifacts+p.Artifacts, u.ArtifactBytes+p.ArtifactBytes
	}
	use = make([]Use, 0, len(sum))
	for _, u := range sum {
		use = append(use, *u)
	}
	slices.SortFunc(use, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.ArtifactBytes, a.Bytes+a.ArtifactBytes), strings.Compare(a.Session, b.Session))
	})
	w.classes(&all)
	return use, all, errors.Join(append(slices.Collect(maps.Values(w.unreadable)), w.unknown.Err())...)
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
