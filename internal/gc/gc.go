// Package gc will collect what no root reaches (DESIGN 9). This version takes stock: it reports what is stored and deletes
// nothing, neither records nor bytes.
package gc

import (
	"context"
	"fmt"
	"strings"

	"spool/internal/record"
	"spool/pkg/threads"
)

// Records lists the record bucket: every record whose key matches a subject filter.
type Records interface {
	List(ctx context.Context, filter string) ([]record.Record, error)
}

// Streams says how much the streams and buckets hold.
type Streams interface {
	Usage(ctx context.Context) ([]record.Usage, error)
}

// Report is what is stored.
type Report struct {
	Deleted    int            `json:"deleted"` // always 0 in this version
	Sessions   int            `json:"sessions"`
	Threads    int            `json:"threads"`
	Entries    int64          `json:"entries"`
	Items      int64          `json:"items"`
	Packs      int            `json:"packs"`
	Nodes      int64          `json:"nodes"`
	RawBytes   int64          `json:"raw_bytes"`  // bytes of the nodes before compression
	PackBytes  int64          `json:"pack_bytes"` // bytes of the packs
	Blobs      int            `json:"blobs"`
	BlobBytes  int64          `json:"blob_bytes"`
	Tombstones int            `json:"tombstones"`
	Moved      int            `json:"moved"`
	Unreadable int            `json:"unreadable"` // records that this version cannot decode
	Streams    []record.Usage `json:"streams"`
}

// Note is what every report of this version says beside its figures.
const Note = "gc does not mark or sweep yet: this is a report of what is stored; nothing was deleted"

// TakeStock reads every record and every stream's size.
func TakeStock(ctx context.Context, records Records, streams Streams) (Report, error) {
	var r Report
	all, err := records.List(ctx, ">")
	if err != nil {
		return r, fmt.Errorf("take stock: %w", err)
	}
	for _, rec := range all {
		if !rec.Exists() {
			continue
		}
		if err := r.count(rec); err != nil {
			r.Unreadable++
		}
	}
	r.Streams, err = streams.Usage(ctx)
	if err != nil {
		return r, fmt.Errorf("take stock: %w", err)
	}
	return r, nil
}

func (r *Report) count(rec record.Record) error {
	class, _, _ := strings.Cut(rec.Key, ".")
	switch class {
	case "session":
		r.Sessions++
	case "thread", "history":
		h, err := threads.DecodeHead(rec.Value)
		if err != nil {
			return err
		}
		r.Threads++
		r.Entries += h.Entries
		r.Items += h.N
	case "pack":
		p, err := record.DecodePack(rec.Value)
		if err != nil {
			return err
		}
		if p.Gone {
			r.Tombstones++
			return nil
		}
		r.Packs++
		r.Nodes += int64(p.Nodes)
		r.RawBytes += p.Raw
		r.PackBytes += p.Object.Size
	case "blob":
		b, err := record.DecodeBlob(rec.Value)
		if err != nil {
			return err
		}
		if b.Gone {
			r.Tombstones++
			return nil
		}
		r.Blobs++
		r.BlobBytes += b.Object.Size
	case "moved":
		r.Moved++
	}
	return nil
}
