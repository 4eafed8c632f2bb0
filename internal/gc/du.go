package gc

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

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

// DiskUse adds up what sessions take, largest first. session "" is every one.
func DiskUse(ctx context.Context, rs Records, session string) ([]Use, error) {
	parts := map[string]Use{} // by record: one that is written meanwhile is told twice
	_, err := rs.Scan(ctx, 1, func(r record.Stamped) error {
		u, err := useOf(r.Record)
		if delete(parts, r.Key); err == nil && u.Session != "" && (session == "" || u.Session == session) {
			parts[r.Key] = u
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	use := map[string]*Use{}
	for _, p := range parts {
		u := use[p.Session]
		if u == nil {
			u = &Use{Session: p.Session}
			use[p.Session] = u
		}
		u.Threads, u.Entries, u.Bytes = u.Threads+p.Threads, u.Entries+p.Entries, u.Bytes+p.Bytes
		u.Artifacts, u.ArtifactBytes = u.Artifacts+p.Artifacts, u.ArtifactBytes+p.ArtifactBytes
	}
	out := make([]Use, 0, len(use))
	for _, u := range use {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.ArtifactBytes, a.Bytes+a.ArtifactBytes), strings.Compare(a.Session, b.Session))
	})
	return out, nil
}

// useOf is what one record adds; its Session is empty when that is nothing.
func useOf(r record.Record) (Use, error) {
	t, head := events.ParseHeadKey(r.Key)
	if past, _, ended := events.ParseHistoryKey(r.Key); ended {
		t, head = past, true
	}
	switch {
	case !r.Exists():
	case head:
		h, err := threads.DecodeHead(r.Value)
		if err != nil {
			return Use{}, fmt.Errorf("%s: %w", r.Key, err)
		}
		return Use{Session: t.Session, Threads: 1, Entries: h.Entries, Bytes: h.BytesIn}, nil
	case strings.HasPrefix(r.Key, "artifact."):
		a, err := artifacts.DecodeRecord(r.Value)
		if err != nil {
			return Use{}, fmt.Errorf("%s: %w", r.Key, err)
		}
		return Use{Session: a.Session, Artifacts: 1, ArtifactBytes: max(a.Size, 0)}, nil
	}
	return Use{}, nil
}

// WriteUse prints it for people.
func WriteUse(w io.Writer, use []Use) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tTHREADS\tENTRIES\tBYTES\tARTIFACTS\tBYTES")
	for _, u := range use {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\n", u.Session, u.Threads, u.Entries, text.Bytes(u.Bytes), u.Artifacts, text.Bytes(u.ArtifactBytes))
	}
	return t.Flush()
}
